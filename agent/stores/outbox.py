"""What is remembered of what a chat should show."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agent.domain.content import Content
from agent.domain.inbound import Thread
from agent.ports import MessageRef, Whisper


class PostState(StrEnum):
    """Whether a post is on its platform. Of `begun` (an answer that grows) and `sending` that is not known.

    What was `new` when a bot stopped is `sending` for the next one.
    """

    NEW = "new"
    BEGUN = "begun"
    SENDING = "sending"
    SENT = "sent"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Post:
    """A message that the bot keeps up to date: what should be shown and what is."""

    id: int
    key: str
    thread: Thread
    content: Content
    version: int
    shown: int
    state: PostState
    ref: MessageRef | None
    whisper: Whisper | None
    urgent: bool

    @staticmethod
    def new(key: str, thread: Thread, content: Content) -> "Post":
        """An urgent message as it has just been stored for the first time."""
        return Post(0, key, thread, content, 1, 0, PostState.NEW, None, None, urgent=True)


class Outbox(Protocol):
    """Messages to show, each under a key of its own."""

    async def put(self, key: str, thread: Thread, content: Content, *, whisper: Whisper | None, urgent: bool) -> int:
        """Make `content` what should be shown under `key`; its version. Equal content changes nothing."""

    async def due(self, thread_key: str) -> Sequence[Post]:
        """Posts of a thread whose shown version is old, oldest post first."""

    async def left(self, cut_off: Content) -> Sequence[str]:
        """Threads with posts that a stopped bot left; what was never shown may have been sent by it.

        Of an answer that it had begun and not stored, `cut_off` is shown, until one is stored.
        """

    async def begin(self, key: str, thread: Thread) -> bool:
        """An answer that is not stored yet is about to grow; False when its key is known."""

    async def sending(self, key: str) -> None:
        """Sending a stored message failed, and it may have been posted."""

    async def sent(self, key: str, ref: MessageRef, *, shown: int | None) -> None:
        """It stands at `ref`, showing `shown` (None: not a stored version yet)."""

    async def dead(self, key: str, *, version: int) -> None:
        """This version can never be shown; a newer one is not meant."""

    async def get(self, key: str) -> Post | None:
        """The post of a key."""
