"""The embedded Redis: one for a home, gone with its parent, its data kept."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis

from agent.domain.errors import Unavailable
from tests.worker.conftest import eventually, processes_naming
from worker.client.redis_server import EmbeddedRedis

PARENT = """
import sys, time
from pathlib import Path
from worker.client.redis_server import EmbeddedRedis
server = EmbeddedRedis(Path(sys.argv[1]))
print(server.start(), flush=True)
time.sleep(600)
"""


def test_data_survives_a_restart_and_nothing_stays_behind(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    client = redis.Redis.from_url(server.start())
    client.set("kept", "yes")
    server.stop()
    assert processes_naming(str(tmp_path)) == []
    assert redis.Redis.from_url(server.start()).get("kept") == b"yes"
    server.stop()


def test_a_second_start_uses_the_running_server(tmp_path: Path) -> None:
    first, second = EmbeddedRedis(tmp_path), EmbeddedRedis(tmp_path)
    assert first.start() == second.start()
    assert (first.owned, second.owned) == (True, False)
    second.stop()
    assert redis.Redis.from_url(first.url).ping()
    first.stop()


def test_one_that_began_is_waited_for_by_its_start(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    server.begin()
    began = server.pid
    assert redis.Redis.from_url(server.start()).ping()
    assert server.pid == began is not None
    server.stop()


def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    assert redis.Redis.from_url(url).ping()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    eventually(lambda: not processes_naming(str(tmp_path)), what="the end of the server")
    server = EmbeddedRedis(tmp_path)  # and the next one starts on the same home
    server.start()
    assert server.owned
    server.stop()


def test_a_server_that_is_about_to_end_is_waited_out(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    folder.mkdir(mode=0o700)
    with (folder / "server.lock").open("w") as lock:  # a server that holds the lock and answers no more
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.5, lambda: fcntl.flock(lock, fcntl.LOCK_UN)).start()
        server = EmbeddedRedis(tmp_path)
        server.start()
    assert server.owned
    server.stop()


def test_a_long_path_gets_a_socket_elsewhere(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / ("long" * 30))
    assert len(server.start()) < 107
    server.stop()


def test_a_server_that_does_not_come_up_says_where_its_log_is(tmp_path: Path) -> None:
    (tmp_path / "redis" / "appendonlydir").mkdir(parents=True)
    (tmp_path / "redis" / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense")
    with pytest.raises(Unavailable, match=r"server\.log"):
        EmbeddedRedis(tmp_path).start()
    assert processes_naming(str(tmp_path)) == []


def test_a_server_that_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    first = EmbeddedRedis(tmp_path)
    first.start()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGSTOP)
    with pytest.raises(Unavailable, match="did not answer"):
        EmbeddedRedis(tmp_path, limit_s=0.5).start()
    os.kill(first.pid, signal.SIGCONT)
    first.stop()
