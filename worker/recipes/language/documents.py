"""The texts of a file that a language model learns from, and how they are parted.

Documents are parted at random, equal ones on one side. One long text, and what are fewer than twenty documents, is cut
into parts in its own order, and its end is the part that is kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.recipes.common.columns import find_column
from worker.recipes.common.job import Job
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import BadData, Table, decode, read_table

PLAIN = "plain text"
FEWEST_CHARS = 5_000
_FEWEST = 20  # documents; fewer are taken as one text, so that there are enough parts to measure
_PARTS, _LEAST_PART, _LARGEST_PART = 100, 500, 20_000  # of one text; characters


@dataclass(frozen=True)
class Documents:
    """Texts in the order of the file; `one`: they are parts of one text."""

    texts: list[str]
    one: bool

    def split(self, frac: float, seed: int) -> tuple[list[int], list[int]]:
        """Places of the larger and the smaller part."""
        if self.one:
            cut = min(len(self.texts) - 1, max(1, round(len(self.texts) * (1 - frac))))
            return list(range(cut)), list(range(cut, len(self.texts)))
        kept, apart = split_rows([""] * len(self.texts), frac=frac, seed=seed, groups=self.texts)
        return kept.tolist(), apart.tolist()

    def joined(self, places: Sequence[int]) -> list[str]:
        """The texts at these places; the parts of one text as the one that they are."""
        texts = [self.texts[place] for place in places]
        return ["".join(texts)] if self.one else texts


def read_documents(path: Path, job: Job) -> Documents:
    """The documents of the run's file. Raises: BadData."""
    table = read_table(path, name=job.dataset_name)
    if table.form == PLAIN:  # the table has its lines without the space around them
        return of_texts([decode(path.read_bytes(), job.dataset_name)[0]])
    return of_texts(table.columns[find_column(table, job.target, role="text")])


def of_texts(texts: Sequence[str]) -> Documents:
    """Documents of what a column holds. Raises: BadData for too little text."""
    full = [text for text in texts if text.strip()]
    problem = too_little(full)
    if problem:
        raise BadData(problem)
    return Documents(full, False) if len(full) >= _FEWEST else Documents(_parts("\n".join(full)), True)


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this column."""
    found = too_little(table.columns[target])
    return [found] if found else []


def too_little(texts: Sequence[str]) -> str:
    """The sentence on too little text, empty where there is enough."""
    chars = sum(map(len, texts))
    if chars >= FEWEST_CHARS and len(set(texts)) > (len(texts) > 1):
        return ""
    what = "the same text again and again" if chars >= FEWEST_CHARS else f"only {chars:,} characters of text"
    return f"There is {what}; a language model needs at least {FEWEST_CHARS:,} characters. Send more text."


def _parts(text: str) -> list[str]:
    """A text in parts of about a hundredth of it, cut at ends of lines where there are some."""
    size = min(_LARGEST_PART, max(_LEAST_PART, len(text) // _PARTS))
    found, at = [], 0
    while at < len(text):
        end = at + size
        line = text.find("\n", end, end + size)
        end = line + 1 if line >= 0 else end
        found.append(text[at:end])
        at = end
    return found
