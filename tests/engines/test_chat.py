"""A laptop: the whole bot over the engine `local`, without Redis, Celery or a worker."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from agent.domain.content import Content
from agent.domain.runs import RunState
from bot.app import App
from bot.console.adapter import ConsoleAdapter
from bot.console.plain import PlainScreen
from bot.doctor import examine
from bot.settings import Settings
from tests.engines.conftest import LIMIT_S
from tests.worker.conftest import TIMINGS, processes_naming

PROGRAM = """
from trainyard import TrainingRuntime
runtime = TrainingRuntime()
for step in range(1, 31):
    runtime.log_metrics(step=step, loss=1 / step)
runtime.finish()
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in {**TIMINGS, "sandbox": "none"}.items():
        monkeypatch.setenv(f"TRAINYARD_{name.upper()}", value)
    return Settings(home=tmp_path / "home", redis_url="", engines="local", tick_s=0.1, card_pace_s=0.1)


async def test_a_program_is_run_from_a_terminal(settings: Settings, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    adapter = ConsoleAdapter(
        thread_id="main",
        person="ann",
        files=tmp_path / "files",
        read=False,
        screen=PlainScreen(Console(file=io.StringIO())),
    )

    async def shown(kind: str) -> Content:
        return await adapter.until(lambda content: bool(content.card and content.card.kind == kind), limit_s=LIMIT_S)

    async with App(settings, [adapter], worker=True) as app:
        await adapter.say(f"run train.py @{program}")
        card = (await shown("approval")).card
        assert card is not None
        assert {fact.name: fact.value for fact in card.facts}["Engine"] == "local"
        await adapter.say("approve")
        await shown("result")
        (run,) = await app.brain.stores.runs.recent(5)
        assert (run.state, run.step, run.spec.engine) == (RunState.SUCCEEDED, 30, "local")
        words = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_naming(str(settings.home))]
        assert not [line for line in words if b"redis" in line or b"valkey" in line or b"-m\0worker\0" in line]


async def test_the_doctor_looks_at_this_machine(settings: Settings) -> None:
    with (settings.home.parent / "screen.txt").open("w+") as screen:
        await examine(settings, Console(file=screen, width=200))
        screen.seek(0)
        said = screen.read()
    assert "not needed by the engine local" in said
    assert "host local" in said
    assert "sandbox: none" in said
