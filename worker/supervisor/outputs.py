"""What a run takes in and gives out: unpacks the bundle, checks what the training left, packs the artifact.

Owns the rules for names inside tars. Trusts nothing that the training script wrote. Called by
`worker.supervisor.layout`, `workspace`, `attempt` and `stage`, and, for unpacking, by `worker.scripts`.
"""

import json
import logging
import math
import re
import shutil
import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from agent.domain.results import LIMIT_BYTES, Results
from agent.domain.runs import Artifact, ExitClass, RunSpec, Scorecard
from agent.wire import encode
from worker.client.blobs import BlobStore
from worker.folders import is_too_deep, read_plain, remove, write_atomically
from worker.host.processes import boot_id
from worker.supervisor.installing import ENVIRONMENT, INSTALLED

_MOST_BESIDE_BYTES = 2 * 1024**3
_RECORD = re.compile(
    r"fence|lock|launch\.lock|(order|stop|supervisor|sent|meta|config|scorecard|error)\.json|outcome(-\d+)?\.json"
    r"|spool(-\d+)?\.jsonl|metrics\.jsonl|(output|supervisor)\.log"
    rf"|data|checkpoints|pictures|predictions|artifacts|{ENVIRONMENT}"
)
_BUNDLE_NAMES = ("train.py", "requirements.txt", "trainyard", "worker")
_STALE = ("predictions", "artifacts", "scorecard.json", "error.json")
_SPLIT = "split.json"
_SPLIT_FIELDS = {"task", "recipe", "dataset", "target", "text_column", "drop_columns", "seed", "test_frac"}
_TEXT_LIMIT = 64 * 1024
_MOST_FOUND = 20
_MOST_NOTES, _NOTE_CHARS = 8, 300

log = logging.getLogger(__name__)


class BadOutput(Exception):
    """The training script left something that cannot be used; the text is fit for people."""


def clear(folder: Path) -> None:
    """Remove what an earlier attempt made and the next makes anew: not logs, metrics, checkpoints, data, the bundle."""
    for name in _STALE:
        remove(folder / name)


def note_split(sealed: Path, spec: RunSpec) -> None:
    """Remember what was split, and since which start of the machine, where no training can write."""
    write_atomically(sealed / _SPLIT, json.dumps(_split_of(spec)).encode(), durable=False)


def is_prepared(folder: Path, sealed: Path, spec: RunSpec) -> bool:
    """Whether an earlier attempt of the same run split the same data to its end.

    The files are not synced, which an attempt would wait for: after a restart of the machine the data is split anew.
    The source goes as the last act of preparing, so data beside its source is half of a split.
    """
    if spec.script is not None:
        return _is_installed(folder, spec.script.requirements)
    data = folder / "data"
    parts = (data / "train.csv", data / "test.csv", sealed / "labels.csv")
    if data.is_symlink() or not all(path.is_file() and not path.is_symlink() for path in parts):
        return False
    if (data / "source.csv").exists():
        return False
    try:
        return bool(json.loads(read_plain(sealed / _SPLIT)) == _split_of(spec))
    except (OSError, ValueError):
        return False


def _is_installed(folder: Path, requirements: Sequence[str]) -> bool:
    """Whether an earlier attempt installed the same requirements to their end."""
    try:
        return read_plain(folder / ENVIRONMENT / INSTALLED).decode() == "\n".join(requirements)
    except (OSError, ValueError):
        return False


def _split_of(spec: RunSpec) -> dict[str, object]:
    return {"boot_id": boot_id(), **spec.model_dump(mode="json", include=_SPLIT_FIELDS)}


def archive_script(folder: Path, bundle: Mapping[str, bytes], entry: str = "train.py") -> str:
    """Keep the program of an earlier attempt as `train_v<n>.py` when the bundle brings another; its new name or "".

    Raises `BadOutput` for a bundle without one.
    """
    if entry not in bundle:
        raise BadOutput(f"The bundle holds no {entry}.")
    old = folder / entry
    if folder.resolve() not in old.resolve().parents or old.is_symlink() or not old.is_file():
        return ""
    if _holds(old, bundle[entry]):
        return ""
    number = 1
    while (kept := folder / f"{old.stem}_v{number}.py").exists() or kept.is_symlink():
        number += 1
    old.rename(kept)
    return kept.name


def unpack(tar_path: Path, into: Path) -> None:
    """Unpack plain files below `into`. Raises `BadOutput` for links, absolute paths and `..`."""
    with tarfile.open(tar_path) as tar:
        for member in [_plain(member) for member in tar.getmembers()]:
            path = into / member.name
            file = tar.extractfile(member)
            (path if file is None else path.parent).mkdir(parents=True, exist_ok=True)
            if file is not None:
                with path.open("wb") as copy:
                    shutil.copyfileobj(file, copy)


def read_bundle(tar_path: Path, *, own: bool = False) -> dict[str, bytes]:
    """The files of a bundle by name: it is laid out more than once. Raises `BadOutput` for one that holds others.

    A program of somebody's `own` may hold files of any name.
    """
    files: dict[str, bytes] = {}
    with tarfile.open(tar_path) as tar:
        for member in tar:
            path = PurePosixPath(_plain(member).name)
            if not own and path.parts[0] not in _BUNDLE_NAMES:
                raise BadOutput(f"The bundle holds {member.name!r}, which does not belong there.")
            file = tar.extractfile(member)
            if file is not None:
                files[str(path)] = file.read()
    return files


def lay_bundle(bundle: Mapping[str, bytes], into: Path) -> None:
    """Make the files of a bundle anew below `into`: an earlier attempt's training may have written there."""
    for name in _BUNDLE_NAMES:
        remove(into / name)
    for name, content in bundle.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)


def lay_program(bundle: Mapping[str, bytes], into: Path) -> None:
    """Make the files of somebody's own program below `into`. What it wrote beside them in an earlier attempt stays.

    No link that it laid there is followed.
    """
    for name, content in bundle.items():
        for folder in reversed(PurePosixPath(name).parents):
            place = into / folder
            if place.is_symlink() or not place.is_dir():
                remove(place)
                place.mkdir()
        path = into / name
        remove(path)
        with path.open("xb") as file:
            file.write(content)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return read_plain(path, most=len(content) + 1) == content
    except OSError:
        return False


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    parts = PurePosixPath(member.name).parts
    if not (member.isfile() or member.isdir()) or member.name.startswith("/") or ".." in parts or not parts:
        raise BadOutput(f"The archive holds {member.name!r}, which is not a plain file inside it.")
    return member


def check_training(folder: Path) -> str:
    """Why what train.py left cannot be evaluated; empty when it can.

    Links are refused: the evaluator may see the sealed labels, so a link to them would be a perfect prediction.
    """
    for name in ("predictions", "artifacts"):
        path = folder / name
        try:
            if path.is_symlink() or any(found.is_symlink() for found in path.rglob("*")):
                return f"train.py left a link in {name}/, which is not allowed."
        except (RecursionError, OSError) as error:
            if not is_too_deep(error):
                raise
            return f"train.py left folders inside folders in {name}/, too many levels to look at."
    return ""


def has_predictions(folder: Path) -> bool:
    """Whether train.py left what can be measured: predictions, or a model that the evaluation runs itself."""
    left = folder / "predictions"
    return (left / "model.csv").is_file() or any((left / "model").glob("*.json"))


def read_scorecard(folder: Path) -> Scorecard:
    """What the evaluator measured. Raises `BadOutput`."""
    try:
        return Scorecard.model_validate_json((folder / "scorecard.json").read_bytes())
    except FileNotFoundError:
        raise BadOutput("The evaluation ended without an error, but it left no scorecard.json.") from None
    except ValidationError as error:
        raise BadOutput(f"scorecard.json is not a scorecard: {error.error_count()} errors.") from error


def read_results(folder: Path, *, clean: Callable[[str], str]) -> Results | None:
    """What pictures are drawn from, its texts passed through `clean`; None where it cannot be used.

    The pictures are an extra: what is wrong with this file is a line in the log and does not cost the result.
    """
    try:
        data = read_plain(folder / "results.json", most=LIMIT_BYTES + 1)
        if len(data) > LIMIT_BYTES:
            log.warning("no_results run=%s why=larger than %d bytes", folder.parent.name, LIMIT_BYTES)
            return None
        return Results.model_validate(_cleaned(json.loads(data), clean))
    except FileNotFoundError:
        return None  # of a program from before there were any
    except (OSError, ValueError, RecursionError) as error:
        log.warning("no_results run=%s why=%s", folder.parent.name, str(error)[:500])
        return None


def keep_results(results: Results | None, blobs: BlobStore, *, run: str) -> str:
    """The sha256 under which they are in the store, out of reach of a later attempt; "" for none."""
    return blobs.put_bytes(encode(results), name=f"{run}.results.json").sha256 if results is not None else ""


def _cleaned(found: object, clean: Callable[[str], str]) -> object:
    match found:
        case str():
            return clean(found)[: len(found)]  # what stands for a secret may be longer than it
        case list():
            return [_cleaned(one, clean) for one in found]
        case dict():
            return {name: _cleaned(one, clean) for name, one in found.items()}
        case _:
            return found


def read_error(folder: Path) -> tuple[ExitClass, str]:
    """Class and sentence of error.json; a general sentence where the step left none that can be read."""
    path = folder / "error.json"
    general = "The data cannot be used for this, and the step gave no reason."
    if not path.is_file() or path.is_symlink() or path.stat().st_size > _TEXT_LIMIT:
        return ExitClass.BAD_DATA, general
    try:
        found = json.loads(path.read_bytes())
        return ExitClass(found.get("kind", "bad_data")), str(found["text"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ExitClass.BAD_DATA, general


def left_beside(folder: Path, bundle: Collection[str]) -> Sequence[Path]:
    """What a program wrote beside its own files, those of `bundle`: its result where it knows no artifacts/.

    Names that begin with a dot are caches. More than 2 GiB in all is no result that was meant to be handed over: none.
    """
    found = [
        path
        for path in _plain_files(folder)
        if path.relative_to(folder).as_posix() not in bundle and not _is_ours(path.relative_to(folder))
    ]
    return found if sum(path.stat().st_size for path in found) <= _MOST_BESIDE_BYTES else ()


def _is_ours(path: Path) -> bool:
    """Whether a path in a run's folder is a record of ours, installed, given, a cache, or read under its own name."""
    return bool(_RECORD.fullmatch(path.parts[0])) or any(part[0] == "." or part == "__pycache__" for part in path.parts)


def _plain_files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def pack_artifact(folder: Path, blobs: BlobStore, *, name: str, beside: Sequence[Path] = ()) -> Artifact | None:
    """Store artifacts/ as one tar: plain files only, the same bytes for the same content. None where there is none.

    Where it is empty the files `beside` it are taken, by their names in `folder`.
    """
    root = folder / "artifacts"
    files = _plain_files(root)
    if not files:
        root, files = folder, list(beside)
    if not files:
        return None
    aside = folder / ".artifact.tar"
    remove(aside)  # the training may write here too: no link that it laid out is followed
    try:
        with aside.open("xb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in files:
                entry = tarfile.TarInfo(path.relative_to(root).as_posix())
                entry.size, entry.mode = path.stat().st_size, 0o644
                with path.open("rb") as content:
                    tar.addfile(entry, content)
        ref = blobs.put_file(aside, name=name)
    finally:
        aside.unlink(missing_ok=True)
    names = tuple(path.relative_to(root).as_posix() for path in files)
    return Artifact(sha256=ref.sha256, size_bytes=ref.size_bytes, files=names)


def read_found(folder: Path) -> dict[str, float]:
    """The settings that a search chose: `found` in artifacts/config.json, empty when it does not say."""
    found = _kept(folder).get("found")
    numbers = found if isinstance(found, dict) else {}
    return {
        str(name)[:40]: float(value)
        for name, value in list(numbers.items())[:_MOST_FOUND]
        if isinstance(value, int | float) and math.isfinite(value)
    }


def read_notes(folder: Path) -> tuple[str, ...]:
    """What happened in the training, in sentences: `notes` in artifacts/config.json, empty when it does not say."""
    notes = _kept(folder).get("notes")
    return tuple(str(note)[:_NOTE_CHARS] for note in notes[:_MOST_NOTES]) if isinstance(notes, list) else ()


def read_chosen(folder: Path) -> str:
    """The name of the candidate that the recipe kept: `kind` in artifacts/config.json, empty when it does not say."""
    return str(_kept(folder).get("kind", ""))[:100]


def _kept(folder: Path) -> dict[str, Any]:
    """What artifacts/config.json says; empty where there is none that can be read."""
    path = folder / "artifacts" / "config.json"
    if not path.is_file() or path.stat().st_size > _TEXT_LIMIT:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
