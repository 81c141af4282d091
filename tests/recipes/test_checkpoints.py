"""Checkpoints: which one is the newest, what a kill or a broken file leaves of them, and who ended a run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.recipes.test_runtime import LIMIT_S, script
from trainyard.adapters import LightGBMCallback, TorchState, last_checkpoint, resume_booster
from trainyard.runtime import Save, TrainingRuntime
from worker.supervisor.checkpoints import newest_step

if TYPE_CHECKING:
    import lightgbm
    import torch


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Loaded with the first test of this file; each worker of the suite reads the file."""
    global lightgbm, torch
    import lightgbm
    import torch


def writing(text: object) -> Save:
    return lambda folder: (folder / "w").write_text(str(text)) and None


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def status(folder: Path) -> object:
    return json.loads((folder / "meta.json").read_text())["status"]


# --- which one is the newest


def test_a_training_that_begins_anew_is_resumed_from_its_own_checkpoints(tmp_path: Path) -> None:
    def train(key: str, until: int) -> int:
        rt = TrainingRuntime("r", tmp_path)
        rt.start("m")
        state = TorchState(model=torch.nn.Linear(2, 1), key=key)
        state.resume(rt)
        began = state.step
        while state.step < until:
            state.step += 1
            rt.log_metrics(state.step, loss=1.0)
            if state.step % 10 == 0:
                assert (saved := rt.save_checkpoint(state.save, step=state.step))
                assert saved.exists()
                assert newest_step(tmp_path) == state.step
        rt.finish("stopped")
        return began

    assert train("lr 0.1", 30) == 0
    assert train("lr 0.01", 15) == 0
    assert names(tmp_path) == ["step_00000010"]
    assert train("lr 0.01", 25) == 10
    assert names(tmp_path) == ["step_00000010", "step_00000020"]


def test_a_boosting_that_begins_anew_is_resumed_from_its_own_checkpoints(tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((200, 3))

    def train(key: str, rounds: int) -> int:
        rt = TrainingRuntime("r", tmp_path)
        saved = resume_booster(rt, key=key)
        rows = lightgbm.Dataset(x, (x[:, 0] > 0.5).astype(int), free_raw_data=False)
        watch = LightGBMCallback(rt, saved=saved, key=key, every=5)
        lightgbm.train(
            {"objective": "binary", "verbosity": -1, "num_threads": 1}, rows, num_boost_round=rounds - saved.rounds,
            init_model=saved.file, valid_sets=[rows], callbacks=[watch],
        )  # fmt: skip
        rt.finish()
        return saved.rounds

    assert [train("a", 20), train("b", 12), train("b", 20)] == [0, 0, 10]
    assert names(tmp_path) == ["step_00000015", "step_00000020"]


def test_the_old_ones_stay_until_the_new_one_is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rt = TrainingRuntime("r", tmp_path)
    for step in (20, 30):
        rt.save_checkpoint(writing(step), step=step)

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    assert rt.save_checkpoint(full, step=10) is None
    assert names(tmp_path) == ["step_00000020", "step_00000030"]
    assert "checkpoint at step 10 not saved" in capsys.readouterr().err


def test_a_checkpoint_has_the_number_of_the_newest_row(tmp_path: Path) -> None:
    """Not of a row that an earlier attempt logged after its last checkpoint."""
    first = TrainingRuntime("r", tmp_path)
    first.start("m")
    for step in range(1, 101):
        first.log_metrics(step, loss=1.0)
        if step == 50:
            assert (saved := first.save_checkpoint(writing(50)))
            assert saved.name == "step_00000050"
    first.finish("running")
    second = TrainingRuntime("r", tmp_path)
    second.start("m")
    assert (saved := second.save_checkpoint(writing("before the first row")))
    assert saved.name == "step_00000100"
    for step in range(51, 61):
        second.log_metrics(step, loss=1.0)
    second.log_metrics("later", loss=1.0)  # type: ignore[arg-type]
    assert (saved := second.save_checkpoint(writing(60)))
    assert saved.name == "step_00000060"
    second.finish()
    info = second.get_resume_info()
    assert info is not None
    assert info.checkpoint_step == 60


@pytest.mark.parametrize("step", [-5, 2**70, "late", None.__class__])
def test_a_step_that_no_resume_would_find_is_refused(
    step: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rt = TrainingRuntime("r", tmp_path)
    assert rt.save_checkpoint(writing("x"), step=step) is None
    assert not (tmp_path / "checkpoints").exists()
    assert capsys.readouterr().err.count("no checkpoint saved: its step") == 1


# --- killed, interrupted, broken


def test_what_a_checkpoint_is_made_of_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    fsync, final = os.fsync, tmp_path / "checkpoints/step_00000001"

    def seen(file: int) -> None:
        synced.append((Path(f"/proc/self/fd/{file}").readlink().name.partition(".step")[0], final.exists()))
        fsync(file)

    def save(folder: Path) -> None:
        (folder / "part").mkdir()
        (folder / "part/w").write_text("x")
        (folder / "v").write_text("x")
        (folder / "nowhere").symlink_to("nothing")
        os.mkfifo(folder / "pipe")

    monkeypatch.setattr(os, "fsync", seen)
    assert TrainingRuntime("r", tmp_path).save_checkpoint(save, step=1) == final
    assert sorted(synced[:-1]) == [("", False), ("part", False), ("v", False), ("w", False)]
    assert synced[-1] == ("checkpoints", True)


KILLED = """
rt.start("m")
def save(folder):
    (folder / "w").write_text("half")
    print("saving", flush=True)
    time.sleep(600)
rt.save_checkpoint(save, step=10)
"""


def test_a_start_removes_what_a_killed_save_left_and_nothing_that_is_being_written(tmp_path: Path) -> None:
    rt = TrainingRuntime("r", tmp_path)
    rt.save_checkpoint(writing("whole"), step=5)
    child = script(tmp_path, KILLED)
    assert child.stdout is not None
    assert child.stdout.readline() == "saving\n"
    rt.start("m")
    assert len(names(tmp_path)) == 2
    child.kill()
    child.communicate(timeout=LIMIT_S)
    assert len(names(tmp_path)) == 2
    rt.start("m")
    assert names(tmp_path) == ["step_00000005"]


def test_ctrl_c_within_a_save_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> None:
        (folder / "w").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TrainingRuntime("r", tmp_path).save_checkpoint(interrupted, step=5)
    assert names(tmp_path) == []


@pytest.mark.parametrize("left", [0.5, 0.0])
def test_a_torch_checkpoint_that_cannot_be_read_is_told_and_the_one_before_is_taken(
    left: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rt = TrainingRuntime("r", tmp_path)
    state = TorchState(model=torch.nn.Linear(99, 99))
    for state.step in (10, 20):
        rt.save_checkpoint(state.save, step=state.step)
    newest = tmp_path / "checkpoints/step_00000020/state.pt"
    os.truncate(newest, int(left * newest.stat().st_size))
    again = TorchState(model=torch.nn.Linear(99, 99))
    assert again.resume(rt)
    assert again.step == 10
    said = capsys.readouterr().out
    assert said.count("The checkpoint step_00000020 cannot be read") == 1
    (tmp_path / "checkpoints/step_00000010/state.pt").write_bytes(b"")
    assert not TorchState(model=torch.nn.Linear(99, 99)).resume(rt)


def test_a_host_that_cannot_load_a_whole_checkpoint_does_not_begin_anew(tmp_path: Path) -> None:
    """The first save of a training that begins anew removes what was reached."""
    rt = TrainingRuntime("r", tmp_path)
    state = TorchState(model=torch.nn.Linear(2, 2))
    rt.save_checkpoint(state.save, step=10)
    with pytest.raises(RuntimeError):
        state.resume(rt, map_location="xpu:3" if torch.cuda.is_available() else "cuda:0")


@pytest.mark.parametrize("file", ["lightgbm.txt", "lightgbm.json"])
def test_a_booster_that_cannot_be_read_is_told_and_the_one_before_is_taken(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(1).random((100, 3))
    rt = TrainingRuntime("r", tmp_path)
    rows = lightgbm.Dataset(x, (x[:, 0] > 0.5).astype(int))
    watch = LightGBMCallback(rt, key="k", every=5)
    lightgbm.train({"verbosity": -1, "num_threads": 1}, rows, 10, valid_sets=[rows], callbacks=[watch])
    rt.finish()
    broken = tmp_path / "checkpoints/step_00000010" / file
    os.truncate(broken, broken.stat().st_size - 40)
    assert resume_booster(rt, key="k").rounds == 5
    assert capsys.readouterr().out.count("The checkpoint step_00000010 cannot be read") == 1


@pytest.mark.parametrize("file", ["trainer_state.json", "optimizer.pt", "model.safetensors"])
def test_a_checkpoint_of_the_trainer_that_was_cut_off_is_told_and_the_one_before_is_taken(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import save_file

    rt = TrainingRuntime("r", tmp_path)

    def save(folder: Path) -> None:
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": 1, "log_history": []}))
        torch.save({"lr": torch.ones(99)}, folder / "optimizer.pt")
        save_file({"w": torch.ones(99)}, folder / "model.safetensors")

    for step in (1, 2):
        rt.save_checkpoint(save, step=step)
    assert last_checkpoint(rt) == str(tmp_path / "checkpoints/step_00000002")
    cut = tmp_path / "checkpoints/step_00000002" / file
    os.truncate(cut, cut.stat().st_size // 2)
    assert last_checkpoint(rt) == str(tmp_path / "checkpoints/step_00000001")
    assert capsys.readouterr().out.count("The checkpoint step_00000002 cannot be read") == 1


# --- who ended a run

ASKED = "import os, signal\nrt.register_graceful_shutdown(save=lambda f: None)\nos.kill(os.getpid(), signal.SIGTERM)\n"
OWN = """
import os, signal
signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, signal.SIG_DFL))
rt.start('m')
os.kill(os.getpid(), signal.SIGTERM)
"""
UNASKED = 'finish("stopped"), but nobody asked'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (ASKED + "rt.start('m')\nrt.finish('stopped')\nrt.finish()", "stopped"),
        (ASKED + "rt.start('m')\nrt.finish('stopped')\nrt.finish('failed')", "failed"),
        (ASKED + "rt.start('m')\nrt.finish()", "completed"),
        (OWN + "rt.finish('stopped')\nrt.finish()", "stopped"),
    ],
)
def test_a_run_that_was_asked_to_stop_and_says_so_is_stopped(body: str, expected: str, tmp_path: Path) -> None:
    """The last one listens by itself, as the runtime does."""
    child = script(tmp_path, body, TRAINYARD_SUPERVISED="2")
    _, said = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, status(tmp_path)) == (0, expected), said
    assert UNASKED not in said


def test_a_run_that_stops_unasked_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else it is tried again, for ever. Alone nobody does so, and Ctrl-C may have ended it."""
    for supervised, expected in (("2", "completed"), ("", "stopped")):
        monkeypatch.setenv("TRAINYARD_SUPERVISED", supervised)
        rt = TrainingRuntime("r", tmp_path)
        rt.start("m")
        rt.finish("stopped")
        assert status(tmp_path) == expected
    assert capsys.readouterr().err.count(UNASKED) == 1


def test_each_rank_of_a_script_that_never_asks_ends_at_its_next_row(tmp_path: Path) -> None:
    body = (
        "rt.start('m')\nrt.register_graceful_shutdown(save=lambda f: None)\n"
        "for n in range(1, 10**9):\n rt.log_metrics(n, loss=1.0)\n print(n, flush=True)\n time.sleep(0.001)\n"
    )
    child = script(tmp_path, body, WORLD_SIZE="2", RANK="1")
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["step=1, ", ""])
def test_a_rank_that_is_told_within_its_first_step_still_asks_the_others(step: str, tmp_path: Path) -> None:
    """It reads `should_stop` after its first row: ended before, it would leave the others in their next exchange."""
    body = (
        "import os, signal\nrt.start('m')\nrt.register_graceful_shutdown(save=lambda f: None)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        f"rt.log_metrics({step}loss=1.0)\nprint('asks', rt.should_stop)\n"
    )
    child = script(tmp_path, body, WORLD_SIZE="2", RANK="1")
    said, errors = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, said.split()) == (0, ["asks", "True"]), errors
