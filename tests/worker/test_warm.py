"""A warm start is a cold start but faster: the same state, the same exits, the same numbers; and it leaves nothing behind.

All with real zygotes, real sandboxes and supervisors as processes of their own.
"""

# ruff: noqa: E501 - scripts that stand here as texts

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.warm_host import Host, alive, host, kill, said, until

STATE = """
import json, os, resource, signal, sys, threading
def lines(path):
    with open(path) as file:
        return file.read().splitlines()
status = dict(line.split(":\\t", 1) for line in lines("/proc/self/status") if ":\\t" in line)
wanted = ("Uid", "Gid", "Groups", "Umask", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
          "SigBlk", "SigIgn", "SigCgt")
spaces = ("mnt", "net", "ipc", "uts", "pid", "user", "cgroup")
mounts = [line.split(" - ")[0].split()[3:6] + line.split(" - ")[1].split() for line in lines("/proc/self/mountinfo")]
limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
for name in ("SigCgt", "SigIgn", "SigBlk"):
    status[name] = int(status[name], 16) & (2**31 - 1)  # above are libc's own, caught once a thread was made
print("STATE " + json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": repr(sys.flags), "env": dict(os.environ),
    "main": [__name__, __file__, repr(__spec__), type(__loader__).__name__, __doc__, __package__],
    "main_module": sys.modules["__main__"].__dict__ is globals(), "names": sorted(globals()),
    "cwd": os.getcwd(), **{name: status[name] for name in wanted},
    "maps": [lines("/proc/self/uid_map"), lines("/proc/self/gid_map"), lines("/proc/self/setgroups")],
    "mounts": mounts, "root": sorted(set(os.listdir("/")) - {"trainyard-home"}), "interfaces": lines("/proc/net/dev"),
    "host": os.uname().nodename,
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    "signals": {str(number): repr(signal.getsignal(number)) for number in signal.valid_signals()},
    "files": [name for name in os.listdir("/proc/self/fd") if name not in ("0", "1", "2") and
              os.path.exists(f"/proc/self/fd/{name}")],
    "stdin": sys.stdin.read(), "threads": threading.active_count(), "thread": threading.current_thread().name,
    "leader": os.getsid(0) == os.getpid() or os.getpgid(0), "nice": os.nice(0), "encoding": sys.stdout.encoding,
    "buffered": sys.stdout.line_buffering, "write_through": sys.stdout.write_through,
    "ours": sorted(name for name in sys.modules if name.split(".")[0] in ("worker", "agent", "bot", "trainyard", "preload", "joining")),
    "first": os.listdir("/proc/1"), "tmp": os.listdir("/tmp"),
}))
print("SPACES " + json.dumps({name: os.readlink(f"/proc/self/ns/{name}") for name in spaces}))
import torch
print("THREADS", torch.get_num_threads(), torch.get_num_interop_threads())
"""
TRAIN = """
import torch
torch.manual_seed(3)
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(256, 2))
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randn(512, 64), torch.randint(0, 2, (512,)))
for epoch in range(2):
    for inputs, wanted in torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=2):
        loss = torch.nn.functional.cross_entropy(network(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
import numpy
torch.set_num_threads(2)
big = torch.ones(700, 700) @ torch.ones(700, 700)
print(float(big.sum()), float((numpy.ones((700, 700)) @ numpy.ones((700, 700))).sum()))
"""
EXITS = {
    "zero": ("print('done')", 0),
    "number": ("import sys\nsys.exit(3)", 3),
    "text": ("raise SystemExit('no data')", 1),
    "high": ("import os\nos._exit(77)", 77),
    "error": ("def f():\n    raise ValueError('bad') from KeyError('x')\nf()", 1),
    "syntax": ("print('a'", 1),
    "signal": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    "interrupt": ("import atexit\natexit.register(print, 'bye')\nraise KeyboardInterrupt", -signal.SIGINT),
    "ends": (
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('main', end='')",
        0,
    ),
}
WAIT = "import time\nprint('up', flush=True)\ntime.sleep(300)\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("warm"), "torch") as made:
        yield made


def _state(output: str) -> dict[str, object]:
    line = next(line for line in output.splitlines() if line.startswith("STATE "))
    found: dict[str, object] = json.loads(line[6:])
    return found


def test_a_warm_step_finds_the_same_state_as_a_cold_one(place: Host) -> None:
    run = place.run_folder(train=STATE)
    (run / "preload.py").write_text("mine = True")
    warm, cold = place.step(run), place.step(run, warm=False)
    assert warm["warm"]
    assert not cold["warm"]
    assert (warm["code"], cold["code"]) == (0, 0), warm["output"] + cold["output"]
    found, wanted = _state(warm["output"]), _state(cold["output"])
    differ = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
    assert set(differ) <= {"leader"}, differ
    for output in (warm["output"], cold["output"]):
        spaces = json.loads(next(line for line in output.splitlines() if line.startswith("SPACES "))[7:])
        shared = {name for name, space in spaces.items() if Path(f"/proc/self/ns/{name}").readlink().name == space}
        assert shared <= {"cgroup"}  # where the kernel has it
    assert found["ours"] == []
    assert found["files"] == []
    assert warm["output"].splitlines()[-1] == cold["output"].splitlines()[-1]  # threads of torch


def test_modules_run_with_the_code_of_the_bundle(place: Host) -> None:
    run = place.run_folder()
    (run / "worker").mkdir()
    (run / "worker/__init__.py").write_text("mine = 'of the bundle'")
    (run / "worker/go.py").write_text(
        "import sys, worker\nprint(worker.mine, sys.argv, sys.path[0], __name__, __spec__.name, __file__, sys.orig_argv)"
    )
    argv = [sys.executable, "-m", "worker.go", "--run-dir", "."]
    warm, cold = place.step(run, argv=argv), place.step(run, argv=argv, warm=False)
    assert warm["warm"]
    assert warm["output"] == cold["output"]
    assert "of the bundle" in warm["output"]


@pytest.mark.parametrize("name", EXITS)
def test_it_ends_as_an_interpreter_does(place: Host, name: str) -> None:
    script, code = EXITS[name]
    run = place.run_folder(train=script)
    warm, cold = place.step(run), place.step(run, warm=False)
    assert warm["warm"]
    assert warm["code"] == code
    assert cold["code"] == code
    if name != "signal":  # the stacks of a crash name addresses and threads
        assert warm["output"] == cold["output"]
    else:
        assert "Segmentation fault" in warm["output"]


def test_training_gives_the_same_numbers_with_workers_and_threads(place: Host) -> None:
    run = place.run_folder(train=TRAIN)
    warm, cold = place.step(run), place.step(run, warm=False)
    assert warm["warm"]
    assert warm["code"] == 0, warm["output"]
    assert len(warm["output"].splitlines()) == 17
    assert warm["output"] == cold["output"]


def test_two_runs_share_no_randomness(place: Host) -> None:
    script = "import random, numpy, multiprocessing, uuid, torch\nprint(torch.initial_seed(), torch.rand(1).item(), random.random(), numpy.random.random(), uuid.uuid4(), "
    script += "multiprocessing.current_process().authkey.hex(), numpy.random.default_rng().random())"
    run = place.run_folder(train=script)
    first, second = (place.step(run)["output"].split() for _ in range(2))
    assert len(first) == 7
    assert not set(first) & set(second)


def test_signals_reach_the_script_alone(place: Host) -> None:
    script = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nprint('up', flush=True)\n"
    )
    run = place.run_folder(train=script + "time.sleep(300)\n")
    done = place.step(run, signal_at="up", signal=int(signal.SIGTERM))
    assert done["warm"]
    assert done["code"] == 9


def test_abort_shows_where_it_stands(place: Host) -> None:
    run = place.run_folder(train=WAIT)
    done = place.step(run, signal_at="up\n", signal=int(signal.SIGABRT))
    assert done["warm"]
    assert done["code"] == -signal.SIGABRT
    where = ('train.py", line 2 in <module>', 'train.py", line 3 in <module>')  # still in print, or behind it
    assert any(place in done["output"] for place in where)


def test_kill_takes_everything_along(place: Host) -> None:
    script = "import os, subprocess, time\nchild = subprocess.Popen(['sleep', '345.678'], start_new_session=True)\n"
    run = place.run_folder(train=script + "print('up', flush=True)\ntime.sleep(300)\n")
    done = place.step(run, kill_at="up")
    assert done["warm"]
    assert done["code"] == -signal.SIGKILL
    _gone(done["roots"], "345.678")


def test_what_a_step_leaves_behind_ends_with_it(place: Host) -> None:
    script = (
        "import subprocess\nsubprocess.Popen(['sleep', '345.679'], start_new_session=True)\nprint('up', flush=True)\n"
    )
    done = place.step(place.run_folder(train=script))
    assert done["warm"]
    assert done["code"] == 0
    _gone(done["roots"], "345.679")


def test_a_killed_supervisor_takes_the_step_along(place: Host) -> None:
    script = "import subprocess, time\nsubprocess.Popen(['sleep', '345.680'], start_new_session=True)\nprint('up', flush=True)\n"
    run = place.run_folder(train=script + "open('up', 'w').close()\ntime.sleep(300)\n")
    supervisor = place.begin(run)
    first = said(supervisor)
    assert first["warm"]
    until(lambda: (run / "up").exists() or None, lambda: "it did not start")
    assert all(alive(pid) for pid in first["roots"])
    kill(supervisor.pid)
    supervisor.wait()
    _gone(first["roots"], "345.680")


def _gone(roots: list[int], mark: str) -> None:
    """The step's processes, and the one that has `mark` as its argument."""

    def look() -> bool | None:
        marked = [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(path)]
        return True if not marked and not any(alive(pid) for pid in roots) else None

    until(look, lambda: f"still there: {[pid for pid in roots if alive(pid)]}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
