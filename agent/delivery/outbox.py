"""Delivers the outbox: makes each thread show what the outbox says.

One sender per thread keeps the order; a message that fails again and again lets others pass, and a failed edit holds up
nobody. A post whose outcome is unknown (a crash or a time-out after it was sent) is looked for by its key before it is
sent again. Owns retries of outgoing messages; adapters do not retry.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.delivery.reduced import reductions
from agent.domain.content import Content
from agent.domain.errors import AppError, NotFound, TransientError
from agent.domain.inbound import Thread
from agent.ports import ChatAdapter, Clock, MessageRef, ReplyStream, Whisper
from agent.stores import Outbox, Post, PostState

log = logging.getLogger(__name__)
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
FORGOTTEN_S = 3600.0  # the trouble of a message that nobody has tried for so long; a try may take minutes
PASSED_FROM_S = 4.0  # a message that waits so long between two tries (from the fourth on) lets others pass
GONE_S = 60.0  # a message that is not there is not looked for again so long, unless the news are urgent
NOTE_AFTER_S = 0.1  # a bot killed before that finds the answer in the thread
WHOLE_AGAIN_S = 600.0  # a message that was refused as a whole is shown in part so long
CUT_OFF = "_A restart cut off what I had begun to say here._"
MOST_TRIES = 5  # of a message that breaks its adapter in a way that the adapter has no name for


@dataclass(slots=True)
class _Trouble:
    """What keeps a message from being shown; `until_s` is on the event loop's clock."""

    wait_s: float = 0.0
    until_s: float = 0.0
    broke: int = 0

    def again(self, now_s: float, told_s: float) -> None:
        """Wait twice as long as the last time, and at least as long as the platform asked."""
        step_s = min(2 * self.wait_s, LONGEST_WAIT_S) or FIRST_WAIT_S
        self.wait_s = max(step_s, told_s)
        self.until_s = now_s + self.wait_s


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A message of which the platform takes less than the whole; `until_s` is when the whole is tried again."""

    version: int
    level: int
    why: str
    until_s: float


class OutboxDelivery:
    """Sends and edits messages. `gap_s` by platform is the shortest time between two edits that are not urgent."""

    def __init__(
        self, outbox: Outbox, adapters: Mapping[str, ChatAdapter], clock: Clock, *, gap_s: Mapping[str, float]
    ) -> None:
        """`adapters` by platform name."""
        self._outbox = outbox
        self._adapters = adapters
        self._clock = clock
        self._gap_s = gap_s
        self._senders: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._edited_at: dict[str, float] = {}
        self._troubles: dict[str, _Trouble] = {}
        self._gone: dict[str, float] = {}  # what is not there, as somebody deleted it, until when nobody looks again
        self._growing: set[str] = set()
        self._reduced: dict[str, _Reduced] = {}
        self._posted: dict[str, MessageRef] = {}  # what stands in its thread and is not stored as sent yet

    async def put(
        self, key: str, thread: Thread, content: Content, *, whisper: Whisper | None = None, urgent: bool = False
    ) -> int:
        """Make `content` what `thread` shows under `key`; its version, once that is stored, not yet shown."""
        version = await self._outbox.put(key, thread, content, whisper=whisper, urgent=urgent)
        self.wake(thread.key)
        return version

    async def has(self, key: str) -> bool:
        """Whether something is to be shown under `key`, or was."""
        return await self._outbox.get(key) is not None

    async def content(self, key: str) -> Content | None:
        """What is to be shown under `key`."""
        post = await self._outbox.get(key)
        return post.content if post else None

    def wake(self, thread_key: str, *, known: Sequence[Post] = ()) -> None:
        """Have the sender of a thread look for something to deliver. Where none is at work, all is in `known`."""
        if thread_key not in self._senders:
            news = asyncio.Event()
            task = asyncio.create_task(self._deliver(thread_key, news, known), name=f"sender {thread_key}")
            self._senders[thread_key] = task, news
            if known:
                return
        self._senders[thread_key][1].set()

    async def recover(self) -> None:
        """Deliver what a stopped bot had left."""
        for thread_key in await self._outbox.left(Content(text=CUT_OFF)):
            self.wake(thread_key)

    @contextlib.asynccontextmanager
    async def open(self, key: str, thread: Thread) -> AsyncIterator["LiveReply"]:
        """An answer that grows; its last form is stored in the outbox under the same key before the block ends.

        What could not be shown by then is left to the thread's sender.
        """
        self._growing.add(key)
        live, silent = LiveReply(self._outbox, self._adapters[thread.platform], key, thread), False
        try:
            yield live
            silent = live.is_empty
        finally:
            live.let_go()
            self._growing.discard(key)
            if not silent:
                self.wake(thread.key, known=live.left)

    async def idle(self) -> None:
        """Wait until every sender has delivered what it can deliver now."""
        while running := [task for task, _ in self._senders.values()]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Stop delivering; what is left is delivered after the next start."""
        senders = [task for task, _ in self._senders.values()]
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    async def _deliver(self, thread_key: str, news: asyncio.Event, known: Sequence[Post]) -> None:
        """One thread's sender. Nothing waits between its last look at `news` and its end, so no news gets lost."""
        try:
            await self._deliver_all(thread_key, news, known)
        finally:
            del self._senders[thread_key]

    async def _deliver_all(self, thread_key: str, news: asyncio.Event, known: Sequence[Post]) -> None:
        wait_s = FIRST_WAIT_S
        while known or news.is_set():
            if not known:  # what came since it was begun is not in `known`
                news.clear()
            later_s: float | None
            try:
                later_s = await self._deliver_due(known or await self._outbox.due(thread_key))
            except TransientError as error:
                later_s, wait_s = wait_s, min(wait_s * 2, LONGEST_WAIT_S)
                log.warning("delivery delayed", extra={"address": thread_key, "wait_s": later_s, "cause": str(error)})
            except Exception:
                later_s, wait_s = wait_s, min(wait_s * 2, LONGEST_WAIT_S)
                log.exception("delivery broke and is tried again", extra={"address": thread_key, "wait_s": later_s})
            else:
                wait_s = FIRST_WAIT_S
            known = ()
            if later_s is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(later_s):
                        await news.wait()
                news.set()

    async def _deliver_due(self, posts: Sequence[Post]) -> float | None:
        """Show what can be shown now; how long to wait for the rest, if there is any."""
        waits_s, turn_s, kept = [], 0.0, False
        now_s = _now_s()  # of this look: what becomes due during it must not pass what waits before it
        for post in posts:
            adapter = self._adapters.get(post.thread.platform)
            if adapter is None or post.key in self._growing:
                continue  # the next bot that has this adapter delivers it; a `LiveReply` shows it
            if kept and post.ref is None:
                continue
            if self._wait_s(post, now_s) <= 0 and await self._show(adapter, post):
                continue
            trouble = self._troubles.get(post.key)
            if post.ref is None and trouble is not None:
                if trouble.wait_s < PASSED_FROM_S:
                    kept = True
                else:
                    turn_s = trouble.until_s = max(turn_s, trouble.until_s)  # what fails together is tried in its order
            waits_s.append(self._wait_s(post, _now_s()))
        return min(waits_s, default=None)

    def _wait_s(self, post: Post, now_s: float) -> float:
        trouble, last = self._troubles.get(post.key), self._edited_at.get(post.key)
        wait_s = trouble.until_s - now_s if trouble is not None else 0.0
        reduced = self._reduced.get(post.key)
        if reduced is not None and reduced.version == post.version:
            wait_s = max(wait_s, reduced.until_s - now_s)
        if not post.urgent and post.ref is not None and last is not None:
            gap_s = self._gap_s.get(post.thread.platform, 0.0)
            wait_s = max(wait_s, last + gap_s - self._clock.monotonic())
        return max(wait_s, 0.0)

    async def _show(self, adapter: ChatAdapter, post: Post) -> bool:
        """Try to show one message; False when this version is to be tried again."""
        about = {"key": post.key, "address": post.thread.key}
        if not post.urgent and self._gone.get(post.key, 0.0) > _now_s():
            await self._outbox.dead(post.key, version=post.version)
            return True
        try:
            ref = await self._post_or_less(adapter, post)
        except TransientError as error:
            wait_s = self._in_trouble(post.key, error.retry_after_s or 0.0).wait_s
            log.warning("message delayed", extra={**about, "wait_s": wait_s, "cause": str(error)})
            return False
        except AppError as error:
            self._in_trouble(post.key)
            log.warning("message cannot be shown", extra={**about, "cause": str(error)})
            if isinstance(error, NotFound) and post.ref is not None:
                self._gone[post.key] = _now_s() + GONE_S
        except Exception:  # a bug of the adapter, or trouble that it does not know: both may pass
            trouble = self._in_trouble(post.key)
            trouble.broke += 1
            log.exception("message breaks its adapter", extra=about)
            if trouble.broke < MOST_TRIES:
                return False
            trouble.broke = 0
        else:
            self._troubles.pop(post.key, None)
            self._gone.pop(post.key, None)
            reduced = self._reduced.get(post.key)
            await self._outbox.sent(post.key, ref, shown=None if reduced is not None else post.version)
            self._posted.pop(post.key, None)
            return reduced is None
        finally:
            self._note_edit(post.key)
        await self._outbox.dead(post.key, version=post.version)
        return True

    def _in_trouble(self, key: str, told_s: float = 0.0) -> _Trouble:
        """Note a try in vain; the trouble of messages that nobody has tried for a while is forgotten."""
        now_s = _now_s()
        self._troubles = {of: it for of, it in self._troubles.items() if it.until_s > now_s - FORGOTTEN_S}
        trouble = self._troubles.setdefault(key, _Trouble())
        trouble.again(now_s, told_s)
        return trouble

    def _note_edit(self, key: str) -> None:
        now = self._clock.monotonic()
        since = now - max(self._gap_s.values(), default=0.0)
        self._edited_at = {of: at for of, at in self._edited_at.items() if at > since} | {key: now}

    async def _post_or_less(self, adapter: ChatAdapter, post: Post) -> MessageRef:
        """Show the whole message, else as much of it as the platform takes; the whole is tried again after a while."""
        known = self._reduced.get(post.key)
        if known is None or known.until_s <= _now_s():
            try:
                ref = await self._post_or_edit(adapter, post)
            except (TransientError, NotFound):
                raise
            except AppError as error:
                why, begin, refused = error.text, 0, error
            else:
                self._reduced.pop(post.key, None)
                return ref
            until_s = _now_s() + WHOLE_AGAIN_S
        else:
            why, begin, until_s, refused = known.why, known.level, known.until_s, AppError(known.why)
        for level, less in enumerate(reductions(post.content, why)):
            if level < begin:
                continue
            try:
                ref = await self._post_or_edit(adapter, replace(post, content=less))
            except (TransientError, NotFound):
                raise
            except AppError as error:
                refused = error
            else:
                log.warning("message is shown in part", extra={"key": post.key, "level": level, "cause": why})
                self._reduced[post.key] = _Reduced(post.version, level, why, until_s)
                return ref
        self._reduced.pop(post.key, None)
        raise refused

    async def _post_or_edit(self, adapter: ChatAdapter, post: Post) -> MessageRef:
        ref = post.ref or self._posted.get(post.key)
        if ref is not None:
            return await self._edit(adapter, post, ref)
        if post.state in {PostState.BEGUN, PostState.SENDING} and post.whisper is None:
            found = await adapter.find(post.thread, key=post.key, growing=post.state is PostState.BEGUN)
            if found is not None:
                return await adapter.edit(post.thread, found, post.content)
        try:
            self._posted[post.key] = await adapter.post(post.thread, post.content, key=post.key, whisper=post.whisper)
        except Exception:
            await self._outbox.sending(post.key)
            raise
        return self._posted[post.key]

    async def _edit(self, adapter: ChatAdapter, post: Post, ref: MessageRef) -> MessageRef:
        """Edit a message. One that somebody deleted is posted again only when its content is urgent."""
        try:
            return await adapter.edit(post.thread, ref, post.content)
        except NotFound:
            if not post.urgent or post.whisper is not None:
                raise
        key = f"{post.key}:instead-of:{ref.id}"
        found = await adapter.find(post.thread, key=key)
        if found is not None:
            return await adapter.edit(post.thread, found, post.content)
        return await adapter.post(post.thread, post.content, key=key)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


class LiveReply:
    """One answer while it is being written. Nothing is opened before the first words."""

    def __init__(self, outbox: Outbox, adapter: ChatAdapter, key: str, thread: Thread) -> None:
        """`key` is the outbox key of the finished answer."""
        self._outbox = outbox
        self._adapter = adapter
        self._thread = thread
        self.key = key
        self._stream: ReplyStream | None = None
        self._ref: MessageRef | None = None
        self._given_up = False
        self._noting: asyncio.Task[None] | None = None
        self._writing = False
        self.is_empty = True  # nothing was said, so there is nothing to show
        self.left: Sequence[Post] = ()  # what the sender has to show, where that is known

    async def append(self, text: str) -> None:
        """Show more words; failures of the platform are left to the delivery of the finished answer."""
        self.is_empty = False
        if self._given_up:
            return
        try:
            if self._stream is None:
                if not await self._outbox.begin(self.key, self._thread):
                    self._given_up = True  # begun before a restart: the sender edits what stands there
                    return
                self._stream = await self._adapter.stream(self._thread, key=self.key)
            ref = await self._stream.append(text)
            if ref is not None and ref != self._ref:
                self._ref = ref
                self._noting = asyncio.create_task(self._note(ref))
        except AppError as error:
            log.warning("a growing answer could not be shown", extra={"key": self.key, "cause": str(error)})

    async def finish(self, content: Content, version: int) -> None:
        """Show the stored last form and close the stream; on failure the sender shows it, and where nothing grew."""
        self.is_empty = False
        if self._stream is None:
            if version == 1:  # nobody has tried to show it
                self.left = (Post.new(self.key, self._thread, content),)
            return
        try:
            await self._noted()
            ref = await self._stream.finish(content)
        except AppError as error:
            log.warning("an answer is left to its sender", extra={"key": self.key, "cause": str(error)})
            return
        await self._outbox.sent(self.key, ref, shown=version)

    def let_go(self) -> None:
        """Stop the stream at the end of its turn."""
        if self._noting is not None and not self._writing:
            self._noting.cancel()

    async def _note(self, ref: MessageRef) -> None:
        """Store the address of an answer that goes on growing; a short one stores it with its end."""
        await asyncio.sleep(NOTE_AFTER_S)
        self._writing = True
        await self._outbox.sent(self.key, ref, shown=None)

    async def _noted(self) -> None:
        self.let_go()
        if self._noting is not None:
            await asyncio.wait([self._noting])
