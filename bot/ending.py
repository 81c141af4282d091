"""Ends whatever runs for one home: the bot's children, workers, training runs. Used by the demo and by tests."""

import contextlib
import os
from pathlib import Path

import psutil

END_S = 3.0  # what is ended for good needs no time to save anything
KILLED_S = 6.0


def end_all_of(home: Path) -> list[int]:
    """End every process that is not ours and whose environment names `home`, training runs included; their pids."""
    me = psutil.Process()
    ours = {me.pid, *(child.pid for child in me.children(recursive=True))}
    marked = [process for process in psutil.process_iter() if process.pid not in ours and _is_of(process, home)]
    for process in marked:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(marked, timeout=END_S)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=KILLED_S)
    return [process.pid for process in marked]


def _is_of(process: psutil.Process, home: Path) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False
    named = environment.get("TRAINYARD_HOME") == str(home)
    return bool(named or environment.get("TRAINYARD_RUN_DIR", "").startswith(f"{home}{os.sep}"))
