"""Rows 19 to 22: Redis dies, forgets, freezes, refuses; connections to it are half-open."""

import os
import random
import signal
import time

import pytest
import redis

from tests.faults import invariants
from tests.faults.site import Site, eventually, measured
from tests.faults.test_worker_and_supervisor import supervisors


def kill_redis(site: Site, *, forget: bool = False) -> None:
    """SIGKILL and a new start, with the data of a second ago or with none."""
    assert site.server.pid is not None
    os.kill(site.server.pid, signal.SIGKILL)
    site.server.stop()
    if forget:
        for path in (site.home / "redis").rglob("appendonly*"):
            if path.is_file():
                path.unlink()
    site.server.start()


def start_and_wait(site: Site) -> str:
    """Worker, bot and a run in the middle of its training."""
    site.start_worker()
    site.start_bot()
    run = site.create("endless")
    site.progresses(run, beyond=3)
    return run


@pytest.mark.faults  # the quick tier has tests/worker/test_faults.py and test_client.py
def test_row_19_redis_dies_bounces_and_comes_back_empty(own_site: Site) -> None:
    run = start_and_wait(own_site)
    kill_redis(own_site)
    own_site.progresses(run)
    for _ in range(3):
        kill_redis(own_site)
        time.sleep(0.3)
    own_site.progresses(run)
    kill_redis(own_site, forget=True)
    own_site.progresses(run)
    second = own_site.create("good")  # and orders arrive
    assert own_site.ends(second)["state"] == "succeeded"
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


@pytest.mark.faults
def test_row_20_redis_is_frozen_and_the_bot_answers(own_site: Site) -> None:
    own_site.timings |= {"unreachable_after_s": 6.0, "lost_after_s": 12.0}
    run = start_and_wait(own_site)
    assert own_site.server.pid is not None
    os.kill(own_site.server.pid, signal.SIGSTOP)
    try:
        asked = time.monotonic()
        took_s = [_answered(own_site, number) for number in range(6)]
        assert min(took_s) <= 1.0, "a bot that waits for Redis before it answers would need 5 s, its time limit, always"
        time.sleep(max(0.0, asked + 20 - time.monotonic()))  # longer than a host may be silent while we listen
        assert own_site.state(run) == "running", "a Redis that is away says nothing about hosts"
    finally:
        os.kill(own_site.server.pid, signal.SIGCONT)
    own_site.progresses(run)
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


def _answered(site: Site, number: int) -> float:
    """Seconds from a question to its answer."""
    thread = f"t-20-{number}"
    began = time.monotonic()
    site.says("help", thread=thread)
    site.sees("What I can do", thread=thread, limit_s=20)
    return time.monotonic() - began


@pytest.mark.faults  # the quick tier has tests/worker/test_sup_redis.py
def test_row_21_a_half_open_connection_to_the_worker(own_site: Site) -> None:
    own_site.behind["worker"] = True
    own_site.start_worker()
    own_site.start_bot()
    first = own_site.create("endless")
    own_site.progresses(first, beyond=0)
    assert own_site.proxy.half_open() >= 3  # the worker's, its pool's, the supervisor's
    second = own_site.create("good")
    took_s = measured(lambda: own_site.run_row(second)["step"] > 0, what="a worker that consumes again")
    assert took_s <= 20
    own_site.progresses(first)
    own_site.let_go(first)
    assert own_site.ends(first)["state"] == "succeeded"


@pytest.mark.faults
def test_row_21_every_connection_of_the_worker_is_closed_again_and_again(own_site: Site) -> None:
    """Closed in the middle of its work; a worker whose subscription waits inside of a read never comes back."""
    own_site.behind["worker"] = True
    own_site.start_worker()
    own_site.start_bot()
    dice = random.Random(1)
    for number in range(8):
        for _ in range(3):
            own_site.create("short")
        time.sleep(dice.uniform(0, 1))
        assert own_site.proxy.cut() >= 3
        probe = own_site.create("good")
        took_s = measured(lambda probe=probe: own_site.run_row(probe)["step"] > 0, what=f"a start after cut {number}")
        assert took_s <= 20


@pytest.mark.faults
def test_row_21_half_open_connections_of_the_bot(own_site: Site) -> None:
    own_site.behind["bot"] = True
    run = start_and_wait(own_site)
    assert own_site.proxy.half_open() >= 1
    own_site.progresses(run, limit_s=40)
    second = own_site.create("good")
    assert own_site.ends(second)["state"] == "succeeded"
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"


@pytest.mark.faults
@pytest.mark.parametrize("trouble", ["oom", "readonly", "noauth"])
def test_row_22_redis_refuses(own_site: Site, trouble: str) -> None:
    run = start_and_wait(own_site)
    client = redis.Redis.from_url(own_site.server.url)
    step = own_site.run_row(run)["step"]
    match trouble:
        case "oom":
            client.config_set("maxmemory", 1)
        case "readonly":
            client.replicaof("127.0.0.1", 1)
        case "noauth":
            client.config_set("requirepass", "trainyard")
            client.execute_command("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
    time.sleep(3)
    match trouble:
        case "oom":
            client.config_set("maxmemory", 0)
        case "readonly":
            client.replicaof("NO", "ONE")
        case "noauth":
            client.config_set("requirepass", "")
    own_site.progresses(run, beyond=step + 5)
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1
    lines = own_site.bot_log.count("redis_away") + own_site.bot_log.count("Traceback")
    assert lines < 10, "trouble that lasts is told once, not at every try"
    eventually(lambda: client.xlen(f"trainyard:ev:{own_site.host}") > 0)


@pytest.mark.faults
@pytest.mark.parametrize("when", ["while it trains", "after its end"])
def test_row_22_events_are_evicted_before_anybody_read_them(own_site: Site, when: str) -> None:
    """The host sends them again: the supervisor while it lives, the sweep afterwards."""
    run = start_and_wait(own_site)
    client, stream = own_site.redis(), f"trainyard:ev:{own_site.host}"
    assert own_site.bot is not None
    own_site.bot.send_signal(signal.SIGSTOP)
    try:
        before = client.xlen(stream)
        if when == "after its end":
            own_site.let_go(run)
            eventually(lambda: not supervisors(own_site, run), what="the end of its supervisor")
        eventually(lambda: client.xlen(stream) > before, what="events that nobody reads")
        client.delete(stream)
    finally:
        own_site.bot.send_signal(signal.SIGCONT)
    if when == "while it trains":
        own_site.progresses(run)
        own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1
    # The end may have come before what was lost.
    eventually(lambda: not list(invariants.metrics_are_whole(own_site)), limit_s=20, what="all metrics")
