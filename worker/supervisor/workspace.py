"""The clean folder of a step that sees the sealed labels: the bundle unpacked anew, and copies of what the step reads.

A training owns its run's folder: it can rewrite the evaluation there, or lay a `numpy.py` beside it. So nothing of that
folder is on the path of such a step, and the step does not see the folder. Owns what goes in and what comes out. Runs
nothing. Called by `worker.supervisor.attempt`.
"""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from agent.domain.runs import RunSpec
from worker.folders import RunFolder, remove, write_atomically
from worker.supervisor import outputs

# For the card and the pictures, with the most bytes of each; a training that removed them goes without.
_FACTS = {
    "artifacts/metrics.json": 64 * 1024**2,
    "data/split.json": 64 * 1024**2,
    "artifacts/importance.json": 1024**2,
    "data/test.csv": 64 * 1024**2,
}
_RESULTS = ("scorecard.json", "artifacts/metrics.json", "artifacts/README.md")
_PREDICTION_BYTES = 4 * 1024**3  # of one file; a file with holes would fill the disk
_MODEL_BYTES = 64 * 1024**3
_MODEL_FILES = frozenset({".json", ".safetensors", ".jinja"})  # data; what else lies beside a model stays there


def furnish(folder: RunFolder, bundle: Mapping[str, bytes], config: bytes) -> None:
    """Make the workspace anew. Nobody but this user may look at what is sealed.

    `bundle` was checked by its sha256; `config` is what was approved.
    """
    remove(folder.workspace)
    folder.sealed.mkdir(parents=True, mode=0o700, exist_ok=True)  # of its own: `parents` are made for all to read
    folder.workspace.mkdir(mode=0o700)
    outputs.lay_bundle(bundle, folder.workspace)
    (folder.workspace / "config.json").write_bytes(config)
    for name in ("data", "predictions", "artifacts"):
        (folder.workspace / name).mkdir()


def bring_source(folder: RunFolder, source: Path) -> None:
    """The file that is to be split."""
    shutil.copyfile(source, folder.workspace / "data" / "source.csv")


def take_split(folder: RunFolder, spec: RunSpec) -> None:
    """Move the split data to where the training reads it; the workspace is gone then."""
    remove(folder.path / "data")
    shutil.move(folder.workspace / "data", folder.path / "data")
    outputs.note_split(folder.sealed, spec)
    remove(folder.workspace)


def bring_predictions(folder: RunFolder) -> None:
    """What the training left for the evaluation: predictions, and models that the evaluation runs itself.

    Raises `BadOutput` for what is no usable file.
    """
    left = folder.path / "predictions"
    for path in sorted(left.glob("*.csv")):
        _bring(path, f"predictions/{path.name}", folder.workspace, _PREDICTION_BYTES)
    for path in sorted(left.glob("*/*")):
        if path.suffix in _MODEL_FILES:
            _bring(path, f"predictions/{path.parent.name}/{path.name}", folder.workspace, _MODEL_BYTES)
    for name, most in _FACTS.items():
        _copied(folder.path / name, folder.workspace / name, most)


def _bring(path: Path, name: str, workspace: Path, most: int) -> None:
    (workspace / name).parent.mkdir(exist_ok=True)
    if not _copied(path, workspace / name, most):
        raise outputs.BadOutput(f"train.py left {name}, which is no plain file or larger than {most // 1024**3} GiB.")


def take_results(folder: RunFolder) -> None:
    """Bring what was measured to the run's folder; the workspace is gone then."""
    for name in _RESULTS:
        if (folder.workspace / name).is_file():
            write_atomically(folder.path / name, (folder.workspace / name).read_bytes())
    remove(folder.workspace)


def _copied(source: Path, target: Path, most: int = _PREDICTION_BYTES) -> bool:
    """Copy a plain file that the training wrote; whether it is one. No link is followed, no pipe waited for."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return False
        with target.open("xb") as copy:
            shutil.copyfileobj(file, copy)
    return True
