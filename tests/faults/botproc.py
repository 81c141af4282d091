"""The whole bot as a process, with a folder as its chat platform: `python -m tests.faults.botproc`.

Everything is the real thing (`bot.app.App`: database, fleet, feed, cards, outbox) but for the adapter, and for bundles:
a recipe's program is the tiny one in `<home>/payload.tar` where that exists. Orders in `<home>/orders/<name>.json` are
carried out through the run service, each once (`name` is the client token) and answered in `<name>.answer`.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import bot.app
from agent.clock import SystemClock
from agent.domain.errors import AppError
from agent.domain.restarts import RestartPolicy
from agent.domain.runs import RunSpec
from agent.runs.life.service import Timings
from agent.runs.queue.fair import Limits
from bot.logs import configure
from bot.settings import Settings
from tests.faults.file_adapter import ADDRESS, ALICE, FileAdapter


class TinyBundles(bot.app.PackedBundles):
    """The recipes' files, or one tiny program in their place."""

    async def pack(self, recipe: str) -> str:
        tiny = Path(os.environ["TRAINYARD_HOME"]) / "payload.tar"
        if not tiny.exists():
            return await super().pack(recipe)
        stored = await asyncio.to_thread(self._blobs.put_bytes, tiny.read_bytes(), name="bundle.tar")
        return stored.sha256


async def obey(app: bot.app.App, folder: Path) -> None:
    """Carry out orders until cancelled."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for path in sorted(folder.glob("*.json")):
            if not path.with_suffix(".answer").exists():
                answer = await _carried_out(app, path.stem, json.loads(path.read_text()))
                path.with_suffix(".tmp").write_text(json.dumps(answer))
                path.with_suffix(".tmp").rename(path.with_suffix(".answer"))
        await asyncio.sleep(0.03)


async def _carried_out(app: bot.app.App, name: str, order: dict[str, Any]) -> dict[str, str]:
    service, address = (
        app.brain.service,
        ADDRESS.model_copy(update={"thread_id": order.get("thread", ADDRESS.thread_id)}),
    )
    try:
        if order["do"] == "create":
            session = await app.brain.stores.conversations.session_of(address, create=True)
            spec = RunSpec.model_validate(order["spec"])
            more = {key: order[key] for key in ("priority",) if key in order}
            run = await service.create(
                spec, session_id=session or "", requester=ALICE.key, thread=address, token=name, **more
            )
            return {"run": run.id}
        return {"text": await getattr(service, order["do"])(order["run"])}
    except AppError as error:
        return {"error": error.text, "kind": type(error).__name__}


def timings() -> Timings:
    """The run service's, as TRAINYARD_FAULT_TIMINGS (JSON) has them; `restart_s` is the first delay of a retry."""
    told = json.loads(os.environ.get("TRAINYARD_FAULT_TIMINGS", "{}"))
    policy = RestartPolicy(first_delay_s=told.pop("restart_s", 0.5))
    limits = Limits(running_per_user=6, queued_per_user=40)  # all runs are of one person
    return Timings(**told, restarts=policy, limits=limits)


class OffsetClock(SystemClock):
    """The system's clock, with as many seconds added as a file says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        offset_s = float(self._path.read_text()) if self._path.exists() else 0.0
        return super().now() + timedelta(seconds=offset_s)


async def serve() -> None:
    """Until SIGTERM."""
    settings = Settings()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with bot.app.App(settings, [FileAdapter(settings.home / "platform")], worker=False, timings=timings()) as app:
        (settings.home / "bot.ready").write_text(str(os.getpid()))
        obeying = asyncio.create_task(obey(app, settings.home / "orders"))
        waiting = asyncio.create_task(stopped.wait())
        await asyncio.wait({obeying, waiting}, return_when=asyncio.FIRST_COMPLETED)
        for task in (obeying, waiting):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await obeying


if __name__ == "__main__":
    configure("INFO", None)
    bot.app.PackedBundles = TinyBundles  # type: ignore[misc]
    if told := os.environ.get("TRAINYARD_FAULT_CLOCK"):
        bot.app.SystemClock = lambda: OffsetClock(Path(told))  # type: ignore[misc, assignment]
    try:
        asyncio.run(serve())
    except AppError as refused:
        sys.stderr.write(f"{refused.text}\n")
        sys.exit(1)
