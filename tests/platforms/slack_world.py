"""The state of a local Slack: people, channels, messages with their history, files, deliveries. Plain values."""

from dataclasses import dataclass, field
from typing import Any

from tests.platforms.slack_limits import texts


@dataclass
class Channel:
    id: str
    name: str
    has_bot: bool = True
    kind: str = "channel"  # or `im`
    shared: bool = False  # with another organisation (Slack Connect)


@dataclass
class File:
    id: str
    name: str
    data: bytes
    mimetype: str = "text/csv"
    stub: bool = False  # comes as `check_file_info`
    ready_at_s: float = 0.0
    shared_in: list[tuple[str, str]] = field(default_factory=list)  # (channel id, thread ts)
    html: bool = False  # the download answers with a sign-in page
    redirect: str = ""


@dataclass
class Message:
    """`edits` holds what the message showed before, oldest first, as (text, blocks)."""

    channel: str
    ts: str
    user: str
    text: str
    thread_ts: str = ""
    blocks: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    edits: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)  # the bot's
    deleted: bool = False
    only_for: str = ""  # an ephemeral message
    streaming: bool = False
    stream_ends_at_s: float = 0.0
    unfurl: bool = True

    @property
    def shown(self) -> str:
        """Everything a person reads: the blocks' words, or the text when there are no blocks."""
        return "\n".join(texts(self.blocks)) if self.blocks else self.text

    @property
    def buttons(self) -> dict[str, dict[str, Any]]:
        """Button elements by label."""
        return {
            element["text"]["text"]: element
            for block in self.blocks
            if block["type"] == "actions"
            for element in block["elements"]
        }

    @property
    def menus(self) -> dict[str, dict[str, Any]]:
        """Sections with a multi-select, by their words."""
        menus = [block for block in self.blocks if block.get("accessory", {}).get("type") == "multi_static_select"]
        return {block["text"]["text"]: block for block in menus}

    @property
    def pictures(self) -> list[str]:
        """File ids of the image blocks."""
        return [block["slack_file"]["id"] for block in self.blocks if block["type"] == "image"]


@dataclass
class Attempt:
    """One try to deliver; `acked` is None while open, then whether the app took it within the deadline."""

    number: int
    started_s: float
    acked: bool | None = None
    ended_s: float = 0.0
    status: int = 0  # of HTTP
    answer: dict[str, Any] = field(default_factory=dict)


@dataclass
class Delivery:
    """An event, a click or a command on its way to the app."""

    kind: str  # events_api | interactive | slash_commands
    payload: dict[str, Any]
    message: Message | None = None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def acked(self) -> bool:
        """Whether the app has taken it."""
        return any(attempt.acked for attempt in self.attempts)
