"""`make demo`: the main job on real data, played through the same adapters, queue and training that a team uses."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from agent.domain.content import Card, Content
from agent.domain.errors import AppError, BadRequest
from agent.domain.runs import RunState
from agent.domain.tasks import TASKS
from bot.app import App
from bot.console.adapter import ConsoleAdapter
from bot.console.paint import near
from bot.console.plain import PlainScreen
from bot.ending import end_all_of
from bot.settings import Settings

HOST_S = 60.0
PLAN_S = 120.0
ANSWER_S = 3600.0
TRAIN_S = 900.0
PICTURE_COLUMNS = 92
EXAMPLES = Path("examples/task_data.py")
MAKE_S = 120.0


@dataclass(frozen=True)
class Story:
    """What is asked first, and what of the finished model; `@path` attaches a file."""

    request: str
    then: str
    beats: bool = False  # it has failed where the model does not beat its baseline


def visits(data: Path, fresh: Path) -> Story:
    """Who visits the doctor."""
    return Story(f"Train a model that predicts who visited the doctor @{data}", f"predict on this @{fresh}", beats=True)


def story_of(task: str, folder: Path) -> Story:
    """The example of a task type, whose data are written into `folder`; part of its name will do.

    Raises:
        BadRequest: there is no such task type, or several; the text lists them.
        DemoFailed: its data cannot be written.
    """
    wanted = task.strip().lower().replace(" ", "_").replace("-", "_")
    found = [name for name in TASKS if name == wanted] or [name for name in TASKS if wanted in name]
    if len(found) != 1:
        said = f"may be {' or '.join(found)}" if found else f"is no task type; these are: {', '.join(TASKS)}"
        raise BadRequest(f"`{task}` {said}. Say one of them.")
    if not EXAMPLES.is_file():
        raise BadRequest(f"The examples are in {EXAMPLES} of the project's folder. Go there first.")
    argv = [sys.executable, str(EXAMPLES), found[0], str(folder)]
    made = subprocess.run(argv, capture_output=True, text=True, timeout=MAKE_S, check=False)
    if made.returncode:
        raise DemoFailed("writing its data", made.stderr.strip().splitlines()[-1])
    example = json.loads(made.stdout)
    return Story(example["request"], example["then"])


class DemoFailed(AppError):
    """A step of the demo failed."""

    def __init__(self, doing: str, why: str) -> None:
        """`doing` is the step, such as `training`."""
        super().__init__(f"The demo failed while {doing}: {why.strip().rstrip('.')}.")


async def play(settings: Settings, story: Story, *, record: Path | None = None) -> int:
    """The whole story; 0: the model really trained and beat the baseline.

    Raises:
        DemoFailed: a step failed; the text says which one and why.
    """
    console = Console(record=True, width=PICTURE_COLUMNS) if record else Console()
    home = settings.home
    end_all_of(home)
    shutil.rmtree(home, ignore_errors=True)
    person_answers = sys.stdin.isatty()
    adapter = ConsoleAdapter(
        thread_id="demo", person="you", files=home / "files", read=person_answers, screen=PlainScreen(console)
    )
    console.print("Trainyard demo: everything runs on this machine, no account needed.", style="bold")
    try:
        async with App(settings, [adapter], worker=True) as app:
            await _host(app)
            await _told(app, adapter, console, story, person_answers=person_answers)
            if record:
                _keep_pictures(console, home, record)
            return 0
    finally:
        end_all_of(home)


def _keep_pictures(console: Console, home: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(folder / "thread.svg"), title="trainyard demo")
    newest = max((home / "charts").glob("*/*.png"), key=lambda path: path.stat().st_mtime)
    shutil.copyfile(newest, folder / "chart.png")


async def _told(app: App, adapter: ConsoleAdapter, console: Console, story: Story, *, person_answers: bool) -> None:
    await _say(adapter, console, story.request)
    await _until(adapter, lambda content: _is(content, "approval"), fails=_failed, doing="planning", limit_s=PLAN_S)
    if person_answers:
        console.print("\nIt is your turn: type approve or reject.", style="bold")
    else:
        console.print("\n(Nobody is at a terminal, so the demo answers by itself.)", style="dim", highlight=False)
        await _say(adapter, console, "approve")
    await _until(
        adapter, lambda content: _is(content, "result"), fails=_over, doing="training", limit_s=ANSWER_S + TRAIN_S
    )
    runs = await app.brain.stores.runs.recent(1)
    outcome = runs[0].outcome if runs else None
    if not runs or runs[0].state is not RunState.SUCCEEDED or outcome is None or outcome.scorecard is None:
        raise DemoFailed("training", "the run did not succeed; its card says why")
    since = len(adapter.shown)
    await _say(adapter, console, story.then)
    await _until(adapter, _is_predictions, fails=_is_plain, doing="predicting", limit_s=PLAN_S, since=since)
    await app.brain.delivery.idle()
    score = outcome.scorecard
    if story.beats and not score.beats_baseline:
        raise DemoFailed("measuring", "the model did not beat its baseline")
    console.print(f"\nDone: {score.metric} {score.model.value:.4f}, best baseline {score.best_baseline.value:.4f}.")
    console.print(f"Chart, model and log: {near(app.settings.home)}", style="dim", highlight=False)
    console.print("Go on by hand: trainyard chat", style="dim")


async def _host(app: App) -> None:
    try:
        async with asyncio.timeout(HOST_S):
            while not await app.engines.hosts():
                if "worker" in app.children.ended():
                    raise DemoFailed("starting the worker", app.children.log_tail("worker"))
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise DemoFailed("starting the worker", f"it did not report within {HOST_S:.0f} s") from None


async def _until(
    adapter: ConsoleAdapter,
    seen: Callable[[Content], bool],
    *,
    fails: Callable[[Content], bool],
    doing: str,
    limit_s: float,
    since: int = 0,
) -> None:
    """Wait for what a step of the demo shows. Raises `DemoFailed` when it fails or does not come."""
    try:
        found = await adapter.until(lambda content: seen(content) or fails(content), limit_s=limit_s, since=since)
    except TimeoutError:
        raise DemoFailed(doing, f"no answer within {limit_s:.0f} s") from None
    if not seen(found):
        raise DemoFailed(doing, found.text or (found.card.title if found.card else ""))


async def _say(adapter: ConsoleAdapter, console: Console, line: str) -> None:
    console.print(f"\n[bold magenta]you ›[/] {line}", highlight=False)
    await adapter.say(line)


def _is(content: Content, kind: str) -> bool:
    return content.card is not None and content.card.kind == kind


def _is_predictions(content: Content) -> bool:
    return content.card is not None and content.card.title.startswith("Predictions")


def _is_plain(content: Content) -> bool:
    return content.card is None


def _failed(content: Content) -> bool:
    """A plain sentence where a card was due: it says what went wrong."""
    return content.card is None and not content.text.startswith(("I look at the data", "You did not name"))


def _over(content: Content) -> bool:
    card: Card | None = content.card
    ended = card is not None and card.kind == "run" and card.tone in {"bad", "warn"} and not card.progress
    return ended or "nothing was started" in content.text
