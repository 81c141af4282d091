"""How the local Slack reaches the app: Socket Mode envelopes or signed HTTP, acknowledgements in time, redelivery."""

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Coroutine, Sequence
from urllib.parse import urlencode

import aiohttp
from aiohttp import WSMsgType, web

from tests.platforms.slack_world import Attempt, Delivery

SOCKETS = 10
FORM = "application/x-www-form-urlencoded"


def signed(body: str, secret: str, timestamp: int | None = None) -> dict[str, str]:
    """Slack's signature over a body."""
    stamp = str(timestamp if timestamp is not None else int(time.time()))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


class Courier:
    """Delivers over the open sockets, or to `url` when it is set."""

    def __init__(self, *, secret: str, ack_deadline_s: float, redeliver_after_s: Sequence[float]) -> None:
        self.url = ""
        self.deliveries: list[Delivery] = []
        self.sockets: list[web.WebSocketResponse] = []
        self._requests: dict[web.WebSocketResponse, web.Request] = {}
        self._secret, self._ack_deadline_s, self._redeliver_after_s = secret, ack_deadline_s, redeliver_after_s
        self._numbers = itertools.count(1)
        self._tickets: set[str] = set()
        self._acks: dict[str, asyncio.Future[dict[str, object]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, delivery: Delivery) -> Delivery:
        """Deliver in the background, again and again if need be."""
        self.deliveries.append(delivery)
        self._spawn(self._deliver(delivery))
        return delivery

    def once_more(self, delivery: Delivery) -> None:
        """One further attempt, whatever became of the others."""
        self._spawn(self._attempt(delivery, len(delivery.attempts)))

    def ticket(self) -> str:
        """Admits one socket."""
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets.add(ticket)
        return ticket

    async def close(self) -> None:
        """Stop delivering and hang up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(socket.close() for socket in tuple(self.sockets)), return_exceptions=True)

    async def refresh(self) -> None:
        """Ask the clients to connect anew."""
        for socket in tuple(self.sockets):
            await socket.send_json({"type": "disconnect", "reason": "refresh_requested"})

    def drop(self) -> None:
        """Cut the connections."""
        for request in tuple(self._requests.values()):
            if request.transport is not None:
                request.transport.abort()

    async def connect(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one socket until it closes."""
        ticket = request.match_info["ticket"]
        if ticket not in self._tickets:
            raise web.HTTPForbidden
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if len(self.sockets) >= SOCKETS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets"})
        await socket.send_json({"type": "hello", "num_connections": len(self.sockets) + 1, "connection_info": {}})
        self.sockets.append(socket)
        self._requests[socket] = request
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    answer = json.loads(frame.data)
                    waiting = self._acks.get(answer.get("envelope_id", ""))
                    if waiting is not None and not waiting.done():
                        waiting.set_result(answer)
        finally:
            self.sockets.remove(socket)
            del self._requests[socket]
        return socket

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, delivery: Delivery) -> None:
        """Events come again when they are not acknowledged; clicks and commands show an error to the person."""
        waits = (0.0, *self._redeliver_after_s) if delivery.kind == "events_api" else (0.0,)
        for number, wait_s in enumerate(waits):
            await asyncio.sleep(wait_s)
            await self._attempt(delivery, number)
            if delivery.acked:
                return

    async def _attempt(self, delivery: Delivery, number: int) -> None:
        while not self.url and not self.sockets:
            await asyncio.sleep(0.01)
        attempt = Attempt(number, time.monotonic())
        delivery.attempts.append(attempt)
        try:
            async with asyncio.timeout(self._ack_deadline_s):
                await (self._post(delivery, attempt) if self.url else self._envelope(delivery, attempt))
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            attempt.acked = False
        attempt.ended_s = time.monotonic()

    async def _envelope(self, delivery: Delivery, attempt: Attempt) -> None:
        envelope_id = f"envelope-{next(self._numbers)}"
        waiting = self._acks[envelope_id] = asyncio.get_running_loop().create_future()
        retry = {"retry_attempt": attempt.number, "retry_reason": "timeout"} if delivery.kind == "events_api" else {}
        socket = self.sockets[attempt.number % len(self.sockets)]
        try:
            await socket.send_json(
                {
                    "envelope_id": envelope_id,
                    "type": delivery.kind,
                    "payload": delivery.payload,
                    "accepts_response_payload": delivery.kind != "events_api",
                    **retry,
                }
            )
            attempt.answer = await waiting
            attempt.acked = True
        finally:
            del self._acks[envelope_id]

    async def _post(self, delivery: Delivery, attempt: Attempt) -> None:
        match delivery.kind:
            case "events_api":
                body, kind = json.dumps(delivery.payload), "application/json"
            case "interactive":
                body, kind = urlencode({"payload": json.dumps(delivery.payload)}), FORM
            case _:
                body, kind = urlencode(delivery.payload), FORM
        headers = signed(body, self._secret) | {"Content-Type": kind}
        if attempt.number:
            headers |= {"X-Slack-Retry-Num": str(attempt.number), "X-Slack-Retry-Reason": "http_error"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url, data=body, headers=headers) as answer,
        ):
            attempt.status, attempt.acked = answer.status, answer.status == 200
