"""The walls: what a step behind them can reach, and that they are never lowered in silence."""

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.domain.errors import BadData
from agent.domain.orders import PredictOrder, StopOrder
from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import ENDLESS, EVALUATE, GOOD, Yard, opened
from worker.client.blobs import FolderBlobs
from worker.client.bundle import pack_files
from worker.folders import HostFolder
from worker.sandbox import NoSandbox, choose_tier
from worker.scripts import Scripts
from worker.supervisor.outputs import BadOutput, read_bundle, unpack

needs_bwrap = pytest.mark.usefixtures("bwrap")


@pytest.fixture(scope="module")
def walled(bwrap: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with opened(tmp_path_factory.mktemp("walled"), sandbox="bwrap") as found:
        found.start_worker()
        yield found


@needs_bwrap
async def test_training_sees_neither_labels_nor_network_nor_host(walled: Yard) -> None:
    look = f"""
import socket
sealed = pathlib.Path(os.environ["TRAINYARD_RUN_DIR"]).parents[1] / "sealed"
assert not sealed.exists(), "the sealed labels are visible"
assert not pathlib.Path({str(walled.keys)!r}).exists(), "the launch key is visible"
assert not pathlib.Path({str(walled.home / "redis")!r}).exists(), "Redis is visible"
assert {os.getpid()} not in [int(name) for name in os.listdir("/proc") if name.isdigit()] or os.getpid() < 10
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    if (entry / "environ").exists():
        assert b"TRAINYARD_REDIS_URL" not in (entry / "environ").read_bytes(), "the host's environment is visible"
for name in ("order.json", "fence", "spool.jsonl", "output.log"):
    try:
        open(name, "a").close()
        raise AssertionError(name + " can be written to")
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", 22), timeout=2)
    raise AssertionError("the network is on")
except ConnectionRefusedError:
    pass
try:
    socket.create_connection(("192.0.2.1", 9), timeout=2)
    raise AssertionError("the network is on")
except OSError as error:
    assert "unreachable" in str(error)
"""
    await walled.launch(walled.order("r-walls1", look + GOOD, sandbox="bwrap"))
    outcome = walled.outcome("r-walls1")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.scorecard is not None
    assert outcome.scorecard.beats_baseline


@needs_bwrap
async def test_the_evaluation_sees_nothing_of_the_trainings_folder(walled: Yard) -> None:
    look = b"import os\nassert not os.path.exists(os.environ['TRAINYARD_RUN_DIR'])\n"
    await walled.launch(
        walled.order("r-walls5", GOOD, sandbox="bwrap", files={"worker/recipes/evaluate.py": look + EVALUATE})
    )
    outcome = walled.outcome("r-walls5")
    assert outcome.state is RunState.SUCCEEDED, outcome


@needs_bwrap
async def test_a_stop_reaches_the_training_inside(walled: Yard) -> None:
    saving = "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path('saved').touch(), sys.exit(143)))\n"
    await walled.launch(walled.order("r-walls2", saving + ENDLESS))
    walled.running("r-walls2")
    await walled.stop(StopOrder(run="r-walls2", attempt=1))
    assert walled.outcome("r-walls2").state is RunState.STOPPED
    assert (walled.folder("r-walls2").path / "saved").exists()
    walled.gone("r-walls2")


@needs_bwrap
async def test_a_death_inside_keeps_its_class(walled: Yard) -> None:
    await walled.launch(walled.order("r-walls3", "os.kill(os.getpid(), signal.SIGKILL)\n"))
    outcome = walled.outcome("r-walls3")
    assert (outcome.exit_class, outcome.exit_code) == (ExitClass.KILLED, -9)


@needs_bwrap
async def test_a_killed_supervisor_leaves_nothing_inside(walled: Yard) -> None:
    await walled.launch(walled.order("r-walls4", "os.fork() or time.sleep(600)\n" + ENDLESS))
    walled.running("r-walls4")
    os.kill(walled.supervisor_pid("r-walls4"), signal.SIGKILL)
    walled.gone("r-walls4")
    assert walled.outcome("r-walls4").state is RunState.LOST


def test_a_sandbox_that_does_not_work_is_not_replaced_by_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: Yard
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSandbox, match="TRAINYARD_SANDBOX"):
        choose_tier("bwrap")
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no permission >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(NoSandbox, match="no permission"):
        choose_tier("bwrap")
    assert choose_tier("auto") == "landlock"
    env = {**host.env, "PATH": str(tmp_path), "TRAINYARD_SANDBOX": "bwrap"}
    done = subprocess.run([sys.executable, "-m", "worker"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no permission" in done.stderr


def scripts_with(tmp_path: Path, predict: bytes, *, tier: str = "none") -> tuple[Scripts, str]:
    blobs = FolderBlobs(tmp_path / "blobs")
    sha256 = blobs.put_bytes(pack_files({"predict.py": predict})[1], name="model.tar").sha256
    return Scripts(blobs, HostFolder(tmp_path / "host"), tier=tier, predict_s=2.0), sha256


@pytest.mark.parametrize(
    ("predict", "reason"),
    [
        (b"import time; time.sleep(600)", "took more than 2 s"),
        (b"x = bytearray(64 * 1024**3)", "needed more memory"),
    ],
)
def test_a_script_has_limits(tmp_path: Path, predict: bytes, reason: str) -> None:
    scripts, sha256 = scripts_with(tmp_path, predict)
    with pytest.raises(BadData, match=reason):
        scripts.predict(PredictOrder(artifact_sha256=sha256, rows=({"x": "1"},)))


@needs_bwrap
def test_a_models_script_runs_behind_walls(tmp_path: Path) -> None:
    look = f"""
import json, os
assert not os.path.exists({str(tmp_path / "blobs")!r})
print(json.dumps([{{"label": "a", "probabilities": []}}]))
""".encode()
    scripts, sha256 = scripts_with(tmp_path, look, tier="bwrap")
    assert scripts.predict(PredictOrder(artifact_sha256=sha256, rows=({"x": "1"},))).rows[0].label == "a"


def test_a_tar_cannot_write_elsewhere(tmp_path: Path) -> None:
    def tar_of(name: str, kind: bytes = tarfile.REGTYPE) -> Path:
        path = tmp_path / "evil.tar"
        with tarfile.open(path, "w") as tar:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
        return path

    (tmp_path / "into").mkdir()
    for name, kind in (
        ("../x", tarfile.REGTYPE),
        ("/x", tarfile.REGTYPE),
        ("x", tarfile.SYMTYPE),
        ("x", tarfile.LNKTYPE),
    ):
        with pytest.raises(BadOutput):
            unpack(tar_of(name, kind), tmp_path / "into")
        with pytest.raises(BadOutput, match="not a plain file"):
            read_bundle(tar_of(name, kind))
    with pytest.raises(BadOutput, match="does not belong"):
        read_bundle(tar_of("fence"))
    assert list((tmp_path / "into").iterdir()) == []
