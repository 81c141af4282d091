"""The brain's stores in memory, as the peers keep their conversations: nothing survives the process.

Only what a turn without approvals needs; the rest raises AttributeError. For the bench alone: a bot needs rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from agent.domain.approvals import Approval, ApprovalState
from agent.domain.budgets import Budget
from agent.domain.content import Content
from agent.domain.datasets import DatasetRef
from agent.domain.ids import new_ulid
from agent.domain.inbound import Inbound, Thread
from agent.domain.questions import Question
from agent.domain.runs import Run
from agent.ports import MessageRef, ModelMessage, Whisper
from agent.stores import (
    Allowances,
    Approvals,
    AuditLog,
    Budgets,
    Context,
    Conversations,
    Inbox,
    InboxItem,
    ModelCall,
    ModelUsage,
    Outbox,
    Post,
    PostState,
    Questions,
    Runs,
    Sessions,
    Stores,
    ThreadNow,
    Turn,
)


class MemoryInbox:
    """Acts by event id."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    async def add(self, inbound: Inbound) -> InboxItem | None:
        """New, or None."""
        if inbound.event_id in self._seen:
            return None
        self._seen.add(inbound.event_id)
        return InboxItem(len(self._seen), inbound)

    async def get(self, item_id: int) -> Inbound | None:
        """Nothing is kept."""
        return None

    async def done(self, item_id: int) -> None:
        """Nothing to remember."""

    async def forget(self, item_id: int) -> None:
        """Nothing to forget."""


class MemoryConversations:
    """Messages by session, sessions by thread."""

    def __init__(self, posts: dict[str, Post]) -> None:
        self._posts = posts
        self._sessions: dict[str, str] = {}
        self._messages: dict[str, list[ModelMessage]] = {}
        self._turns: dict[int, Turn] = {}

    async def session_of(self, thread: Thread, *, create: bool) -> str | None:
        """The session bound to a thread."""
        if create and thread.key not in self._sessions:
            self._sessions[thread.key] = f"s-{new_ulid()}"
        return self._sessions.get(thread.key)

    async def turn_of_item(self, inbox_id: int) -> Turn | None:
        """The turn that an inbox item started."""
        return self._turns.get(inbox_id)

    async def begin_turn(self, turn: Turn, asked: ModelMessage) -> tuple[Turn, Context] | None:
        """A new turn and what the model is told."""
        session = turn.session_id or await self.session_of(turn.thread, create=True) or ""
        begun = self._turns[turn.inbox_id] = replace(turn, session_id=session)
        await self.append(begun, [asked])
        return begun, Context(tuple(self._messages[session]), ())

    async def append(self, turn: Turn, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        """More messages."""
        kept = self._messages.setdefault(turn.session_id, [])
        stored = [replace(said, id=len(kept) + number) for number, said in enumerate(messages, 1)]
        kept.extend(stored)
        return stored

    async def end_turn(
        self, turn: Turn, last: ModelMessage, *, key: str, content: Content, ended_by: Sequence[int] = ()
    ) -> int:
        """The answer."""
        self._messages[turn.session_id].append(last)
        return _put(self._posts, key, turn.thread, content, whisper=None)

    async def files(self, session_id: str) -> Sequence[DatasetRef]:
        """There are none."""
        return ()


def _put(posts: dict[str, Post], key: str, thread: Thread, content: Content, *, whisper: Whisper | None) -> int:
    known = posts.get(key)
    if known is None:
        posts[key] = Post(len(posts), key, thread, content, 1, 0, PostState.NEW, None, whisper, True)
    elif known.content != content:
        posts[key] = replace(known, content=content, version=known.version + 1)
    return posts[key].version


@dataclass
class MemoryOutbox:
    """Posts by key."""

    posts: dict[str, Post]

    async def put(self, key: str, thread: Thread, content: Content, *, whisper: Whisper | None, urgent: bool) -> int:
        """What should be shown."""
        return _put(self.posts, key, thread, content, whisper=whisper)

    async def due(self, thread_key: str) -> Sequence[Post]:
        """Posts of a thread whose shown version is old."""
        return [post for post in self.posts.values() if post.thread.key == thread_key and post.version > post.shown]

    async def begin(self, key: str, thread: Thread) -> bool:
        """A new message; False when its key is known."""
        if key in self.posts:
            return False
        self.posts[key] = Post(len(self.posts), key, thread, Content(), 0, 0, PostState.SENDING, None, None, True)
        return True

    async def sending(self, key: str) -> None:
        """It may have been posted."""

    async def sent(self, key: str, ref: MessageRef, *, shown: int | None) -> None:
        """It stands; what is shown need not be remembered."""
        if shown is not None:
            self.posts.pop(key, None)


class MemoryUsage:
    """Forgets what models cost."""

    async def add(self, call: ModelCall) -> None:
        """Nothing is kept."""


class MemoryBudgets:
    """Nobody has one."""

    async def all(self) -> Sequence[Budget]:
        """There are none."""
        return ()


class MemoryRuns:
    """Nothing runs."""

    async def of_session(self, session_id: str, limit: int) -> Sequence[Run]:
        """There are none."""
        return ()


class MemoryFacts:
    """Nothing is so."""

    def __init__(self, conversations: "MemoryConversations") -> None:
        self._conversations = conversations

    async def now(self, session_id: str, thread: Thread) -> ThreadNow:
        """Nothing runs, waits or was refused."""
        return ThreadNow()

    async def answered(self, turn: Turn, said: ModelMessage, *, read_only: bool) -> tuple[ModelMessage, ThreadNow]:
        """One more message."""
        return (await self._conversations.append(turn, [said]))[0], ThreadNow()


class MemoryApprovals:
    """Nothing is approved."""

    async def of_state(self, *states: ApprovalState) -> Sequence[Approval]:
        """There are none."""
        return ()


class MemoryQuestions:
    """Nobody is asked."""

    async def open_in(self, thread: Thread) -> Sequence[Question]:
        """There are none."""
        return ()


def memory_stores() -> Stores:
    """All of them over one set of posts."""
    posts: dict[str, Post] = {}
    conversations = MemoryConversations(posts)
    return Stores(
        inbox=cast(Inbox, MemoryInbox()),
        conversations=cast(Conversations, conversations),
        sessions=cast(Sessions, None),  # nobody gives a command
        approvals=cast(Approvals, MemoryApprovals()),
        questions=cast(Questions, MemoryQuestions()),
        runs=cast(Runs, MemoryRuns()),
        outbox=cast(Outbox, MemoryOutbox(posts)),
        usage=cast(ModelUsage, MemoryUsage()),
        budgets=cast(Budgets, MemoryBudgets()),
        facts=MemoryFacts(conversations),
        allowances=cast(Allowances, None),  # nothing is approved
        audit=cast(AuditLog, None),
    )
