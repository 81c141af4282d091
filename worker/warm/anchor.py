"""An empty sandbox with nothing in it but `cat`, which a forked process joins.

Owns bubblewrap's process and when its walls stand. Called by `worker.warm.start`.
It ends with this process twice over: `cat` reads the end of its input and the sandbox's pid namespace ends with it;
and bubblewrap is told to die with its parent.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from worker.processes import children_of, kill_tree
from worker.sandbox import Command, handed_over
from worker.warm.joining import SPACES

ANCHOR = ("/usr/bin/cat",)
_LIMIT_S = 10.0


class ColdStart(Exception):
    """The step has not begun, and cannot begin warm; why."""


@contextlib.contextmanager
def term_blocked() -> Iterator[None]:
    """What this thread starts meanwhile is deaf to SIGTERM.

    A host that shuts down sends one to all processes, and a sandbox that ended by it would end the step that saves.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Anchor:
    """An empty sandbox of its own, held open by this process."""

    def __init__(self, command: Command, *options: str, cwd: Path) -> None:
        """Starts it, by the thread that is to live as long as the step. `command` runs `ANCHOR`. Raises: ColdStart."""
        self._info, info_writing = os.pipe()
        self._inner = 0
        try:
            with handed_over(command) as (full, files), term_blocked():
                self.process = subprocess.Popen(
                    [full[0], "--info-fd", str(info_writing), *options, *full[1:]],
                    cwd=cwd,
                    env=dict(command.env or {}),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,  # steps see this process, and could open what is open in it
                    start_new_session=True,
                    pass_fds=(info_writing, *files),
                )
        except OSError as error:
            os.close(self._info)
            raise ColdStart(f"bwrap did not start: {error}") from error
        finally:
            os.close(info_writing)

    def spaces(self) -> dict[str, int]:
        """Once its walls stand: open files of its namespaces, by name; the caller closes them. Raises: ColdStart."""
        self._wait_until_it_stands()
        found: dict[str, int] = {}
        try:
            for name in SPACES:
                found[name] = os.open(f"/proc/{self._inner}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            for fd in found.values():
                os.close(fd)
            raise ColdStart(f"the sandbox cannot be joined: {error}") from error
        return found

    def kill(self) -> None:
        """End the sandbox and all that is in it; whoever waits for it in a thread sees its pipes close."""
        if self.process.returncode is None:  # else its number may be another's
            kill_tree(self.process.pid)

    def close(self) -> None:
        """End it, and close what is open of it. Nobody may be waiting for it."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()
        if self._info >= 0:
            os.close(self._info)
            self._info = -1

    def _wait_until_it_stands(self) -> None:
        """`cat` answers when everything before its execution is done."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise ColdStart("bwrap has no pipes")
        try:
            os.write(stdin.fileno(), b".")
        except BrokenPipeError:
            raise ColdStart("bwrap ended at once") from None
        if not select.select([stdout], [], [], _LIMIT_S)[0] or not os.read(stdout.fileno(), 1):
            raise ColdStart("the sandbox did not come up")
        self._inner = int(json.loads(os.read(self._info, 4096))["child-pid"])
        while below := children_of(self._inner):  # the innermost process: the network's helper may stand between
            self._inner = below[0]
