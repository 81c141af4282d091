"""A warm step stands behind the same walls as a cold one: the sandbox's own probes, and what only a fork could leak."""

# ruff: noqa: E501 - a script that stands here as a text

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.warm_host import Host, host
from worker.egress.gate import EgressProxy
from worker.sandbox import probes, selftest
from worker.sandbox.selftest import _bait

FORK = """
import ctypes, glob, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
bait = json.loads(sys.argv[1])
found = {}
def probe(act):
    try:
        found[act.__name__] = act() or ""
    except OSError as error:
        found[act.__name__] = ""
def zygote_socket():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.connect(bait["zygote_socket"])
    return "the zygote's socket was reached"
def warm_folder():
    return f"the warm folder can be listed: {os.listdir(bait['warm'])}"
def zygote_process():
    os.kill(bait["zygote"], 0)
    return "the zygote can be signalled"
def parent():
    return f"its parent is visible: {os.getppid()}" if os.getppid() else ""
def host_pids():
    pids = sorted(int(path[6:]) for path in glob.glob("/proc/[0-9]*"))
    return "" if len(pids) <= 4 and max(pids) < 20 else f"processes: {pids}"
def spaces_of_host():
    for name in ("mnt", "net", "pid", "user"):
        for pid in ("self", "1"):
            fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
            if pid == "1" and libc.setns(fd, 0) == 0:
                return f"setns to {name} of the first process went through"
            os.close(fd)
def old_spaces():
    for number in range(3, 4096):
        if libc.setns(number, 0) == 0:
            return f"file {number} is a namespace that can be joined"
def way_up():
    here = os.getcwd()
    top = os.open("/", os.O_RDONLY)
    for start in (top, os.open(".", os.O_RDONLY)):
        os.fchdir(start)
        for _ in range(40):
            os.chdir("..")
        if os.path.exists(bait["secret"]) or sorted(os.listdir(".")) != sorted(os.listdir("/")):
            return f"above the root: {os.listdir('.')}"
    os.chdir(here)
def chroot_out():
    if libc.chroot(b".") == 0:
        return "chroot went through"
def secrets_in_environ():
    names = {entry.split(b"=")[0].decode() for path in glob.glob("/proc/[0-9]*/environ")
             for entry in open(path, "rb").read().split(b"\\0") if entry}
    allowed = {"PATH", "LANG", "HOME", "USER", "PWD", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONDONTWRITEBYTECODE",
               "HF_HUB_OFFLINE", "PYTORCH_NVML_BASED_CUDA_CHECK", "LC_CTYPE", "GLIBC_TUNABLES", "JE_ARROW_MALLOC_CONF",
               "LOKY_MAX_CPU_COUNT", "HF_HUB_DISABLE_PROGRESS_BARS"}
    return f"environments hold {names - allowed}" if names - allowed else ""
def gain_rights():
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
    if libc.capset(header, data) == 0:
        return "capabilities could be taken back"
    import subprocess
    held = subprocess.run(["grep", "CapEff", "/proc/self/status"], capture_output=True, text=True).stdout.split()
    return "" if int(held[1], 16) == 0 else f"executing gave {held}"
def unlimited_spaces():
    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000):
        if libc.unshare(flag) == 0:
            return f"unshare {flag:#x} went through"
def other_filter_state():
    status = open("/proc/self/status").read()
    return "" if "Seccomp:\\t2" in status and "NoNewPrivs:\\t1" in status else status
def device_of_host():
    return f"mounted: {os.listdir('/sys')}" if os.path.exists("/sys/kernel") else ""
def programs_of_host():
    for pid in [int(path[6:]) for path in glob.glob("/proc/[0-9]*")] + ["self"]:
        path = f"/proc/{pid}/exe"
        try:
            os.chmod(path, os.stat(path).st_mode & 0o7777)
        except OSError:
            continue
        return f"the mode of {os.readlink(path)} can be changed"
def setuid_program():
    for way in (lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755), lambda: os.chmod("train.py", 0o4755),
                lambda: os.mknod("node", 0o104755)):
        try:
            way()
        except OSError:
            continue
        return "a setuid program of its user"
def files_of_host():
    own = {os.path.realpath(".") + "/", "/dev/null", "/proc/"}
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            name = os.readlink(link)
            os.close(os.open(link, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            continue
        if name.startswith("/") and not any(name.startswith(start) for start in own):
            return f"{link} leads to {name}"
for act in (programs_of_host, setuid_program, files_of_host, zygote_socket, warm_folder, zygote_process, parent, host_pids, spaces_of_host, old_spaces, way_up, chroot_out,
            secrets_in_environ, gain_rights, unlimited_spaces, other_filter_state, device_of_host):
    probe(act)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("walls"), "torch", "transformers") as made:
        yield made


def test_every_probe_of_the_sandbox_is_stopped_in_a_warm_step(place: Host) -> None:
    with _bait() as (bait, work):
        script = Path(shutil.copy(probes.__file__, work))
        argv = [sys.executable, str(script), json.dumps(bait)]
        done = place.step(work, argv=argv, readable=[str(script)], env={"HOME": str(work)})
    assert done["warm"], done["log"]
    assert done["code"] == 0, done["output"]
    found = json.loads(done["output"])
    assert found.keys() >= {probe.__name__ for probe in (*probes.ESCAPES, *probes.NEEDS)}
    assert len(found) >= 25
    assert {name: text for name, text in found.items() if text} == {}


def test_the_same_probes_see_the_difference_without_walls() -> None:
    """The probes are no proof where they find nothing: outside of a sandbox they get out."""
    with _bait() as (bait, work):
        bait_text = json.dumps(bait)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(write, 1)
            os.chdir(work)
            os.execv(sys.executable, [sys.executable, "-I", "-S", str(Path(probes.__file__)), bait_text])
        os.close(write)
        with os.fdopen(read) as answers:
            found = json.loads(answers.read())
        os.waitpid(pid, 0)
    assert len([text for text in found.values() if text]) >= 10, found


HUB = """
import socket
with socket.create_connection(("127.0.0.1", 3128), timeout=10) as way:
    way.sendall(b"CONNECT example.com:443 HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n")
    print(way.recv(12).decode())
try:
    socket.create_connection(("192.0.2.1", 443), timeout=2)
    print("reached")
except OSError as error:
    print(type(error).__name__)
import os, huggingface_hub.constants as hub
print(os.environ["HTTPS_PROXY"], hub.HF_HUB_OFFLINE, hub.HF_HOME.startswith(("/trainyard-home", os.environ["HOME"])))
os.makedirs(hub.HF_HOME)
print(os.path.exists(os.environ["HOME"] + "/.cache/huggingface"))
"""


def test_a_run_with_the_hubs_goes_through_the_proxy_and_keeps_its_own_cache(place: Host) -> None:
    refused: list[object] = []
    proxy = EgressProxy(log=refused.append)
    proxy.start()
    try:
        answers = []
        for warm in (True, False):
            run = place.run_folder(train=HUB)
            env = {"HF_HUB_OFFLINE": "0"}
            egress = str(proxy.socket_path)
            asked = {"network": "hub", "egress": egress, "sets": ["transformers"]}
            done = place.step(run, warm=warm, env=env, **asked)
            assert done["warm"] is warm, done["log"]
            assert done["code"] == 0, done["output"]
            answers.append(done["output"].splitlines())
    finally:
        proxy.stop()
    assert answers[0] == answers[1]
    assert answers[0] == ["HTTP/1.1 403", "OSError", "http://127.0.0.1:3128 False True", "True"]
    assert len(refused) == 2


@pytest.mark.parametrize("warm", [False, True])
def test_a_fork_leaks_nothing_of_the_zygote(place: Host, warm: bool) -> None:
    zygote = place.wait_ready("torch")
    place.runs.mkdir(exist_ok=True)
    secret = place.runs / "secret"
    secret.write_text("x")
    bait = {"zygote": zygote.pid, "zygote_socket": zygote.socket, "warm": str(place.folder), "secret": str(secret)}
    run = place.run_folder(train=FORK)
    done = place.step(run, argv=[sys.executable, "train.py", json.dumps(bait)], warm=warm)
    assert done["warm"] is warm
    assert done["code"] == 0, done["output"]
    found = json.loads(done["output"])
    assert len(found) == 17
    if not warm:  # its parent is bwrap's first process, inside
        found.pop("parent")
    assert {name: text for name, text in found.items() if text} == {}


SCAN = """
import re
found = set()
with open("/proc/self/maps") as maps:
    areas = [line.split() for line in maps]
with open("/proc/self/mem", "rb", 0) as memory:
    for area, rights, *rest in areas:
        begin, end = (int(part, 16) for part in area.split("-"))
        if rights.startswith("r") and not rest[-1].startswith("[v"):
            memory.seek(begin)
            found |= set(re.findall(rb"hunter2[-]of[-]([0-9]{2})", memory.read(end - begin)))
print(sorted(found))
"""


def test_what_one_run_is_told_is_not_in_the_memory_of_the_next(tmp_path: Path) -> None:
    """Its forks share the zygote's memory: what that has read, its freed memory too, all later ones could find."""
    with host(tmp_path, "data") as place:
        said = []
        for number in (10, 11, 12):  # each shorter than the one before, so that none hides its rest
            env = {"TOKEN": f"hunter2-of-{number} " * (13 - number) * 20}
            done = place.step(place.run_folder(train=SCAN), sets=["data"], env=env)
            assert done["warm"], done["log"]
            said.append(done["output"])
    assert said == ["[b'10']\n", "[b'11']\n", "[b'12']\n"]


def test_the_selftest_claims_no_less_than_what_is_checked_here() -> None:
    assert selftest.NOT_CLAIMED.get("bwrap", frozenset()) == frozenset()
