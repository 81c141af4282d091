"""The way of the public launch key to a host, and a worker that was there before it."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from agent.domain.datasets import DatasetRef
from agent.domain.events import Ended, WorkerEvent
from agent.domain.orders import LaunchOrder
from agent.domain.runs import RunSpec
from agent.wire import decode
from tests.deploy.files import DEPLOY
from worker.client.blobs import FolderBlobs
from worker.client.keys import is_signed, load_or_create, sign
from worker.client.redis_server import EmbeddedRedis, _program
from worker.launches.launching import Launcher
from worker.settings import Settings


def launch_key(home: Path, *argv: str) -> str:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd()), "TRAINYARD_HOME": str(home)}
    command = [sys.executable, "-m", "bot.launch_key", *argv]
    return subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=True).stdout


def late_order(run: str) -> LaunchOrder:
    """An order that every host refuses, but for its lateness only if the signature fits."""
    dataset = DatasetRef(sha256="0" * 64, name="data.csv", size_bytes=1)
    spec = RunSpec(
        task="tabular_classification",
        recipe="tabular_classification",
        dataset=dataset,
        target="y",
        host="h1",
        bundle_sha256="0" * 64,
    )
    return LaunchOrder(run=run, attempt=1, host="h1", spec=spec, expires_at=datetime.now(UTC) - timedelta(minutes=1))


def test_the_printed_key_checks_what_the_bot_signs(tmp_path):
    printed = launch_key(tmp_path)
    (tmp_path / "copied.pub").write_text(printed)
    order = sign(late_order("r-1"), load_or_create(tmp_path / "keys"))

    assert is_signed(order, tmp_path / "copied.pub")
    assert launch_key(tmp_path) == printed


def test_the_written_key_is_for_everybody_to_read_and_the_private_one_for_nobody(tmp_path):
    public = tmp_path / "public" / "launch.pub"
    public.parent.mkdir()

    assert launch_key(tmp_path, str(public)) == ""
    assert public.stat().st_mode & 0o777 == 0o644
    assert list(public.parent.iterdir()) == [public]
    assert (tmp_path / "keys" / "launch.key").stat().st_mode & 0o077 == 0


def test_a_worker_takes_the_key_that_comes_after_it(tmp_path):
    server = EmbeddedRedis(tmp_path)
    public = tmp_path / "public" / "launch.pub"
    public.parent.mkdir()
    settings = Settings(home=tmp_path, redis_url=server.start(), host_id="h1", public_key=public)
    launcher = Launcher(settings, FolderBlobs(tmp_path / "blobs"), tier="none")
    try:
        launcher.launch(sign(late_order("r-before"), load_or_create(tmp_path / "keys")))
        launch_key(tmp_path, str(public))
        launcher.launch(sign(late_order("r-after"), load_or_create(tmp_path / "keys")))

        entries = redis.Redis.from_url(server.url).xrange("trainyard:ev:h1")
        bodies = {event.run: event.body for _, fields in entries if (event := decode(WorkerEvent, fields[b"e"]))}
    finally:
        server.stop()
    assert isinstance(bodies["r-before"], Ended)
    assert "has no launch key" in bodies["r-before"].outcome.reason
    assert "too late" in bodies["r-after"].outcome.reason


@pytest.fixture
def configured(tmp_path: Path):
    """A server that runs with deploy/redis.conf."""
    socket = tmp_path / "s"
    argv = [_program(), str(DEPLOY / "redis.conf"), "--port", "0", "--unixsocket", str(socket), "--dir", str(tmp_path)]
    with subprocess.Popen([*argv, "--requirepass", "hush"], stdout=subprocess.PIPE, text=True) as process:
        while "ready to accept connections" not in process.stdout.readline().lower():
            assert process.poll() is None
        yield redis.Redis(unix_socket_path=str(socket), password="hush")
        process.terminate()


def test_redis_takes_its_configuration(configured):
    wanted = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "tcp-keepalive": "60",
        "requirepass": "hush",
    }

    assert {name: configured.config_get(name)[name] for name in wanted} == wanted
