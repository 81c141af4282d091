"""The command line: `trainyard chat | up | bot | worker | serve | doctor | replay | chart | demo | manifest`."""

import asyncio
import gc
import importlib.metadata
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import ValidationError

from agent.domain.errors import AppError
from bot.allocator import use_one_heap

if TYPE_CHECKING:
    from bot.console.screen import Screen

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


def _version(wanted: bool) -> None:
    if wanted:
        print("trainyard", importlib.metadata.version("trainyard"))
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The ML engineer that lives in a team's Slack and Discord."""


def main() -> None:
    """The entry point; errors that people can mend are one line."""
    try:
        app()
    except AppError as error:
        print(f"trainyard: {error.text}", file=sys.stderr)
    except ValidationError as error:
        from bot.settings import wrong

        for text in wrong(error):
            print(f"trainyard: {text} See .env.example.", file=sys.stderr)
    else:
        return
    raise SystemExit(1)


def _run(coroutine: object) -> int:
    """Run to the end, or to Ctrl-C or SIGTERM, after which everything is let go in order."""
    use_one_heap()

    async def with_signals() -> int:
        work = asyncio.ensure_future(coroutine)  # type: ignore[call-overload]

        def stop() -> None:
            if not work.cancelling():  # a second one must not cut off what lets go of everything
                work.cancel()
                _remark("stopping …")

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        return int(await work or 0)

    try:
        return asyncio.run(with_signals())
    except (asyncio.CancelledError, KeyboardInterrupt):
        _remark("stopped")
        return 130


def _remark(text: str) -> None:
    """Print to standard error, unless whoever read it is gone."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@app.command(epilog="Example: `trainyard chat --as ann`")
def chat(
    thread: Annotated[str, typer.Option(help="Name of the conversation; the same name goes on with it.")] = "main",
    as_: Annotated[str, typer.Option("--as", help="Who you are.")] = "you",
    engine: Annotated[
        str | None,
        typer.Option(help="Where runs go: `hosts`, or `local`, which needs no Redis; else as TRAINYARD_ENGINES says."),
    ] = None,
) -> None:
    """Talk to the bot in this terminal, with everything on this machine. A file that you name is attached."""
    from bot.app import App
    from bot.console.adapter import ConsoleAdapter
    from bot.logs import configure
    from bot.settings import Settings

    settings = Settings() if engine is None else Settings(engines=engine)
    configure(settings.log_level, settings.home / "logs" / "bot.log")
    screen = _screen(settings.home / "typed")
    adapter = ConsoleAdapter(thread_id=thread, person=as_, files=settings.home / "files", screen=screen)

    async def tell_of_no_worker(running: App) -> None:
        why = await running.children.refusal("worker")
        print(f"Nothing can be trained here, because the worker does not start. It says:\n{why}")

    async def talk() -> None:
        async with App(settings, [adapter], worker=True, owner=adapter.person.key) as running:
            print(
                "Trainyard is here. Say what you need, `help`, or `exit`. A file that you name is attached; `@path` "
                "attaches any other."
            )
            telling = asyncio.create_task(tell_of_no_worker(running))
            await running.until_an_adapter_closes()
            telling.cancel()
            if not screen.left_at_once:
                await running.brain.router.idle()
                await running.brain.delivery.idle()
            live = [
                run.id
                for run in await running.brain.stores.runs.recent(50)
                if run.state.value in {"starting", "running"}
            ]
            if live:
                print(f"Still training: {', '.join(live)}. `trainyard chat` shows it again.")
        if screen.is_live:
            again = f" --thread {shlex.quote(thread)}" if thread != "main" else ""
            print(f"Good-bye. `trainyard chat{again}` goes on with this conversation.")

    raise SystemExit(_run(talk()))


def _screen(history: Path) -> "Screen":
    """With a live region where both ends are a terminal that can move its cursor."""
    from rich.console import Console

    from bot.console.plain import PlainScreen

    console = Console(file=sys.stdout)
    if not sys.stdin.isatty() or not console.is_terminal or console.is_dumb_terminal:
        return PlainScreen(console)
    from bot.console.live import LiveScreen
    from bot.settings import terminal_images

    return LiveScreen(history, console=console, images=terminal_images())


@app.command(epilog="Example: `trainyard up`")
def up() -> None:
    """Serve Slack and Discord with the tokens in `.env`, with a worker and Redis on this host."""
    _serve(worker=True)


@app.command(epilog="Example: `trainyard bot`")
def bot() -> None:
    """Serve Slack and Discord; workers run on other hosts (`trainyard worker`)."""
    _serve(worker=False)


def _serve(*, worker: bool) -> None:
    gc.disable()  # until it serves: what is loaded now is kept, and to look through it takes a tenth of the start
    from bot.embedded import embedded_redis
    from bot.logs import configure
    from bot.platforms import configured, needs
    from bot.settings import Settings

    settings = Settings()
    configure(settings.log_level, None)
    adapters = configured(settings)
    if not adapters:
        raise AppError(
            f"No chat platform is configured. Put {needs()}, into `.env` (see .env.example), or try `trainyard chat`, "
            "which needs none."
        )

    for adapter in adapters:
        adapter.connection.report = lambda text: print(text, flush=True)
    redis = embedded_redis(settings)
    if redis is not None:
        redis.begin()  # while the rest is loaded
    from bot.app import App

    async def serve() -> None:
        async with App(settings, adapters, worker=worker, redis=redis):
            gc.freeze()
            gc.enable()
            await asyncio.Event().wait()

    raise SystemExit(_run(serve()))


@app.command(epilog="Example: `TRAINYARD_REDIS_URL=redis://chat-host:6379/0 trainyard worker`")
def worker() -> None:
    """Run training jobs on this host (needs the extra `worker`: pip install 'trainyard[worker]')."""
    os.execv(sys.executable, [sys.executable, "-m", "worker"])  # noqa: S606 - no shell: argv is a list


@app.command(epilog="Example: `trainyard serve r-abc123 --port 8080`")
def serve(
    model: Annotated[str, typer.Argument(help="A run, or the folder or tar of its artifact.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 8080,
) -> None:
    """Serve a finished model over HTTP, behind a token, with its interface at /docs (needs the extra `worker`)."""
    from bot.serve import artifact_of
    from bot.settings import Settings

    path = Path(model) if Path(model).exists() else asyncio.run(artifact_of(Settings(), model))
    argv = [sys.executable, "-m", "worker.serving", str(path), "--host", host, "--port", str(port)]
    os.execv(sys.executable, argv)  # noqa: S606 - no shell: argv is a list


@app.command(epilog="Example: `trainyard doctor`")
def doctor() -> None:
    """Say what is configured, reachable and missing, with the command that mends each."""
    from bot.doctor import examine, refused
    from bot.settings import Settings

    try:
        settings = Settings()
    except ValidationError as error:
        raise SystemExit(refused(error)) from None
    raise SystemExit(asyncio.run(examine(settings)))


@app.command(epilog="Example: `trainyard replay conversation.jsonl --pace 1`")
def replay(
    recording: Annotated[
        str, typer.Argument(help="A conversation.jsonl of `export`, or the id of a session; unsaid, they are listed.")
    ] = "",
    pace: Annotated[float, typer.Option(min=0.0, help="Seconds between what is shown.")] = 0.0,
) -> None:
    """Show a conversation as it was: words, tools, approvals, cards. It repeats nothing of what was done."""
    from rich.console import Console

    from bot.console.replay import listed, play, recorded

    async def show() -> None:
        if recording:
            await play(await recorded(recording), Console(), pace_s=pace)
        else:
            await listed(Console())

    raise SystemExit(_run(show()))


@app.command(epilog="Example: `trainyard chart metrics.jsonl --metric loss --last 500 -o loss.png`")
def chart(  # noqa: PLR0913 - an argument an option
    file: Annotated[
        Path,
        typer.Argument(
            help="A metrics.jsonl, trainer_state.json, csv, TensorBoard's events, trackio's database, or a picture."
        ),
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The PNG; beside the file if unsaid.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="A name or a part of it; may be repeated.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only that many steps before the newest.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Logarithmic y axis.")] = False,
    by: Annotated[
        Literal["step", "time", "epoch"], typer.Option(help="What x are; epochs of a metric so named.")
    ] = "step",
    smooth: Annotated[float, typer.Option(min=0.0, max=0.999, help="Weight of a moving average, such as 0.9.")] = 0.0,
    dark: Annotated[bool, typer.Option("--dark", help="For a dark background.")] = False,
    page: Annotated[int, typer.Option(min=1, help="Which four panels.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Draw again when rows come, until Ctrl-C.")] = False,
) -> None:
    """Draw a file of metrics, or a picture that a script logged; needs no bot, no database and no account."""
    from agent.domain.charts import Theme
    from agent.runs.charts.run_charts import Look
    from bot.chart_file import ChartFile, Wanted

    def say(text: str) -> None:
        print(text, flush=True)

    theme: Theme = "dark" if dark else "light"
    from bot.metric_files import is_other
    from bot.picture_file import draw_reported, has_rows

    if file.suffix == ".json" and not (follow or has_rows(file) or is_other(file)):
        raise SystemExit(_run(draw_reported(file, output or file.with_suffix(".png"), theme, say)))
    look = Look(log_scale=log, by_time=by == "time", page=page - 1, theme=theme, smooth=smooth)
    drawing = ChartFile(
        file, output or file.with_suffix(".png"), Wanted(look, tuple(metric or ()), last, by_epoch=by == "epoch"), say
    )
    raise SystemExit(_run(drawing.follow() if follow else drawing.once()))


@app.command(epilog="Example: `trainyard demo --task forecasting`")
def demo(
    data: Annotated[Path, typer.Option(help="The csv to train on.")] = Path("examples/doctor_visits.csv"),
    fresh: Annotated[Path, typer.Option(help="The csv to predict.")] = Path("examples/new_visits.csv"),
    task: Annotated[str, typer.Option(help="Another task type, such as forecasting, on its own data.")] = "",
    home: Annotated[Path, typer.Option(help="Emptied at the start.")] = Path(".trainyard/demo"),
    record: Annotated[Path | None, typer.Option(help="Folder that gets a picture of the thread and its chart.")] = None,
) -> None:
    """Play the main job on real data: ask, approve, train, compare, predict."""
    from bot.demo import DemoFailed, play, story_of, visits
    from bot.logs import configure
    from bot.settings import Settings

    home = home.resolve()
    settings = Settings(home=home, redis_url="", database_url="", models="", card_pace_s=0.5)
    log = home.parent / "demo.log"
    configure(settings.log_level, log)
    try:
        story = story_of(task, home.parent / "demo-data") if task else visits(data, fresh)
        raise SystemExit(_run(play(settings, story, record=record)))
    except DemoFailed as error:
        raise AppError(f"{error.text} The log is {log}.") from None


@app.command(epilog="Example: `trainyard manifest > slack_manifest.json`")
def manifest() -> None:
    """Print the Slack app manifest, to create the app from."""
    import json

    from bot.slack.manifest import manifest as slack_manifest

    print(json.dumps(slack_manifest(), indent=2))
