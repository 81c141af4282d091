"""Rows: 5 scalars logged in a tight loop and once per 5 ms, against trackio and wandb offline; and the import.

Each logger in processes of its own, in turn. The peers have an interpreter of their own (`make bench` makes it of
peers.lock), because their requirements and ours exclude each other. All of our rows are counted in the end.
"""

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.bench.loggers import WARM_UP
from tests.bench.processes import REPO
from tests.bench.progress import say
from tests.bench.rows import Row, compared, limited, median

ROUNDS = 5
CALLS = {"ours": 200_000, "noop": 200_000, "trackio": 20_000, "wandb": 5_000}
PACED_CALLS = 400
TIMES = {"trackio": 5, "wandb": 20}
IMPORT_MS = 30.0
LIMIT_S = 300
PEERS = REPO / ".venv-bench/bin/python"


def measure() -> Sequence[Row]:
    """Raises: RuntimeError when the peers are not installed."""
    if not PEERS.exists():
        raise RuntimeError(f"There is no {PEERS}. `make bench` makes it of tests/bench/peers.lock.")
    took: dict[str, list[float]] = {}
    for number in range(1, ROUNDS + 1):
        for kind, calls in CALLS.items():
            tight, paced = _timed(kind, "tight", calls), _timed(kind, "paced", PACED_CALLS)
            found = {"loop": tight["loop_us"], "all-in": tight["all_in_us"], "paced": paced["p50_us"]}
            for what, value in found.items():
                took.setdefault(f"{kind} {what}", []).append(value)
            say(f"log_metrics: round {number} of {ROUNDS}, µs a call: {kind} " + _spelled(found))
    middle = {what: median(values) for what, values in took.items()}
    return [*_rows(middle), _import_row()]


def _spelled(found: dict[str, float]) -> str:
    return ", ".join(f"{what} {value:.2f}" for what, value in found.items())


def _rows(middle: dict[str, float]) -> list[Row]:
    # A call of ours is safe from a kill and can be read when it returns, a peer's when its `finish` does.
    rows = []
    for peer, at_least in TIMES.items():
        name = "log_metrics in a tight loop, until safe from a kill"
        ours_us, peers = middle["ours all-in"], middle[f"{peer} all-in"]
        rows.append(compared(name, ours=ours_us, peer=peers, peer_name=peer, unit="µs", at_least=at_least))
    return rows


def _timed(kind: str, mode: str, calls: int) -> dict[str, float]:
    python = str(PEERS) if kind in TIMES else sys.executable
    argv = [python, str(REPO / "tests/bench/loggers.py"), kind, mode, str(calls)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{kind} {mode} ended with {done.returncode}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    wanted = WARM_UP + calls
    if found.get("rows", wanted) != wanted:
        raise RuntimeError(f"{kind} {mode}: {found['rows']} rows of {wanted} are there")
    return found


def _import_row() -> Row:
    ours = "sys.path.insert(0, sys.argv[1])\nfrom trainyard import TrainingRuntime"
    took = {
        "ours": [_import_ms(sys.executable, ours) for _ in range(ROUNDS)],
        "trackio": [_import_ms(str(PEERS), "import trackio") for _ in range(ROUNDS)],
    }
    return limited(
        "import of the runtime", ours=median(took["ours"]), peer=median(took["trackio"]), peer_name="trackio",
        unit="ms", at_most=IMPORT_MS,
    )  # fmt: skip


def _import_ms(python: str, what: str) -> float:
    program = f"import sys, time\nbegan = time.perf_counter()\n{what}\nprint(1000 * (time.perf_counter() - began))"
    argv = [python, "-I", "-c", program, str(REPO)]
    return float(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
