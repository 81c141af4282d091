"""What an attempt finds laid out, and what is left as it was where the attempt fails before."""

import json
from pathlib import Path

import pytest

from agent.domain.errors import Unavailable
from agent.domain.events import Accepted
from agent.domain.runs import ExitClass
from tests.worker.conftest import GOOD, Yard, eventually
from worker.client.blobs import FolderBlobs
from worker.client.bundle import pack, pack_files
from worker.folders import HostFolder, is_alive
from worker.launches.sweep import Sweep
from worker.reporting.spool import Spool
from worker.supervisor.layout import Layout
from worker.supervisor.outputs import BadOutput


class AwayAtFirst(FolderBlobs):
    """A store that does not answer the first time."""

    asked = 0

    def get_file(self, sha256: str) -> Path:
        self.asked += 1
        if self.asked == 1:
            raise Unavailable("The store is away.")
        return super().get_file(sha256)


def layout_of(yard: Yard, run: str, tmp_path: Path, files: bytes) -> tuple[Layout, Path]:
    store = AwayAtFirst(tmp_path / "store")
    bundle = store.put_bytes(files, name="bundle.tar")
    order = yard.order(run, GOOD)
    spec = order.spec.model_copy(update={"bundle_sha256": bundle.sha256})
    folder = HostFolder.of(tmp_path, "h1").run(run)
    folder.path.mkdir(parents=True)
    return Layout(folder, order.model_copy(update={"spec": spec}), store), folder.path


def test_a_store_that_was_away_is_asked_again(yard: Yard, tmp_path: Path) -> None:
    layout, path = layout_of(yard, "r-lay000", tmp_path, pack("tabular_classification")[1])
    (path / "train.py").write_text("print('mine')")
    with pytest.raises(Unavailable):
        layout.lay_out()
    assert [found.name for found in path.iterdir()] == ["train.py"]
    assert layout.lay_out() == "train.py is another than before; the old one is kept as train_v1.py"
    assert not layout.prepared
    assert (path / "train_v1.py").read_text() == "print('mine')"
    assert json.loads((path / "config.json").read_bytes())["run"] == "r-lay000"
    assert (path / "worker/recipes/entry.py").is_file()
    assert layout.lay_out() == ""


def test_what_is_no_bundle_is_refused(yard: Yard, tmp_path: Path) -> None:
    layout, path = layout_of(yard, "r-lay002", tmp_path, pack_files({"fence": b"9"})[1])
    with pytest.raises(Unavailable):
        layout.lay_out()
    with pytest.raises(BadOutput, match="does not belong there"):
        layout.lay_out()
    assert not list(path.iterdir())


async def test_an_attempt_that_may_not_begin_leaves_what_the_one_before_made(yard: Yard) -> None:
    await yard.launch(yard.order("r-lay003", GOOD + "1 / 0\n"))
    assert yard.outcome("r-lay003").exit_class is ExitClass.USER_ERROR
    folder = yard.folder("r-lay003")
    eventually(lambda: not is_alive(folder))
    script = (folder.path / "train.py").read_bytes()
    assert (folder.path / "predictions/model.csv").is_file()
    order = yard.order("r-lay003", GOOD, attempt=2)
    await yard.launch(order.model_copy(update={"spec": order.spec.model_copy(update={"secrets": ("NOPE_TOKEN",)})}))
    assert "NOPE_TOKEN" in yard.outcome("r-lay003", attempt=2).reason
    eventually(lambda: not is_alive(folder))
    assert (folder.path / "predictions/model.csv").is_file()
    assert (folder.path / "train.py").read_bytes() == script
    await yard.launch(yard.order("r-lay003", GOOD, attempt=3))
    assert yard.outcome("r-lay003", attempt=3).state.value == "succeeded"
    assert "the old one is kept as train_v1.py" in (folder.path / "output.log").read_text()


async def test_a_second_name_of_a_bundled_file_changes_nothing_in_the_next_attempt(yard: Yard) -> None:
    """The log of metrics is one that the runtime writes to; a training may have made it one with its program."""
    lay = "start()\nos.unlink('metrics.jsonl') if os.path.exists('metrics.jsonl') else None\n"
    lay += "os.link('worker/__init__.py', 'metrics.jsonl')\n1 / 0\n"
    await yard.launch(yard.order("r-lay004", lay))
    assert yard.outcome("r-lay004").exit_class is ExitClass.USER_ERROR
    folder = yard.folder("r-lay004")
    eventually(lambda: not is_alive(folder))
    assert (folder.path / "metrics.jsonl").stat().st_nlink == 2
    before = (folder.path / "worker/__init__.py").read_bytes()
    await yard.launch(yard.order("r-lay004", "start()\nmetric(1, loss=1.0)\n1 / 0\n", attempt=2))
    assert yard.outcome("r-lay004", attempt=2).exit_class is ExitClass.USER_ERROR
    assert b'"loss"' in (folder.path / "metrics.jsonl").read_bytes()
    assert (folder.path / "worker/__init__.py").read_bytes() == before


DEEP = """
def deep(folder, levels, name):
    before = os.getcwd()
    os.chdir(folder)
    for _ in range(levels):
        os.mkdir(name)
        os.chdir(name)
    os.chdir(before)
"""


@pytest.mark.parametrize(("levels", "name"), [(1100, "d"), (25, "d" * 200)])
async def test_folders_of_any_depth_break_no_later_attempt(yard: Yard, levels: int, name: str) -> None:
    run = f"r-dp{levels:04}"
    deep = f"deep('worker', {levels}, {name!r})\ndeep('predictions', {levels}, {name!r})\n"
    await yard.launch(yard.order(run, GOOD + DEEP + deep))
    outcome = yard.outcome(run)
    assert outcome.exit_class is ExitClass.USER_ERROR
    assert "folders inside folders in predictions/" in outcome.reason
    folder = yard.folder(run)
    eventually(lambda: not is_alive(folder))
    assert (folder.path / "worker" / name / name / name).is_dir()
    await yard.launch(yard.order(run, GOOD, attempt=2))
    assert yard.outcome(run, attempt=2).state.value == "succeeded"
    assert not (folder.path / "worker" / name).exists()


@pytest.mark.parametrize("left", [b"", b"{", None])
def test_a_restart_of_the_host_is_known_from_the_first_event_too(host: Yard, left: bytes | None) -> None:
    folder = host.folder("r-power0")
    folder.path.mkdir(parents=True)
    folder.fence.write_text("1")
    if left is not None:
        folder.supervisor.write_bytes(left)
    spool = Spool(folder.spool, run=folder.run, attempt=1, host=host.host)
    spool.append(Accepted(boot_id="another"))
    spool.close()
    Sweep(HostFolder.of(host.home, host.host), host=host.host, redis_url=host.server.url).run()
    assert "was restarted" in json.loads(folder.outcome.read_bytes())["reason"]
