"""How Discord's ids become threads, handles, locators and nonces, and back. Pure; nobody else knows these forms."""

import base64
import hashlib
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from agent.domain.errors import BadRequest
from agent.domain.inbound import Thread
from agent.domain.value import Value
from agent.ports import MessageRef

DIRECT = "dm"  # the tenant of direct messages
NONCE_CHARS = 25  # Discord's limit
_WHISPER = "whisper:"


class Handle(Value):
    """An interaction, as `Inbound.reply_handle` carries it; good for 15 minutes."""

    application: int
    token: str
    kind: Literal["slash", "button"]


class Locator(Value):
    """Where an attachment lies: its URL expires, or is not kept (empty); its message tells a fresh one."""

    channel: int
    message: int
    attachment: int
    url: str


@dataclass(frozen=True, slots=True)
class Place:
    """A channel or thread that a message goes to."""

    channel: int
    thread_id: int = 0

    @property
    def target(self) -> int:
        """The id to send to."""
        return self.thread_id or self.channel


def place_of(thread: Thread) -> Place:
    """The thread's ids.

    Raises:
        BadRequest: the thread is not one of Discord's.
    """
    if thread.platform != "discord" or not thread.channel.isdigit() or not (thread.thread_id or "0").isdigit():
        raise BadRequest(f"{thread.key} is not a place in Discord.")
    return Place(int(thread.channel), int(thread.thread_id or 0))


def nonce_of(key: str) -> str:
    """25 characters that stand for `key`; Discord returns the old message for a nonce that it saw minutes ago."""
    digest = hashlib.sha256(key.encode()).digest()
    return base64.b32encode(digest).decode().lower()[:NONCE_CHARS]


def handle_from(text: str) -> Handle | None:
    """The interaction, or None for an empty or foreign handle."""
    try:
        return Handle.model_validate_json(text) if text else None
    except ValidationError:
        return None


def whisper_ref(handle: Handle, message: int, thread: Thread) -> MessageRef:
    """The address of a private answer: editing it needs the interaction's token."""
    return MessageRef(channel=_WHISPER + handle.model_dump_json(), id=str(message), thread_id=thread.thread_id)


def whispered_by(ref: MessageRef) -> Handle | None:
    """The interaction behind a private answer, None for an ordinary message."""
    return handle_from(ref.channel.removeprefix(_WHISPER)) if ref.channel.startswith(_WHISPER) else None


def link_to(thread: Thread, ref: MessageRef) -> str:
    """A URL that opens the message in Discord."""
    tenant = "@me" if thread.tenant == DIRECT else thread.tenant
    return f"https://discord.com/channels/{tenant}/{ref.channel}/{ref.id}"
