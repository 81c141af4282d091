"""What a sandbox is asked for, and what comes out: values only.

Owns `Walls`, `Command` and how a command's data reaches the program that it starts. Knows no tier. Used by everything
that starts a script.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.domain.errors import AppError
from agent.domain.runs import Network

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class NoSandbox(AppError):
    """The tier that somebody asked for does not work on this host."""


@dataclass(frozen=True, slots=True)
class Walls:
    """What one process may see.

    `folder` is its working directory, writable. `readable` lies over the writable ones: what it may read and not
    change. `network`: nothing, the hosts that the proxy behind the unix socket `egress` lets through, or everything.
    `gpus` are the minor numbers of the devices that it may use (7 for /dev/nvidia7). `env` is its whole environment.
    """

    folder: Path
    writable: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    network: Network | bool = "none"
    gpus: Sequence[int] | bool = ()
    env: Mapping[str, str] = field(default_factory=dict)
    egress: Path | None = None

    @property
    def reach(self) -> Network:
        """The network policy; a bool is none or open."""
        if isinstance(self.network, bool):
            return "open" if self.network else "none"
        return self.network

    @property
    def minors(self) -> tuple[int, ...]:
        """The GPU devices; True is all that this host has."""
        if self.gpus is True:
            found = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))
            return tuple(sorted(int(number) for number in found if number.isdigit()))
        return tuple(self.gpus or ())


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute, and how.

    `has_info_fd`: the argument list takes bwrap's `--info-fd N` after its first entry. `passes` are options of it whose
    value is an open file with the given content, to be inserted there too (`handed_over` does it). `env` is the
    environment to start it with (None: the script's own), `inside` the one that the script finds; they differ where the
    first program is not to have the script's secrets. `attendants` is how many processes of ours stand between the
    first process (inside of bwrap's namespace) and the script, each with one child.
    """

    argv: tuple[str, ...]
    has_info_fd: bool = False
    passes: tuple[tuple[str, bytes], ...] = ()
    env: Mapping[str, str] | None = None
    inside: Mapping[str, str] = field(default_factory=dict)
    attendants: int = 0

    @property
    def seccomp(self) -> bytes:
        """The filter of system calls that bubblewrap is given, empty without one."""
        return dict(self.passes).get("--seccomp", b"")


@contextlib.contextmanager
def handed_over(command: Command) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The argument list with numbers of open files in it, and those numbers, to be inherited by the new process.

    The files are in memory and sealed: nobody can change them any more. They are closed here on leaving.
    """
    fds: list[int] = []
    try:
        options: list[str] = []
        for option, data in command.passes:
            fd = os.memfd_create(option.strip("-"), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            fds.append(fd)
            os.write(fd, data)
            os.lseek(fd, 0, os.SEEK_SET)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            options += [option, str(fd)]
        yield [command.argv[0], *options, *command.argv[1:]], tuple(fds)
    finally:
        for fd in fds:
            os.close(fd)
