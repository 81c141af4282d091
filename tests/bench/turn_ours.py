"""Our turn as the bot carries it out: inbox router, loop, durable rows in SQLite; the adapter does nothing.

The model is asked over HTTP by hand; the time spent in it is counted, to be taken out.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from agent.brain import Options, Surroundings, build
from agent.clock import SystemClock
from agent.conversation.router import InboxRouter
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.ids import new_ulid
from agent.domain.inbound import Attachment, Inbound, Person, Platform, Said, Thread
from agent.domain.policy import Effect
from agent.llm.acts import act_asked
from agent.ports import (
    Accept,
    ChatAdapter,
    Complete,
    MessageRef,
    ModelMessage,
    ModelReply,
    ReplyStream,
    ToolCall,
    ToolSchema,
    Whisper,
)
from agent.storage import sql_stores
from agent.storage.database import Database
from agent.stores import Stores
from agent.tools.tool import Arguments, Caller, Result, Tool
from tests.bench.memory_stores import memory_stores
from tests.fakes import FakeBundles, FakeCharts, FakeFleet, engines_of
from worker.client.blobs import FolderBlobs

ALICE = Person(platform="slack", tenant="T1", id="U1", name="alice")


class HandModel:
    """The thinnest client there is. `spent_s` grows by the time its caller waits in it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        """`url` ends in /v1."""
        self._url = f"{url}/chat/completions"
        self._session = session
        self.spent_s = 0.0

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """Pieces, then the reply."""
        began = time.perf_counter()
        async for piece in self._stream(messages, tools):
            self.spent_s += time.perf_counter() - began
            yield piece
            began = time.perf_counter()
        self.spent_s += time.perf_counter() - began

    async def _stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        body = {"model": "local", "stream": True, "messages": [_as_json(said) for said in messages]}
        if tools:
            body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in tools]
        text: list[str] = []
        calls: dict[int, list[str]] = {}
        async with self._session.post(self._url, json=body) as response:
            response.raise_for_status()
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    delta = choice["delta"]
                    for part in delta.get("tool_calls") or ():
                        call = calls.setdefault(part["index"], [part.get("id", ""), "", ""])
                        call[1] += part["function"].get("name", "")
                        call[2] += part["function"]["arguments"]
                    if word := delta.get("content"):
                        text.append(word)
                        yield word
        yield ModelReply("".join(text), tuple(ToolCall(*call) for call in calls.values()), "local")


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _as_json(said: ModelMessage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": said.role.value, "content": said.text}
    if said.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    return message | ({"tool_call_id": said.call_id} if said.call_id else {})


class NoAdapter:
    """A platform that takes everything and shows nothing."""

    platform: Platform = "slack"

    def __init__(self) -> None:
        """Messages are numbered."""
        self._numbers = itertools.count(1)
        self.finished: list[str] = []
        self.answered = asyncio.Event()

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        """Nobody comes in here."""

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        """Take a message."""
        return MessageRef(thread.channel, str(next(self._numbers)))

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Take an edit."""
        return ref

    def shown_at(self, ref: MessageRef) -> datetime | None:
        """Nobody decides here."""

    async def find(self, thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        """Nothing is ever found."""
        return None

    async def stream(self, thread: Thread, *, key: str) -> ReplyStream:
        """Take an answer that grows."""
        return _NoStream(self, MessageRef(thread.channel, str(next(self._numbers))))

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Nobody is in a group here."""
        del person, among
        return frozenset()

    @contextlib.asynccontextmanager
    async def busy(self, thread: Thread, asked: Inbound | None) -> AsyncIterator[None]:
        """Nobody looks."""
        yield

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """There are no files."""


class _NoStream:
    def __init__(self, adapter: NoAdapter, ref: MessageRef) -> None:
        self._adapter, self._ref = adapter, ref

    async def append(self, text: str) -> MessageRef | None:
        return self._ref

    async def finish(self, content: Content) -> MessageRef:
        self._adapter.finished.append(content.text)
        self._adapter.answered.set()
        return self._ref


class _Sum(Arguments):
    a: int
    b: int


async def _add(caller: Caller, asked: _Sum) -> Result:
    return Result(str(asked.a + asked.b))


ADD = Tool("add", "Add two whole numbers.", _Sum, Effect.READ, run=_add)


class Adding:
    """The tool that a turn calls."""

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        return (ADD,)


class OurTurn:
    """A brain that stands ready for turns, each in a new thread."""

    def __init__(self, router: InboxRouter, model: HandModel, adapter: NoAdapter, delivery: OutboxDelivery) -> None:
        """Made by `ready`."""
        self._router, self._model, self._adapter, self._delivery = router, model, adapter, delivery
        self._threads = itertools.count(1)
        self.settled_s: list[float] = []  # the same until the last row of each turn

    async def take(self, text: str) -> float:
        """One turn, from a message until its whole answer is stored and delivered; seconds without the model's."""
        thread = Thread(platform="slack", tenant="T1", channel="C1", thread_id=str(next(self._threads)))
        act = Said(text=text)
        event = new_ulid()
        now = SystemClock().now()
        inbound = Inbound(event_id=event, thread=thread, person=ALICE, act=act, at=now, mentions_bot=True)
        self._model.spent_s = 0.0
        self._adapter.finished.clear()
        self._adapter.answered.clear()
        began = time.perf_counter()
        await self._router.accept(inbound)
        await self._adapter.answered.wait()
        seconds = time.perf_counter() - began - self._model.spent_s
        await self._router.idle()
        self.settled_s.append(time.perf_counter() - began - self._model.spent_s)
        await self._delivery.idle()
        if not self._adapter.finished or not self._adapter.finished[-1].startswith("word"):
            raise RuntimeError(f"the turn ended without its answer: {self._adapter.finished}")
        return seconds


@contextlib.asynccontextmanager
async def ready(folder: Path, url: str, *, durable: bool) -> AsyncIterator[OurTurn]:
    """A bot's own brain with one tool more, over a real database in `folder` or over rows in memory."""
    async with _stores(folder, durable=durable) as stores, aiohttp.ClientSession() as session:
        adapter, model = NoAdapter(), HandModel(url, session)
        adapters: dict[str, ChatAdapter] = {"slack": adapter}
        brain = build(
            Surroundings(
                stores=stores,
                adapters=adapters,
                engines=engines_of(FakeFleet()),
                blobs=FolderBlobs(folder / "blobs"),
                bundles=FakeBundles(),
                charts=FakeCharts(),
                model=model,
                clock=SystemClock(),
                tokens=lambda nonce: nonce,
                acts=act_asked,
                options=Options(pictures=folder / "charts", monitor=False),
                toolsets=(Adding(),),
            )
        )
        try:
            yield OurTurn(brain.router, model, adapter, brain.delivery)
        finally:
            await brain.close()


@contextlib.asynccontextmanager
async def _stores(folder: Path, *, durable: bool) -> AsyncIterator[Stores]:
    if not durable:
        yield memory_stores()
        return
    database = Database(f"sqlite:///{folder / 'bench.db'}")
    await database.start()
    try:
        yield sql_stores(database)
    finally:
        await database.close()
