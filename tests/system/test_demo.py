"""The demo and the terminal as a new user runs them: as processes, ended in every way, leaving nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.system.conftest import EXAMPLES, TRAINYARD

HANG_S = 200.0


def environment(home: Path, warm: str = "data") -> dict[str, str]:
    """What a terminal has; with few sets of libraries to load, where it is not their turn."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINYARD_", "SLACK_"))}
    return kept | {"TRAINYARD_HOME": str(home), "COLUMNS": "100", "TRAINYARD_HOST_ID": "here", "TRAINYARD_WARM": warm}


def processes_of(home: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline()) + process.environ().get("TRAINYARD_HOME", "")
        except (psutil.Error, OSError):
            continue
        if str(home) in words and process.pid != os.getpid():
            found.append(f"{process.pid} {words[:200]}")
    return found


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_S
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(f"/tmp/demo-{os.getpid()}-{time.monotonic_ns()}/home")  # short, and its log lies beside it


def demo(home: Path, *more: str, warm: str = "data") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*TRAINYARD, "demo", "--home", str(home), *more],
        env=environment(home, warm),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_the_demo_trains_beats_the_baseline_and_leaves_nothing(home: Path) -> None:
    playing = demo(home, warm="auto")
    text, _ = playing.communicate(timeout=HANG_S)
    assert playing.returncode == 0, text
    scores = re.search(r"Done: roc_auc (0\.\d+), best baseline (0\.\d+)", text)
    assert scores, text
    assert float(scores.group(1)) > float(scores.group(2))
    chart = re.search(r"chart: (\S+\.png)", text)
    assert chart
    assert Path(chart.group(1)).read_bytes().startswith(b"\x89PNG")
    assert "the demo answers by itself" in text
    assert processes_of(home) == []


def test_a_model_that_cannot_be_trained_is_not_a_success(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("a,visited_doctor\n1,yes\n2,yes,no,3\n")
    playing = demo(home, "--data", str(broken))
    text, _ = playing.communicate(timeout=HANG_S)
    assert playing.returncode == 1
    assert "line 3" in text
    assert processes_of(home) == []


@pytest.mark.faults
def test_a_step_that_fails_ends_the_demo_with_a_sentence(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("nothing,of,this\n1,2,3\n")
    playing = demo(home, "--fresh", str(other))
    text, _ = playing.communicate(timeout=HANG_S)
    assert playing.returncode == 1, text
    last = text.splitlines()[-1]
    assert last.startswith("trainyard: The demo failed while predicting: `other.csv` has no column "), text
    assert "predicts `visited_doctor`. To learn from other data" in last
    assert str(home.parent / "demo.log") in last
    assert "Traceback" not in text
    assert processes_of(home) == []


@pytest.mark.parametrize("words", [pytest.param("Train a model that", marks=pytest.mark.faults), "running"])
def test_ctrl_c_leaves_no_process(home: Path, visits: bytes, words: str) -> None:
    home.parent.mkdir(parents=True)
    (home.parent / "visits.csv").write_bytes(visits)
    playing = demo(home, "--data", str(home.parent / "visits.csv"))
    assert playing.stdout is not None
    for line in playing.stdout:
        if words in line:
            break
    os.killpg(playing.pid, signal.SIGINT)
    playing.stdout.read()
    assert playing.wait(HANG_S) == 130
    until(lambda: processes_of(home) == [])


def test_kill_9_of_the_terminal_leaves_no_server_and_no_worker(home: Path) -> None:
    chat = subprocess.Popen(
        [*TRAINYARD, "chat"], env=environment(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert chat.stdout is not None
    assert "Trainyard is here" in chat.stdout.readline()
    chat.kill()
    chat.wait()
    until(lambda: processes_of(home) == [])


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.faults), signal.SIGTERM])
def test_a_conversation_in_the_terminal_beside_which_a_second_bot_is_refused(
    home: Path, number: signal.Signals
) -> None:
    """It ends also when nobody reads any more what it prints: `tee` is what Ctrl-C ends first."""
    lines = f"help\nwhat is the weather\nlook at this @{EXAMPLES / 'new_visits.csv'}\n@/no/such/file\nstatus\n"
    chat = subprocess.Popen(
        [*TRAINYARD, "chat"],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write(lines)
    chat.stdin.flush()
    awaited = {
        *("What I can do", "did not understand", "There is no file /no/such/file", "This thread has no run yet"),
        *("Data: new_visits.csv", "Shall I train"),
    }
    shown = ""
    while not all(words in shown for words in awaited):
        line = chat.stdout.readline()
        assert line, shown
        shown += line
    second = subprocess.run(
        [*TRAINYARD, "chat"],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert second.returncode == 1
    assert "Another Trainyard bot is running" in second.stderr
    chat.stdout.close()
    chat.send_signal(number)
    assert chat.wait(HANG_S) == 130
    until(lambda: processes_of(home) == [])


@pytest.mark.parametrize("command", [pytest.param("demo", marks=pytest.mark.faults), "chat"])
def test_a_host_where_no_sandbox_works_says_so_in_the_workers_own_words(
    home: Path, tmp_path: Path, command: str
) -> None:
    for tool in ("env", "sh", "redis-server"):
        if found := shutil.which(tool):
            (tmp_path / tool).symlink_to(found)
    words = [command, "--home", str(home)] if command == "demo" else [command]
    ran = subprocess.Popen(
        [*TRAINYARD, *words],
        env=environment(home) | {"PATH": str(tmp_path), "TRAINYARD_SANDBOX": "bwrap"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.stdout is not None
    shown = ""
    while "there is no program `bwrap`" not in shown:
        line = ran.stdout.readline()
        assert line, shown
        shown += line
    assert "set TRAINYARD_SANDBOX=none" in shown
    rest, _ = ran.communicate("exit\n" if command == "chat" else None, timeout=HANG_S)
    assert ran.returncode == (0 if command == "chat" else 1), shown + rest
    assert "Traceback" not in shown + rest
    until(lambda: processes_of(home) == [])


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("TRAINYARD_REDIS_URL", "redis://127.0.0.1:1/0", "Redis at redis://127.0.0.1:1/0 does not answer"),
        ("TRAINYARD_DATABASE_URL", "postgresql+psycopg://u:geheim@127.0.0.1:1/x", "cannot be opened"),
        pytest.param("TRAINYARD_CARD_PACE_S", "soon", "TRAINYARD_CARD_PACE_S", marks=pytest.mark.faults),
    ],
)
def test_what_is_not_there_at_the_start_is_said_in_a_sentence(
    home: Path, variable: str, value: str, expected: str
) -> None:
    ran = subprocess.run(
        [*TRAINYARD, "chat"],
        env=environment(home) | {variable: value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 1
    assert expected in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "geheim" not in ran.stderr
    assert processes_of(home) == []
