"""The health checks, against a real lock, a real Redis and a real beat."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

import bot.alive
import worker.alive
from agent.domain.orders import HostInfo
from agent.wire import encode
from bot.alive import holder
from bot.app import only_one
from worker.client.redis_server import EmbeddedRedis
from worker.host.hostbeat import HostBeat

NOWHERE = "redis://:hush@127.0.0.1:1/0"
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    found = EmbeddedRedis(tmp_path)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def beat(server: EmbeddedRedis, tmp_path: Path) -> HostBeat:
    return HostBeat("h1", home=tmp_path, redis_url=server.url, tier="none")


def ask(module: str, home: Path, **settings: str) -> tuple[int, str]:
    """Exit code and sentence of a health check."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd()), "TRAINYARD_HOME": str(home)}
    env |= {f"TRAINYARD_{name.upper()}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-m", module], env=env, cwd=home, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.strip()


def ask_here(module: Any, home: Path, **settings: str) -> tuple[int, str]:
    """The same within this process, which is quicker."""
    own = {f"TRAINYARD_{name.upper()}": value for name, value in settings.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TRAINYARD_")]:
            patch.delenv(name)
        for name, value in {"TRAINYARD_HOME": str(home), **own}.items():
            patch.setenv(name, value)
        patch.chdir(home)
        with pytest.raises(SystemExit) as ended:
            module.main()
    code = ended.value.code  # a sentence is printed to standard error, and 1 the exit code
    return (1, code) if isinstance(code, str) else (int(code or 0), "")


@contextmanager
def other_process_holding(lock: Path) -> "Iterator[subprocess.Popen[str]]":
    argv = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_bot_with_its_redis_is_alive(server, tmp_path):
    with only_one(tmp_path):
        assert ask("bot.alive", tmp_path, redis_url=server.url) == (0, "")


def test_the_embedded_redis_needs_no_address(server, tmp_path):
    with only_one(tmp_path):
        assert ask_here(bot.alive, tmp_path) == (0, "")


def test_no_bot_is_not_alive(server, tmp_path):
    code, why = ask_here(bot.alive, tmp_path, redis_url=server.url)

    assert code == 1
    assert "No bot runs" in why


def test_a_bot_without_redis_is_not_alive_and_the_password_stays_hidden(tmp_path):
    with only_one(tmp_path):
        code, why = ask("bot.alive", tmp_path, redis_url=NOWHERE)

    assert code == 1
    assert "does not answer" in why
    assert "hush" not in why


def test_the_holder_is_another_process_until_it_is_killed(tmp_path):
    lock = tmp_path / "bot.lock"
    with other_process_holding(lock) as process:
        assert holder(lock) == process.pid
        process.kill()
        process.wait()
        assert holder(lock) is None
    assert lock.exists()


def test_a_lock_of_another_file_does_not_count(tmp_path):
    (tmp_path / "bot.lock").write_text("")
    with other_process_holding(tmp_path / "other.lock"):
        assert holder(tmp_path / "bot.lock") is None


def test_looking_at_a_free_lock_turns_no_bot_away(tmp_path):
    lock = tmp_path / "bot.lock"
    lock.write_text("")
    assert holder(lock) is None

    with only_one(tmp_path):
        assert holder(lock) == os.getpid()


def test_a_worker_that_beats_is_alive(server, beat, tmp_path):
    beat.beat()

    assert ask("worker.alive", tmp_path, redis_url=server.url, host_id="h1") == (0, "")


def test_a_worker_whose_last_word_is_old_is_not(server, beat, tmp_path):
    old = beat.info().model_copy(update={"at": datetime.now(UTC) - timedelta(seconds=45)})
    redis.Redis.from_url(server.url).set("trainyard:host:h1", encode(old), ex=300)

    code, why = ask_here(worker.alive, tmp_path, redis_url=server.url, host_id="h1")

    assert code == 1
    seconds = re.search(r"last heard of (\d+) s ago", why)
    assert seconds is not None
    assert int(seconds[1]) >= 45


def test_another_host_s_word_does_not_count(server, beat, tmp_path):
    beat.beat()

    code, why = ask_here(worker.alive, tmp_path, redis_url=server.url, host_id="h2")

    assert code == 1
    assert "h2 has not been heard of" in why


def test_a_word_of_another_version_is_said_so(server, tmp_path):
    redis.Redis.from_url(server.url).set("trainyard:host:h1", b'{"host": 1}')

    assert "another version" in ask_here(worker.alive, tmp_path, redis_url=server.url, host_id="h1")[1]
    assert HostInfo.model_fields["at"].is_required()


def test_a_worker_without_redis_is_not_alive(tmp_path):
    code, why = ask_here(worker.alive, tmp_path, redis_url=NOWHERE, host_id="h1")

    assert code == 1
    assert "hush" not in why
