"""Reading /proc of processes that come and go."""

import subprocess
import time

from worker.host.processes import descendants_of


def test_processes_that_end_while_they_are_looked_at() -> None:
    """Two shells start and end a child at a time; every look may find one gone."""
    shells = [subprocess.Popen(["sh", "-c", "while :; do (sleep 0 & wait); done"]) for _ in range(2)]
    seen: set[int] = set()
    try:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            for shell in shells:
                seen.update(descendants_of(shell.pid))
    finally:
        for shell in shells:
            shell.kill()
            shell.wait()
    assert len(seen) > 10
    assert descendants_of(shells[0].pid) == []
