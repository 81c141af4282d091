"""A model as a job of a host: answers on the socket that it was given, until its hours are over or it is stopped.

Runs as the step of a run, behind its walls. This process serves nobody: it starts the one that does, again where that
died. What it counts of the requests is what the run's card shows. Started by `serve.py` of its bundle.
"""

import asyncio
import json
import os
import signal
import socket
import statistics
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn

from trainyard import TrainingRuntime
from worker.serving.app import make_app

MODEL, FOLDER = Path("data/model.tar"), Path("model")
RESTARTS = 5
HEALTHY_S = 600.0  # a server that answered for so long forgives the deaths before
PAUSE_S = 1.0  # before the first restart; doubled each time
ROW_S = 10.0
LOOK_S = 0.3
CLOSING_S = 5
REFUSED = 65


def main() -> None:
    """Exits as the server did, once it is not started again."""
    told = json.loads(os.environ["TRAINYARD_SERVING"])  # noqa: TID251 - all that a step is told, see `way_in`
    with tarfile.open(MODEL) as tar:
        tar.extractall(FOLDER, filter="data")
    ends, deaths = time.monotonic() + told["seconds"], 0
    while True:
        began = time.monotonic()
        code = _in_child(told, ends)
        if code in (0, REFUSED):
            sys.exit(code)
        deaths = 1 if time.monotonic() - began > HEALTHY_S else deaths + 1
        if deaths > RESTARTS:
            sys.exit(f"The server of the model died {deaths} times, the last time with exit code {code}.")
        print(f"The server died with exit code {code}; start {deaths} of {RESTARTS} follows.", flush=True)  # noqa: T201
        time.sleep(PAUSE_S * 2 ** (deaths - 1))


def _in_child(told: Mapping[str, Any], ends: float) -> int:
    """Serve in a process of its own; its exit code, negative for a signal. Who ends this process ends that one."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = _serve(told, ends)
        finally:
            sys.stdout.flush()
            os._exit(code)
    before = signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        signal.signal(signal.SIGTERM, before)


def _serve(told: Mapping[str, Any], ends: float) -> int:
    rt = TrainingRuntime()
    try:
        app = make_app(FOLDER, digests=told["digests"])
    except (OSError, ValueError, ImportError) as error:
        text = f"The model of {told['run']} cannot be served: {error}."
        Path("error.json").write_text(json.dumps({"kind": "user_error", "text": text}), encoding="utf-8")
        return REFUSED
    rt.register_graceful_shutdown()  # uvicorn catches SIGTERM, ends, and raises it again
    rt.start(f"model of {told['run']}")
    asyncio.run(_until_ended(rt, Counted(app), socket.socket(fileno=told["fd"]), ends))
    rt.finish()
    return 0


async def _until_ended(rt: TrainingRuntime, app: "Counted", listener: socket.socket, ends: float) -> None:
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=CLOSING_S)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    row_at = 0.0
    while not serving.done():
        now = time.monotonic()
        if now >= row_at:
            row_at = now + ROW_S
            rt.log_metrics(None, **app.counts())
        server.should_exit = server.should_exit or rt.should_stop or now >= ends
        await asyncio.wait([serving], timeout=LOOK_S)
    await serving


class Counted:
    """An ASGI application, and how often and how quickly it answered since it was last asked."""

    def __init__(self, app: Any) -> None:
        """`/health` does not count."""
        self._app = app
        self._requests, self._failed, self._took_ms = 0, 0, list[float]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] == "/health":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def counted(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._failed += message["status"] >= 400
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            self._requests += 1
            self._took_ms.append(1000 * (time.monotonic() - began))

    def counts(self) -> dict[str, float]:
        """Requests in all and refused ones in all; the median milliseconds of those since the last row."""
        took, self._took_ms = self._took_ms, []
        found = {"requests": float(self._requests), "refused": float(self._failed)}
        return found | ({"latency_ms": round(statistics.median(took), 1)} if took else {})
