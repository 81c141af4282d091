"""Programs that people attach: one Python file, or a zip of a folder. Reads and checks; runs nothing.

What comes out is what a bundle holds, by name. Called by the tool that plans a run of such a program.
"""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from agent.domain.datasets import may_be_program
from agent.domain.errors import BadData, BadRequest
from agent.domain.redaction import without_secrets
from agent.tools.training.scripts import check

MOST_FILES = 2_000
MOST_BYTES = 100 * 1024**2  # of all files together, unpacked
MOST_TEXT_BYTES = 1_000_000  # of one file that is read for secrets
REQUIREMENTS = "requirements.txt"
_USUAL = ("train.py", "main.py", "run.py")
_LEFT_OUT = {"__MACOSX", "__pycache__", ".git", ".DS_Store", ".venv", ".ipynb_checkpoints"}
# What the supervisor and the runtime keep in a run's folder.
_RESERVED = {
    "artifacts", "checkpoints", "env", "fence", "launch.lock", "lock", "meta.json", "metrics.jsonl", "order.json",
    "outcome.json", "output.log", "pictures", "sent.json", "spool.jsonl", "stop.json", "supervisor.json",
    "supervisor.log", "trainyard", "worker",
}  # fmt: skip
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,. -]*\])?[ <>=!~,\w.*+]*(;[^#]*)?", re.ASCII)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
# The supervisor decides these.
_OWN_VARIABLES = ("TRAINYARD_", "LD_", "PYTHON", "CUDA_VISIBLE_DEVICES", "PATH", "HOME", "GLIBC_")


def holds_program(path: Path, name: str) -> bool:
    """Whether a file is a program, or an archive with one; an archive that cannot be read is none."""
    if not name.lower().endswith(".zip"):
        return may_be_program(name)
    try:
        with zipfile.ZipFile(path) as archive:
            return any(entry.endswith(".py") and _wanted(entry) for entry in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def files_of(path: Path, name: str) -> dict[str, bytes]:
    """The files of a program by their names in the bundle; the only folder at the top of a zip is left out.

    Raises:
        BadData: it is no program, too large, or has names that a run's folder keeps for itself.
    """
    if name.lower().endswith(".py"):
        if path.stat().st_size > MOST_BYTES:
            raise BadData(f"`{name}` is larger than {MOST_BYTES // 1024**2} MB; a program should not be.")
        return {_plain_name(PurePosixPath(name).name): path.read_bytes()}
    if not zipfile.is_zipfile(path):
        raise BadData(f"`{name}` is no program: attach a .py file, or a zip of the folder with your code.")
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir() and _wanted(entry.filename)]
        if not any(entry.filename.endswith(".py") for entry in entries):
            raise BadData(
                f"`{name}` holds no program (.py). If it holds images, say “train an image classifier on {name}”."
            )
        size_bytes = sum(entry.file_size for entry in entries)
        if len(entries) > MOST_FILES or size_bytes > MOST_BYTES:
            raise BadData(
                f"`{name}` unpacks to {len(entries):,} files with {size_bytes / 1e6:,.0f} MB; at most {MOST_FILES:,} "
                f"files with {MOST_BYTES // 1024**2} MB are taken. Attach data as files of their own."
            )
        found: dict[str, bytes] = {}
        for entry in entries:
            if (entry.external_attr >> 16) & 0o170000 == 0o120000:
                raise BadData(f"`{name}` holds the link `{entry.filename}`; pack the file that it leads to instead.")
            with archive.open(entry) as file:
                found[_plain_name(entry.filename)] = file.read(entry.file_size + 1)[: entry.file_size]
    return _refuse_reserved(_without_top(found), name)


def entry_of(files: Mapping[str, bytes], wanted: str | None, name: str) -> str:
    """The program among `files`: the one that was named, `train.py`, `main.py`, `run.py`, or the only one.

    Raises:
        BadRequest: it cannot be known, is not there, or is not valid Python.
    """
    programs = sorted(path for path in files if path.endswith(".py"))
    top = [path for path in programs if "/" not in path]
    if wanted is not None:
        found = [path for path in programs if path == wanted.strip("./") or path.rpartition("/")[2] == wanted]
    else:
        found = [path for path in _USUAL if path in top][:1] or (top if len(top) == 1 else programs[:2])
    if len(found) != 1:
        some = ", ".join(f"`{path}`" for path in (top or programs)[:12]) or "none"
        raise BadRequest(f"Which program of `{name}` should run? Say `entry=train.py`. Programs in it: {some}.")
    try:
        text = files[found[0]].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"`{found[0]}` is not UTF-8 text (byte {error.start:,}). Save it as UTF-8.") from None
    check(text, name=found[0])
    return found[0]


def requirements_in(text: str, name: str = REQUIREMENTS) -> tuple[str, ...]:
    """The packages that a requirements file names, one a line; options and addresses are refused.

    Raises:
        BadRequest: a line that is no plain requirement.
    """
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    for line in said:
        if not _REQUIREMENT.fullmatch(line):
            raise BadRequest(
                f"`{line[:80]}` in {name} is no plain requirement such as `numpy>=2`. Options, files and addresses are "
                "not installed."
            )
    return tuple(said)


def environment_in(given: Mapping[str, str]) -> dict[str, str]:
    """Variables for the program. Raises `BadRequest` for those that the host sets itself."""
    for name in given:
        if not _VARIABLE.fullmatch(name) or name.startswith(_OWN_VARIABLES):
            raise BadRequest(f"The variable `{name[:60]}` cannot be set for a run. Use another name, in capitals.")
    return dict(given)


def secrets_in(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The kinds of what looks like secrets in the texts of a program."""
    texts = (content for content in files.values() if len(content) <= MOST_TEXT_BYTES and b"\0" not in content)
    return tuple(sorted({kind for text in texts for kind in without_secrets(text.decode(errors="replace"))[1]}))


def secrets_in_file(path: Path, name: str) -> tuple[str, ...]:
    """The same of an attached program; none where it cannot be read, which a plan of it says."""
    try:
        return secrets_in(files_of(path, name))
    except BadData:
        return ()


def _wanted(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not _LEFT_OUT.intersection(parts) and not name.endswith(".pyc")


def _plain_name(name: str) -> str:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts or any(ord(char) < 32 for char in name):
        raise BadData(f"The name `{name[:80]}` in the archive leads out of its folder; pack it again without it.")
    return str(path)


def _without_top(files: dict[str, bytes]) -> dict[str, bytes]:
    tops = {name.partition("/")[0] for name in files}
    if len(tops) == 1 and all("/" in name for name in files):
        return {name.partition("/")[2]: content for name, content in files.items()}
    return files


def _refuse_reserved(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    taken = sorted({path.partition("/")[0] for path in files} & _RESERVED)
    if taken:
        raise BadData(
            f"`{name}` holds {', '.join(f'`{one}`' for one in taken)}, which Trainyard keeps in a run's folder itself. "
            "Leave it out, or give it another name."
        )
    return files
