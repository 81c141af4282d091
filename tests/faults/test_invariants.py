"""The invariants themselves: each notices its violation, which is planted here, and nothing else raises the alarm."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import invariants
from tests.faults.site import CANARIES, Site, opened

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]
KEPT = ("trainyard.db", "trainyard.db-wal", "trainyard.db-shm", "platform/thread.jsonl")


class Over:
    """A site where one run has succeeded and nothing runs any more; `sql` and `post` plant what should not be."""

    def __init__(self, site: Site, run: str) -> None:
        self.site, self.run = site, run
        self.processes: list[subprocess.Popen[bytes]] = []

    def sql(self, statement: str, *values: object) -> None:
        with contextlib.closing(sqlite3.connect(self.site.database)) as connection, connection:
            assert connection.execute(statement, values).rowcount > 0, "nothing was planted"

    def again(self, **changed: str) -> None:
        """The run's card is posted once more, under another id, and with other words if they are given."""
        card = next(s for s in self.site.people.shown if self.run in s.words and '"kind": "run"' in s.words)
        entry = {"op": "post", "id": "77", "key": card.key, "thread_id": card.thread, "whisper": ""}
        with (self.site.people.folder / "thread.jsonl").open("a") as file:
            file.write(json.dumps({**entry, "content": card.content, **changed}) + "\n")

    def process(self, run: str, attempt: int) -> None:
        env = {
            "TRAINYARD_RUN_DIR": str(self.site.folder(run).path),
            "TRAINYARD_RUN_ID": run,
            "TRAINYARD_ATTEMPT": str(attempt),
        }
        self.processes.append(subprocess.Popen(["sleep", "600"], env=env, executable="/bin/sleep"))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Over]:
    with opened(tmp_path_factory.mktemp("over") / "home") as site:
        site.start_worker()
        site.start_bot()
        run = site.create("good")
        invariants.settled(site)
        site.stop_bot()
        yield Over(site, run)


@pytest.fixture
def over(finished: Over, tmp_path: Path) -> Iterator[Over]:
    """The same for each test: what was planted is gone afterwards."""
    home = finished.site.home
    for name in KEPT:
        if (home / name).exists():
            shutil.copy(home / name, tmp_path / Path(name).name)
    assert invariants.violations(finished.site) == []
    yield finished
    finished.end()
    for name in KEPT:
        (home / name).unlink(missing_ok=True)
        if (tmp_path / Path(name).name).exists():
            shutil.copy(tmp_path / Path(name).name, home / name)


def two_attempts_train(over: Over) -> None:
    over.process("r-other", 1)
    over.process("r-other", 2)


def two_attempts_are_open(over: Over) -> None:
    columns = (
        "run_id, host, gpus, sent, sent_at, dispatched_at, boot_id, training, first_step, stop, stops, seen_to, used_s"
    )
    over.sql(f"INSERT INTO attempt (number, {columns}) SELECT 2, {columns} FROM attempt")
    over.sql("UPDATE attempt SET outcome = NULL")


def an_end_without_an_outcome(over: Over) -> None:
    over.sql("UPDATE run SET outcome = NULL")


def an_end_that_is_two_things(over: Over) -> None:
    over.sql("UPDATE run SET outcome = replace(outcome, 'succeeded', 'failed')")


def a_card_that_is_shown_twice(over: Over) -> None:
    over.again(key="another")


def a_post_that_was_sent_twice(over: Over) -> None:
    over.again()


def a_card_that_never_heard_of_the_end(over: Over) -> None:
    path = over.site.people.folder / "thread.jsonl"
    path.write_text(path.read_text().replace("ucceeded", "tarting"))


def a_gpu_that_is_never_given_back(over: Over) -> None:
    over.sql("INSERT INTO gpu_lease (host, uuid, run_id, attempt) VALUES ('h1', 'GPU-1', ?, 1)", over.run)


def a_gpu_that_two_hold(over: Over) -> None:
    over.sql("UPDATE run SET state = 'running', outcome = NULL")
    over.sql("UPDATE attempt SET outcome = NULL")
    for host in ("h1", "h2"):
        over.sql("INSERT INTO gpu_lease (host, uuid, run_id, attempt) VALUES (?, 'GPU-1', ?, 1)", host, over.run)


def metrics_with_a_gap(over: Over) -> None:
    over.sql("DELETE FROM metric_chunk WHERE seq = (SELECT MIN(seq) FROM metric_chunk)")


def metrics_that_came_twice(over: Over) -> None:
    names = "run_id, attempt, rows"
    over.sql(f"INSERT INTO metric_chunk (seq, {names}) SELECT seq + 1000, {names} FROM metric_chunk")


def a_process_that_is_left(over: Over) -> None:
    over.process(over.run, 1)


def a_secret_in_a_log(over: Over) -> None:
    (over.site.home / "planted.log").write_text(f"token={CANARIES['SLACK_BOT_TOKEN']}\n")


def a_secret_in_redis(over: Over) -> None:
    over.site.redis().set("planted", CANARIES["OPENAI_API_KEY"])


def a_secret_in_the_database(over: Over) -> None:
    over.sql("UPDATE run SET note = ?", CANARIES["AWS_SECRET_ACCESS_KEY"])


def the_launch_key_in_a_log(over: Over) -> None:
    (over.site.home / "planted.log").write_bytes((over.site.keys / "launch.key").read_bytes())


PLANTED: dict[Callable[[Over], None], str] = {
    two_attempts_train: "I1",
    two_attempts_are_open: "I1",
    an_end_without_an_outcome: "I2",
    an_end_that_is_two_things: "I2",
    a_card_that_is_shown_twice: "I2",
    a_post_that_was_sent_twice: "I2",
    a_card_that_never_heard_of_the_end: "I2",
    a_gpu_that_is_never_given_back: "I3",
    a_gpu_that_two_hold: "I3",
    metrics_with_a_gap: "I4",
    metrics_that_came_twice: "I4",
    a_process_that_is_left: "I5",
    a_secret_in_a_log: "I6",
    a_secret_in_the_database: "I6",
    the_launch_key_in_a_log: "I6",
    a_secret_in_redis: "I6",  # the last one: its append-only file keeps what was deleted
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_an_invariant_notices(over: Over, plant: Callable[[Over], None]) -> None:
    plant(over)
    try:
        assert {line[:2] for line in invariants.violations(over.site)} == {PLANTED[plant]}
    finally:
        (over.site.home / "planted.log").unlink(missing_ok=True)
        over.site.redis().delete("planted")


INNER = """
from tests.faults.conftest import own_site, pytest_runtest_makereport, shared_site, site

def test_passes_and_leaves_a_violation_behind({fixture}):
    {start}
    run = {fixture}.create("good")
    {fixture}.ends(run)
    planted = {fixture}.people.folder / "thread.jsonl"
    posts = [line for line in planted.read_text().splitlines() if '"op": "post"' in line]
    with planted.open("a") as file:
        file.write(posts[0].replace('"id": "', '"id": "again-') + "\\n")
"""


@pytest.mark.parametrize("fixture", ["site", "own_site"])
def test_a_test_that_leaves_a_violation_behind_is_red(tmp_path: Path, fixture: str) -> None:
    """The fixtures look; a test cannot forget to."""
    start = "own_site.start_worker(); own_site.start_bot()" if fixture == "own_site" else ""
    inner = tmp_path / "test_inner.py"
    inner.write_text(INNER.format(fixture=fixture, start=start))
    quiet = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    argv = [sys.executable, "-m", "pytest", *quiet, str(inner)]
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-2000:]
    assert "1 passed, 1 error" in done.stdout.replace("2 errors", "1 error"), done.stdout[-3000:]
    assert "was posted 2 times" in done.stdout
