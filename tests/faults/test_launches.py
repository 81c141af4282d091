"""Rows 4, 5, 6, 33: a launch comes twice, too late, forged, or with another program than was approved."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent.domain.orders import LaunchOrder
from agent.wire import decode, encode
from tests.faults.site import Site, eventually
from tests.faults.test_worker_and_supervisor import supervisors
from worker.client.queue import host_queue, make_app
from worker.folders import read_fence
from worker.supervisor.__main__ import BUSY_EXIT


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
