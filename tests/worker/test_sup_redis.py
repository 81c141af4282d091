"""Redis hangs, connections die without a word, a pool stops: who notices, and how soon."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from agent.domain.errors import Unavailable
from agent.domain.orders import InspectOrder
from agent.domain.runs import RunState
from tests.worker.conftest import ENDLESS, EVALUATE, GOOD, Yard, eventually
from worker.client.blobs import RedisBlobs
from worker.client.connect import connect
from worker.client.feed import RedisFeed
from worker.client.queue import make_app
from worker.consuming import Watch, is_consuming, note
from worker.engines.hosts.fleet import CeleryFleet
from worker.folders import HostFolder
from worker.host.processes import children_of


class Proxy:
    """TCP in front of the server's socket. `cut` makes the connections of now swallow everything, for ever."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}/0"
        self._cut: set[int] = set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """From now on nothing comes through what is connected; how many connections that are."""
        found = len(self._pairs)
        self._cut.update(range(found))
        return found

    def close(self) -> None:
        self._listening.close()
        for pair in self._pairs:
            for end in pair:
                end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                inner = self._listening.accept()[0]
                outer = socket.socket(socket.AF_UNIX)
                outer.connect(self._path)
                number = len(self._pairs)
                self._pairs.append((inner, outer))
                for source, target in ((inner, outer), (outer, inner)):
                    threading.Thread(target=self._pass, args=(number, source, target), daemon=True).start()

    def _pass(self, number: int, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if number not in self._cut:
                    target.sendall(data)
            if number not in self._cut:
                target.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy(own_yard: Yard) -> Iterator[Proxy]:
    made = Proxy(own_yard.server.url.removeprefix("unix://").partition("?")[0])
    yield made
    made.close()


@contextlib.contextmanager
def hung(yard: Yard) -> Iterator[None]:
    assert yard.server.pid is not None
    os.kill(yard.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(yard.server.pid, signal.SIGCONT)


async def test_a_worker_behind_a_dead_connection_consumes_again(own_yard: Yard, proxy: Proxy) -> None:
    own_yard.extra = {"TRAINYARD_REDIS_URL": proxy.url}
    own_yard.start_worker()
    await own_yard.launch(own_yard.order("r-half-0", ENDLESS))
    own_yard.running("r-half-0")
    assert proxy.cut() >= 3  # the worker's, its pool's, the supervisor's
    told = len(own_yard.events("r-half-0"))
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < 60:  # as the bot does: a hint that got lost is sent again
        number += 1
        order = own_yard.order(f"r-half-{number}", GOOD)
        await own_yard.launch(order)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                while not own_yard.folder(order.run).fence.exists():
                    await asyncio.sleep(0.05)
                break
    assert time.monotonic() - began < 20
    assert own_yard.outcome(f"r-half-{number}").state is RunState.SUCCEEDED
    eventually(lambda: len(own_yard.events("r-half-0")) > told + 5, what="what the supervisor of the first one tells")
    (own_yard.folder("r-half-0").path / "go-on").touch()
    assert own_yard.outcome("r-half-0").state is RunState.SUCCEEDED
    numbers = [event.seq for event in own_yard.events("r-half-0")]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_publish_to_a_hung_redis_ends_in_time_and_harms_nobody(own_yard: Yard) -> None:
    own_yard.start_worker()
    fleet = CeleryFleet(own_yard.server.url, own_yard.keys, own_yard.blobs)
    await fleet.submit(own_yard.order("r-warm00", GOOD))
    order = own_yard.order("r-hung00", GOOD)
    with hung(own_yard):
        began = time.monotonic()
        answers = await asyncio.gather(
            fleet.submit(order),
            fleet.hosts(),
            fleet.inspect(InspectOrder(dataset=order.spec.dataset)),
            return_exceptions=True,
        )
        assert time.monotonic() - began < 6
    assert all(isinstance(one, Unavailable) and "does not answer" in one.text for one in answers), answers
    await fleet.submit(order)
    assert own_yard.outcome("r-hung00").state is RunState.SUCCEEDED
    assert own_yard.kinds("r-hung00").count("accepted") == 1
    await fleet.close()


async def test_publishers_that_hang_do_not_pile_up(own_yard: Yard) -> None:
    fleet = CeleryFleet(own_yard.server.url, own_yard.keys, own_yard.blobs)
    orders = [own_yard.order(f"r-pile{number:02}", GOOD) for number in range(12)]
    with hung(own_yard):
        began = time.monotonic()
        answers = await asyncio.gather(*(fleet.submit(order) for order in orders), return_exceptions=True)
        assert time.monotonic() - began < 8
        assert all(isinstance(answer, Unavailable) for answer in answers)
        await asyncio.wait_for(asyncio.to_thread(int), 1)  # the threads of others are free
    await fleet.close()


async def test_the_feed_says_when_it_is_away(own_yard: Yard, proxy: Proxy) -> None:
    own_yard.redis().xadd("trainyard:ev:h1", {"e": b"{}"})
    feed = RedisFeed(proxy.url)
    await feed.read()
    assert not feed.away
    proxy.cut()
    began = time.monotonic()
    assert await feed.read() == ()
    assert time.monotonic() - began < 6
    assert feed.away
    async with asyncio.timeout(20):  # a new connection goes through
        while feed.away:
            await feed.read()
    with hung(own_yard):
        began = time.monotonic()
        assert await feed.read() == ()
        assert time.monotonic() - began < 6
        assert feed.away
    await feed.close()


def test_a_client_opens_a_closed_connection_again_and_repeats_no_timeout(own_yard: Yard) -> None:
    client = connect(own_yard.server.url)
    client.set("x", 1)
    own_yard.server.stop()
    own_yard.server.start()
    assert client.get("x") == b"1"
    with hung(own_yard):
        began = time.monotonic()
        with pytest.raises(Exception, match="imeout"):
            client.get("x")
        assert time.monotonic() - began < 6


def test_a_pool_that_does_not_consume_is_found_out(own_yard: Yard) -> None:
    own_yard.extra = {"TRAINYARD_NOOP_S": "0.5"}
    worker = own_yard.start_worker()
    home = HostFolder.of(own_yard.home, own_yard.host)
    eventually((home.path / "noop.at").exists, what="a noop that came out")
    assert is_consuming(home)
    pool = children_of(worker.pid)
    for pid in pool:
        os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: not is_consuming(home), what="the verdict")
        eventually(lambda: b'"consuming":false' in (own_yard.redis().get("trainyard:host:h1") or b""))  # type: ignore[operator]
    finally:
        for pid in pool:
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: is_consuming(home), what="the other verdict")
    assert "pool_does_not_consume" in (own_yard.home / "worker.log").read_text()
    assert "pool_consumes_again" in (own_yard.home / "worker.log").read_text()


def test_a_redis_that_is_away_says_nothing_about_the_pool(tmp_path: object) -> None:
    home, now, away = HostFolder.of(tmp_path, "h1"), [0.0], [True]  # type: ignore[arg-type]
    home.path.mkdir(parents=True)

    def send() -> None:
        if away[0]:
            raise ConnectionError("no Redis")

    watch = Watch(home, send, period_s=30, clock=lambda: now[0])
    for _ in range(10):
        now[0] += 30
        assert watch.tick()
    away[0] = False
    verdicts = []
    for _ in range(5):
        now[0] += 30
        verdicts.append(watch.tick())
    assert verdicts == [True, True, True, False, False]
    note(home)
    assert watch.tick()


def test_celery_is_set_up_as_the_notes_say() -> None:
    conf = make_app("test", "redis://127.0.0.1:1/0").conf
    options = conf.broker_transport_options
    assert {name: options[name] for name in ("socket_timeout", "socket_connect_timeout", "health_check_interval")} == {
        "socket_timeout": 5, "socket_connect_timeout": 3, "health_check_interval": 5,
    }  # fmt: skip
    assert options["socket_keepalive"]
    assert options["retry_on_timeout"]
    assert conf.visibility_timeout == options["visibility_timeout"] == 300
    assert conf.result_backend_transport_options["visibility_timeout"] == 300
    assert (conf.redis_socket_timeout, conf.redis_socket_connect_timeout) == (5, 3)
    assert conf.redis_backend_health_check_interval == 5
    assert (conf.task_acks_late, conf.task_reject_on_worker_lost) == (True, False)
    assert (conf.worker_prefetch_multiplier, conf.worker_disable_prefetch) == (1, True)
    assert (conf.accept_content, conf.task_create_missing_queues) == (["json"], False)


def test_a_store_that_is_away_at_the_end_costs_no_result(own_yard: Yard) -> None:
    """Files may lie in Redis: what trained for a week waits for it, and says that it lives."""
    own_yard.extra = {"TRAINYARD_BLOBS": "redis"}
    own_yard.blobs = RedisBlobs(own_yard.server.url, own_yard.home / "of-the-bot")  # type: ignore[assignment]
    waiting = b"import os, time\nprint('evaluating', flush=True)\n"
    waiting += (
        b"while not os.path.exists(os.environ['TRAINYARD_RUN_DIR'] + '/go-on'):\n    time.sleep(0.02)\n" + EVALUATE
    )
    own_yard.launch_here(own_yard.order("r-store0", GOOD, files={"worker/recipes/evaluate.py": waiting}))
    folder = own_yard.folder("r-store0")
    eventually(lambda: folder.log.exists() and "evaluating" in folder.log.read_text(), what="the last step")
    own_yard.server.stop()
    (folder.path / "go-on").touch()
    said = folder.path / "supervisor.log"
    eventually(lambda: "store_away" in said.read_text() or folder.outcome.exists(), what="a store that is away")
    assert not folder.outcome.exists()
    beats = folder.spool.read_text().count('"beat"')
    eventually(lambda: folder.spool.read_text().count('"beat"') > beats + 2, what="beats while it waits")
    own_yard.server.start()
    outcome = own_yard.outcome("r-store0")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.artifact is not None
    assert own_yard.blobs.get_file(outcome.artifact.sha256).stat().st_size == outcome.artifact.size_bytes
