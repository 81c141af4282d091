"""What the bot gets: fleet, feed, blobs, bundles, keys."""

import asyncio
import hashlib
import io
import json
import os
import signal
import stat
import tarfile
from pathlib import Path

import pytest
import redis

from agent.domain.errors import BadData, NotFound, Unavailable
from agent.domain.events import Accepted, Beat, Ended, WorkerEvent
from agent.domain.orders import InspectOrder, PredictOrder
from agent.domain.runs import Outcome, RunSpec, RunState, Usage
from tests.worker.conftest import ENDLESS, GOOD, Yard, eventually
from worker.client.blobs import FolderBlobs, RedisBlobs
from worker.client.bundle import pack
from worker.client.feed import RedisFeed
from worker.client.keys import is_signed, load_or_create, sign
from worker.client.redis_url import for_celery, for_client, shown
from worker.engines.hosts.fleet import CeleryFleet

CSV = b"age,city,churn\n" + b"".join(
    b"%d,c%d,%s\n" % (20 + n % 50, n % 5, b"yes" if n % 3 else b"no") for n in range(60)
)
PREDICT = """
finish()
pathlib.Path("artifacts/predict.py").write_text('''
import json, sys
if sys.argv[1] == "--json":
    rows = json.load(open(sys.argv[2]))
    if any("age" not in row for row in rows):
        print(json.dumps({"error": "Row 1 has no column age."}))
        sys.exit(65)
    print(json.dumps([{"label": "yes", "probabilities": [["yes", 0.75], ["no", 0.25]]} for _ in rows]))
else:
    open(sys.argv[3], "w").write("prediction\\\\nyes\\\\n")
''')
"""


async def collect(feed: RedisFeed, run: str, *, ack: bool = True) -> list[WorkerEvent]:
    """Events of `run` as the feed gives them, up to its end."""
    found: list[WorkerEvent] = []
    async with asyncio.timeout(60):
        while not (found and isinstance(found[-1].body, Ended)):
            batch = await feed.read()
            found += [event for _, event in batch if event.run == run]
            if ack:
                await feed.ack([ack_id for ack_id, _ in batch])
    return found


async def test_the_feed_gives_everything_once_and_says_what_is_stored(yard: Yard) -> None:
    feed = RedisFeed(yard.server.url)
    await yard.launch(yard.order("r-feed00", GOOD))
    events = await collect(feed, "r-feed00")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert yard.redis().hget("trainyard:acked", "r-feed00:1") == str(len(events)).encode()
    await feed.close()


async def test_what_was_not_acknowledged_comes_again_after_a_restart(yard: Yard) -> None:
    feed = RedisFeed(yard.server.url)
    await yard.launch(yard.order("r-feed01", GOOD))
    events = await collect(feed, "r-feed01", ack=False)
    await feed.close()
    assert yard.redis().hget("trainyard:acked", "r-feed01:1") is None
    second = RedisFeed(yard.server.url)
    assert await collect(second, "r-feed01") == events
    await second.close()


async def test_the_feed_steps_over_what_is_no_event(yard: Yard) -> None:
    yard.redis().xadd("trainyard:ev:h2", {"e": b"{}"})
    feed = RedisFeed(yard.server.url)
    await yard.launch(yard.order("r-feed02", GOOD))
    assert await collect(feed, "r-feed02")
    await feed.close()


async def test_what_a_newer_worker_says_leaves_no_gap(own_yard: Yard) -> None:
    told = {"run": "r-feed04", "attempt": 1, "host": "h2", "at": "2026-01-01T00:00:00Z"}
    usage = {"cpus": 1.0, "memory_bytes": 5, "watts": 300}
    bodies = (
        {"kind": "accepted", "boot_id": "b", "zone": "eu"},
        {"kind": "beat", "usage": usage, "mood": "fine"},
        {"kind": "dreamt", "of": "sheep"},
        {"kind": "ended", "outcome": {"state": "succeeded", "seconds": 5, "joules": 7}},
        {"kind": "ended", "outcome": {"state": "transcended"}},
    )
    for seq, body in enumerate(bodies, start=1):
        own_yard.redis().xadd("trainyard:ev:h2", {"e": json.dumps({**told, "seq": seq, "v": 2, "body": body})})
    for raw in (b"[]", b"[" * 100_000, b'{"body": 3}'):
        own_yard.redis().xadd("trainyard:ev:h2", {"e": raw})
    feed = RedisFeed(own_yard.server.url)
    batch = await feed.read()
    await feed.ack([ack_id for ack_id, _ in batch])
    assert [(event.run, event.attempt, event.seq, event.host) for _, event in batch] == [
        ("r-feed04", 1, seq, "h2") for seq in range(1, 6)
    ]
    known = Ended(outcome=Outcome(state=RunState.SUCCEEDED, seconds=5))
    unread = batch[4][1].body
    assert [event.body for _, event in batch] == [
        Accepted(boot_id="b"), Beat(usage=Usage(cpus=1.0, memory_bytes=5)), Beat(), known, unread
    ]  # fmt: skip
    assert isinstance(unread, Ended)
    assert (unread.outcome.state, unread.outcome.exit_class) == (RunState.FAILED, None)
    assert own_yard.redis().hget("trainyard:acked", "r-feed04:1") == b"5"
    assert own_yard.redis().xpending("trainyard:ev:h2", "bot")["pending"] == 0
    await feed.close()


async def test_the_feed_survives_a_redis_that_goes_away_and_forgets(own_yard: Yard) -> None:
    own_yard.start_worker()
    feed = RedisFeed(own_yard.server.url)
    await own_yard.launch(own_yard.order("r-feed03", ENDLESS))
    own_yard.running("r-feed03")
    batch = await feed.read()
    own_yard.server.stop()
    await feed.ack([ack_id for ack_id, _ in batch])
    assert await feed.read() == ()
    own_yard.server.start()
    eventually(lambda: own_yard.kinds("r-feed03")[-1:], what="its events")
    os.kill(own_yard.server.pid or 0, signal.SIGKILL)
    own_yard.server.stop()
    for path in (own_yard.home / "redis").rglob("appendonly*"):
        if path.is_file():
            path.unlink()
    own_yard.server.start()  # it has forgotten everything, also who reads
    (own_yard.folder("r-feed03").path / "go-on").touch()
    seen = {event.seq for _, event in batch} | {event.seq for event in await collect(feed, "r-feed03")}
    assert seen == set(range(1, max(seen) + 1))
    await feed.close()


async def test_hosts_say_what_they_have(yard: Yard) -> None:
    fleet = CeleryFleet(yard.server.url, yard.keys, yard.blobs)
    (host,) = await fleet.hosts()
    assert (host.host, host.sandbox) == ("h1", "none")
    assert host.cpus >= 1
    assert host.memory_bytes > 0
    await fleet.close()


async def test_inspect_answers_or_says_what_is_wrong(yard: Yard) -> None:
    fleet = CeleryFleet(yard.server.url, yard.keys, yard.blobs)
    data = yard.blobs.put_bytes(CSV, name="people.csv")
    report = await fleet.inspect(InspectOrder(dataset=data, target="churn"))
    assert (report.rows, report.dataset) == (60, data)
    plan = RunSpec(
        task="tabular_classification", recipe="tabular_classification", dataset=data, target="churn", host="h1",
        bundle_sha256="b" * 64, settings={"rounds": 6000},
    )  # fmt: skip
    assert (await fleet.inspect(InspectOrder(dataset=data, target="churn", plan=plan))).effort == 10.0
    plan = plan.model_copy(update={"settings": {"early_stopping": 5000}})
    with pytest.raises(BadData, match="early_stopping_patience”, which takes a whole number from 1 to 100,000"):
        await fleet.inspect(InspectOrder(dataset=data, target="churn", plan=plan))
    with pytest.raises(BadData):
        await fleet.inspect(InspectOrder(dataset=yard.blobs.put_bytes(b"\x00\x01\x02", name="noise.csv")))
    with pytest.raises(NotFound):
        await fleet.inspect(InspectOrder(dataset=data.model_copy(update={"sha256": "0" * 64})))
    await fleet.close()


class LaterOrder(InspectOrder):
    """What a bot of a later version sends."""

    walls: str = "higher"


async def test_an_order_of_another_version_is_refused_with_a_sentence(yard: Yard) -> None:
    fleet, data = CeleryFleet(yard.server.url, yard.keys, yard.blobs), yard.blobs.put_bytes(CSV, name="people.csv")
    with pytest.raises(Unavailable, match="of another version than the bot"):
        await fleet.inspect(LaterOrder(dataset=data))
    await fleet.close()


async def test_predict_runs_the_models_own_script(yard: Yard) -> None:
    await yard.launch(yard.order("r-pred00", PREDICT))
    artifact = yard.outcome("r-pred00").artifact
    assert artifact is not None
    fleet = CeleryFleet(yard.server.url, yard.keys, yard.blobs)
    answers = await fleet.predict(PredictOrder(artifact_sha256=artifact.sha256, rows=({"age": "30"}, {"age": "31"})))
    assert [answer.label for answer in answers.rows] == ["yes", "yes"]
    assert answers.rows[0].probabilities == (("yes", 0.75), ("no", 0.25))
    with pytest.raises(BadData, match="no column age"):
        await fleet.predict(PredictOrder(artifact_sha256=artifact.sha256, rows=({"size": "1"},)))
    data = yard.blobs.put_bytes(CSV, name="people.csv")
    found = await fleet.predict(PredictOrder(artifact_sha256=artifact.sha256, dataset=data))
    assert found.file is not None
    assert found.file.name == "people-predictions.csv"
    assert yard.blobs.get_file(found.file.sha256).read_bytes() == b"prediction\nyes\n"
    await fleet.close()


async def test_without_a_host_or_a_redis_the_answer_is_a_sentence(own_yard: Yard) -> None:
    fleet = CeleryFleet(own_yard.server.url, own_yard.keys, own_yard.blobs, no_host_s=0.5)
    order = InspectOrder(dataset=own_yard.blobs.put_bytes(CSV, name="people.csv"))
    with pytest.raises(Unavailable, match=r"No GPU host answered within 0\.5 s\. Start one with `trainyard worker`\."):
        await fleet.inspect(order)
    starting = CeleryFleet(own_yard.server.url, own_yard.keys, own_yard.blobs, no_host_s=0.0, own_worker_s=60.0)
    assert starting.nobody() == "The worker of this machine is still starting. Try again in a moment."
    asking = asyncio.create_task(starting.inspect(order))  # one of our own is waited for
    while not own_yard.redis().client_list():
        await asyncio.sleep(0.01)
    own_yard.redis().set("trainyard:seen:ghost", ghost(), ex=60)
    (lost,) = await fleet.gone()
    assert lost.host == "ghost"
    assert not asking.done()
    asking.cancel()
    own_yard.redis().set("trainyard:host:ghost", ghost(), ex=60)
    assert await fleet.gone() == []
    patient = CeleryFleet(own_yard.server.url, own_yard.keys, own_yard.blobs, inspect_s=1.0)
    with pytest.raises(Unavailable, match="No GPU host answered within 1 s"):
        await patient.inspect(order)
    own_yard.server.stop()
    with pytest.raises(Unavailable, match="does not answer"):
        await fleet.submit(own_yard.order("r-noone0", GOOD))
    with pytest.raises(Unavailable, match="does not answer"):
        await fleet.hosts()
    await fleet.close()
    await patient.close()


def ghost() -> bytes:
    return json.dumps(
        {"host": "ghost", "cpus": 1, "memory_bytes": 1, "disk_free_bytes": 1, "at": "2026-01-01T00:00:00Z"}
    ).encode()


async def test_folder_blobs_store_once_and_notice_damage(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    source = tmp_path / "data.csv"
    source.write_bytes(CSV)
    first, second = await blobs.put(source, name="a.csv"), await blobs.put(source, name="b.csv")
    assert first.sha256 == second.sha256 == hashlib.sha256(CSV).hexdigest()
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [first.sha256]
    stored = await blobs.get(first.sha256)
    assert stored.read_bytes() == CSV
    stored.chmod(0o644)
    stored.write_bytes(b"other")
    with pytest.raises(NotFound, match="damaged"):
        await blobs.get(first.sha256)
    for wrong in ("../../etc/passwd", "0" * 64):
        with pytest.raises(NotFound):
            await blobs.get(wrong)


async def test_redis_blobs_travel_in_chunks(yard: Yard, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000  # more than two chunks
    ref = RedisBlobs(yard.server.url, tmp_path / "bot").put_bytes(data, name="big.bin")
    host = RedisBlobs(yard.server.url, tmp_path / "host")
    assert (await host.get(ref.sha256)).read_bytes() == data
    with pytest.raises(NotFound):
        await host.get("0" * 64)
    nobody = RedisBlobs("redis://127.0.0.1:1/0", tmp_path / "nobody")
    with pytest.raises(Unavailable):
        nobody.put_bytes(b"x", name="x")


def test_a_bundle_is_the_same_bytes_every_time() -> None:
    sha256, data = pack("tabular_classification")
    assert (sha256, data) == pack("tabular_classification")
    assert sha256 == hashlib.sha256(data).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
        script = tar.extractfile("train.py")
        assert script is not None
        assert script.read() == b"from worker.recipes.entry import main\nmain()\n"
    assert names == sorted(names)
    assert {"requirements.txt", "trainyard/runtime.py", "worker/runtime.py", "worker/recipes/entry.py"} <= set(names)


def test_the_launch_key_is_made_once_and_private(tmp_path: Path, yard: Yard) -> None:
    key = load_or_create(tmp_path / "keys")
    assert stat.S_IMODE((tmp_path / "keys" / "launch.key").stat().st_mode) == 0o600
    again = load_or_create(tmp_path / "keys")
    assert again.private_bytes_raw() == key.private_bytes_raw()
    order = sign(yard.order("r-sign00", GOOD), key)
    assert is_signed(order, tmp_path / "keys" / "launch.pub")
    assert not is_signed(order.model_copy(update={"attempt": 2}), tmp_path / "keys" / "launch.pub")
    assert not is_signed(order, yard.keys / "launch.pub")


@pytest.mark.parametrize(
    ("ours", "client", "celery", "seen"),
    [
        ("redis://h:1/2", "redis://h:1/2", "redis://h:1/2", "redis://h:1/2"),
        ("rediss://:pw@h:1/2", "rediss://:pw@h:1/2", "rediss://:pw@h:1/2", "rediss://:***@h:1/2"),
        ("unix:///a/b.sock", "unix:///a/b.sock", "redis+socket:///a/b.sock?virtual_host=0", "unix:///a/b.sock"),
        (
            "redis+socket:///a/b.sock?virtual_host=3", "unix:///a/b.sock?db=3",
            "redis+socket:///a/b.sock?virtual_host=3", "redis+socket:///a/b.sock?virtual_host=3",
        ),
    ],
)  # fmt: skip
def test_an_address_is_written_for_each_reader(ours: str, client: str, celery: str, seen: str) -> None:
    assert (for_client(ours), for_celery(ours), shown(ours)) == (client, celery, seen)
    redis.Redis.from_url(for_client(ours)).close()
