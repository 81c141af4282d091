"""The composition root of a GPU host: settings in, a running Celery worker out.

Owns wiring and the background threads of the main process. Entered by `python -m worker` and `trainyard worker`.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import redis
from celery import Celery
from celery.signals import worker_ready
from kombu.exceptions import OperationalError

from agent.domain.errors import AppError, Unavailable
from worker.client.blobs import make_blobs
from worker.client.connect import connect
from worker.client.queue import CONTROL_QUEUE, host_queue, make_app
from worker.client.redis_url import shown
from worker.consuming import Watch, is_consuming
from worker.fetching.fetcher import Fetcher
from worker.folders import HostFolder
from worker.host import secrets
from worker.host.disk import disk_is_low
from worker.host.host_name import HostName
from worker.host.hostbeat import HostBeat
from worker.host.limits import limit_open_files, limits_of
from worker.launches.launching import Launcher
from worker.launches.signatures import last_refusal
from worker.launches.spawning import WAITING, waiting_program
from worker.launches.sweep import Sweep
from worker.sandbox import choose_tier, networks_of
from worker.scripts import Scripts
from worker.settings import Settings
from worker.tasks import register
from worker.warm.pool import Pool, Program, zygote_program
from worker.warm.sets import AUTO, ready_sets, sets_of

_POOL_SIZE = 2
_WARM_EVERY_S = 2.0
_PARENT_EVERY_S = 1.0
_ORPHAN_S = 20.0  # for a soft shutdown, as long as Celery's own

log = logging.getLogger(__name__)


def build(settings: Settings, *, tier: str) -> Celery:
    """The Celery application of this host, with its tasks."""
    home = HostFolder.of(settings.home, settings.host_id)
    blobs = make_blobs(settings.blobs, home=settings.home, redis_url=settings.redis_url, cache=home.blobs)
    limits = {"inspect_s": settings.inspect_limit_s, "predict_s": settings.predict_limit_s}
    app = make_app("trainyard-worker", settings.redis_url, queues=(host_queue(settings.host_id),))
    scripts = Scripts(blobs, home, tier=tier, **limits)
    fetcher = Fetcher(blobs, settings, rows=scripts.rows, home=home.path)
    register(app, Launcher(settings, blobs, tier=tier), scripts, fetcher, settings)
    return app


def main() -> None:
    """Run until SIGTERM. Exits 1 with a sentence when this host cannot work."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = Settings()
    try:
        sets_of(settings.warm)
        tier = choose_tier(settings.sandbox)
        _require_redis(settings.redis_url)
        name = HostName(settings.host_id, HostFolder.of(settings.home, settings.host_id).path, settings.redis_url)
        name.take()
    except (AppError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    if settings.parent:
        threading.Thread(target=_end_after, args=(settings.parent,), name="parent", daemon=True).start()
    limit_open_files(settings.open_files)
    log.info("worker_starting host=%s redis=%s sandbox=%s", settings.host_id, shown(settings.redis_url), tier)
    app = build(settings, tier=tier)
    _start_threads_when_ready(settings, tier, name)
    try:
        app.worker_main(
            [
                "worker",
                "--pool",
                "prefork",
                "--concurrency",
                str(_POOL_SIZE),
                "--loglevel",
                "INFO",
                "--queues",
                f"host.{settings.host_id},{CONTROL_QUEUE}",
                "--hostname",
                f"trainyard@{settings.host_id}",
                "--without-gossip",
                "--without-mingle",
            ]
        )
    finally:
        name.release()


def _end_after(parent: int) -> None:
    """End this worker and its pool for good some time after its parent died.

    SIGTERM has come by then (`bot.tether`), but Celery may wait for ever for a Redis that died with the parent.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_EVERY_S)
    time.sleep(_ORPHAN_S)
    os.killpg(0, signal.SIGKILL)  # supervisors of attempts have groups of their own and go on


def _require_redis(url: str) -> None:
    try:
        connect(url).ping()
    except (redis.RedisError, OSError) as error:
        raise Unavailable(
            f"The worker cannot start: Redis at {shown(url)} does not answer ({error}). "
            "Start it, or set TRAINYARD_REDIS_URL to where it is."
        ) from error


def _start_threads_when_ready(settings: Settings, tier: str, name: HostName) -> None:
    """Threads begin after the pool has forked its processes: a fork copies locks that another thread may hold."""
    home = HostFolder.of(settings.home, settings.host_id)
    beat = HostBeat(
        settings.host_id,
        home=settings.home,
        redis_url=settings.redis_url,
        tier=tier,
        slots=settings.slots,
        networks=networks_of(tier),
        disk_low=lambda: disk_is_low(
            home.path, floor_bytes=settings.disk_floor_bytes, floor_share=settings.disk_floor_share
        ),
        consuming=lambda: is_consuming(home),
        warm=lambda: ready_sets(home.warm),
        alert=lambda: last_refusal(home),
        secrets=lambda: secrets.names(settings.home),
        limits=lambda gpus, of_gpus: limits_of(settings, gpus=gpus, of_gpus=of_gpus),
    )
    sweep = Sweep(home, host=settings.host_id, redis_url=settings.redis_url)
    watch = Watch(home, _noop_sender(settings), period_s=settings.noop_s)

    def start(**_signal: object) -> None:
        _every(settings.host_beat_s, "host-beat", beat.beat)
        _every(settings.host_beat_s, "host-name", name.renew)
        _every(settings.sweep_s, "sweep", sweep.run)
        _every(settings.noop_s, "consuming", watch.tick)
        if programs := _warm_programs(settings, tier):
            _every(_WARM_EVERY_S, "warm", Pool(home.warm, programs).look)

    worker_ready.connect(start, weak=False)


def _warm_programs(settings: Settings, tier: str) -> dict[str, Program]:
    """What stands ready here: a supervisor, and the sets of libraries."""
    sets = sets_of(settings.warm)
    if not sets:
        return {}
    programs = {WAITING: waiting_program(settings, tier=tier)}
    if tier == "bwrap":  # without namespaces to join, a process with loaded libraries would be outside of the walls
        keep_s = settings.warm_keep_s if settings.warm.strip().lower() == AUTO else None
        programs |= {name: zygote_program(name, keep_s=keep_s) for name in sets}
    return programs


def _noop_sender(settings: Settings) -> Callable[[], None]:
    """Puts one `trainyard.noop` into this host's own queue, through connections of its own."""
    app = make_app("trainyard-watch", settings.redis_url)
    queue = host_queue(settings.host_id)

    def send() -> None:
        try:
            app.send_task("trainyard.noop", queue=queue, expires=settings.noop_s, ignore_result=True)
        except (OperationalError, redis.RedisError) as error:
            raise ConnectionError(str(error)) from error

    return send


def _every(seconds: float, name: str, act: Callable[[], object]) -> None:
    def loop() -> None:
        pause = threading.Event()
        while True:
            try:
                act()
            except Exception:
                log.exception("%s_broke", name)
            pause.wait(seconds)

    threading.Thread(target=loop, name=name, daemon=True).start()
