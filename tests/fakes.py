"""Small stand-ins that implement the ports, for tests of the brain alone. The database under them is real."""

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from agent.domain.charts import ChartSpec
from agent.domain.content import Button, Content
from agent.domain.datasets import ColumnReport, DataReport, DatasetRef, TargetReport
from agent.domain.errors import AppError, BadData, NotAllowed, NotFound, Unavailable
from agent.domain.events import WorkerEvent
from agent.domain.ids import new_ulid
from agent.domain.inbound import Attachment, Clicked, Commanded, Inbound, Person, Platform, Said, Thread
from agent.domain.orders import (
    AttemptLabel,
    AttemptStatus,
    Fetched,
    FetchOrder,
    GpuInfo,
    HostInfo,
    InspectOrder,
    LabelPrediction,
    LaunchOrder,
    LogPart,
    Predictions,
    PredictOrder,
    StopOrder,
)
from agent.domain.pictures import PictureSpec
from agent.domain.runs import DEFAULT_ENGINE, RunSpec
from agent.domain.sources import PathSource
from agent.ports import (
    Accept,
    Capabilities,
    Complete,
    EngineParts,
    MessageRef,
    ModelMessage,
    ModelReply,
    ReplyStream,
    ToolSchema,
    Whisper,
)
from agent.runs.engines import Engines

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
THREAD = Thread(platform="slack", tenant="T1", channel="C1", thread_id="1.0")
ALICE = Person(platform="slack", tenant="T1", id="U-alice", name="alice")
BOB = Person(platform="slack", tenant="T1", id="U-bob", name="bob")
GUEST = Person(platform="slack", tenant="T2", id="U-guest", name="guest", external=True)


def said(
    text: str, *, person: Person = ALICE, thread: Thread = THREAD, event: str = "", twin: str = "", **more: object
) -> Inbound:
    """A message to the bot."""
    files = more.pop("files", ())
    act = Said(text=text, attachments=files)  # type: ignore[arg-type]
    return Inbound(event_id=event or new_ulid(), twin=twin, thread=thread, person=person, act=act, at=START, **more)  # type: ignore[arg-type]


def clicked(button: Button, *, person: Person = ALICE, thread: Thread = THREAD, digest: str | None = None) -> Inbound:
    """A click on a button."""
    act = Clicked(action=button.action, subject=button.subject, digest=button.digest if digest is None else digest)
    return Inbound(event_id=new_ulid(), thread=thread, person=person, act=act, at=START)


def commanded(*words: str, person: Person = ALICE, thread: Thread = THREAD) -> Inbound:
    """A slash command."""
    return Inbound(
        event_id=new_ulid(), thread=thread, person=person, act=Commanded(words=words), reply_handle="handle", at=START
    )


class FakeClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self._now = START
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def forward(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class FakeAdapter:
    """A platform in memory: messages by id, in order, each with the history of what it showed."""

    platform: Platform = "slack"

    def __init__(self) -> None:
        self.messages: dict[str, list[Content]] = {}
        self.keys: dict[str, str] = {}
        self.whispers: list[tuple[str, Content]] = []
        self.failures: list[AppError] = []
        self.lose_answers = 0
        self.busy_with: list[Inbound | None] = []
        self.groups: dict[str, set[str]] = {}  # by person

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        raise AssertionError("tests accept by themselves")

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        self._fail()
        if whisper is not None:
            self.whispers.append((whisper.person, content))
            return MessageRef("whisper", new_ulid())
        message = f"m{len(self.messages) + 1}"
        self.messages[message] = [content]
        self.keys[key] = message
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("the answer was lost")
        return MessageRef(thread.channel, message)

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        self._fail()
        self.messages[ref.id].append(content)
        return ref

    def shown_at(self, ref: MessageRef) -> datetime | None:
        return START

    async def find(self, thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        return MessageRef(thread.channel, self.keys[key]) if key in self.keys else None

    async def stream(self, thread: Thread, *, key: str) -> ReplyStream:
        return FakeStream(self, thread, key)

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        return among.intersection(self.groups.get(person.id, ()))

    @asynccontextmanager
    async def busy(self, thread: Thread, asked: Inbound | None) -> AsyncIterator[None]:
        self.busy_with.append(asked)
        yield
        self.busy_with.remove(asked)

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        if not attachment.locator:
            raise BadData(f"`{attachment.name}` cannot be fetched.")
        into.write_bytes(Path(attachment.locator).read_bytes())

    @property
    def shown(self) -> list[Content]:
        """What every message shows now, in order."""
        return [history[-1] for history in self.messages.values()]

    def texts(self) -> list[str]:
        return [content.text for content in self.shown if content.text]

    def button(self, action: str) -> Button:
        """The newest button with this action."""
        found = [b for content in self.shown if content.card for b in content.card.buttons if b.action == action]
        assert found, f"no button {action} in {self.shown}"
        return found[-1]


class FakeStream:
    """An answer that grows in a `FakeAdapter`."""

    def __init__(self, adapter: FakeAdapter, thread: Thread, key: str) -> None:
        self._adapter, self._thread, self._key = adapter, thread, key
        self._ref: MessageRef | None = None
        self._text = ""

    async def append(self, text: str) -> MessageRef | None:
        self._text += text
        if self._ref is None:
            self._ref = await self._adapter.post(self._thread, Content(text=self._text), key=self._key)
        else:
            await self._adapter.edit(self._thread, self._ref, Content(text=self._text))
        return self._ref

    async def finish(self, content: Content) -> MessageRef:
        assert self._ref is not None
        return await self._adapter.edit(self._thread, self._ref, content)


def host(name: str, *, gpus: int = 0, **more: object) -> HostInfo:
    """What a host says about itself; `gpus` of 24 GB, named after it."""
    cards = tuple(GpuInfo(uuid=f"GPU-{name}-{n}", index=n, name="L4", memory_bytes=24 * 2**30) for n in range(gpus))
    values: dict[str, object] = {"cpus": 2, "memory_bytes": 8_000_000_000, "disk_free_bytes": 10**11, "at": START}
    return HostInfo(host=name, gpus=cards, **values | more)  # type: ignore[arg-type]


class FakeFleet:
    """Hosts that take every order and do nothing; `infos` is what they say."""

    name = DEFAULT_ENGINE
    capabilities = Capabilities()
    starting = False

    def __init__(self) -> None:
        self.infos: tuple[HostInfo, ...] = (host("gpu-1"),)
        self.lost: tuple[HostInfo, ...] = ()
        self.launched: list[LaunchOrder] = []
        self.stopped: list[StopOrder] = []
        self.connected = True
        self.problems: tuple[str, ...] = ()
        self.refusal = ""  # of every plan
        self.effort = 1.0

        self.an_hour: Decimal | None = None
        self.printed = ""  # by each attempt
        self.began: set[tuple[str, int]] = set()  # attempts that it says it has

    def price(self, spec: RunSpec) -> Decimal | None:
        return self.an_hour

    async def submit(self, order: LaunchOrder) -> None:
        self.launched.append(order)

    async def status(self, label: AttemptLabel) -> AttemptStatus | None:
        return AttemptStatus(alive=True) if (label.run, label.attempt) in self.began else None

    async def logs(self, label: AttemptLabel, after: int = 0) -> LogPart:
        return LogPart(text=self.printed[after : after + 1000], end=min(after + 1000, max(after, len(self.printed))))

    async def fetch(self, label: AttemptLabel, into: Path) -> Path:
        raise NotFound("It left nothing.")

    async def events(self, label: AttemptLabel, after: int) -> Sequence[WorkerEvent]:
        return ()

    async def cancel(self, order: StopOrder, *, host: str) -> None:
        self.stopped.append(order)

    async def hosts(self) -> Sequence[HostInfo]:
        return self.infos if self.connected else ()

    async def gone(self) -> Sequence[HostInfo]:
        return self.lost

    def nobody(self) -> str:
        return "No GPU host is connected."

    async def inspect(self, order: InspectOrder) -> DataReport:
        names = ("age", "health", "visited_doctor")
        if order.plan is not None and self.refusal:
            raise BadData(self.refusal)
        if order.plan is None and order.target is not None and order.target not in names:
            raise BadData(f"There is no column `{order.target}`. The columns: age, health, visited_doctor.")
        return DataReport(
            dataset=order.dataset,
            rows=1000,
            columns=tuple(
                ColumnReport(name=name, kind="category", missing=0, unique=2, example="yes") for name in names
            ),
            duplicate_rows=0,
            encoding="utf-8",
            delimiter=",",
            preview=(),
            target=TargetReport(column=order.target, classes=(("yes", 600), ("no", 400)), missing=0, imbalance=1.5)
            if order.target
            else None,
            suggested_task="tabular_classification",
            suggested_target="visited_doctor",
            problems=self.problems,
            effort=self.effort,
        )

    async def fetch_data(self, order: FetchOrder) -> Fetched:
        """Every address but those of a path leads to a file, which is named as its end."""
        if isinstance(order.source, PathSource):
            raise NotAllowed(f"`{order.source.path}` is in no folder that this host gives data from.")
        name = order.source.shown.rpartition("/")[2]
        dataset = DatasetRef(sha256="d" * 64, name=name, size_bytes=12_000_000, origin=order.source)
        return Fetched(dataset=dataset, notes=("It was large.",))

    async def predict(self, order: PredictOrder) -> Predictions:
        answer = LabelPrediction(label="yes", probabilities=(("yes", 0.9), ("no", 0.1)))
        return Predictions(rows=(answer,), total=1, counts=(("yes", 1),))


def engines_of(*fleets: FakeFleet) -> Engines:
    """The engines that these hosts are; the first is the usual one."""
    first, *others = (EngineParts(fleet, fleet, fleet, fleet) for fleet in fleets)
    return Engines(first, *others)


class FakeBundles:
    """Bundles in memory; every recipe is one train.py."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, str]] = {"b" * 64: {"train.py": "print('training')\n"}}

    async def pack(self, recipe: str) -> str:
        return "b" * 64

    async def pack_server(self) -> str:
        return "5" * 64

    async def pack_program(self, files: Mapping[str, bytes]) -> str:
        return self._kept({name: content.decode() for name, content in files.items()})

    async def read(self, sha256: str, name: str) -> str:
        return self.files[sha256][name]

    async def replace(self, sha256: str, files: Mapping[str, str]) -> str:
        return self._kept(self.files[sha256] | dict(files))

    def _kept(self, files: dict[str, str]) -> str:
        digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
        self.files[digest] = files
        return digest


class FakeCharts:
    def __init__(self) -> None:
        self.drawn: deque[ChartSpec | PictureSpec] = deque(maxlen=50)

    async def render(self, spec: ChartSpec | PictureSpec) -> bytes:
        self.drawn.append(spec)
        return b"\x89PNG" + spec.title.encode()

    async def describe(self, spec: ChartSpec | PictureSpec) -> str:
        return spec.title


class ScriptedModel:
    """Answers what the script says; a call beyond its end fails the test."""

    def __init__(self, *replies: ModelReply | AppError | Callable[[Sequence[ModelMessage]], ModelReply]) -> None:
        self.replies = list(replies)
        self.asked: list[Sequence[ModelMessage]] = []

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        self.asked.append(messages)
        assert self.replies, f"the model was asked once more than the script says: {messages[-1]}"
        reply = self.replies.pop(0)
        if isinstance(reply, AppError):
            raise reply
        if callable(reply):
            reply = reply(messages)
        for word in reply.text.split(" ") if reply.text else ():
            yield f"{word} "
        yield reply
