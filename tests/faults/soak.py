"""Random faults on a living site: `python -m tests.faults.soak --minutes 10 --seed 7`.

Several runs at a time, one fault every few seconds, invariants after each, memory flat within 10 % in each life of the
bot. Prints a summary; exits 1 on a violation. Everything that it started is ended, whatever happens.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.faults import invariants
from tests.faults.site import ENDS, Site, eventually, opened
from tests.faults.test_one_site import order_of, publish
from tests.faults.test_redis import kill_redis
from tests.faults.test_worker_and_supervisor import supervisors
from tests.worker.conftest import processes_naming

RUNS = 4
YOUNG_S, OLD_S = 30.0, 60.0  # memory is compared between these ages of a process
SLACK_BYTES = 8 * 1024**2


class Soak:
    """One site under fire."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.dice = site, random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.violations: list[str] = []
        self.runs: list[str] = []
        self.worker = site.start_worker()
        site.start_bot()
        self.born: dict[int, int] = {}  # pid -> memory when it was young
        self.growth = 0.0
        self.acts: list[Callable[[], None]] = [
            self.kill_worker, self.end_worker, self.kill_bot, self.kill_supervisor, self.kill_payload, self.kill_redis,
            self.empty_redis, self.freeze_redis, self.half_open, self.cut, self.hold, self.lock_database, self.relaunch,
            self.freeze_bot, self.stop_a_run,
        ]  # fmt: skip

    # ---- faults ----

    def kill_worker(self) -> None:
        self.site.kill_worker(self.worker)
        self.worker = self.site.start_worker()

    def end_worker(self) -> None:
        self.worker.send_signal(signal.SIGTERM)
        self.worker.wait(40)
        self.worker = self.site.start_worker()

    def kill_bot(self) -> None:
        self.site.kill_bot()
        self.site.start_bot()

    def freeze_bot(self) -> None:
        assert self.site.bot is not None
        self.site.bot.send_signal(signal.SIGSTOP)
        time.sleep(3)
        self.site.bot.send_signal(signal.SIGCONT)

    def kill_supervisor(self) -> None:
        self._signal(supervisors(self.site, self._live()))

    def kill_payload(self) -> None:
        self._signal(processes_naming(f"TRAINYARD_RUN_DIR={self.site.folder(self._live()).path}"))

    def kill_redis(self) -> None:
        kill_redis(self.site)

    def empty_redis(self) -> None:
        kill_redis(self.site, forget=True)

    def freeze_redis(self) -> None:
        assert self.site.server.pid is not None
        os.kill(self.site.server.pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(self.site.server.pid, signal.SIGCONT)

    def half_open(self) -> None:
        self.site.proxy.half_open()

    def cut(self) -> None:
        self.site.proxy.cut()

    def hold(self) -> None:
        self.site.proxy.held = {"up", "down"}
        time.sleep(self.dice.uniform(1, 4))
        self.site.proxy.held = set()

    def lock_database(self) -> None:
        with contextlib.closing(sqlite3.connect(self.site.database, timeout=30, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            time.sleep(self.dice.uniform(1, 4))
            holder.execute("ROLLBACK")

    def relaunch(self) -> None:
        run = self._live()
        if self.site.folder(run).order.exists():
            publish(self.site, order_of(self.site, run).model_dump_json())

    def stop_a_run(self) -> None:
        self.site.order_bot("stop", run=self._live())

    def _live(self) -> str:
        return self.dice.choice(self.runs)

    @staticmethod
    def _signal(pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # ---- the loop ----

    def refill(self) -> None:
        """Keep as many runs as were asked for; now and then one may finish."""
        for run in [run for run in self.runs if self.site.state(run) in ENDS]:
            self.runs.remove(run)
        if len(self.runs) == RUNS and self.dice.random() < 0.15:
            self.site.let_go(self._live())
        while len(self.runs) < RUNS:
            self.runs.append(self.site.create(self.dice.choice(["endless", "endless", "short", "good"])))

    def round(self) -> None:
        """One fault, and what must be true after it."""
        self.refill()
        act = self.dice.choice(self.acts)
        self.faults[act.__name__] += 1
        print(f"{time.strftime('%H:%M:%S')} {act.__name__}", flush=True)
        try:
            act()
            time.sleep(self.dice.uniform(1, 4))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self._violated(f"{act.__name__} itself: {str(error)[:1500]}")
        self._recovers(act.__name__)
        try:
            invariants.check(self.site)
        except AssertionError as error:
            self._violated(f"after {act.__name__}: {error}")
        self.weigh()

    def _violated(self, what: str) -> None:
        self.violations.append(what)
        print(f"VIOLATION {what}", flush=True)

    def _recovers(self, name: str) -> None:
        """Something new runs through from its order to its end."""
        probe = self.site.create("good")
        try:
            self.site.ends(probe, limit_s=90)
        except AssertionError as error:
            self._violated(f"after {name}: nothing runs through any more: {str(error)[:1500]}")

    def weigh(self) -> None:
        """Memory of the bot and the worker within one life of theirs."""
        for child in (self.site.bot, self.worker):
            if child is None or child.poll() is not None:
                continue
            process = psutil.Process(child.pid)
            age_s, rss = time.time() - process.create_time(), process.memory_info().rss
            if age_s >= YOUNG_S and child.pid not in self.born:
                self.born[child.pid] = rss
            if age_s >= YOUNG_S + OLD_S and child.pid in self.born:
                young = self.born[child.pid]
                self.growth = max(self.growth, rss / young - 1)
                if rss > young * 1.1 + SLACK_BYTES:
                    self.violations.append(f"{child.args} grew from {young / 1e6:.0f} to {rss / 1e6:.0f} MB")

    def finish(self) -> None:
        """Let everything end, and look at all six invariants."""
        try:
            eventually(self._all_ended, limit_s=120, what="the end of all")
            invariants.settled(self.site)
        except AssertionError as error:
            self.violations.append(f"at the end: {str(error)[:3000]}")

    def _all_ended(self) -> bool:
        for run in self.runs:
            if self.site.folder(run).path.is_dir():  # one that waits for a slot has none yet
                self.site.let_go(run)
        return all(self.site.state(run) in ENDS for run in self.runs)

    def summary(self) -> str:
        states = Counter(row["state"] for row in self.site.rows("SELECT state FROM run"))
        attempts = self.site.rows("SELECT COUNT(*) AS n FROM attempt")[0]["n"]
        faults = ", ".join(f"{name} {n}" for name, n in sorted(self.faults.items()))
        lines = [
            f"faults: {sum(self.faults.values())} ({faults})",
            f"runs: {sum(states.values())} ({', '.join(f'{state} {n}' for state, n in sorted(states.items()))})",
            f"attempts: {attempts}; growth of memory in one life: {self.growth:+.1%}",
            f"violations: {len(self.violations)}",
            *self.violations,
        ]
        return "\n".join(lines)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=7)
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        with opened(folder / "home") as site:
            site.behind = {"worker": True, "bot": True}
            site.timings |= {"unreachable_after_s": 15.0, "lost_after_s": 60.0}
            soak = Soak(site, told.seed)
            end = time.monotonic() + told.minutes * 60
            while time.monotonic() < end:
                soak.round()
            soak.finish()
            print(soak.summary())
            if soak.violations:
                kept = Path(tempfile.gettempdir()) / f"soak-{told.seed}-{os.getpid()}"
                shutil.copytree(site.home, kept, ignore=shutil.ignore_patterns("*.sock", "keys"), dirs_exist_ok=True)
                print(f"the site's files are kept in {kept}")
            return 1 if soak.violations else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
