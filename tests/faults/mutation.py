"""Takes one safeguard away at a time; a named quick test must go red for each: `python -m tests.faults.mutation`.

Works on a copy of the repository. Exits 1 if a mutant survives, if a safeguard is not found where it should be, or if
its test fails on the unbroken copy.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.tree import copied

LIMIT_S = 240.0
EVERY = ("-m", "faults or not faults")


@dataclass(frozen=True)
class Mutant:
    """`edits` are (file, what stands there, what takes its place); `test` is what must notice."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    test: str


MUTANTS = (
    Mutant(
        "fence: an older attempt is let in",
        (("worker/launches/launching.py", "if order.attempt < fence:", "if False:"),),
        "tests/worker/test_launch.py::test_an_older_attempt_is_refused",
    ),
    Mutant(
        "compare-and-set: a run moves whatever its state is",
        (("agent/storage/run_rows.py", ", run.c.state.in_(legal))", ")"),),
        "tests/agent/test_database.py",
    ),
    Mutant(
        "socket_timeout: a command on a dead connection waits for ever",
        (
            ("worker/client/connect.py", '        "socket_timeout": socket_s,\n', ""),
            ("worker/client/queue.py", '            "socket_timeout": 5,\n', ""),
            ("worker/client/queue.py", '        "redis_socket_timeout": 5,\n', ""),
        ),
        "tests/worker/test_sup_redis.py::test_a_worker_behind_a_dead_connection_consumes_again",
    ),
    Mutant(
        "clean environment: a step gets the supervisor's",
        (
            (
                "worker/supervisor/steps.py",
                '        **basic_environment(folder),\n        "TRAINYARD_RUN_DIR"',
                '        **__import__("os").environ,\n        "TRAINYARD_RUN_DIR"',
            ),
        ),
        "tests/faults/test_one_site.py::test_row_09_a_payload_finds_nothing_of_its_host",
    ),
    Mutant(
        "what an evicted stream lost is not sent again",
        (("worker/reporting/delivery.py", "    if not entry:\n", "    if entry or not entry:\n"),),
        "tests/faults/test_redis.py::test_row_22_events_are_evicted_before_anybody_read_them",
    ),
    Mutant(
        "dedup key: an event is stored as often as it comes",
        (("agent/storage/run_events.py", "if seq <= self.through or seq in self.beyond:", "if False:"),),
        "tests/agent/test_storage.py",
    ),
    Mutant(
        "dedup key: what a platform delivers again is a new message",
        (
            ("agent/storage/tables.py", '    UniqueConstraint("platform", "event_id"),\n', ""),
            (
                "agent/storage/migrations/versions/0001_the_first_tables.py",
                '        sa.UniqueConstraint("platform", "event_id", name=op.f("uq_inbox_platform_event_id")),\n',
                "",
            ),
        ),
        "tests/faults/test_one_site.py::test_row_31_clicked_twice_by_two_and_again",
    ),
)


def red(python: Path, tree: Path, test: str) -> tuple[bool, str]:
    """Whether the test fails in the tree, and its last words."""
    argv = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        *EVERY,
        test,
    ]
    env = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": os.environ.get("HOME", "/"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "400",  # so that the last words are whole
    }
    done = subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = sorted(said, key=lambda line: line.startswith("ERROR"))  # an error at the end follows from the failure
    words = last[0] if last else (done.stdout.splitlines() or [done.stderr[-200:]])[-1]
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{test} could not be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1, words


def mutate(tree: Path, mutant: Mutant) -> dict[Path, str]:
    """Apply it; the files as they were. Raises `LookupError` when the safeguard is not there."""
    before: dict[Path, str] = {}
    for name, old, new in mutant.edits:
        path = tree / name
        text = path.read_text()
        if text.count(old) != 1:
            raise LookupError(f"{name} has {text.count(old)} times {old!r}: say in MUTANTS where the safeguard is now")
        before.setdefault(path, text)
        path.write_text(text.replace(old, new))
    return before


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    wrong = 0
    try:
        python = copied(folder / "tree")
        chosen = [mutant for mutant in MUTANTS if told.only in mutant.name]
        for test in dict.fromkeys(mutant.test for mutant in chosen):
            failed, words = red(python, folder / "tree", test)
            if failed:
                print(f"{test} is red before anything was broken: {words}", file=sys.stderr)
                return 1
        print(f"{'mutant':<60} {'verdict':<9} {'s':>4}  by")
        for mutant in chosen:
            began = time.monotonic()
            before = mutate(folder / "tree", mutant)
            try:
                failed, words = red(python, folder / "tree", mutant.test)
            except subprocess.TimeoutExpired:
                failed, words = True, f"{mutant.test} hung"
            for path, text in before.items():
                path.write_text(text)
            wrong += not failed
            verdict = "killed" if failed else "SURVIVED"
            print(f"{mutant.name:<60} {verdict:<9} {time.monotonic() - began:>4.0f}  {words[:200]}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
