"""The self-test of a tier: lays out bait on this host, lets `probes.py` try to reach it from inside, and judges.

Owns the bait and the verdict. Called by `worker.sandbox.tiers`. Takes about a tenth of a second, once a process and
tier.
"""

import contextlib
import json
import logging
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent.domain.errors import AppError
from worker.sandbox.walls import Command, Walls, handed_over

# What a tier does not claim; `agent.domain.walls` says the same in words.
NOT_CLAIMED: dict[str, frozenset[str]] = {"landlock": frozenset({"host_processes"})}
_SCRIPT = Path(__file__).with_name("probes.py")
_LIMIT_S = 20.0
Wrap = Callable[[str, Sequence[str], Walls], Command]

log = logging.getLogger(__name__)
_verdicts: dict[tuple[str, str | None], str] = {}
_lock = threading.Lock()


def verdict(tier: str, wrap: Wrap) -> str:
    """Why the tier cannot be used, empty when no probe got out and what a script needs works."""
    key = (tier, shutil.which("bwrap") if tier == "bwrap" else None)
    with _lock:
        if key not in _verdicts:
            _verdicts[key] = _judge(tier, wrap)
        return _verdicts[key]


def run_probes(tier: str, wrap: Wrap) -> dict[str, str]:
    """What each probe managed inside of the tier, empty where it was stopped.

    Raises:
        OSError, subprocess.SubprocessError, ValueError: the probes could not be run, or did not answer.
        AppError: there is no such tier on this kind of machine.
    """
    with _bait() as (bait, work):
        argv = [sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(bait)]
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        command = wrap(tier, argv, Walls(work, readable=(_SCRIPT,), env=env))
        with handed_over(command) as (full, fds):
            done = subprocess.run(
                full,
                env=dict(command.env or {}),
                cwd=work,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
            )
        if done.returncode != 0:
            raise subprocess.SubprocessError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
        found: dict[str, str] = json.loads(done.stdout)
        return found


def _judge(tier: str, wrap: Wrap) -> str:
    if tier == "bwrap" and shutil.which("bwrap") is None:
        return "there is no program `bwrap` on the PATH"
    try:
        found = run_probes(tier, wrap)
    except (OSError, subprocess.SubprocessError, ValueError, AppError) as error:
        return str(error)
    failed = {name: text for name, text in found.items() if text and name not in NOT_CLAIMED.get(tier, ())}
    for name, text in failed.items():
        log.warning("sandbox_probe_failed tier=%s probe=%s: %s", tier, name, text)
    return "; ".join(f"{text} (probe {name})" for name, text in failed.items())


@contextlib.contextmanager
def _bait() -> Iterator[tuple[dict[str, Any], Path]]:
    """Something to reach of every kind, and the folder that the probes may use."""
    mark = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        outside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainyard-")))
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainyard-")))
        (outside / "secret").write_text(mark)
        (outside / "precious").write_text(mark)
        code = f"read x  # {mark[::-1]}"
        sleeper = subprocess.Popen(
            ["/bin/sh", "-c", code], env={"MARK": mark}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        stack.callback(_end, sleeper)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        named = stack.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(str(outside / "s"))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0trainyard-{mark}")
        named.listen()
        abstract.listen()
        threading.Thread(target=_echo, args=(udp,), daemon=True).start()
        stack.callback(_wake, udp.getsockname())
        yield (
            {
                "mark": mark,
                "secret": str(outside / "secret"),
                "precious": str(outside / "precious"),
                "outside": str(outside),
                "work": str(work),
                "pid": sleeper.pid,
                "tcp": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
                "abstract": f"trainyard-{mark}",
                "socket": str(outside / "s"),
            },
            work,
        )


def _echo(udp: socket.socket) -> None:
    """Answer datagrams until an empty one comes."""
    with contextlib.suppress(OSError):
        while True:
            data, sender = udp.recvfrom(16)
            if not data:
                return
            udp.sendto(data, sender)


def _wake(address: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", address)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
