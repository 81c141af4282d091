"""Each tier against each probe, the probes themselves, the filter of system calls, and what training needs."""

import ctypes
import errno
import json
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.worker.conftest import EACH_TIER, Yard, eventually, processes_naming
from worker.host.processes import adopt_orphans
from worker.sandbox import (
    Command,
    NoSandbox,
    Walls,
    at_least,
    choose_tier,
    gaps_of,
    handed_over,
    networks_of,
    selftest,
    tier_for,
    wrap,
)
from worker.sandbox import probes as probe_script
from worker.sandbox.tiers import why_not
from worker.supervisor.child import Child
from worker.supervisor.steps import basic_environment

ESCAPES = [probe.__name__ for probe in probe_script.ESCAPES]
NEEDS = [need.__name__ for need in probe_script.NEEDS]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can show this escape without walls")
ROOT_ONLY = {"trace_process", "write_system", "raw_socket", "mount", "capabilities", "change_user", "devices",
             "make_device", "kernel_settings", "kernel_calls"}  # fmt: skip
PR_SET_CHILD_SUBREAPER = 36  # Source: linux/prctl.h
CLEAN = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def results() -> Mapping[str, Mapping[str, str]]:
    tiers = ["none", *(tier for tier in ("bwrap", "landlock") if not why_not(tier))]
    return {tier: selftest.run_probes(tier, wrap) for tier in tiers}


def run_in(tier: str, code: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs `code` as train.py in `folder`."""
    (folder / "train.py").write_text(code)
    command = wrap(tier, [sys.executable, "train.py"], Walls(folder, env={**CLEAN, "HOME": str(folder)}))
    with handed_over(command) as (full, files):
        return subprocess.run(
            full, env=dict(command.env or {}), cwd=folder, pass_fds=files, capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip


@EACH_TIER
@pytest.mark.parametrize("probe", ESCAPES)
def test_a_tier_stops_every_probe(results: Mapping[str, Mapping[str, str]], tier: str, probe: str) -> None:
    if probe in selftest.NOT_CLAIMED.get(tier, ()):
        assert results[tier][probe] != "", "the tier does more than it claims; take the probe from NOT_CLAIMED"
        assert gaps_of(tier)
    else:
        assert results[tier][probe] == ""


@EACH_TIER
def test_a_step_has_a_user_name_though_no_account_is_known(tier: str, tmp_path: Path) -> None:
    code = "import getpass\nprint(getpass.getuser())"
    (tmp_path / "train.py").write_text(code)
    command = wrap(tier, [sys.executable, "train.py"], Walls(tmp_path, env=basic_environment(tmp_path)))
    with handed_over(command) as (full, files):
        done = subprocess.run(full, env=dict(command.env or {}), cwd=tmp_path, pass_fds=files, capture_output=True,
                              text=True, timeout=200, check=False)  # fmt: skip
    assert done.stdout == "trainyard\n", done.stderr


@EACH_TIER
@pytest.mark.parametrize("need", NEEDS)
def test_a_tier_leaves_what_training_needs(results: Mapping[str, Mapping[str, str]], tier: str, need: str) -> None:
    assert results[tier][need] == ""


@pytest.mark.parametrize(
    "probe",
    [pytest.param(name, marks=needs_root if name in ROOT_ONLY else ()) for name in ESCAPES if name != "open_files"],
)
def test_a_probe_gets_out_where_there_are_no_walls(results: Mapping[str, Mapping[str, str]], probe: str) -> None:
    assert results["none"][probe] != ""
    assert "broke" not in results["none"][probe]


def test_a_file_left_open_is_found(tmp_path: Path) -> None:
    place = str(Path(probe_script.__file__).parent)
    code = f"import sys; sys.path.insert(0, {place!r}); import probes; print(probes.open_files({{}}))"
    with (tmp_path / "open").open("w") as file:
        argv = [sys.executable, "-I", "-c", code]
        said = subprocess.run(argv, pass_fds=(file.fileno(),), capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "open") in said


def test_a_need_that_is_not_met_is_found(tmp_path: Path) -> None:
    missing: dict[str, Any] = {"work": str(tmp_path / "missing")}
    with pytest.raises(OSError, match="missing"):
        probe_script.works_write(missing)
    with pytest.raises(OSError, match="missing"):
        probe_script.works_sockets(missing)
    assert probe_script.works_inotify(missing) != ""


@needs_root
@pytest.mark.parametrize(
    ("need", "limit"), [("works_processes", resource.RLIMIT_NPROC), ("works_memory", resource.RLIMIT_NOFILE)]
)
def test_a_need_for_processes_or_memory_that_is_not_met_is_found(need: str, limit: int) -> None:
    code = f"""
import os, resource, sys
sys.path.insert(0, {str(Path(probe_script.__file__).parent)!r})
import probes
os.setresuid(65534, 65534, 65534)
resource.setrlimit({limit}, (0, 0))
try:
    print("met", probes.{need}({{}}))
except OSError:
    print("not met")
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "not met\n", done.stderr


def test_the_verdict_names_the_probe(caplog: pytest.LogCaptureFixture) -> None:
    """A tier whose walls have a hole is not used: here one that is no sandbox at all."""
    why = selftest.verdict("full-of-holes", lambda _tier, argv, walls: wrap("none", argv, walls))
    assert "(probe secret_file)" in why
    assert "(probe tcp)" in why
    assert "sandbox_probe_failed tier=full-of-holes probe=secret_file" in caplog.text


HOLES = [
    ("--unshare-net", "tcp udp"),
    ("--unshare-pid", "host_processes"),
    ("--seccomp", "filtered rare_socket"),
    ("--remount-ro /", "write_system"),
    ("--cap-drop ALL", "capabilities"),
    ("--ro-bind-try /proc/sys /proc/sys", "kernel_settings"),
]


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize(("option", "probes"), HOLES)
@needs_root
def test_one_hole_in_bubblewrap_is_found(option: str, probes: str) -> None:
    def holed(_tier: str, argv: Sequence[str], walls: Walls) -> Command:
        made = wrap("bwrap", argv, walls)
        line = "".join(f"\0{word}" for word in made.argv[1:])
        line = made.argv[0] + "".join(line.rsplit("".join(f"\0{word}" for word in option.split()), 1))
        passes = tuple(entry for entry in made.passes if entry[0] != option)
        return Command(tuple(line.split("\0")), passes=passes, env=made.env, inside=made.inside)

    found = selftest.run_probes("bwrap", holed)
    assert set(probes.split()) <= {name for name, text in found.items() if text}


def test_none_is_taken_only_by_its_name(tmp_path: Path, host: Yard) -> None:
    """Neither bubblewrap on the PATH nor Landlock in the kernel: the worker does not start, and says what to do."""
    deny = _denying(444)  # landlock_create_ruleset
    code = f"""
import ctypes, sys
program = bytes.fromhex({deny.hex()!r})
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(program) // 8, program)), 0, 0) == 0
import worker.app
worker.app.main()
"""
    env = {**host.env, "PATH": str(tmp_path), "TRAINYARD_SANDBOX": "auto"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=100,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "No sandbox works on this host" in done.stderr
    assert "no program `bwrap`" in done.stderr
    assert "TRAINYARD_SANDBOX=none" in done.stderr
    assert choose_tier("none") == "none"


def _denying(number: int) -> bytes:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | errno.ENOSYS), (0x06, 0, 0, 0x7FFF0000)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def test_an_attempt_never_gets_less_than_was_approved() -> None:
    assert tier_for("none", "none") == "none"
    with pytest.raises(NoSandbox, match="approved with the sandbox bwrap"):
        tier_for("none", "bwrap")
    if not why_not("landlock"):
        assert tier_for("landlock", "none") == "landlock"
        with pytest.raises(NoSandbox, match="has only landlock"):
            tier_for("landlock", "bwrap")


def test_the_order_of_the_tiers() -> None:
    assert at_least("bwrap", "landlock")
    assert at_least("landlock", "landlock")
    assert at_least("landlock", "none")
    assert not at_least("landlock", "bwrap")
    assert not at_least("none", "landlock")
    assert not at_least("mystery", "none")
    assert not at_least("bwrap", "mystery")
    assert "hub" in networks_of("bwrap")
    assert "hub" not in networks_of("none")
    assert gaps_of("bwrap") == ()
    assert all(text.endswith(".") for tier in ("landlock", "none") for text in gaps_of(tier))


@EACH_TIER
def test_only_the_allocated_gpus_are_bound(tier: str, tmp_path: Path) -> None:
    said = " ".join(wrap(tier, ["true"], Walls(tmp_path, gpus=(3, 10))).argv)
    assert "/dev/nvidia3" in said
    assert "/dev/nvidia10" in said
    assert "/dev/nvidiactl" in said
    for other in ("/dev/nvidia0", "/dev/nvidia1 ", '/dev/nvidia1"'):
        assert other not in said
    assert "nvidia" not in " ".join(wrap(tier, ["true"], Walls(tmp_path)).argv)


@EACH_TIER
def test_the_environment_is_clean_and_its_secrets_are_in_no_list_of_processes(tier: str, tmp_path: Path) -> None:
    secret = "canary-" + os.urandom(8).hex()
    code = (
        "import json, os, pathlib, time\n"
        "first = pathlib.Path('/proc/1/environ')\n"
        "said = first.read_bytes().decode() if os.getpid() < 10 and first.exists() else ''\n"
        "print(json.dumps([dict(os.environ), said]), flush=True)\n"
        "time.sleep(600)"
    )
    env = {"TOKEN": secret, **CLEAN}
    child = Child(wrap(tier, [sys.executable, "-I", "-c", code], Walls(tmp_path, env=env)), cwd=tmp_path, env=env)
    try:
        data = b""
        while not data.endswith(b"\n"):
            data += os.read(child.output, 65536)
        inside, first = json.loads(data)
        assert inside.pop("TOKEN") == secret
        assert inside.keys() <= {*CLEAN, "PWD", "TMPDIR", "LC_CTYPE"}
        assert secret not in first
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                assert secret.encode() not in (folder / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
    finally:
        child.kill()
        eventually(lambda: child.poll() is not None)
        child.close()


# A signal that comes just before a sleep is handled behind it, so no sleep is long.
UP = "print('up', flush=True)\nwhile True: time.sleep(0.01)"


@EACH_TIER
@pytest.mark.parametrize(
    ("code", "number", "expected"),
    [
        ("import sys; sys.exit(3)", None, 3),
        ("import os; os.kill(os.getpid(), 9)", None, -9),
        ("import os; os.abort()", None, -6),
        ("print('up', flush=True); import time; time.sleep(600)", signal.SIGTERM, -15),
        (
            "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n" + UP,
            signal.SIGTERM,
            -15,
        ),
        (
            "import signal, sys, time; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(4))\n" + UP,
            signal.SIGUSR1,
            4,
        ),
    ],
)
def test_signals_and_ends_pass_through(tier: str, tmp_path: Path, code: str, number: int | None, expected: int) -> None:
    command = wrap(tier, [sys.executable, "-I", "-c", code], Walls(tmp_path, env=CLEAN))
    child = Child(command, cwd=tmp_path, env=CLEAN)
    try:
        if number is not None:
            assert os.read(child.output, 100) == b"up\n"
            child.signal(number)
        found = eventually(lambda: [code] if (code := child.poll()) is not None else [])[0]
    finally:
        child.close()
    assert found in (expected, 143 if expected == -15 else expected)


@EACH_TIER
def test_what_a_step_left_behind_dies_with_it(tier: str, tmp_path: Path) -> None:
    """A daemon in a session of its own, and a bomb of forks."""
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "600", {str(tmp_path)!r}]) if False else time.sleep(600)
    os._exit(0)
for _ in range(6):
    os.fork()
print("up", flush=True)
time.sleep(600)
"""
    env = {**CLEAN, "MARK": str(tmp_path)}
    adopt_orphans()  # as a supervisor does
    try:
        child = Child(wrap(tier, [sys.executable, "-I", "-c", code], Walls(tmp_path, env=env)), cwd=tmp_path, env=env)
        said = b""
        while said.count(b"up") < 64:
            said += os.read(child.output, 4096)
        assert len(processes_naming(str(tmp_path))) > 64
        child.kill()
        eventually(lambda: child.poll() is not None)
        child.close()
        eventually(lambda: not processes_naming(str(tmp_path)), what="the end of everything")
    finally:  # else every orphan of later tests would stay here as a zombie
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


POOLS = """
import multiprocessing, multiprocessing.shared_memory, os, subprocess, sys

def double(number):
    return number * 2

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(double, [1, 2, 3]) == [2, 4, 6]
    with multiprocessing.get_context("fork").Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[0] = 7
    block.close()
    block.unlink()
    assert subprocess.run(["/bin/sh", "-c", "echo $((6*7))"], capture_output=True, text=True).stdout == "42\\n"
"""
LOADERS = """
    import torch
    from torch.utils.data import DataLoader
    loader = DataLoader(torch.arange(64.0).reshape(32, 2), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert sum(float(batch.sum()) for batch in loader) == 2016.0
    torch.set_num_threads(2)
    assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300.0 ** 3
"""
DONE = '    print("trained")\n'


@EACH_TIER
def test_process_pools_work(tier: str, tmp_path: Path) -> None:
    done = run_in(tier, POOLS + DONE, tmp_path)
    assert done.stdout.endswith("trained\n"), done.stderr


@pytest.mark.parametrize("tier", ["bwrap", pytest.param("landlock", marks=pytest.mark.faults)], indirect=True)
def test_data_loaders_work_beside_them(tier: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run_in(tier, POOLS + LOADERS + DONE, tmp_path)
    assert done.stdout.endswith("trained\n"), done.stderr


def test_an_unknown_tier_is_no_tier(tmp_path: Path) -> None:
    with pytest.raises(NoSandbox, match="mystery"):
        wrap("mystery", ["true"], Walls(tmp_path))
    with pytest.raises(NoSandbox, match="mystery"):
        choose_tier("mystery")
