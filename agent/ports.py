"""What the brain needs from the world, as Protocols.

Adapters stand in `bot/`, `worker/client`, `charts_render` and `agent/llm`; what it remembers is in `agent.stores`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from agent.domain.charts import ChartSpec
from agent.domain.content import Choice, Content
from agent.domain.datasets import DataReport, DatasetRef, holds_program
from agent.domain.events import WorkerEvent
from agent.domain.inbound import Attachment, Inbound, Person, Platform, Thread
from agent.domain.models import ModelFacts, Preference
from agent.domain.orders import (
    AttemptLabel,
    AttemptStatus,
    Fetched,
    FetchOrder,
    HostInfo,
    InspectOrder,
    LaunchOrder,
    LogPart,
    Predictions,
    PredictOrder,
    StopOrder,
)
from agent.domain.pictures import PictureSpec
from agent.domain.runs import RunSpec, RunState


class Clock(Protocol):
    """Time, so that tests can hold it."""

    def now(self) -> datetime:
        """The aware UTC time."""

    def monotonic(self) -> float:
        """Seconds that never run back."""


@dataclass(frozen=True, slots=True)
class MessageRef:
    """The platform's address of a message that we posted: `id` is what editing needs, `channel` where it stands."""

    channel: str
    id: str
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class Whisper:
    """Show a message to one person only; `handle` is the inbound event's `reply_handle`, or empty."""

    person: str
    handle: str = ""


class Accept(Protocol):
    """The way in: called by an adapter before it acknowledges."""

    async def __call__(self, inbound: Inbound) -> bool:
        """Store `inbound` durably; False if it (or its twin) was stored before. Returns after the commit."""


@dataclass(frozen=True, slots=True)
class HalfTyped:
    """An option of a command that somebody is typing: `text` so far, and the `run` that stands beside it."""

    thread: Thread
    person: Person
    command: str
    option: str
    text: str
    run: str = ""


class Complete(Protocol):
    """What can be proposed for an option, for platforms that show that."""

    async def __call__(self, asked: HalfTyped) -> Sequence[Choice]:
        """At most 25, the likeliest first; empty where nothing is known."""


class ChatAdapter(Protocol):
    """One chat platform. Raises `TransientError` for what may work later, `AppError` for what never will."""

    platform: Platform

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        """Connect and deliver what people do until cancelled; `complete` knows what to propose while they type."""

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        """Post a new message. `key` identifies it, so that a repeated call with the same key can be recognised."""

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Make a message show `content`. The answer may be a new address where the platform forbids the edit."""

    async def find(self, thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        """The message that was posted with `key`, if it did arrive; asked after a post whose outcome is unknown.

        `growing` says that it was begun by `stream`, so that what stands may be half an answer.
        """

    def shown_at(self, ref: MessageRef) -> datetime | None:
        """When a message was posted, by the clock that `Inbound.at` is of; None where that is not known."""

    async def stream(self, thread: Thread, *, key: str) -> "ReplyStream":
        """Open an answer that grows."""

    def busy(self, thread: Thread, asked: Inbound | None) -> AbstractAsyncContextManager[None]:
        """Show that the bot is at work on what `asked` wants, as long as the block lasts; a cancelled one leaves it."""

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Those of these groups of the platform, by id, that the person is in; raises what is above."""

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """Download an attachment. Raises `BadData` when it is larger than `limit_bytes` or not what it claims to be."""


class ReplyStream(Protocol):
    """An answer that grows in place. `append` never raises for rate limits: text is kept and shown later."""

    async def append(self, text: str) -> MessageRef | None:
        """Show more text; the address once the message exists."""

    async def finish(self, content: Content) -> MessageRef:
        """Make the message show exactly `content`, and close the stream."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do. Which GPUs and networks there are, its hosts say themselves.

    `pauses`: an attempt can be asked to save a checkpoint and end, and a later one goes on from there.
    """

    pauses: bool = True


class Engine(Protocol):
    """Where attempts run. An attempt is known by its label, of run and number, on whichever side one asks.

    Every method raises `Unavailable` when nothing answers in time. `worker/engines/` has one package an engine, and
    `tests/engines` the contract that each of them keeps.
    """

    @property
    def name(self) -> str:
        """What a run's specification and people call it."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def price(self, spec: RunSpec) -> Decimal | None:
        """What an hour of this run costs in USD; None where nobody is charged."""

    async def submit(self, order: LaunchOrder) -> None:
        """Start an attempt; a repetition looks for the label first and starts nothing twice.

        What the engine refuses for good comes as the attempt's end, like any other.
        """

    async def status(self, label: AttemptLabel) -> AttemptStatus | None:
        """What became of an attempt; None where the engine never began one of this label."""

    async def logs(self, label: AttemptLabel, after: int = 0) -> LogPart:
        """What the run's programs printed behind byte `after`, up to 64 KiB; empty for an unknown label."""

    async def cancel(self, order: StopOrder, *, host: str) -> None:
        """Ask an attempt to end; harmless when repeated, and an order never weakens an earlier one."""

    async def fetch(self, label: AttemptLabel, into: Path) -> Path:
        """Put what an attempt left into the folder `into`, as one tar. Raises `NotFound` where it left nothing."""


@runtime_checkable
class EventLog(Protocol):
    """The events of an engine that can only be asked; `agent.runs.polling` makes a feed of it."""

    async def events(self, label: AttemptLabel, after: int) -> Sequence[WorkerEvent]:
        """The next events behind number `after`, in order and without gaps; at most a few hundred, may be empty."""


class HostDirectory(Protocol):
    """Which hosts there are, by their own word. Every method raises `Unavailable` when nothing answers in time."""

    async def hosts(self) -> Sequence[HostInfo]:
        """Hosts whose last word is under 60 s old."""

    async def gone(self) -> Sequence[HostInfo]:
        """The last word of hosts that were there within a day and are not now."""

    @property
    def starting(self) -> bool:
        """Whether a worker that was started with the bot may still come."""

    def nobody(self) -> str:
        """Why no host is there, and what to do, in a sentence."""


class DataService(Protocol):
    """Looks at data and predicts, on any host. Every method raises `Unavailable` when nothing answers in time."""

    async def inspect(self, order: InspectOrder) -> DataReport:
        """Audit a data file. Raises `BadData` with the place in the file."""

    async def fetch_data(self, order: FetchOrder) -> Fetched:
        """Store data that an address names. Raises `BadData`, `NotAllowed`, `NotFound`."""

    async def predict(self, order: PredictOrder) -> Predictions:
        """Predict with a finished model. Raises `BadData` when the rows do not fit the model."""


class EventFeed(Protocol):
    """The events of an engine's attempts."""

    @property
    def away(self) -> bool:
        """Whether the last read could not reach the streams: until it can, nothing is known of any host."""

    async def read(self) -> Sequence[tuple[str, WorkerEvent]]:
        """The next events with their acknowledgement ids; waits up to a second, may be empty."""

    async def ack(self, ids: Sequence[str]) -> None:
        """The events are in the database."""


async def _nothing_to_close() -> None:
    return


@dataclass(frozen=True, slots=True)
class EngineParts:
    """An engine and what stands beside it; `worker.engines` makes them.

    `events` is the feed of an engine that pushes them, or the log of one that can only be asked.
    """

    engine: Engine
    hosts: HostDirectory
    data: DataService
    events: EventFeed | EventLog
    close: Callable[[], Awaitable[None]] = _nothing_to_close


class Blobs(Protocol):
    """Files by content. The same sha256 is stored once."""

    async def put(self, path: Path, *, name: str) -> DatasetRef:
        """Store a copy of a file."""

    async def get(self, sha256: str) -> Path:
        """A readable local copy. Raises `NotFound`."""


class Charts(Protocol):
    """`charts_render`, off the event loop."""

    async def render(self, spec: ChartSpec | PictureSpec) -> bytes:
        """PNG bytes."""

    async def describe(self, spec: ChartSpec | PictureSpec) -> str:
        """What the picture says, in words."""


class ServingTokens(Protocol):
    """Makes the tokens of served models, which nobody has to keep: the same `nonce` gives the same one."""

    def __call__(self, nonce: str) -> str:
        """The token that belongs to a nonce, and to nothing that others know."""


class Bundles(Protocol):
    """The code that a run executes."""

    async def pack(self, recipe: str) -> str:
        """Pack a recipe's files into the blob store; the bundle's sha256. The same code gives the same sha256."""

    async def pack_program(self, files: Mapping[str, bytes]) -> str:
        """Pack somebody's own program with what it may import of ours into the blob store; the bundle's sha256."""

    async def pack_server(self) -> str:
        """Pack the program `serve.py`, which keeps a model up, into the blob store; the bundle's sha256."""

    async def read(self, sha256: str, name: str) -> str:
        """The text of one file of a stored bundle. Raises `NotFound`."""

    async def replace(self, sha256: str, files: Mapping[str, str]) -> str:
        """Store a copy of a bundle with these files in place of its own; the copy's sha256. Raises `NotFound`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model asks for a tool; `arguments` is the JSON text as it came."""

    id: str
    name: str
    arguments: str


class Role(StrEnum):
    """Whose entry of a conversation it is."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that came with a message, as a model hears of it; `program` as in `DatasetRef`."""

    name: str
    size_bytes: int
    program: bool | None = None

    @property
    def is_program(self) -> bool:
        """Whether it can be run."""
        return holds_program(self.name, self.program)


class RunNow(NamedTuple):
    """A run of the thread, and where it stands now."""

    id: str
    state: RunState


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """One entry of a conversation. `text` is what was said and nothing else; facts about it are fields.

    Of a user: `speaker` is whose words they are, `person` the key of who began the turn with them, `guest` whether that
    is one of another organisation, `steers` the key of who said them while their turn was at work; `noticed` says that
    they are nobody's but the monitor's; `files` came with them, `refused` says why others that came were not taken.
    Of an assistant: `model` said it, and `offers` is the column that it offered to train for; `tokens` is what was
    read and written for that, `failed_tokens` how many of these went into tries before the one that answered, `window`
    the most that it can read (0: not known), `cost_usd` what all that cost, `seconds` how long it took; `ended_by` is
    the inbox item by which somebody ended it (0: nobody did, -1: it is not known which).
    `call_id` is of the call that a tool message answers; `note` is the bot's own word with it, `cut_chars` the length
    of its whole text where that was longer, `whole` that text on its way to the store, `tokens` and `cost_usd` what
    language models took for the result. `id` is the number of its row.
    `facts`, of the last message that a model reads, are what is so now, and `runs` those of its thread, the newest
    first; they are never stored.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    speaker: str = ""
    person: str = ""
    guest: bool = False
    steers: str = ""
    noticed: bool = False
    files: tuple[AttachedFile, ...] = ()
    refused: tuple[str, ...] = ()
    model: str = ""
    offers: str = ""
    tokens: int = 0
    failed_tokens: int = 0
    window: int = 0
    cost_usd: float = 0.0
    note: str = ""
    seconds: float = 0.0
    ended_by: int = 0
    facts: str = ""
    runs: tuple[RunNow, ...] = ()
    whole: str = ""
    cut_chars: int = 0
    id: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: dict[str, object]


OFFLINE = "offline planner"  # as what the planner of rules answers


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole answer, of `model` or the planner of rules. `offers` is the column that its words offer to train for.

    `cost_usd` is None where nobody knows a price; nothing was asked of a provider where there are no tokens either.
    `failed_tokens` are those of the tokens that went into tries before the one that answered.
    `note` is what people are told of how it came about: it is shown before the words and is none of them.
    `window` is the most tokens that the model reads; 0 where that is not known. `seconds` is how long it took;
    `ended_by` is the inbox item by which somebody ended it before, 0 where nobody did.
    """

    text: str
    calls: tuple[ToolCall, ...]
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    failed_tokens: int = 0
    offers: str = ""
    window: int = 0
    note: str = ""
    seconds: float = 0.0
    ended_by: int = 0

    @property
    def shown(self) -> str:
        """The words as people see them."""
        return f"_{self.note}_\n\n{self.text}" if self.note and self.text else self.text


@dataclass(frozen=True, slots=True)
class ModelNotice:
    """People are told why an answer begins anew; what was said of it so far is void."""

    text: str


Unused = Callable[[ModelReply], object]
Piece = str | ModelNotice | ModelReply


class Model(Protocol):
    """A language model, or the chain of them."""

    def stream(
        self,
        messages: Sequence[ModelMessage],
        tools: Sequence[ToolSchema],
    ) -> AsyncIterator[Piece]:
        """Pieces of text as they come, then one `ModelReply` as the last item.

        Raises:
            ModelError: it refused, or its answer cannot be used; `TooLong` where a shorter conversation helps.
            TransientError: it may answer later.
        """


class ModelOf(Protocol):
    """Gives the model that people prefer, as `Models.model` does."""

    def __call__(self, preference: Preference, unused: Unused | None = None) -> Model:
        """The model; `unused` hears of what was paid for and answered nothing."""


@dataclass(frozen=True, slots=True)
class ActAsked:
    """What words plainly ask to be done with a run, by the tool's name; an empty `run` means that none is named."""

    tool: str
    run: str = ""
    priority: str = ""


class ReadsActs(Protocol):
    """Finds what a person's own words ask for, without a model."""

    def __call__(self, words: str) -> ActAsked | None:
        """The act that they ask for; None where they ask for none, or cannot be read."""


class Models(Protocol):
    """The configured language models, at least one, by the names in the settings."""

    def model(self, preference: Preference, unused: Unused | None = None) -> Model:
        """The chain of them, as people prefer it; `unused` hears of what was paid for and answered nothing."""

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they are asked."""

    async def facts(self, *, ask: bool = True) -> Sequence[ModelFacts]:
        """What is known of each; to `ask` costs a few tokens. Raises `Unavailable` where nothing can be known."""

    async def has_efforts(self, name: str) -> bool:
        """Whether this one has levels of effort; nobody is asked. Raises `Unavailable`."""

    async def tokens(self, preference: Preference, messages: Sequence[ModelMessage]) -> int:
        """How many tokens these have for the first of the chain, by its own tokenizer where one is known.

        Nobody is asked. Raises `Unavailable`.
        """
