"""Which documents of a message a platform takes, and the sentence about each that it does not take.

Looks at the files on disk, sends nothing. Called by the Slack, Discord and console adapters.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.domain.content import Document

UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """What one platform takes with a message: bytes a file, bytes in all (0: no limit), number of files."""

    platform: str
    file_bytes: int
    all_bytes: int = 0
    files: int = 10


@dataclass(frozen=True, slots=True)
class Handover:
    """`taken` can be uploaded, with its size on disk; `notes` has a sentence about each other document."""

    taken: tuple[Document, ...]
    notes: tuple[str, ...]


def sort_out(documents: Sequence[Document], limits: Limits) -> Handover:
    """Split `documents` by whether the platform takes them; the same files on disk give the same answer."""
    taken: list[Document] = []
    notes: list[str] = []
    for document in documents:
        if reason := _refused(document, taken, limits):
            notes.append(reason)
        else:
            taken.append(document.model_copy(update={"size_bytes": Path(document.path).stat().st_size}))
    return Handover(tuple(taken), tuple(notes))


def not_taken(document: Document, why: str) -> str:
    """The sentence that stands in the message in place of the file."""
    return f"I could not hand over `{document.name}` ({size(document.size_bytes)}): {why} It lies at `{document.path}`."


def size(size_bytes: int) -> str:
    """`512 B`, `3.4 kB`, `1.2 GB` (powers of 1,000, as file managers show them)."""
    shown = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if shown < 1000:
            return f"{shown:.0f} {unit}" if unit == "B" else f"{shown:.1f} {unit}"
        shown /= 1000
    return f"{shown:.1f} GB"


def safe_name(name: str) -> str:
    """The name that every platform keeps as it is: no folder, and only letters, digits, `.`, `_` and `-`."""
    return UNSAFE.sub("_", Path(name).name).strip("._")[-NAME_CHARS:] or "file"


def _refused(document: Document, taken: Sequence[Document], limits: Limits) -> str:
    path = Path(document.path)
    if not path.is_file():
        return f"The file `{document.name}` is not on my disk any more. Ask for it again."
    size_bytes = path.stat().st_size
    if size_bytes > limits.file_bytes:
        there = document.model_copy(update={"size_bytes": size_bytes})
        return not_taken(there, f"{limits.platform} takes {size(limits.file_bytes)} a file at most.")
    if size_bytes == 0:
        return f"The file `{document.name}` is empty, so there is nothing to hand over."
    used = sum(other.size_bytes for other in taken)
    if limits.all_bytes and used + size_bytes > limits.all_bytes:
        return not_taken(document, f"{limits.platform} takes {size(limits.all_bytes)} a message at most.")
    if len(taken) >= limits.files:
        return not_taken(document, f"{limits.platform} takes {limits.files} files a message at most.")
    if safe_name(document.name) in {safe_name(other.name) for other in taken}:
        return not_taken(document, "Another file of this message has the same name.")
    return ""
