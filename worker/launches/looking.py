"""What became of an attempt, read from its run's folder: alive, how it ended, what its programs printed.

Reads only, and never waits for what a training may have laid out. Asked by `worker.tasks` and by the local engine.
"""

import contextlib

from agent.domain.orders import AttemptLabel, AttemptStatus, LogPart, Looked
from agent.domain.runs import Outcome
from agent.wire import Malformed, decode
from worker.folders import HostFolder, RunFolder, is_alive, open_plain, read_fence, read_plain

LOG_BYTES = 64 * 1024


def look(home: HostFolder, label: AttemptLabel, *, log_after: int = 0) -> Looked:
    """The status of an attempt, and the part of its run's log behind a byte. Raises `ValueError` for no run's id."""
    folder = home.run(label.run)
    return Looked(status=status_of(folder, label.attempt), log=log_of(folder, log_after))


def status_of(folder: RunFolder, attempt: int) -> AttemptStatus | None:
    """None where no attempt of this number was let in, or a launch was cut off before its supervisor began."""
    fence = read_fence(folder)
    newest = attempt == fence
    if attempt > fence:
        return None
    outcome = None
    with contextlib.suppress(OSError, Malformed):
        outcome = decode(Outcome, read_plain(folder.outcome if newest else folder.old(folder.outcome, attempt)))
    if not newest:
        return AttemptStatus(alive=False, outcome=outcome)
    if not folder.spool.exists():  # the lock is not tried then: a supervisor that is about to take it must find it free
        return AttemptStatus(alive=False, outcome=outcome) if outcome else None
    return AttemptStatus(alive=is_alive(folder), outcome=outcome)


def log_of(folder: RunFolder, after: int) -> LogPart:
    """At most `LOG_BYTES`, to the end of a line where one ends in them."""
    try:
        with open_plain(folder.log) as file:
            file.seek(after)
            data = file.read(LOG_BYTES)
    except OSError:
        return LogPart(text="", end=after)
    data = data[: data.rfind(b"\n") + 1] or data
    return LogPart(text=data.decode(errors="replace"), end=after + len(data))
