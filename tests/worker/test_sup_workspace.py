"""A training owns its run's folder. What it leaves there is data to the steps that see the labels, never a program."""

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.domain.events import Ended, WorkerEvent
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import encode
from tests.worker.conftest import GOOD, PREPARE, Yard, eventually
from worker.client.bundle import pack, unpack
from worker.folders import HostFolder, is_alive
from worker.launches.sweep import Sweep
from worker.supervisor import outputs, workspace

# Puts itself in the place of a module, and says that it ran where everybody can see it.
FORGE = """
FORGED = '''
import os
open(os.environ["TRAINYARD_RUN_DIR"] + "/forged", "w").write(" ".join(__import__("sys").argv))
card = ('{"metric": "accuracy", "higher_is_better": true, "model": {"name": "model", "value": 1.0}, "baselines": '
        '[{"name": "majority", "value": 0.5}], "all_metrics": {"accuracy": 1.0}, "test_rows": 1}')
open("scorecard.json", "w").write(card)
open(os.environ["TRAINYARD_RUN_DIR"] + "/scorecard.json", "w").write(card)
os._exit(0)
'''
"""
WRONG = "pathlib.Path('predictions/model.csv').write_text('row_id,label\\n0,b\\n')\n"


def test_a_room_is_furnished_again_after_the_store_was_away(tmp_path: Path) -> None:
    """The bundle was unpacked, then the data did not come: what is there already is no reason to fail."""
    host = HostFolder.of(tmp_path, "h1")
    folder, bundle = host.run("r-again0"), unpack(pack("tabular_classification")[1])
    for config in (b"{}", b'{"run":"r-again0"}'):
        workspace.furnish(folder, bundle, config)
    assert (folder.workspace / "config.json").read_bytes() == b'{"run":"r-again0"}'
    assert (folder.workspace / "worker/recipes/prepare.py").is_file()
    assert (folder.workspace / "data").is_dir()


def test_a_bundle_is_laid_out_over_what_a_training_left_and_never_through_its_links(tmp_path: Path) -> None:
    into, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    into.mkdir()
    (elsewhere / "file").write_text("kept")
    (into / "worker").symlink_to(elsewhere)
    (into / "train.py").symlink_to(elsewhere / "file")
    (into / "requirements.txt").mkdir()
    (into / "model.bin").write_text("stays")
    outputs.lay_bundle(unpack(pack("tabular_classification")[1]), into)
    assert [path.name for path in elsewhere.iterdir()] == ["file"]
    assert (elsewhere / "file").read_text() == "kept"
    assert (into / "worker/recipes/entry.py").is_file()
    assert "entry" in (into / "train.py").read_text()
    assert (into / "model.bin").read_text() == "stays"


def test_a_bundle_is_whole_again_where_a_training_changed_it_and_nothing_is_beside_it(tmp_path: Path) -> None:
    """All is as if the folder were new."""
    bundle, into, fresh = unpack(pack("tabular_classification")[1]), tmp_path / "run", tmp_path / "fresh"
    for place in (into, fresh):
        place.mkdir()
        outputs.lay_bundle(bundle, place)
    package, ours, secret = into / "worker", into / "trainyard", tmp_path / "secret"
    secret.write_text("kept")
    (ours / "runtime.py").write_bytes(bundle["trainyard/runtime.py"].replace(b"import os", b"import so", 1))
    (ours / "adapters.py").write_bytes(bundle["trainyard/adapters.py"] + b"\n")  # longer, the beginning is the same
    (ours / "images.py").unlink()
    (ours / "images.py").symlink_to(secret)
    (ours / "pictures.py").unlink()
    os.mkfifo(ours / "pictures.py")
    (package / "__init__.py").unlink()
    (package / "__init__.py").mkdir()
    (package / "numpy.py").write_text("1 / 0")
    (package / "json/deep").mkdir(parents=True)
    (package / "recipes/evaluate.py").chmod(0)
    (package / "recipes/common/table.py").chmod(0o4777)
    (package / "recipes/common/split.py").chmod(0o400)
    os.link(package / "recipes/common/job.py", tmp_path / "second name")
    package.chmod(0o2777)
    (package / "recipes/more").symlink_to(tmp_path)
    outputs.lay_bundle(bundle, into)
    (tmp_path / "second name").write_text("forged")
    assert contents(into) == contents(fresh)
    assert secret.read_text() == "kept"
    outputs.lay_bundle({"train.py": b"print()"}, into)
    assert contents(into) == {"train.py": b"print()"}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file and folder below; none is a link or has a mode that we do not give."""
    found: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        assert mode in (stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644), path
        found[str(path.relative_to(folder))] = b"" if stat.S_ISDIR(mode) else path.read_bytes()
    return found


def test_of_a_model_that_the_evaluation_runs_only_data_comes_in(tmp_path: Path) -> None:
    folder = HostFolder.of(tmp_path, "h1").run("r-model00")
    model = folder.path / "predictions/model"
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "chat_template.jinja", "modeling.py", "training_args.bin"):
        (model / name).write_text(name)
    workspace.furnish(folder, {}, b"{}")
    assert outputs.has_predictions(folder.path)
    workspace.bring_predictions(folder)
    there = {path.name for path in (folder.workspace / "predictions/model").iterdir()}
    assert there == {"config.json", "model.safetensors", "chat_template.jinja"}
    os.mkfifo(model / "more.json")
    workspace.furnish(folder, {}, b"{}")
    with pytest.raises(outputs.BadOutput, match="no plain file"):
        workspace.bring_predictions(folder)


def test_what_is_sealed_is_for_this_user_alone(tmp_path: Path) -> None:
    folder = HostFolder.of(tmp_path, "h1").run("r-shut000")
    workspace.furnish(folder, {}, b"{}")
    assert [path.stat().st_mode & 0o777 for path in (folder.sealed, folder.workspace)] == [0o700, 0o700]


@pytest.mark.parametrize("place", ["worker/recipes/evaluate.py", "worker/__init__.py", "json.py"])
async def test_no_file_of_the_training_is_run_with_the_labels_in_view(yard: Yard, place: str) -> None:
    run = f"r-forge-{place.replace('/', '-').removesuffix('.py').replace('_', '-')}"
    lay = f"pathlib.Path({place!r}).write_text(FORGED)\n"
    await yard.launch(yard.order(run, FORGE + GOOD + WRONG + lay))
    outcome = yard.outcome(run)
    path = yard.folder(run).path
    assert not (path / "forged").exists()
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.scorecard is not None
    assert outcome.scorecard.model.value == 0.0
    assert json.loads((path / "scorecard.json").read_text())["model"]["value"] == 0.0


TELL = """
from worker.told import EVENTS
for name, events in EVENTS.items():
    try:
        pathlib.Path(name).write_bytes(events)
    except OSError as error:
        print("not told", name, type(error).__name__)
"""


async def test_a_training_tells_nothing_in_the_name_of_its_host(yard: Yard) -> None:
    """The sweep sends what supervisors spooled and did not send; a training can lay such files beside them."""
    outcome = Outcome(state=RunState.SUCCEEDED, reason="forged")
    events = {}
    for name, attempt in (("spool-9.jsonl", 9), ("spool-1.jsonl", 1), ("spool-0.jsonl", 7), ("spoolx.jsonl", 8)):
        event = WorkerEvent(
            run="r-victim0", attempt=attempt, seq=1, host=yard.host, at=datetime.now(UTC), body=Ended(outcome=outcome)
        )
        events[name] = encode(event) + b"\n"
    own = WorkerEvent(
        run="r-tell000", attempt=1, seq=99, host=yard.host, at=datetime.now(UTC), body=Ended(outcome=outcome)
    )
    events["spool-1.jsonl"] += encode(own) + b"\n"
    files = {"worker/told.py": f"EVENTS = {events!r}\n".encode()}
    await yard.launch(yard.order("r-tell000", TELL + GOOD, files=files))
    assert yard.outcome("r-tell000").state is RunState.SUCCEEDED
    notes = yard.folder("r-tell000").sent
    eventually(lambda: notes.exists() and not is_alive(yard.folder("r-tell000")), what="the end of its supervisor")
    await yard.launch(yard.order("r-after00", GOOD))
    assert yard.outcome("r-after00").state is RunState.SUCCEEDED
    Sweep(HostFolder.of(yard.home, yard.host), host=yard.host, redis_url=yard.server.url).run()
    assert [yard.events("r-victim0", attempt=attempt) for attempt in (1, 7, 8, 9)] == [[], [], [], []]
    assert yard.kinds("r-tell000").count("ended") == 1


async def test_no_file_of_an_earlier_attempt_is_run_where_the_data_is_split(yard: Yard) -> None:
    """A training that takes its split away has the next attempt split anew, in sight of all labels."""
    lay = "pathlib.Path('csv.py').write_text(FORGED)\nos.unlink('data/train.csv')\n1 / 0\n"
    files = {"worker/recipes/prepare.py": b"import csv\n" + PREPARE}
    await yard.launch(yard.order("r-split0", FORGE + lay, files=files))
    assert yard.outcome("r-split0").state is RunState.FAILED
    await yard.launch(yard.order("r-split0", GOOD, files=files, attempt=2))
    assert yard.outcome("r-split0", attempt=2).state is RunState.SUCCEEDED
    assert not (yard.folder("r-split0").path / "forged").exists()


async def test_the_evaluation_reads_the_settings_that_were_approved(yard: Yard) -> None:
    evaluate = b"""
import json, pathlib
assert json.loads(pathlib.Path("config.json").read_text())["spec"]["target"] == "y", "another target"
assert not pathlib.Path("train.py").with_name("note.txt").exists(), "the training's own file"
assert json.loads(pathlib.Path("artifacts/metrics.json").read_text()) == {"chosen": "tiny"}
assert json.loads(pathlib.Path("data/split.json").read_text()) == {"seed": 1}
pathlib.Path("artifacts/README.md").write_text("measured")
pathlib.Path("artifacts/metrics.json").write_text("{}")
card = {"metric": "accuracy", "higher_is_better": True, "model": {"name": "model", "value": 1.0},
        "baselines": [{"name": "majority", "value": 0.5}], "all_metrics": {"accuracy": 1.0}, "test_rows": 1}
pathlib.Path("scorecard.json").write_text(json.dumps(card))
"""
    lay = """
pathlib.Path("config.json").write_text('{"spec": {"target": "other"}}')
pathlib.Path("note.txt").write_text("")
pathlib.Path("artifacts/metrics.json").write_text('{"chosen": "tiny"}')
pathlib.Path("data/split.json").write_text('{"seed": 1}')
os.mkdir("scorecard.json")
os.mkdir("artifacts/README.md")
"""
    await yard.launch(yard.order("r-config", GOOD + lay, files={"worker/recipes/evaluate.py": evaluate}))
    outcome = yard.outcome("r-config")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.artifact is not None
    assert outcome.artifact.files == ("README.md", "config.json", "metrics.json", "model.txt")
    path = yard.folder("r-config").path
    assert (path / "artifacts/README.md").read_text() == "measured"
    assert (path / "artifacts/metrics.json").read_text() == "{}"
    assert {found.name for found in yard.folder("r-config").sealed.iterdir()} == {"labels.csv", "split.json"}


@pytest.mark.parametrize(
    ("lay", "words"),
    [
        ("os.mkfifo('predictions/linear.csv')", "predictions/linear.csv"),
        ("os.truncate('predictions/model.csv', 1 << 40)", "predictions/model.csv"),
    ],
)
async def test_predictions_that_are_no_usable_file_are_refused(yard: Yard, lay: str, words: str) -> None:
    run = f"r-odd-{lay[3:8]}"
    await yard.launch(yard.order(run, GOOD + lay + "\n"))
    outcome = yard.outcome(run)
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.USER_ERROR)
    assert words in outcome.reason
