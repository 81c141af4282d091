"""Bytecode beside a bundle's sources is what Python takes, and never what the source does not say."""

import os
import subprocess
import sys
from pathlib import Path

from worker.client.bundle import pack, sources, unpack
from worker.supervisor import bytecode, outputs

SHOW = """
import worker.runtime as r
print(r.__file__, getattr(r, "ADDED", ""))
print(r.TrainingRuntime.log_metrics.__code__.co_filename)
"""


def unpacked(folder: Path) -> Path:
    """A bundle as an attempt lays it out."""
    bytecode.compile_all()
    tar = folder / "bundle.tar"
    tar.write_bytes(pack("text_classification")[1])
    place = folder / "run"
    place.mkdir()
    outputs.lay_bundle(outputs.read_bundle(tar), place)
    return place


def imported(place: Path) -> tuple[list[str], str]:
    """What a step's interpreter prints, and what it tells of its imports."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-v", "-c", SHOW]
    ran = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.splitlines(), ran.stderr


def test_a_step_compiles_nothing_that_this_host_knows(tmp_path: Path) -> None:
    place = unpacked(tmp_path)
    printed, told = imported(place)
    runtime = str(place / "worker/runtime.py")
    assert printed == [f"{runtime} ", runtime]  # tracebacks name the file of the run
    assert f"code object from {str(place / 'worker/__pycache__')!r}"[:-1] in told
    laid = {path.name.split(".")[0] for path in place.rglob("*.pyc")}
    assert (
        {"runtime", "adapters"} <= laid < {Path(name).stem for name in sources()}
    )  # a small one costs more than it saves
    assert not list(place.glob("__pycache__"))


def test_a_source_that_was_changed_is_what_runs(tmp_path: Path) -> None:
    place = unpacked(tmp_path)
    file = place / "worker/runtime.py"
    old = file.stat()
    file.write_text(file.read_text() + "\nADDED = 'other'\n")
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))  # a file's time decides nothing
    assert imported(place)[0][0] == f"{file} other"


def test_a_bundle_of_another_version_gets_no_bytecode(tmp_path: Path) -> None:
    place = unpacked(tmp_path)
    files = unpack((tmp_path / "bundle.tar").read_bytes())
    files["worker/runtime.py"] += b"ADDED = 'older'\n"
    del files["worker/adapters.py"]
    outputs.lay_bundle(files, place)
    laid = {path.name.split(".")[0] for path in place.rglob("*.pyc")}
    assert laid
    assert not {"runtime", "adapters"} & laid
    assert imported(place)[0][0].endswith(" older")
