"""The pool keeps zygotes alive, recycles and bounds them; a step that cannot begin warm begins cold. Real processes."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worker.warm_host import alive, host, kill, said, until
from worker.folders import connect_to
from worker.warm import preload, sets
from worker.warm.sets import (
    ReadySet,
    WarmStart,
    ask_for,
    asked_within,
    expect_run,
    read_ready,
    ready_sets,
    sets_of,
    warm_start,
    why_cold,
    write_ready,
)

HELLO = "import sys\nprint('numpy' in sys.modules, 'agent' in sys.modules)\n"


def test_a_crashed_zygote_comes_back_and_its_steps_go_on(tmp_path: Path) -> None:
    with host(tmp_path, "tabular") as place:
        first = place.wait_ready("tabular")
        script = "import time, os\nprint('up', flush=True)\nwhile not os.path.exists('go-on'):\n    time.sleep(0.02)\n"
        run = place.run_folder(train=script + "print('done')\n")
        supervisor = place.begin(run, sets=["tabular"])
        assert said(supervisor)["warm"]
        kill(first.pid)
        cold = place.step(place.run_folder(train=HELLO), sets=["tabular"])
        assert cold["code"] == 0
        assert not cold["warm"]
        second = place.wait_ready("tabular", other_than=first.pid)
        assert not Path(first.socket).exists()
        warm = place.step(place.run_folder(train=HELLO), sets=["tabular"])
        assert warm["warm"]
        assert warm["output"] == "True False\n"
        (run / "go-on").write_text("")
        last = said(supervisor)
        assert (last["code"], last["output"]) == (0, "up\ndone\n")
        supervisor.communicate()
        assert alive(second.pid)
        zygotes = second.pid
    assert not alive(zygotes)  # the pool was killed with SIGKILL


def test_steps_that_come_together_all_begin_warm(tmp_path: Path) -> None:
    wait = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go-on'):\n    time.sleep(0.02)\n"
    with host(tmp_path, "data") as place:
        runs = [place.run_folder(train=wait) for _ in range(4)]
        supervisors = [place.begin(run, sets=["data"]) for run in runs]
        assert [said(supervisor)["warm"] for supervisor in supervisors] == [True] * 4
        for run in runs:
            (run / "go-on").touch()
        assert [said(supervisor)["output"] for supervisor in supervisors] == ["up\n"] * 4
        for supervisor in supervisors:
            supervisor.communicate()


def test_a_home_of_any_length_will_do(tmp_path: Path) -> None:
    """The kernel takes 107 bytes of a socket's path. The pool's process reaps nothing that it adopts, as some inits."""
    with host(tmp_path / ("deep" * 30), "data") as place:
        done = place.step(place.run_folder(train=HELLO), sets=["data"], argv=[sys.executable, "train.py"])
        assert done["warm"], done["log"]
        assert done["output"] == "True False\n"
        assert not Path(f"/proc/{done['roots'][1]}").exists()  # not even as a zombie, which would hold up the sandbox


NOT_WHOLE = [b"", b"no JSON", b"[1]", b'{"spaces": []}']
NO_SPACES = b'{"argv": [], "cwd": "/", "env": {}, "seccomp": "", "spaces": 3}'


def test_requests_that_are_not_whole_end_no_zygote(tmp_path: Path) -> None:
    with host(tmp_path, "data") as place:
        ready = place.wait_ready("data")
        for message in (*NOT_WHOLE, NO_SPACES):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(60.0)
                connect_to(connection, Path(ready.socket))
                socket.send_fds(connection, [message], [connection.fileno()])
                assert connection.recv(16) == b""  # closed without a word
        done = place.step(place.run_folder(train=HELLO), sets=["data"])
        assert done["warm"], done["log"]
        assert alive(ready.pid)


def test_a_step_that_cannot_begin_warm_begins_cold(tmp_path: Path) -> None:
    with host(tmp_path, "torch") as place:
        ready = place.wait_ready("torch")
        run = place.run_folder(train=HELLO)
        reasons = {
            "no set": place.step(run, sets=["tabular"]),
            "OMP_NUM_THREADS": place.step(run, env={"OMP_NUM_THREADS": "1"}),
            "plain start": place.step(run, argv=[sys.executable, "-X", "dev", "train.py"]),
            "sandbox bwrap": place.step(run, tier="none"),
        }
        for reason, done in reasons.items():
            assert not done["warm"], reason
            assert done["code"] == 0, done["output"]
            assert reason in done["log"]
        write_ready(place.folder, [ReadySet("torch", ready.socket, ready.pid, "other packages")])
        stale = place.step(run)
        assert not stale["warm"]
        assert "packages changed" in stale["log"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf:
            deaf.bind(str(tmp_path / "deaf"))
            deaf.listen(1)
            gone = sets.environment_state()
            write_ready(place.folder, [ReadySet("torch", str(tmp_path / "deaf"), os.getpid(), gone)])
            silent = place.step(run)
        write_ready(place.folder, [ready])
        assert not silent["warm"]
        assert silent["code"] == 0
        assert "did not begin the step in time" in silent["log"]


def test_a_set_is_loaded_when_somebody_asks_and_ended_when_nobody_has_for_long(tmp_path: Path) -> None:
    with host(tmp_path, "data", "torch", keep_s=3600.0) as place:
        cold = place.step(place.run_folder(train=HELLO), sets=["torch", "data"])  # the last one is asked for
        assert not cold["warm"]
        ready = place.wait_ready("data")
        assert place.step(place.run_folder(train=HELLO), sets=["torch", "data"])["warm"]
        assert ready_sets(place.folder) == ("data",)
        os.utime(place.folder / "data.asked", (0, 0))
        until(lambda: None if alive(ready.pid) else True, place.log.read_text)
        assert not read_ready(place.folder)
        ask_for(place.folder, "data")
        place.wait_ready("data")


def test_who_is_to_be_asked_about_a_run_asks_for_what_it_begins_from(tmp_path: Path) -> None:
    expect_run(tmp_path, "text_classification")
    assert [name for name in preload.SETS if asked_within(tmp_path, name, 60.0)] == ["data", "transformers"]
    assert not asked_within(tmp_path, "data", 0.0)


@pytest.mark.faults
def test_changed_packages_end_a_zygote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from worker.warm import pool as module

    states = ["before"]
    monkeypatch.setattr(module, "environment_state", lambda: states[-1])
    pool = module.Pool(tmp_path / "warm", {"tabular": module.zygote_program("tabular")})

    def standing() -> ReadySet | None:
        pool.look()
        return next(iter(read_ready(tmp_path / "warm")), None)

    try:
        first = until(standing, lambda: "no zygote")
        assert first.state == "before"
        states.append("after")
        second = until(lambda: one if (one := standing()) and one.pid != first.pid else None, lambda: "not recycled")
        assert second.state == "after"
        assert not alive(first.pid)
        os.kill(second.pid, signal.SIGSTOP)  # one that hangs is ended all the same
    finally:
        pool.close()
    assert not alive(second.pid)
    assert ready_sets(tmp_path / "warm") == ()


def test_what_stands_ready_is_what_lives(tmp_path: Path) -> None:
    assert ready_sets(tmp_path) == ()
    there = tmp_path / "there.sock"
    there.touch()
    one = ReadySet("torch", str(there), os.getpid(), "state")
    write_ready(
        tmp_path,
        [one, replace(one, name="supervisor"), ReadySet("tabular", str(tmp_path / "gone"), os.getpid(), "state")],
    )
    assert ready_sets(tmp_path) == ("torch",)
    assert [found.name for found in read_ready(tmp_path)] == ["torch", "supervisor"]
    assert (tmp_path / "ready.json").stat().st_mode & 0o777 == 0o600
    assert WarmStart(tmp_path, (), ("transformers", "torch")).ready() == one
    assert WarmStart(tmp_path, (), ("tabular",)).ready() is None
    (tmp_path / "ready.json").write_text("{")
    assert ready_sets(tmp_path) == ()


def test_settings_and_recipes_name_sets(tmp_path: Path) -> None:
    assert sets_of("off") == ()
    assert sets_of("auto") == tuple(preload.SETS)
    assert sets_of(" torch, tabular,torch") == ("torch", "tabular")
    with pytest.raises(ValueError, match="names jax, which is no set"):
        sets_of("torch,jax")
    assert warm_start(tmp_path, "text_classification", ["python"]).sets == ("transformers",)
    assert warm_start(tmp_path, "tabular_classification", ["python"]).sets == ("tabular",)
    assert warm_start(tmp_path, "a script", ["python"]).sets == ("torch", "transformers")
    assert warm_start(tmp_path, "a script", ["python"], trains=False).sets == ("data",)


def test_what_libraries_read_early_decides() -> None:
    env = sets.zygote_environment()
    script = [sys.executable, "train.py"]
    assert why_cold(script, env) == ""
    assert (
        why_cold(script, env | {"HOME": "/x", "CUDA_VISIBLE_DEVICES": "", "HF_TOKEN": "t", "TRAINYARD_RUN_ID": "r"})
        == ""
    )
    assert "HF_ENDPOINT" in why_cold(script, env | {"HF_ENDPOINT": "http://x"})
    assert "PYTHONUNBUFFERED" in why_cold(script, {k: v for k, v in env.items() if k != "PYTHONUNBUFFERED"})
    assert "torchrun" in why_cold([sys.executable, "-m", "torch.distributed.run", "train.py"], env)
    assert "plain start" in why_cold(["/usr/bin/python3", "train.py"], env)
    assert "plain start" in why_cold([sys.executable, "-c", "1"], env)


def test_the_environment_state_follows_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-1.dist-info").mkdir()
    monkeypatch.setattr(sets.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path), "platlib": str(tmp_path)})
    before = sets.environment_state()
    assert sets.environment_state() == before
    (tmp_path / "a-1.dist-info").rename(tmp_path / "a-2.dist-info")
    assert sets.environment_state() != before


def test_a_library_that_asks_for_gpus_as_it_loads_touches_neither_cuda_nor_nvml(tmp_path: Path) -> None:
    """A fork could not use CUDA after that; afterwards torch answers, also where a library took the question along."""
    (tmp_path / "asks.py").write_text(
        "import torch\nfrom torch.cuda import is_available as taken\n"
        "seen = [torch.cuda.device_count(), torch.cuda.is_available()]\n"
    )
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import torch
from worker.warm import preload
own = [torch.cuda.device_count, torch.cuda.is_available, torch.cuda.get_device_capability]
calls = []
def refused(*_):
    calls.append("asked")
    return 0
torch._C._cuda_getDeviceCount = torch.cuda._device_count_nvml = refused
preload.SETS["asking"] = ("torch", "asks")
print(preload.load("asking"), sys.modules["asks"].seen, preload.is_fit(), calls)
print(own == [torch.cuda.device_count, torch.cuda.is_available, torch.cuda.get_device_capability])
print(sys.modules["asks"].taken() is own[1]())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    there = len([path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])
    assert done.stdout.splitlines() == [f"[] [{there}, {there > 0}]  []", "True", "True"], done.stderr
