"""Rows 4 to 6, 8, 9, 11, 12, 15, 31 and 33: what one site goes through, one after the other, and breaks nothing of it.

A launch comes twice, too late, forged, or with another program than was approved; a supervisor dies; scripts end in
every way that they know, and each gets its class and its sentence; one approval counts, however it is clicked.
"""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.domain.orders import LaunchOrder
from agent.domain.runs import ExitClass
from agent.wire import decode, encode
from tests.faults.file_adapter import BOB, Shown
from tests.faults.site import CANARIES, Site, eventually, measured
from tests.faults.test_worker_and_supervisor import supervisors
from tests.worker.conftest import processes_naming
from worker.client.queue import host_queue, make_app
from worker.folders import read_fence
from worker.supervisor.__main__ import BUSY_EXIT

# --- launches


def publish(site: Site, *texts: str) -> None:
    """Put launches into the host's queue as they are, all at once, as anybody could who reaches Redis."""
    app = make_app("replay", site.server.url)

    def send(text: str) -> None:
        app.send_task("trainyard.launch", args=[text], queue=host_queue(site.host), ignore_result=True)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(send, texts))
    app.close()


def passed(site: Site) -> None:
    """Wait until the host has worked on everything that was sent before."""
    client = site.redis()
    eventually(lambda: not client.llen(f"trainyard:host.{site.host}") and not client.hlen("trainyard:unacked"))


def order_of(site: Site, run: str) -> LaunchOrder:
    return decode(LaunchOrder, site.folder(run).order.read_bytes())


@pytest.mark.faults  # the quick tier has tests/worker/test_launch.py
def test_row_04_a_launch_comes_twice_and_ten_times_at_once(site: Site) -> None:
    run = site.create("endless")
    site.progresses(run, beyond=0)
    first = supervisors(site, run)
    text = encode(order_of(site, run)).decode()
    publish(site, text)
    publish(site, *[text] * 10)
    passed(site)
    assert supervisors(site, run) == first
    assert len(first) == 1
    assert [_second_supervisor(site, run) for _ in range(3)] == [BUSY_EXIT] * 3, "past the fence there is a lock"
    assert supervisors(site, run) == first
    site.let_go(run)
    assert site.ends(run)["state"] == "succeeded"
    eventually(lambda: not supervisors(site, run), what="the end of its supervisor")
    publish(site, text)  # and once more after its end
    passed(site)
    assert supervisors(site, run) == []
    assert site.state(run) == "succeeded"


def _second_supervisor(site: Site, run: str) -> int:
    """The exit code of a supervisor that is started beside one that lives."""
    folder = site.folder(run)
    reading, writing = os.pipe()
    argv = [sys.executable, "-m", "worker.supervisor", str(folder.path), str(folder.sealed), "1", str(writing)]
    try:
        return subprocess.run(argv, pass_fds=(writing,), check=False, timeout=60).returncode
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.faults  # the quick tier has tests/worker/test_launch.py
def test_row_05_a_stale_launch_after_the_next_attempt(site: Site) -> None:
    run = site.create("endless")
    site.progresses(run, beyond=0)
    stale = encode(order_of(site, run)).decode()
    os.kill(supervisors(site, run)[0], signal.SIGKILL)
    with site.explained(run):
        eventually(lambda: read_fence(site.folder(run)) == 2, what="attempt 2")
    site.progresses(run)
    second = supervisors(site, run)
    publish(site, stale)
    passed(site)
    assert supervisors(site, run) == second
    assert read_fence(site.folder(run)) == 2
    site.let_go(run)
    assert site.ends(run)["state"] == "succeeded"
    eventually(lambda: not supervisors(site, run), what="the end of its supervisor")
    publish(site, stale)
    passed(site)
    assert supervisors(site, run) == []
    assert [row["number"] for row in site.attempts(run)] == [1, 2]


def test_row_06_a_forged_launch_is_refused_and_told(site: Site) -> None:
    run = site.create("endless")
    site.progresses(run, beyond=0)
    order = order_of(site, run)
    spec = order.spec.model_copy(update={"max_hours": 99.0})
    forged = order.model_copy(update={"attempt": 2, "spec": spec})
    altered = json.loads(encode(order))
    altered["attempt"] = 7
    publish(site, encode(forged).decode(), json.dumps(altered), "{not json", encode(order).decode()[:-30])
    passed(site)
    assert read_fence(site.folder(run)) == 1, "who proved nothing fences nothing off"
    eventually(lambda: "nobody had signed" in site.bot_log, what="an alert in the bot's log")
    site.says("/train cluster", thread="t-06")
    site.sees("nobody had signed", "Redis", thread="t-06")
    site.let_go(run)
    assert site.ends(run)["state"] == "succeeded"
    assert len(site.attempts(run)) == 1


def test_row_33_a_bundle_that_changed_after_approval(site: Site) -> None:
    sha256, data = site.bundle("good")
    site.blobs.put_bytes(data, name="bundle.tar")
    _, evil = site.bundle("open('/tmp/should-not-be', 'w')\nraise SystemExit(0)\n")
    stored = _blob(site, sha256)
    stored.chmod(0o600)
    stored.write_bytes(evil)
    run = site.create("endless", bundle_sha256=sha256)
    outcome = site.ends(run)
    assert outcome["state"] == "failed", outcome
    assert "program" in outcome["reason"]
    assert site.run_row(run)["step"] == 0
    stored.unlink()


def _blob(site: Site, sha256: str) -> Path:
    return next(path for path in (site.home / "blobs").rglob(f"{sha256}*") if path.is_file())


# --- a supervisor dies


def test_row_08_kill_supervisor(site: Site) -> None:
    run = site.create("endless")
    site.progresses(run, beyond=3)
    (supervisor,) = supervisors(site, run)
    os.kill(supervisor, signal.SIGKILL)
    payload = f"TRAINYARD_RUN_DIR={site.folder(run).path}"
    assert measured(lambda: not processes_naming(payload), limit_s=20, what="the end of the training") <= 2.0
    with site.explained(run):
        eventually(lambda: len(site.attempts(run)) == 2, what="a second attempt")
    assert json.loads(site.attempts(run)[0]["outcome"])["exit_class"] == "lost"
    why = f"Its supervisor on host {site.host} was killed or crashed (often because the host ran out of memory)"
    said = site.sees(f"Attempt 1 of run `{run}` ended. {why}", "It is tried again by itself.")
    assert len(site.in_thread(said.thread, f"Attempt 1 of run `{run}`")) == len(said.versions) == 1
    before = site.run_row(run)["step"]
    site.progresses(run, beyond=before)
    site.let_go(run)
    assert site.ends(run)["state"] == "succeeded"
    steps = [row["step"] for row in _metrics(site, run)]
    assert steps == list(range(1, len(steps) + 1)), "it went on where its checkpoint was"


def _metrics(site: Site, run: str) -> list[dict[str, int]]:
    return [json.loads(line) for line in (site.folder(run).path / "metrics.jsonl").read_text().splitlines()]


# --- how scripts end

C = ExitClass
OF_A_STEP = {"TRAINYARD_RUN_DIR", "TRAINYARD_RUN_ID", "TRAINYARD_ATTEMPT", "TRAINYARD_SUPERVISED"}
# seed of payloads/exits.py -> (class, words of the reason, tried again by itself)
WAYS = {
    1: (C.USER_ERROR, "exit code 1", False),
    3: (C.USER_ERROR, "exit code 3", False),
    9: (C.KILLED, "SIGKILL", False),
    11: (C.USER_ERROR, "SIGSEGV", False),
    15: (C.PREEMPTED, "SIGTERM", True),
    101: (C.CUDA_OOM, "out of memory", False),
    102: (C.NCCL, "NCCL", True),
    103: (C.CUDA_FAULT, "device-side assert", True),
    104: (C.HOST_OOM, "ran out of memory", False),
    105: (C.DISK_FULL, "disk is full", False),
}


DEATHS = (1, 3, 9, 11)


@pytest.fixture(scope="module")
def dead(shared_site: Site) -> dict[int, str]:
    """One run for each death, all at once; by seed."""
    return {seed: shared_site.create("exits", seed=seed) for seed in DEATHS}


@pytest.fixture(scope="module")
def judged(shared_site: Site) -> dict[int, str]:
    """One run for each way whose last words decide, all at once; by seed."""
    return {seed: shared_site.create("exits", seed=seed) for seed in WAYS if seed not in DEATHS}


@pytest.mark.parametrize("seed", DEATHS)
def test_row_09_a_payload_dies(site: Site, dead: dict[int, str], seed: int) -> None:
    outcome = site.ends(dead[seed], limit_s=120)
    wanted, words, _ = WAYS[seed]
    assert (outcome["state"], outcome["exit_class"]) == ("failed", wanted.value), outcome
    assert words in outcome["reason"]
    assert outcome["exit_code"] == {9: -9, 11: -11}.get(seed, seed)
    assert len(site.attempts(dead[seed])) == 1, "what is wrong with the program is not tried again blindly"


@pytest.mark.faults
@pytest.mark.parametrize("seed", [15, 101, 102, 103, 104, 105])
def test_row_11_last_words_decide_the_class(site: Site, judged: dict[int, str], seed: int) -> None:
    run, (wanted, words, again) = judged[seed], WAYS[seed]
    with site.explained(run):
        eventually(lambda: _first_outcome(site, run), limit_s=120, what=f"the end of attempt 1 of {run}")
    outcome = _first_outcome(site, run)
    assert outcome["exit_class"] == wanted.value, outcome
    assert words in outcome["reason"]
    final = site.ends(run, limit_s=120)
    assert final["exit_class"] == wanted.value
    assert (len(site.attempts(run)) > 1) == again, "only classes where it helps are tried again, and not for ever"
    assert len(site.attempts(run)) <= 4


@pytest.mark.faults
def test_row_12_a_loss_that_is_no_number(site: Site) -> None:
    stopped = site.create("nan")
    outcome = site.ends(stopped)
    assert (outcome["state"], outcome["exit_class"]) == ("failed", "diverged"), outcome
    assert len(site.attempts(stopped)) == 1
    goes_on = site.create("nan", on_nan="go_on")
    site.progresses(goes_on, beyond=10)
    assert "is over" not in site.order_bot("stop", run=goes_on).get("error", "")
    assert site.ends(goes_on)["state"] == "stopped"


@pytest.mark.faults
def test_row_15_a_payload_that_ignores_sigterm(site: Site) -> None:
    run = site.create("stubborn")
    site.progresses(run, beyond=0)
    site.order_bot("stop", run=run)
    outcome = site.ends(run)
    assert outcome["state"] == "stopped", outcome
    assert not processes_naming(f"TRAINYARD_RUN_DIR={site.folder(run).path}")
    told = site.rows("SELECT text FROM note WHERE run_id = ?", run)
    assert "kill" in json.dumps([outcome, told]).lower(), "people are told that it had to be killed"


def _first_outcome(site: Site, run: str) -> dict[str, object]:
    rows = site.attempts(run)
    return json.loads(rows[0]["outcome"]) if rows and rows[0]["outcome"] else {}  # type: ignore[no-any-return]


def test_row_09_a_payload_finds_nothing_of_its_host(site: Site) -> None:
    run = site.create("leaky")
    assert site.ends(run)["state"] == "succeeded"
    lines = [line[4:] for line in site.folder(run).log.read_text().splitlines() if line.startswith("ENV ")]
    found = dict(line.split("=", 1) for line in lines)
    assert found["TRAINYARD_RUN_ID"] == run
    assert {name for name in found if name.startswith("TRAINYARD_")} <= OF_A_STEP
    assert not set(CANARIES) & set(found)
    assert not {"TRAINYARD_REDIS_URL", "TRAINYARD_HOME"} & set(found), "the host's own settings stay on the host"


# --- one approval


def question(site: Site, thread: str) -> Shown:
    """The approval card of a new request."""
    site.asks_for_a_model(thread)
    return site.sees("Approve", thread=thread)


def told(site: Site, thread: str, person: str, *words: str) -> None:
    """Wait for a private word to somebody."""
    eventually(
        lambda: any(one.whisper == person for one in site.in_thread(thread, *words)),
        what=f"a word to {person} with {words}",
    )


def now(site: Site, card: Shown) -> Shown:
    """A message as it stands now."""
    return next(one for one in site.people.shown if one.id == card.id)


def test_row_31_clicked_twice_by_two_and_again(site: Site) -> None:
    card = question(site, "t-31-a")
    site.clicks(card, "Approve", person=BOB)
    told(site, "t-31-a", "bob", "Only the person who asked")
    site.clicks(card, "Approve", times=5)
    eventually(lambda: site.runs_of("t-31-a"), what="a run")
    (run,) = site.runs_of("t-31-a")
    told(site, "t-31-a", "alice", "nothing was done twice")
    site.people.again()  # every delivery once more, as after a lost acknowledgement
    assert site.ends(run)["state"] == "succeeded"
    site.sees("Result of", thread="t-31-a")
    eventually(lambda: not site.people.undelivered, what="an answer to every delivery")
    eventually(lambda: not site.rows("SELECT id FROM inbox WHERE state = 'new'"), what="the end of all turns")
    questions = [one for one in site.in_thread("t-31-a") if (one.content["card"] or {}).get("kind") == "approval"]
    assert [one.id for one in questions] == [card.id], "what was delivered again was no new request"
    assert site.runs_of("t-31-a") == [run]
    assert len(site.in_thread("t-31-a", "Started")) == 1
    assert len(site.in_thread("t-31-a", "Result of")) == 1


def test_row_31_the_card_was_another_one(site: Site) -> None:
    card = question(site, "t-31-b")
    site.clicks(card, "Approve", digest="0123456789abcdef")
    told(site, "t-31-b", "alice")
    assert site.runs_of("t-31-b") == []
    site.clicks(card, "Reject")
    eventually(lambda: not now(site, card).buttons, what="a card without buttons")
    site.clicks(card, "Approve")  # decided already: a button that somebody's client still showed
    told(site, "t-31-b", "alice", "nothing was done twice")
    assert site.runs_of("t-31-b") == []


@pytest.mark.faults  # the quick tier has tests/agent/test_turns.py
def test_row_31_clicked_after_its_time(own_site: Site) -> None:
    offset = own_site.home / "clock"
    own_site.bot_extra = {"TRAINYARD_FAULT_CLOCK": str(offset)}
    own_site.start_worker()
    own_site.start_bot()
    card = question(own_site, "t-31-c")
    offset.write_text(str(25 * 3600))
    own_site.clicks(card, "Approve")
    own_site.sees("Expired", thread="t-31-c")
    assert own_site.runs_of("t-31-c") == []
