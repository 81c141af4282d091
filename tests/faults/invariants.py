"""What must be true whatever was broken. `check` is called after every case, `settled` once nothing runs any more.

I1 at most one live attempt a run · I2 each end recorded once and shown once · I3 no GPU leased twice or left leased ·
I4 metrics without gaps and doubles · I5 no orphan process · I6 no canary secret in database, Redis, logs or posts.
"""

import contextlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from tests.faults.site import CANARIES, ENDS, Site
from tests.worker.conftest import eventually, processes_naming
from worker.folders import HostFolder

LIVE = ("starting", "running", "pausing", "stopping", "unreachable")


def check(site: Site) -> None:
    """The invariants that hold at every moment."""
    broken = [*one_live_attempt(site), *metrics_are_whole(site, ended_only=True), *no_double_posts(site), *leases(site)]
    assert not broken, "\n".join(broken)


def settled(site: Site) -> None:
    """All six, once every run is over and its processes had time to leave."""
    for run in [row["id"] for row in site.rows("SELECT id FROM run")]:
        site.ends(run)
    with contextlib.suppress(AssertionError):
        eventually(lambda: not orphans(site), limit_s=20)
    with contextlib.suppress(AssertionError):
        eventually(lambda: not list(ends_are_shown(site)), limit_s=20)
    broken = violations(site)
    assert not broken, "\n".join(broken)


def violations(site: Site) -> list[str]:
    """All six as they stand now, for a site where nothing runs any more."""
    return [
        *one_live_attempt(site),
        *ends_are_shown(site),
        *no_double_posts(site),
        *leases(site),
        *metrics_are_whole(site),
        *orphans(site),
        *canaries(site),
    ]


def training(site: Site) -> dict[str, dict[str, list[int]]]:
    """Living processes of attempts: run -> attempt -> pids, by their environment."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for pid in processes_naming(f"TRAINYARD_RUN_DIR={site.home}"):
        env = _environment(pid)
        if run := env.get("TRAINYARD_RUN_ID"):
            found[run][env.get("TRAINYARD_ATTEMPT", "?")].append(pid)
    return found


def one_live_attempt(site: Site) -> Iterator[str]:
    """I1."""
    for run, attempts in training(site).items():
        if len(attempts) > 1:
            yield f"I1: {run} has processes of attempts {sorted(attempts)} at once: {dict(attempts)}"
    with_outcome = "outcome" in {row["name"] for row in site.rows("PRAGMA table_info(attempt)")}
    if with_outcome:
        query = "SELECT run_id, COUNT(*) AS n FROM attempt WHERE outcome IS NULL GROUP BY run_id HAVING n > 1"
        for row in site.rows(query):
            yield f"I1: the database has {row['n']} open attempts of {row['run_id']}"


def ends_are_shown(site: Site) -> Iterator[str]:
    """I2: each run that is over is over in one place, and one card says so."""
    for row in site.rows("SELECT id, state, outcome FROM run"):
        if row["state"] not in ENDS:
            continue
        if not row["outcome"]:
            yield f"I2: {row['id']} is {row['state']} without an outcome"
            continue
        outcome = json.loads(row["outcome"])
        if outcome["state"] != row["state"]:
            yield f"I2: {row['id']} is {row['state']}, its outcome says {outcome['state']}"
        cards = [shown for shown in site.people.shown if _card_of(shown.content) == "run" and row["id"] in shown.words]
        if len(cards) != 1:
            yield f"I2: {len(cards)} cards show {row['id']}: {[card.key for card in cards]}"
        elif not _says(cards[0].content, row["state"]):
            yield f"I2: the card of {row['id']} does not say {row['state']}: {cards[0].words[:600]}"
        results = [s for s in site.people.shown if _card_of(s.content) == "result" and row["id"] in s.words]
        if row["state"] == "succeeded" and len(results) > 1:
            yield f"I2: the result of {row['id']} was posted {len(results)} times"


def no_double_posts(site: Site) -> Iterator[str]:
    """I2: nothing was posted twice."""
    for key, times in Counter(shown.key for shown in site.people.shown).items():
        if times > 1:
            yield f"I2: {key} was posted {times} times"


def leases(site: Site) -> Iterator[str]:
    """I3: a GPU has one holder (the primary key says so), and every holder is an attempt that is not over."""
    if not site.rows("SELECT name FROM sqlite_master WHERE name = 'gpu_lease'"):
        return
    query = """SELECT gpu_lease.uuid, gpu_lease.run_id, gpu_lease.attempt, attempt.outcome, run.state FROM gpu_lease
        LEFT JOIN attempt ON attempt.run_id = gpu_lease.run_id AND attempt.number = gpu_lease.attempt
        LEFT JOIN run ON run.id = gpu_lease.run_id"""
    rows = site.rows(query)
    for uuid, times in Counter(row["uuid"] for row in rows).items():
        if times > 1:
            yield f"I3: GPU {uuid} is leased {times} times"
    for row in rows:
        if row["outcome"] or row["state"] not in LIVE:
            yield f"I3: GPU {row['uuid']} is still leased to {row['run_id']}:{row['attempt']}, which is {row['state']}"


def metrics_are_whole(site: Site, *, ended_only: bool = False) -> Iterator[str]:
    """I4: the database has what metrics.jsonl has, once, in order; of a host that was given up a beginning."""
    for row in site.rows("SELECT id, state FROM run"):
        if row["state"] not in (("succeeded",) if ended_only else ENDS) or row["state"] == "lost":
            continue
        hosts = [attempt["host"] for attempt in site.attempts(row["id"])]
        for host in dict.fromkeys(hosts):
            stored, written = _stored_steps(site, row["id"], host), _written_steps(site, row["id"], host)
            if stored != (written if host == hosts[-1] else written[: len(stored)]):
                where = next((n for n, (a, b) in enumerate(zip(stored, written, strict=False)) if a != b), "the end")
                yield f"I4: {row['id']}: {len(stored)} rows stored, {len(written)} written; they differ at {where}"


def orphans(site: Site) -> list[str]:
    """I5: processes of runs that are over."""
    over = {row["id"] for row in site.rows("SELECT id, state FROM run") if row["state"] in ENDS}
    return [
        f"I5: {run} is over and has processes {dict(attempts)}"
        for run, attempts in training(site).items()
        if run in over
    ]


def canaries(site: Site) -> Iterator[str]:
    """I6: secrets of the worker's environment, and the launch key."""
    secrets = {name: value.encode() for name, value in CANARIES.items()}
    key = site.keys / "launch.key"
    if key.exists():
        secrets["launch.key"] = key.read_bytes().strip()
    for path in _records(site):
        data = path.read_bytes()
        yield from (f"I6: {name} stands in {path}" for name, secret in secrets.items() if secret in data)
    dump = _dump(site)
    yield from (f"I6: {name} stands in Redis" for name, secret in secrets.items() if secret in dump)


def _records(site: Site) -> Iterator[Path]:
    for path in site.home.rglob("*"):
        kept = path.suffix in {".log", ".jsonl", ".json", ".db", ".db-wal", ".aof", ".csv", ".txt"}
        if path.is_file() and kept and path.parent != site.keys and path.stat().st_size < 64 * 1024**2:
            yield path


def _dump(site: Site) -> bytes:
    try:
        client = site.redis()
        return b"\n".join(client.dump(key) or b"" for key in client.scan_iter(count=1000))
    except redis.RedisError:
        return b""


def _stored_steps(site: Site, run: str, host: str) -> list[int]:
    return [row.step for one in site.attempts(run) if one["host"] == host for row in site.stored(run, one)]


def _written_steps(site: Site, run: str, host: str) -> list[int]:
    path = HostFolder.of(site.home, host).run(run).path / "metrics.jsonl"
    return [int(json.loads(line)["step"]) for line in path.read_text().splitlines()] if path.exists() else []


def _card_of(content: dict[str, Any]) -> str:
    return str((content.get("card") or {}).get("kind", ""))


def _says(content: dict[str, Any], state: str) -> bool:
    return state in json.dumps(content.get("card") or {}).lower()


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes() if pid != os.getpid() else b""
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in raw.decode(errors="replace").split("\0") if "=" in entry)
