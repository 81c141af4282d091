"""`python warm_step.py`: carries one step out as a supervisor does, told by JSON on standard input.

A process of its own, because a supervisor kills all that is below it, and so that it can be killed. Prints two lines:
`{"warm", "roots", "started_s"}` once the step runs, `{"code", "first_s", "output"}` when it has ended. `first_s` is the
time from the beginning of the start to the word `mark` in the output, or to the first row of metrics
(`until_first_row`, which then kills the step).
"""

import json
import logging
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from worker.host.processes import adopt_orphans
from worker.sandbox import Walls, wrap
from worker.supervisor.child import Child
from worker.supervisor.follow import MetricsTail
from worker.warm.sets import WarmStart


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    adopt_orphans()
    run, argv = Path(asked["run"]), tuple(asked["argv"])
    walls = Walls(
        run,
        readable=tuple(map(Path, asked.get("readable", ()))),
        env=asked["env"],
        network=asked.get("network", "none"),
        egress=Path(asked["egress"]) if "egress" in asked else None,
    )
    command = wrap(asked.get("tier", "bwrap"), argv, walls)
    warm = WarmStart(Path(asked["folder"]), argv, tuple(asked["sets"])) if asked["warm"] else None
    began = time.perf_counter()
    child = Child(command, cwd=run, env=asked["env"], warm=warm)
    _say(warm=child.warm, roots=child.roots, started_s=time.perf_counter() - began)
    tail = MetricsTail(run / "metrics.jsonl") if asked.get("until_first_row") else None
    output, first_s = b"", -1.0
    while True:
        code = child.poll()
        piece = os.read(child.output, 65536) if select.select([child.output], [], [], 0.001)[0] else b""
        output += piece
        if first_s < 0 and (tail.take() is not None if tail else asked.get("mark", "\n").encode() in output):
            first_s = time.perf_counter() - began
            if tail:
                child.kill()
        if asked.get("signal_at") and asked["signal_at"].encode() in output:
            child.signal(asked.pop("signal"))
            del asked["signal_at"]
        if asked.get("kill_at") and asked["kill_at"].encode() in output:
            child.kill()
            del asked["kill_at"]
        if code is not None and not piece:
            break
    child.close()
    _say(code=code, first_s=first_s, output=output.decode())


def _say(**word: object) -> None:
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
