"""TrainingRuntime: what it writes, and that nothing it cannot write breaks a training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from agent.domain.events import MetricRow
from trainyard import TrainingRuntime

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def script(folder: Path, body: str, **env: str) -> subprocess.Popen[str]:
    own = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"], "TRAINYARD_RUN_DIR": str(folder), **env}
    head = "import time\nfrom pathlib import Path\nfrom trainyard import TrainingRuntime\nrt = TrainingRuntime()\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + body], env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def until(look: object, *, what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not look():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.01)


@pytest.fixture
def rt(tmp_path: Path) -> TrainingRuntime:
    return TrainingRuntime("r", tmp_path)


def test_each_kind_of_number_becomes_one_that_the_bot_reads(rt: TrainingRuntime, tmp_path: Path) -> None:
    import torch

    rt.start("m", {}, total_steps=3)
    rt.log_metrics(
        step=1, plain=0.5, whole=3, yes=True, np32=np.float32(0.25), npint=np.int64(7), zero_d=np.array(2.0),
        tensor=torch.tensor(1.5, requires_grad=True), exact=Decimal("0.125"), diverged=float("nan"), up=np.inf,
        down=-float("inf"), row=torch.tensor([[5.0]]), one=np.array([4.0]),
        half=torch.tensor(0.5, dtype=torch.bfloat16),
        **{"loss (train)": 1.0, "learning rate(param group 1)": "1e-4"},
    )  # fmt: skip
    rt.finish()
    values = rows(tmp_path)[0]["values"]
    assert values == {
        "plain": 0.5, "whole": 3, "yes": 1, "np32": 0.25, "npint": 7, "zero_d": 2.0, "tensor": 1.5, "exact": 0.125,
        "diverged": "NaN", "up": "Infinity", "down": "-Infinity", "one": 4.0, "row": 5.0, "half": 0.5,
        "loss_train": 1.0, "learning_rate_param_group_1": 1e-4,
    }  # fmt: skip
    read = MetricRow.model_validate_json(json.dumps(rows(tmp_path)[0]))
    assert np.isnan(read.values["diverged"])
    assert read.values["down"] == -np.inf


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3.2 ms", 3.2), ("85%", 85.0), ("1e-4", 1e-4), (" 12 ", 12.0), ("1,234.5 tok/s", 1234.5), ("-.5s", -0.5),
        ("nan", "NaN"), ("-inf", "-Infinity"), ("2x", 2.0), (b"0.25", 0.25), ("1.5e3 GB", 1500.0), ("7 µs", 7.0),
        ("3.2k", None), ("1.5M", None), ("", None), ("ms", None), ("1 of 3", None), ("0x10", None), ("1.2.3", None),
        ("1:30", None),
    ],
)  # fmt: skip
def test_texts_with_units_are_numbers_where_no_doubt_is(text: object, number: object, tmp_path: Path) -> None:
    rt = TrainingRuntime("r", tmp_path)
    rt.log_metrics(1, value=text, loss=1.0)
    rt.finish()
    expected = {"loss": 1.0} if number is None else {"value": number, "loss": 1.0}
    assert rows(tmp_path)[0]["values"] == expected


def test_what_is_not_one_number_is_left_out_and_said_once(
    rt: TrainingRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    for step in (1, 2):
        rt.log_metrics(step=step, loss=0.1, rate="fast", grid=np.zeros(3), nothing=None, pair=torch.zeros(2))
    rt.log_metrics(step="first", loss=1.0)  # type: ignore[arg-type]
    rt.log_metrics(step=2**70, loss=1.0)
    rt.log_metrics(step=torch.tensor(3), loss=2.0)  # type: ignore[arg-type]
    rt.log_metrics(step=4.0)  # type: ignore[arg-type]
    rt.finish()
    assert [row["values"] for row in rows(tmp_path)] == [{"loss": 0.1}, {"loss": 0.1}, {"loss": 2.0}, {}]
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 3, 4]
    said = capsys.readouterr().err
    for name in ("'rate'", "'grid'", "'nothing'", "'pair'", "its step"):
        assert said.count(name) == 1


class Odd:
    """What some libraries hand out: nothing can be asked of it."""

    def __float__(self) -> float:
        raise KeyError("no value")

    def __int__(self) -> int:
        raise KeyError("no value")

    def __str__(self) -> str:
        raise KeyError("no text")


def test_no_value_breaks_a_training(rt: TrainingRuntime, tmp_path: Path) -> None:
    for step in (1, 2):
        rt.log_metrics(step=step, loss=0.5, huge=10**400, without_text=10**5000, odd=Odd())
    for wrong in (10**5000, Odd()):
        rt.log_metrics(step=wrong, loss=0.5)  # type: ignore[arg-type]
    rt.finish()
    assert [(row["step"], row["values"]) for row in rows(tmp_path)] == [(1, {"loss": 0.5}), (2, {"loss": 0.5})]


def test_no_description_of_a_run_breaks_it(
    rt: TrainingRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rt.start(Path("models/tiny"), {(1, 2): 3}, total_steps=np.int64(50))  # type: ignore[arg-type,dict-item]
    rt.log_metrics(step=7, loss=0.5)
    rt.finish()
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert (meta["model"], meta["total_steps"], meta["step"]) == ("models/tiny", 50, 7)
    assert capsys.readouterr().err.count("config.json cannot be written, training goes on") == 1


def test_a_config_or_a_line_that_has_no_text_breaks_nothing(
    rt: TrainingRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"in": deep}
    for config in (deep, {"odd": Odd()}, np.zeros(3)):
        rt.start("m", config)  # type: ignore[arg-type]
    rt.log(Odd())  # type: ignore[arg-type]
    rt.finish()
    assert not (tmp_path / "config.json").exists()
    said = capsys.readouterr().err
    assert said.count("config.json cannot be written, training goes on") == 1
    assert said.count("stdout cannot be written, training goes on") == 1


def test_a_mapping_is_a_row_as_other_trackers_have_it(rt: TrainingRuntime, tmp_path: Path) -> None:
    rt.log({"train/loss": 0.5})
    rt.log({"train/loss": 0.4, 7: 1}, step=5)
    rt.log({"train/loss": 0.3, "step": 9})
    rt.finish()
    steps = [(row["step"], row["values"]) for row in rows(tmp_path)]
    assert steps == [(1, {"train/loss": 0.5}), (5, {"train/loss": 0.4, "7": 1}), (9, {"train/loss": 0.3})]


def test_a_metric_may_have_any_name_but_step(rt: TrainingRuntime, tmp_path: Path) -> None:
    rt.log_metrics(1, **{"self": 1, "values": 2, "journal": 3})
    rt.log_metrics(step=2, **{"self": 1})
    rt.finish()
    assert [row["values"] for row in rows(tmp_path)] == [{"self": 1, "values": 2, "journal": 3}, {"self": 1}]


def test_steps_count_themselves(tmp_path: Path) -> None:
    """One more than the newest row, also of an earlier attempt."""
    first = TrainingRuntime(tmp_path)
    first.log_metrics(loss=0.5)
    first.log_metrics(loss=0.4)
    first.log_metrics(10, loss=0.3)
    first.log_metrics(loss=0.2)
    for started in (True, False):
        again = TrainingRuntime(tmp_path)
        if started:
            again.start("m")
        again.log_metrics(loss=0.1)
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 10, 11, 12, 13]


def test_one_argument_is_a_folder_or_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for given in ("there", "out/new", str(tmp_path / "far"), tmp_path / "path"):
        rt = TrainingRuntime(given)
        assert (rt.run_dir, rt.run_id) == (tmp_path / given, Path(given).name)
    rt = TrainingRuntime("lr-0.1")
    assert (rt.run_dir, rt.run_id) == (tmp_path, "lr-0.1")
    monkeypatch.setenv("TRAINYARD_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TRAINYARD_RUN_ID", "r-1")
    assert (TrainingRuntime().run_dir, TrainingRuntime().run_id) == (tmp_path / "run", "r-1")
    assert TrainingRuntime("lr-0.1").run_dir == tmp_path / "run"


def test_a_script_that_changes_its_folder_keeps_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rt = TrainingRuntime("r", "out")
    rt.start("m")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    rt.log_metrics(1, loss=1.0)
    rt.save_checkpoint(lambda folder: (folder / "w").write_text("x") and None, step=1)
    rt.finish()
    assert [row["step"] for row in rows(tmp_path / "out")] == [1]
    assert json.loads((tmp_path / "out/meta.json").read_text())["status"] == "completed"
    assert (tmp_path / "out/checkpoints/step_00000001/w").exists()
    assert list((tmp_path / "data").iterdir()) == []


def test_names_that_only_differ_in_what_is_tidied_stay_two(rt: TrainingRuntime, tmp_path: Path) -> None:
    rt.log_metrics(1, **{"a b": 1, "a_b": 2, "a(b": 3, "100%": 4, "()": 5})
    rt.finish()
    assert rows(tmp_path)[0]["values"] == {"a_b": 1, "a_b_2": 2, "a_b_3": 3, "100": 4, "unnamed": 5}


def test_an_array_of_one_is_no_reason_to_warn(rt: TrainingRuntime, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(3):
            rt.log_metrics(step, loss=np.array([1.0]))
    rt.finish()
    assert len(rows(tmp_path)) == 3


def test_start_keeps_what_an_earlier_attempt_reached(tmp_path: Path) -> None:
    first = TrainingRuntime("r", tmp_path)
    assert first.get_resume_info() is None
    first.start("m", {"lr": 1}, total_steps=10)
    first.log_metrics(step=4, loss=1.0)
    first.save_checkpoint(lambda folder: (folder / "w").write_text("four") and None, step=4)
    first.log_metrics(step=6, loss=1.0)
    began = json.loads((tmp_path / "meta.json").read_text())["started_at"]

    second = TrainingRuntime("r", tmp_path)
    second.start("m", {"lr": 2}, total_steps=10)
    info = second.get_resume_info()
    assert info is not None
    assert (info.step, info.checkpoint_step) == (6, 4)
    assert info.checkpoint is not None
    assert (info.checkpoint / "w").read_text() == "four"
    second.log_metrics(step=7, loss=0.5)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert set(meta) == {"run_id", "status", "model", "total_steps", "step", "started_at", "pid"}
    assert (meta["started_at"], meta["step"]) == (began, 6)
    first.finish()
    second.finish()
    assert [row["step"] for row in rows(tmp_path)] == [4, 6, 7]
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert (meta["status"], meta["step"]) == ("completed", 7)


def test_rows_of_a_dead_attempt_count(tmp_path: Path) -> None:
    child = script(
        tmp_path,
        "rt.start('m', {})\nfor n in range(1, 8):\n rt.log_metrics(n, loss=n)\nimport os\nos.kill(os.getpid(), 9)\n",
    )
    child.communicate(timeout=LIMIT_S)
    rt = TrainingRuntime("r", tmp_path)
    info = rt.get_resume_info()
    assert info is not None
    assert (info.step, info.status) == (7, "running")
    rt.start("m", {})
    rt.log_metrics(8, loss=8)
    rt.finish()
    assert [(row["step"], row["values"]) for row in rows(tmp_path)] == [(n, {"loss": n}) for n in range(1, 9)]
    assert json.loads((tmp_path / "meta.json").read_text())["step"] == 8


def test_only_the_newest_checkpoints_stay_and_a_failed_one_leaves_nothing(
    rt: TrainingRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (1, 2, 30):
        rt.save_checkpoint(lambda folder: (folder / "w").write_text("x") and None, step=step)

    def full(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise OSError(28, "No space left on device")

    def mistaken(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise NameError("name 'modle' is not defined")

    assert rt.save_checkpoint(full, step=40) is None
    with pytest.raises(NameError):
        rt.save_checkpoint(mistaken, step=40)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step_00000002", "step_00000030"]
    assert "not saved" in capsys.readouterr().err


def test_safetensors_on_a_disk_that_takes_no_more_breaks_nothing(tmp_path: Path) -> None:
    """Its error derives from Exception alone."""
    body = (
        "import resource, signal\nimport numpy as np\nfrom safetensors.numpy import save_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "print(rt.save_checkpoint(lambda f: save_file({'w': np.zeros(9000)}, f / 'w.safetensors'), step=1))\n"
    )
    out, said = script(tmp_path, body).communicate(timeout=LIMIT_S)
    assert out == "None\n", said
    assert "checkpoint at step 1 not saved" in said
    assert not list((tmp_path / "checkpoints").iterdir())


def test_where_nothing_can_be_written_it_is_said_once(tmp_path: Path) -> None:
    """`/proc` refuses root too."""
    body = (
        "rt = TrainingRuntime('r', '/proc')\nrt.start('m', {'a': 1})\n"
        "for n in range(1000):\n rt.log_metrics(n, loss=1.0)\n"
        "rt.save_checkpoint(lambda f: None)\nrt.finish()\nprint('trained')\n"
    )
    out, said = script(tmp_path, body).communicate(timeout=LIMIT_S)
    assert out == "trained\n"
    assert said.count("training goes on") == 1
    assert said.count("checkpoint at step 999 not saved") == 1


@pytest.mark.parametrize("mode", [0o555, 0o000])
@pytest.mark.parametrize("before", [True, False])
def test_a_folder_that_lets_nobody_in_breaks_nothing(before: bool, mode: int) -> None:
    """Not even the end of a run. Root is let in everywhere, so the script is somebody else."""
    body = f"""
import os
os.getuid() or (os.setgid(65534), os.setuid(65534))
rt.run_dir.mkdir()
def close():
    os.chmod(rt.run_dir, {mode})
if {before}:
    close()
print(rt.get_resume_info() is not None)
rt.start('m', {{'a': 1}})
rt.log_metrics(1, loss=1.0)
close()
rt.log_metrics(2, loss=1.0)
rt.save_checkpoint(lambda folder: None)
rt.get_resume_info()
rt.finish()
print('trained')
"""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        child = script(Path(place) / "run", body)
        out, said = child.communicate(timeout=LIMIT_S)
        (Path(place) / "run").chmod(0o777)
    assert (out, child.returncode) == ("False\ntrained\n", 0), said
    assert said.count("training goes on") in (1, 2), said
    assert "not saved" in said


def test_a_folder_that_is_removed_while_training_runs_is_told(tmp_path: Path) -> None:
    body = """
import shutil
rt.start('m')
rt.log_metrics(1, loss=1.0)
shutil.rmtree(rt.run_dir)
for n in range(2, 20):
    rt.log_metrics(n, loss=1.0)
rt.finish()
print('trained')
"""
    out, said = script(tmp_path / "run", body).communicate(timeout=LIMIT_S)
    assert out == "trained\n"
    assert said.count("was removed while training runs") == 1


def test_metrics_that_are_no_file_are_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a link to somewhere else is written through, nor does a pipe hold anybody up."""
    for number, place in enumerate(("link", "pipe")):
        folder = tmp_path / place
        folder.mkdir()
        path = folder / "metrics.jsonl"
        (tmp_path / "elsewhere").write_text("precious")
        path.symlink_to(tmp_path / "elsewhere") if number == 0 else os.mkfifo(path)
        rt = TrainingRuntime("r", folder)
        rt.start("m", {})
        rt.log_metrics(1, loss=1.0)
        rt.finish()
        assert "training goes on" in capfd.readouterr().err
        path.unlink()
        rt.finish()
        assert [row["step"] for row in rows(folder)] == [1]
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_torn_line_is_closed_off_and_skipped(rt: TrainingRuntime, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step":3,"at":1,"values":{}}\n{"step":4,"at"')
    info = rt.get_resume_info()
    assert info is not None
    assert info.step == 3
    rt.log_metrics(step=5, loss=1.0)
    rt.finish()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 5
    assert len(lines) == 3


def test_a_script_that_never_asks_is_saved_and_ended_between_two_steps(tmp_path: Path) -> None:
    body = (
        "rt.start('m', {})\nrt.register_graceful_shutdown(save=lambda f: (f / 'w').write_text('kept'))\n"
        "for n in range(1, 10**9):\n rt.log_metrics(step=n, loss=1.0)\n print(n, flush=True)\n time.sleep(0.001)\n"
    )
    child = script(tmp_path, body)
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["status"] == "stopped"
    assert [path.read_text() for path in tmp_path.glob("checkpoints/*/w")] == ["kept"]
    assert [row["step"] for row in rows(tmp_path)] == list(range(1, meta["step"] + 1))


def test_usr1_prints_where_each_thread_stands(tmp_path: Path) -> None:
    child = script(tmp_path, "rt.start('m', {})\ndef stuck():\n print('on', flush=True)\n time.sleep(600)\nstuck()\n")
    assert child.stdout is not None
    assert child.stdout.readline() == "on\n"
    child.send_signal(signal.SIGUSR1)
    assert child.stderr is not None
    said = [child.stderr.readline() for _ in range(2)]
    child.kill()
    child.communicate(timeout=LIMIT_S)
    assert "thread" in said[0].lower()
    assert "in stuck" in said[1]


def test_several_threads_log_at_once(rt: TrainingRuntime, tmp_path: Path) -> None:
    each = 3000

    def work(number: int) -> None:
        for step in range(each):
            rt.log_metrics(step, **{f"of_{number % 3}": number * each + step, "odd": "1 ms" if step % 7 == 0 else 1})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rt.finish()
    seen = [int(next(iter(row["values"].values()))) for row in rows(tmp_path)]  # type: ignore[attr-defined]
    assert sorted(seen) == list(range(8 * each))


def test_a_forked_worker_that_logs_corrupts_nothing(tmp_path: Path) -> None:
    body = """
import os, torch
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, number):
        rt.log_metrics(number, worker=number)
        return number
rt.start('m', {})
rt.log_metrics(0, parent=-1)
loader = torch.utils.data.DataLoader(Data(), batch_size=10, num_workers=3, multiprocessing_context="fork")
for step, batch in enumerate(loader, 1):
    rt.log_metrics(step, parent=step)
del loader
rt.finish()
"""
    child = script(tmp_path, body)
    out, said = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0, out + said

    def of_workers() -> list[int]:
        return sorted(row["values"]["worker"] for row in rows(tmp_path) if "worker" in row["values"])  # type: ignore[index,operator]

    until(lambda: of_workers() == list(range(400)), what="rows of the workers")
    parents = [row["values"]["parent"] for row in rows(tmp_path) if "parent" in row["values"]]  # type: ignore[index,operator]
    assert parents == [-1, *range(1, 41)]


def test_a_forked_worker_dies_of_the_first_sigterm(tmp_path: Path) -> None:
    body = """
import os, signal
rt.register_graceful_shutdown(save=lambda folder: None)
rt.start('m', {})
reading, writing = os.pipe()
pid = os.fork()
if not pid:
    os.write(writing, b"x")  # a signal during the fork itself is lost by the interpreter
    for _ in range(12000):  # one that comes just before a sleep is seen after it
        time.sleep(0.05)
os.read(reading, 1)
os.kill(pid, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), rt.should_stop)
"""
    out, _ = script(tmp_path, body).communicate(timeout=LIMIT_S)
    assert out == "-15 False\n"


def test_ctrl_c_in_the_middle_of_logging_leaves_no_hole(tmp_path: Path) -> None:
    """Half of the signals raise within the call, the other half log from within it.

    Real signals at random moments.
    """
    body = """
import json, signal
hits, returned = 0, []
def hit(number, frame):
    global hits
    within = "/trainyard/" in frame.f_code.co_filename
    hits += within
    if within and hits % 2 == 0:
        step = -hits
        rt.log_metrics(step, within=step)
        returned.append(step)
    again()
    if within and hits % 2:
        raise KeyboardInterrupt
def again():  # one at a time: where a machine is slow, a signal would always meet the call of the one before
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
signal.signal(signal.SIGALRM, hit)
rt.start('m', {})
rt.log_metrics(0, loss=0)
again()
n = 0
while hits < 300:
    try:
        n += 1
        rt.log_metrics(n, loss=n)
        returned.append(n)
    except KeyboardInterrupt:
        pass
signal.signal(signal.SIGALRM, signal.SIG_IGN)
rt.finish()
print(json.dumps(returned))
"""
    child = script(tmp_path, body)
    out, said = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0, said
    returned = json.loads(out)
    found = [row["step"] for row in rows(tmp_path)]
    assert len(found) == len(set(found))
    assert set(returned) <= set(found)  # type: ignore[arg-type]
    assert min(returned) < -200


def test_the_other_ranks_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    rt = TrainingRuntime("r", tmp_path)
    rt.start("m", {"lr": 1})
    rt.log_metrics(1, loss=1.0)
    assert rt.save_checkpoint(lambda folder: (folder / "w").write_text("x") and None) is None
    rt.finish()
    assert list(tmp_path.iterdir()) == []


def test_importing_takes_milliseconds_and_only_the_standard_library(tmp_path: Path) -> None:
    program = (
        "import sys, time\nsys.path.insert(0, sys.argv[1])\nt = time.perf_counter()\n"
        "from trainyard import TrainingRuntime\nprint(1000 * (time.perf_counter() - t))\n"
        "print('trainyard.adapters' in sys.modules)\nfrom trainyard import LightGBMCallback, trainer_callback\n"
        "known = {*sys.stdlib_module_names, 'trainyard', '__main__'}\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} - known))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(REPO)], capture_output=True, text=True, check=True
    )
    took, adapters, foreign = done.stdout.splitlines()
    print(f"import: {float(took):.1f} ms")
    assert (adapters, foreign) == ("False", "[]")
