"""What the local Discord remembers: people, channels, threads, messages, interactions, and the limits it keeps.

No network here. `discord_rest` and `discord_interactions` change this world for the bot, `discord_gateway` tells the
bot about it, and `discord_server` lets a test act in it.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

EPOCH_MS = 1420070400000
PERMISSIONS = {
    "add_reactions": 1 << 6,
    "view_channel": 1 << 10,
    "send_messages": 1 << 11,
    "embed_links": 1 << 14,
    "attach_files": 1 << 15,
    "read_message_history": 1 << 16,
    "create_public_threads": 1 << 35,
    "send_messages_in_threads": 1 << 38,
}
MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19
EPHEMERAL, LOADING, HAS_THREAD = 1 << 6, 1 << 7, 1 << 5
TEXT, DIRECT, PUBLIC_THREAD = 0, 1, 11
BUTTON, STRING_SELECT = 2, 3


@dataclass
class Limits:
    """Discord's numbers. Tests scale times down by setting them."""

    content: int = 2000
    embeds: int = 10
    embed_sum: int = 6000
    title: int = 256
    description: int = 4096
    fields: int = 25
    field_name: int = 256
    field_value: int = 1024
    footer: int = 2048
    rows: int = 5
    row_buttons: int = 5
    custom_id: int = 100
    label: int = 80
    options: int = 25
    option: int = 100  # of label and value each
    placeholder: int = 150
    nonce: int = 25
    file_bytes: int = 10 * 1024 * 1024
    request_bytes: int = 25 * 1024 * 1024
    thread_name: int = 100
    active_threads: int = 1000
    interaction_deadline_s: float = 3.0
    interaction_life_s: float = 900.0
    old_message_s: float = 3600.0
    old_edits: int = 3  # that a message older than `old_message_s` still takes; the real number is not told
    nonce_window_s: float = 180.0
    cdn_life_s: float = 86400.0
    bucket: int = 5  # posts, edits and so on of one route and channel …
    bucket_window_s: float = 1.0  # … in this time; really about 5 s
    global_per_s: int = 50
    command_chars: int = 8000


class ApiError(Exception):
    """An answer that is not 2xx, as Discord words it."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"code": code, "message": message, **more}


def bad_form(where: str, text: str, code: str = "BASE_TYPE_BAD_LENGTH") -> ApiError:
    """50035 with the place in the form."""
    tree: Json = {"_errors": [{"code": code, "message": text}]}
    for part in reversed(where.split(".")):
        tree = {part: tree}
    return ApiError(400, 50035, "Invalid Form Body", errors=tree)


class Snowflakes:
    """Ids that sort by time; `age_s` makes the next ones look old."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, *, age_s: float = 0.0) -> int:
        """A fresh id."""
        made = int(time.time() * 1000 - age_s * 1000 - EPOCH_MS) << 22
        if age_s == 0.0:
            self._last = made = max(made, self._last + 1)
        else:
            made += secrets.randbelow(1 << 22)
        return made


def time_of(snowflake: int) -> datetime:
    """When an id was made."""
    return datetime.fromtimestamp(((snowflake >> 22) + EPOCH_MS) / 1000, UTC)


@dataclass
class Person:
    """A user; `roles` are role ids."""

    id: int
    name: str
    bot: bool = False
    takes_dms: bool = True
    roles: list[int] = field(default_factory=list)

    def user(self) -> Json:
        """The user object."""
        return {
            "id": str(self.id),
            "username": self.name,
            "discriminator": "0",
            "global_name": self.name.title(),
            "avatar": None,
            "bot": self.bot,
            "flags": 0,
            "public_flags": 0,
        }

    def member(self, roles: list[int] | None = None) -> Json:
        """The member object without its user."""
        return {
            "roles": [str(role) for role in roles or ()],
            "joined_at": "2024-01-01T00:00:00+00:00",
            "nick": None,
            "deaf": False,
            "mute": False,
            "flags": 0,
            "pending": False,
            "avatar": None,
        }


@dataclass
class Channel:
    """A text channel, a thread of one, or a conversation with one person."""

    id: int
    kind: int
    name: str = ""
    guild_id: int = 0
    parent_id: int = 0
    owner_id: int = 0
    recipient: Person | None = None
    archived: bool = False
    locked: bool = False
    messages: dict[int, "Message"] = field(default_factory=dict)

    def payload(self) -> Json:
        """The channel object."""
        base: Json = {"id": str(self.id), "type": self.kind, "last_message_id": str(max(self.messages, default=0))}
        if self.kind == DIRECT:
            return {**base, "recipients": [self.recipient.user()] if self.recipient else []}
        base |= {"guild_id": str(self.guild_id), "name": self.name, "position": 0, "permission_overwrites": []}
        if self.kind == PUBLIC_THREAD:
            made = time_of(self.id).isoformat()
            base |= {
                "parent_id": str(self.parent_id),
                "owner_id": str(self.owner_id),
                "message_count": len(self.messages),
                "member_count": 2,
                "thread_metadata": {
                    "archived": self.archived,
                    "locked": self.locked,
                    "auto_archive_duration": 10080,
                    "archive_timestamp": made,
                    "create_timestamp": made,
                },
            }
        return base


@dataclass
class Message:
    """One message; `edits` are (monotonic seconds, content, embeds) of every state it had, the first included."""

    id: int
    channel: Channel
    author: Person
    content: str = ""
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)
    mentions: list[Person] = field(default_factory=list)
    nonce: str = ""
    flags: int = 0
    reference: Json | None = None
    answers: "Message | None" = None
    thread: Channel | None = None
    edited: bool = False
    old_edits: int = 0
    deleted: bool = False
    pinged: list[str] = field(default_factory=list)
    edits: list[tuple[float, str, list[Json]]] = field(default_factory=list)

    def record(self) -> None:
        """Keep the present state in the history."""
        self.edits.append((time.monotonic(), self.content, self.embeds))

    @property
    def embed(self) -> Json:
        """The first embed, empty if there is none."""
        return self.embeds[0] if self.embeds else {}

    @property
    def buttons(self) -> dict[str, Json]:
        """Buttons by their labels."""
        parts = [part for row in self.components for part in row["components"]]
        return {str(button.get("label")): button for button in parts if button.get("type") != STRING_SELECT}

    @property
    def menus(self) -> dict[str, Json]:
        """Menus by what stands in them while nothing is chosen."""
        parts = [part for row in self.components for part in row["components"]]
        return {str(menu.get("placeholder")): menu for menu in parts if menu.get("type") == STRING_SELECT}

    @property
    def text(self) -> str:
        """All words that people see: content and embeds."""
        parts = [self.content]
        for embed in self.embeds:
            parts += [str(embed.get("title", "")), str(embed.get("description", ""))]
            parts += [f"{shown['name']}: {shown['value']}" for shown in embed.get("fields", ())]
            parts.append(str(embed.get("footer", {}).get("text", "")))
        return "\n".join(part for part in parts if part)

    def payload(self, *, with_nonce: bool = False) -> Json:
        """The message object."""
        made: Json = {
            "id": str(self.id),
            "channel_id": str(self.channel.id),
            "author": self.author.user(),
            "content": self.content,
            "timestamp": time_of(self.id).isoformat(),
            "edited_timestamp": datetime.now(UTC).isoformat() if self.edited else None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [person.user() for person in self.mentions],
            "mention_roles": [],
            "attachments": self.attachments,
            "embeds": self.embeds,
            "components": self.components,
            "pinned": False,
            "type": 19 if self.reference else 0,
            "flags": self.flags,
        }
        if with_nonce and self.nonce:
            made["nonce"] = self.nonce
        if self.reference:
            made["message_reference"] = self.reference
        if self.answers:
            made |= {"referenced_message": self.answers.payload(), "type": 19}
            made["message_reference"] = {"message_id": str(self.answers.id), "channel_id": str(self.channel.id)}
        if self.thread:
            made["thread"] = self.thread.payload()
        return made


@dataclass
class Interaction:
    """A slash command or a click, from the person's side."""

    id: int
    token: str
    kind: int
    channel: Channel
    person: Person
    message: Message | None = None
    callback: int = 0  # the type of the acknowledgement, 0 while there is none
    ephemeral: bool = False
    original: Message | None = None
    dialog: Json = field(default_factory=dict)  # that the click opened
    proposed: list[Json] = field(default_factory=list)  # of an autocomplete
    followups: list[Message] = field(default_factory=list)
    made: float = field(default_factory=time.monotonic)

    @property
    def replies(self) -> list[Message]:
        """What the person sees as answers, "thinking…" left out."""
        first = self.original if self.callback in (4, 5) else None
        return [*([first] if first is not None and not first.flags & LOADING else []), *self.followups]


@dataclass
class World:
    """Everything. `changed` wakes those who wait for a state."""

    limits: Limits = field(default_factory=Limits)
    token: str = "local-bot-token"
    ids: Snowflakes = field(default_factory=Snowflakes)
    channels: dict[int, Channel] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    interactions: dict[str, Interaction] = field(default_factory=dict)
    commands: dict[int, list[Json]] = field(default_factory=dict)  # by guild, 0 is global
    files: dict[str, tuple[bytes, str]] = field(default_factory=dict)  # path -> content, media type
    message_content: bool = True
    granted: set[str] = field(default_factory=lambda: set(PERMISSIONS))
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    tell: Callable[[str, Json], None] = field(default=lambda *_: None)

    def __post_init__(self) -> None:
        self.bot = Person(self.ids.new(), "trainyard", bot=True)
        self.guild_id = self.ids.new()
        self.role_id = self.ids.new()
        self.general = self.add_channel("general")

    def add_channel(self, name: str) -> Channel:
        """A text channel of the guild."""
        channel = Channel(self.ids.new(), TEXT, name, self.guild_id)
        self.channels[channel.id] = channel
        return channel

    def direct(self, person: Person) -> Channel:
        """The conversation between the bot and one person."""
        for channel in self.channels.values():
            if channel.kind == DIRECT and channel.recipient is person:
                return channel
        channel = Channel(self.ids.new(), DIRECT, recipient=person)
        self.channels[channel.id] = channel
        return channel

    def permissions(self) -> str:
        """What the bot's role may do."""
        return str(sum(PERMISSIONS[name] for name in self.granted))

    def guild(self) -> Json:
        """GUILD_CREATE's payload."""
        threads = [c.payload() for c in self.channels.values() if c.kind == PUBLIC_THREAD and not c.archived]
        channels = [c.payload() for c in self.channels.values() if c.kind == TEXT]
        return {
            "id": str(self.guild_id),
            "name": "Local",
            "owner_id": "1",
            "member_count": 2,
            "unavailable": False,
            "roles": self.roles(),
            "emojis": [],
            "features": [],
            "channels": channels,
            "threads": threads,
            "members": [{"user": self.bot.user(), **self.bot.member([self.role_id])}],
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "nsfw_level": 0,
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "system_channel_flags": 0,
            "afk_timeout": 300,
            "large": False,
        }

    def roles(self) -> list[Json]:
        """@everyone, and the role that the invitation made for the bot."""
        everyone: Json = {"id": str(self.guild_id), "name": "@everyone", "permissions": "0", "position": 0}
        own: Json = {
            "id": str(self.role_id),
            "name": "trainyard",
            "permissions": self.permissions(),
            "position": 1,
            "managed": True,
            "tags": {"bot_id": str(self.bot.id)},
        }
        return [everyone, own]

    def add_message(self, message: Message) -> Message:
        """Put it into its channel, wake the thread if it sleeps, and tell the gateway."""
        channel = message.channel
        if channel.archived:
            channel.archived = False
            self.tell("THREAD_UPDATE", channel.payload())
        channel.messages[message.id] = message
        message.record()
        self.tell_message("MESSAGE_CREATE", message)
        return message

    def tell_message(self, event: str, message: Message) -> None:
        """Tell the gateway about a message, and those who wait for a state."""
        made = message.payload(with_nonce=True)
        if message.channel.guild_id:
            roles = [self.role_id] if message.author is self.bot else []
            made |= {"guild_id": str(message.channel.guild_id), "member": message.author.member(roles)}
        self.tell(event, made)
        self.touch()

    def touch(self) -> None:
        """Wake those who wait for a state."""
        self.changed.set()
        self.changed = asyncio.Event()
