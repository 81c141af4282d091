"""Programs of somebody's own on a real host: any that runs, with arguments, data, variables and requirements."""

import zipfile
from pathlib import Path

import pytest

from agent.domain.events import Logged, Measured
from agent.domain.orders import StopOrder
from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import Yard, eventually, opened
from worker.launches.spawning import supervisor_environment
from worker.settings import Settings

PLAIN = """
import os, pathlib, sys
from lib.model import answer
print("arguments", sys.argv[1:], "depth", os.environ["DEPTH"], answer)
print("data", pathlib.Path("data/points.csv").read_text().strip())
pathlib.Path("artifacts").mkdir(exist_ok=True)
pathlib.Path("artifacts/model.txt").write_text("weights")
"""


def lines(yard: Yard, run: str, *, attempt: int = 1) -> list[str]:
    bodies = [event.body for event in yard.events(run, attempt=attempt)]
    return [line for body in bodies if isinstance(body, Logged) for line in body.lines]


async def test_a_program_that_knows_nothing_of_trainyard_succeeds(yard: Yard) -> None:
    data = yard.blobs.put_bytes(b"a,b\n1,2\n", name="points.csv")
    files = {"main.py": PLAIN, "lib/model.py": "answer = 42\n", "config.json": '{"theirs": 1}'}
    order = yard.own(
        "r-own000", files, entry="main.py", arguments=("--lr", "0.1 0.2"), environment={"DEPTH": "3"}, data=(data,)
    )
    await yard.launch(order)
    outcome = yard.outcome("r-own000")
    assert (outcome.state, outcome.exit_code, outcome.scorecard) == (RunState.SUCCEEDED, 0, None)
    assert "arguments ['--lr', '0.1 0.2'] depth 3 42" in lines(yard, "r-own000")
    assert "data a,b" in lines(yard, "r-own000")
    assert outcome.artifact is not None
    assert outcome.artifact.files == ("model.txt",)
    assert (yard.folder("r-own000").path / "config.json").read_text() == '{"theirs": 1}'
    yard.gone("r-own000")


def test_where_libraries_lie_reaches_a_program_and_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some containers have the GPU's driver in a folder that this alone names."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    monkeypatch.setenv("LD_PRELOAD_OF_OURS", "no")
    program = "import os\nprint({name: text for name, text in os.environ.items() if name.startswith('LD_')})"
    with opened(tmp_path / "yard") as place:
        place.launch_here(place.own("r-own006", {"train.py": program}))
        assert place.outcome("r-own006").state is RunState.SUCCEEDED
        assert lines(place, "r-own006") == ["{'LD_LIBRARY_PATH': '/usr/local/nvidia/lib64'}"]


def test_a_supervisor_finds_bubblewrap_where_the_worker_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = supervisor_environment(Settings(home=tmp_path), tier="bwrap")["PATH"]
    assert path == f"/usr/local/bin:/usr/bin:/bin:{tmp_path}"


async def test_without_artifacts_what_it_wrote_beside_itself_is_kept(yard: Yard) -> None:
    program = """
import pathlib
from trainyard import TrainingRuntime
rt = TrainingRuntime()
rt.start("mine")
rt.log_metrics(step=1, loss=0.5)
rt.save_checkpoint(lambda folder: (folder / "at").write_text("x"), step=1)
rt.finish()
for name in ("model.pt", "lib/out/curve.csv", ".cache/hub", "data/more.csv", "lib/__pycache__/model.pyc"):
    pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(name).write_text("written")
"""
    await yard.launch(yard.own("r-own005", {"main.py": program, "lib/model.py": "answer = 42\n"}, entry="main.py"))
    outcome = yard.outcome("r-own005")
    assert outcome.artifact is not None
    assert outcome.artifact.files == ("lib/out/curve.csv", "model.pt")


async def test_its_crash_is_reported_by_its_own_name(yard: Yard) -> None:
    await yard.launch(yard.own("r-own001", {"main.py": "import nothing_like_this\n"}, entry="main.py"))
    outcome = yard.outcome("r-own001")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.USER_ERROR)
    assert "No module named 'nothing_like_this'" in outcome.reason
    assert "train.py" not in outcome.reason


STEPS = """
import pathlib, sys, time
from trainyard import TrainingRuntime
rt = TrainingRuntime()
rt.start("mine", total_steps=1000)
rt.register_graceful_shutdown(save=lambda folder: (folder / "at").write_text("x"))
begin = rt.get_resume_info().step
pathlib.Path(f"notes-{begin}.txt").write_text("kept")
for step in range(begin + 1, 1001):
    rt.log_metrics(step=step, loss=1 / step)
    if pathlib.Path("go-on").exists() and step > begin + 2:
        break
    time.sleep(0.02)
rt.finish()
"""


async def test_it_is_paused_and_goes_on_with_what_it_wrote(yard: Yard) -> None:
    await yard.launch(yard.own("r-own002", {"train.py": STEPS}))
    yard.running("r-own002")
    await yard.stop(StopOrder(run="r-own002", attempt=1, how="pause"))
    assert yard.outcome("r-own002").state is RunState.PAUSED
    folder = yard.folder("r-own002").path
    (folder / "go-on").touch()
    await yard.launch(yard.own("r-own002", {"train.py": STEPS + "print('the second one')\n"}, attempt=2))
    assert yard.outcome("r-own002", attempt=2).state is RunState.SUCCEEDED
    assert "the second one" in lines(yard, "r-own002", attempt=2)
    assert (folder / "train_v1.py").exists()
    assert (folder / "notes-0.txt").exists()
    first, second = (
        [row.step for event in yard.events("r-own002", attempt=attempt) if isinstance(event.body, Measured)
         for row in event.body.rows]
        for attempt in (1, 2)
    )  # fmt: skip
    assert second[0] == first[-1] + 1


def wheel(folder: Path, name: str = "tiny_thing", version: str = "1.2") -> None:
    """A package index of one wheel, as files."""
    place = folder / name.replace("_", "-")
    place.mkdir(parents=True)
    file = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place / file, "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        archive.writestr(
            f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
    (place / "index.html").write_text(f'<a href="{file}">{file}</a>')


USES = "import numpy, tiny_thing, sys\nprint('with', tiny_thing.version, numpy.__name__, sys.prefix)\n"


async def test_requirements_are_installed_beside_what_the_host_has(own_yard: Yard, tmp_path: Path) -> None:
    wheel(tmp_path / "index")
    own_yard.extra = {"TRAINYARD_PACKAGE_INDEX": (tmp_path / "index").as_uri()}
    own_yard.start_worker()
    await own_yard.launch(own_yard.own("r-own003", {"train.py": USES}, requirements=("tiny-thing>=1", "numpy")))
    outcome = own_yard.outcome("r-own003")
    assert outcome.state is RunState.SUCCEEDED, (outcome, lines(own_yard, "r-own003"))
    said = lines(own_yard, "r-own003")
    assert any(line.startswith("with 1.2 numpy") and line.endswith("/env") for line in said), said
    assert not any("Collecting numpy" in line for line in said)
    await own_yard.launch(own_yard.own("r-own004", {"train.py": USES}, requirements=("no-such-thing==9",)))
    refused = own_yard.outcome("r-own004")
    assert refused.state is RunState.FAILED
    assert "Installing the requirements" in refused.reason
    assert "no-such-thing" in refused.reason or any("no-such-thing" in line for line in lines(own_yard, "r-own004"))


@pytest.mark.parametrize("name", ["src", "data"])
async def test_a_link_that_an_attempt_laid_is_not_followed(yard: Yard, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    run = f"r-own1{'s' if name == 'src' else 'd'}0"
    lay = f"import os, shutil\nshutil.rmtree({name!r})\nos.symlink({str(outside)!r}, {name!r})\nraise SystemExit(3)\n"
    data = yard.blobs.put_bytes(b"1", name="one.txt")
    await yard.launch(yard.own(run, {"train.py": lay, "src/a.py": "x = 1\n"}, data=(data,)))
    assert yard.outcome(run).state is RunState.FAILED
    assert (yard.folder(run).path / name).is_symlink()
    files = {"train.py": "import src.a\nprint('whole again')\n", "src/a.py": "x = 1\n"}
    await yard.launch(yard.own(run, files, attempt=2, data=(data,)))
    assert yard.outcome(run, attempt=2).state is RunState.SUCCEEDED
    assert list(outside.iterdir()) == []
    eventually(lambda: "whole again" in lines(yard, run, attempt=2))
