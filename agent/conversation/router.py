"""The inbox router: actors per thread, for what acts at once, for what may take long, for turns and for their end.

No thread waits for another. Commands, clicks and decisions act beside a turn, in their own order; those that may take
long hold up none but their kind, and what becomes a turn keeps its order there. Owns the life of an inbox
item: stored, handled, done. Bugs are caught here: the thread gets an id and the log a traceback.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from agent.commands.typed import ends_answer, is_decision, may_be_talk
from agent.conversation.actors import Actor, Actors, Next, Work
from agent.conversation.approvals import ApprovalService
from agent.conversation.attached import AttachedFiles
from agent.conversation.backlog import Backlog
from agent.conversation.commands import CommandService
from agent.conversation.decisions import CLICKS, Decisions
from agent.conversation.going_on import CONTINUE, LEAVE, answered_once, take_answer
from agent.conversation.items import item_id, said_in, typed_in, was_away, whisper_for
from agent.conversation.loop import TurnLoop
from agent.conversation.questions import QuestionService
from agent.conversation.redacted import redacted
from agent.conversation.replies import Replies
from agent.conversation.signs import Signs
from agent.conversation.turns import Turns
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import END_ANSWER, Content
from agent.domain.errors import AppError, BadRequest, Conflict, NotAllowed
from agent.domain.ids import new_ulid
from agent.domain.inbound import Clicked, Commanded, Inbound, Noticed, Said, Thread
from agent.domain.policy import Right
from agent.domain.questions import ANSWER, Question
from agent.domain.session_events import ERROR_KEY
from agent.ports import Blobs, ChatAdapter, Clock, ModelMessage, Role
from agent.stores import InboxItem, Stores, Turn, TurnKind, TurnState
from agent.tools.dispatch import Dispatcher
from agent.tools.members import Members

log = logging.getLogger(__name__)
BUTTON_COMMANDS = frozenset(
    {
        *("pause", "resume", "stop", "kill", "retry", "priority", "clone", "update", "serve"),
        *("logs", "status", "metrics", "chart", "card", "results"),
    }
)
NO_RIGHT = "You may not use me here. Who runs me grants that (`TRAINYARD_ASK`); admins: {}."


class InboxRouter:
    """Takes what people do from every adapter to the thread's actor."""

    def __init__(  # noqa: PLR0913 - the router joins these parts
        self,
        stores: Stores,
        loop: TurnLoop,
        approvals: ApprovalService,
        questions: QuestionService,
        dispatcher: Dispatcher,
        delivery: OutboxDelivery,
        blobs: Blobs,
        adapters: Mapping[str, ChatAdapter],
        members: Members,
        clock: Clock,
    ) -> None:
        """`blobs` and `adapters` are for files that come with messages; `members` says who may talk to the bot."""
        self._inbox, self._conversations = stores.inbox, stores.conversations
        self._approvals, self._questions = approvals, questions
        self._delivery, self._adapters, self._members = delivery, adapters, members
        self._at_once = Actors(partial(self._handle, do=self._act))
        self._slow = Actors(partial(self._handle, do=self._take_slowly))
        self._in_turn = Actors(partial(self._handle, do=self._take_turn))
        self._ending = Actors(partial(self._handle, do=self._take_end))
        self._files = AttachedFiles(self._conversations, blobs, adapters, delivery, clock)
        self._replies = Replies(delivery)
        self._decisions = Decisions(stores, approvals, adapters, self._replies, go_on=self._hand_turn)
        self._turns = Turns(
            self._conversations,
            loop,
            approvals,
            questions,
            self._decisions,
            self._files,
            self._replies,
            waiting=self._in_turn,
            ended=self._release,
        )
        self._commands = CommandService(self._conversations, dispatcher, self._decisions, self._turns, self._replies)
        self._backlog = Backlog(self._store)
        self._signs = Signs(adapters)
        self._taken: set[int] = set()  # inbox items that an actor has, or whose turn one has
        self._arriving: dict[tuple[str, str], asyncio.Future[bool]] = {}  # what is being stored, and whether it was

    async def accept(self, inbound: Inbound) -> bool:
        """Store an act durably and hand it to its thread; False when it was here before.

        An act may be stored although storing it raised, because the connection was lost at the commit: it is delivered
        again, and then it is handed over. Words that cannot be stored now are, as soon as that works.

        Raises:
            TransientError: it is not stored, so it must not be acknowledged.
        """
        return await self._backlog.store(inbound)

    async def _store(self, inbound: Inbound) -> bool:
        inbound = answered_once(redacted(inbound))
        key = inbound.thread.platform, inbound.twin or inbound.event_id
        twin = self._arriving.get(key)  # Slack tells of a mention in two events of one moment: one commit is enough
        if twin is not None and await asyncio.shield(twin):
            return False
        stored = self._arriving[key] = asyncio.get_running_loop().create_future()
        try:
            item = await self._inbox.add(inbound)
            stored.set_result(True)
        finally:
            self._arriving.pop(key, None)
            if not stored.done():
                stored.set_result(False)
        if item is None or item.id in self._taken:
            return False
        self._hand(inbound.thread, item)
        return True

    async def notice(self, inbound: Inbound) -> bool:
        """Start a turn that nobody asked for: `inbound.act` is a `Noticed`, its person the run's requester.

        In such a turn tools that write are refused, and those that people approve ask as usual. False when the same
        event was noticed before.
        """
        return await self.accept(inbound)

    async def recover(self) -> None:
        """Go on with everything that a stopped bot had left."""
        await self._questions.recover()
        turns = await self._approvals.recover()
        known = {turn.id for turn in turns}
        turns += [turn for turn in await self._conversations.running_turns() if turn.id not in known]
        begun = {turn.inbox_id for turn in turns}
        waiting = await self._inbox.waiting()
        self._signs.left = begun.union(item.id for item in waiting)
        for turn in turns:
            self._hand_turn(turn)
        for item in waiting:
            if item.id not in begun | self._taken:
                self._hand(item.inbound.thread, item)

    async def expire(self) -> None:
        """Close questions that nobody answered in time, and finish what was decided and cut off."""
        for turn in [*await self._approvals.expire(), *await self._questions.expire()]:
            self._hand_turn(turn)

    @property
    def busy(self) -> bool:
        """Whether something that was accepted is being handled, or waits for that."""
        return any(actor.busy for actor in self._actors())

    async def idle(self) -> None:
        """Wait until everything that was accepted has been handled."""
        while busy := [actor for actor in self._actors() if actor.busy]:
            await asyncio.gather(*(actor.idle() for actor in busy))

    async def close(self) -> None:
        """Stop handling; what is left is handled after the next start."""
        await self._backlog.close()
        tasks = [actor.task for actor in self._actors()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._signs.close(), return_exceptions=True)

    def _actors(self) -> "list[Actor]":
        return [*self._at_once.all(), *self._slow.all(), *self._in_turn.all(), *self._ending.all()]

    def _hand_turn(self, turn: Turn) -> None:
        self._hand(turn.thread, turn)

    def _hand(self, thread: Thread, work: Work) -> None:
        """Give work to its thread; what belongs to a platform that is not connected now stays stored."""
        if thread.platform not in self._adapters:
            return
        self._taken.add(item_id(work))
        of_turns = isinstance(work, Turn) and work.kind is not TurnKind.COMMANDED
        (self._in_turn if of_turns else self._at_once).put(thread, work)

    def _release(self, taken: int) -> None:
        """An inbox item is done."""
        self._signs.end(taken)
        self._taken.discard(taken)

    async def _handle(self, work: Work, *, do: Callable[[Work], Awaitable[Next]]) -> None:
        """Carry one piece of work to its end, or hand it on.

        Raises only what keeps even the error from being stored.
        """
        where = Next.DONE
        try:
            where = await do(work)
            onward = {Next.AS_TURN: self._in_turn, Next.SLOWLY: self._slow, Next.ENDING: self._ending}.get(where)
            if onward is not None:
                onward.put(_thread(work), work)
                return
        except AppError as error:
            await self._fail(work, error.text)
        except Exception:
            bug = new_ulid()[-8:]
            log.exception("handling broke", extra={"bug": bug, "work": work.id})
            await self._fail(work, f"Something broke here (id {bug}); the log has the details. Please ask again.")
        if isinstance(work, InboxItem) and where is Next.DONE:
            await self._inbox.done(work.id)
        self._release(item_id(work))

    async def _fail(self, work: Work, text: str) -> None:
        """Say what went wrong, once; a turn ends with it, so that no later start takes it up again."""
        key, content = ERROR_KEY.format(work.id), Content(text=text)
        turn = await self._turn_of(work)
        if turn is not None and turn.state is TurnState.RUNNING:
            await self._conversations.end_turn(turn, ModelMessage(Role.ASSISTANT, text), key=key, content=content)
            self._delivery.wake(turn.thread.key)
        elif isinstance(work, InboxItem):
            await self._delivery.put(key, work.inbound.thread, content, whisper=whisper_for(work), urgent=True)

    async def _turn_of(self, work: Work) -> Turn | None:
        if isinstance(work, Turn):
            return await self._conversations.turn(work.id)
        return await self._conversations.turn_of_item(work.id)

    async def _act(self, work: Work) -> Next:
        """Do at once what needs no model."""
        if isinstance(work, Turn):
            await self._turns.go_on(work)
            return Next.DONE
        return await self._act_on(work) if await self._admits(work) else Next.DONE

    async def _act_on(self, item: InboxItem) -> Next:
        inbound = item.inbound
        match inbound.act:
            case Commanded(words=words):
                if not inbound.reply_handle:  # the platform shows that a slash command is worked on
                    await self._take_up(item)
                await self._replies.warn_of_secrets(item)
                return await self._command(item, words)
            case Clicked() as click:
                self._signs.begin(item.id, inbound.thread, inbound)
                await self._replies.warn_of_secrets(item)
                return await self._click(item, click)
            case Said() as said:
                return await self._hear(item, said)
            case Noticed():
                return Next.AS_TURN

    async def _hear(self, item: InboxItem, said: Said) -> Next:
        """Read words as a command, as the end of an answer, or as an answer to a question; else a turn takes them."""
        inbound = item.inbound
        if not (inbound.mentions_bot or await self._is_ours(inbound.thread)):
            await self._inbox.forget(item.id)  # a thread of others
            return Next.DONE
        await self._take_up(item)
        await self._replies.warn_of_secrets(item)
        words = typed_in(inbound)
        if words is not None and not (may_be_talk(words) and not await self._decisions.open_in(inbound.thread)):
            return await self._command(item, words)
        if ends_answer(said.text) and await self._turns.ends(item):
            return Next.ENDING
        if said.attachments and await self._asked(inbound) is not None:
            return Next.SLOWLY  # as its files are downloaded, which a `stop` ends
        return Next.DONE if await self._answers(item) else Next.AS_TURN

    async def _command(self, item: InboxItem, words: Sequence[str]) -> Next:
        return await self._commands.take(item, words, turn_waits=self._in_turn.busy(item.inbound.thread))

    async def _take_slowly(self, work: Work) -> Next:
        if isinstance(work, InboxItem):
            act = work.inbound.act
            if isinstance(act, Said) and act.attachments:
                return Next.DONE if await self._answers(work) else Next.AS_TURN
            if isinstance(act, Clicked) and act.action in CLICKS:
                await self._decisions.click(work, act)
            else:
                await self._commands.take_slowly(work)
        return Next.DONE

    async def _take_end(self, work: Work) -> Next:
        if isinstance(work, InboxItem):
            await self._turns.end_of(work)
        return Next.DONE

    async def _asked(self, inbound: Inbound) -> Question | None:
        """The open question that these words answer."""
        return None if inbound.to_others else await self._questions.open_for(inbound.thread, inbound.person)

    async def _answers(self, item: InboxItem) -> bool:
        """Whether words answer an open question; then its turn goes on, or ends where somebody said `stop`.

        They do not where another answer came first, as it may while their files are downloaded: then they are a turn.
        """
        inbound, said = item.inbound, said_in(item.inbound)
        question = await self._asked(inbound)
        if question is None:
            return False
        with self._turns.controlled(inbound.thread, inbound.person) as control:
            files, refused = await self._files.take(item, said, control)
        if control.by is not None:
            await self._questions.drop([question], f"Stopped by {control.by.shown}.", ended_by=control.ended_by[0])
        else:
            words = " ".join((said.text, *refused))
            try:
                self._hand_turn(await self._questions.answer(item, question, words, files))
            except Conflict:
                return False
        return True

    async def _admits(self, item: InboxItem) -> bool:
        """Whether this person may talk to the bot; words that do not name it are ignored.

        Raises:
            NotAllowed: the words name the bot, so the refusal is shown.
        """
        inbound = item.inbound
        if self._members.open or isinstance(inbound.act, Noticed):
            return True
        if Right.ASK in await self._members.rights(inbound.person, inbound.thread):
            return True
        if inbound.mentions_bot:
            raise NotAllowed(NO_RIGHT.format(self._members.who(Right.ADMIN)))
        await self._inbox.forget(item.id)
        return False

    async def _take_up(self, item: InboxItem) -> None:
        """Show that the bot is at work on it; say once in a thread that it was away, where it was."""
        inbound, away = item.inbound, item.inbound.away
        self._signs.begin(item.id, inbound.thread, inbound)
        if away is not None:
            await self._replies.say(item, f"away:{away.since.isoformat()}:{inbound.thread.key}", was_away(away))

    async def _is_ours(self, thread: Thread) -> bool:
        """Whether this is a thread of ours, or becomes one with a turn that waits."""
        return self._in_turn.busy(thread) or await self._conversations.session_of(thread, create=False) is not None

    async def _take_turn(self, work: Work) -> Next:
        """Carry out what needs a model, or may."""
        asked = await self._inbox.get(work.inbox_id) if isinstance(work, Turn) else work.inbound
        if not (asked and isinstance(asked.act, Noticed)):
            self._signs.begin(item_id(work), _thread(work), asked)
        if isinstance(work, Turn):
            await self._turns.go_on(work)
        elif not await self._decides(work):
            await self._turns.begin(work)
            return Next.ENDED
        return Next.DONE

    async def _decides(self, item: InboxItem) -> bool:
        """Whether an item is a decision about what was planned before its turn came; then it is taken."""
        words = typed_in(item.inbound)
        if words is None or not is_decision(words):
            return False
        if may_be_talk(words) and not await self._decisions.open_in(item.inbound.thread):
            return False
        await self._decisions.take_typed(item, words)
        return True

    async def _click(self, item: InboxItem, click: Clicked) -> Next:
        if click.action in BUTTON_COMMANDS:
            return await self._command(item, (click.action, click.subject))
        if click.action in {CONTINUE, LEAVE}:
            await take_answer(self._conversations, self._delivery, item.inbound, click)
            return Next.DONE if click.action == LEAVE else Next.AS_TURN
        if click.action in CLICKS:
            if await self._decisions.may_take_long(item.inbound.thread):
                return Next.SLOWLY
            await self._decisions.click(item, click)
        elif click.action == ANSWER:
            self._hand_turn(await self._questions.click(item, click))
        elif click.action != END_ANSWER.action:
            log.warning("unknown button", extra={"action": click.action, "address": item.inbound.thread.key})
            raise BadRequest("This button belongs to an older version of me; say in words what you want.")
        elif await self._turns.stops(item):
            return Next.ENDING
        else:
            raise Conflict("No answer is being given here any more.")
        return Next.DONE


def _thread(work: Work) -> Thread:
    return work.thread if isinstance(work, Turn) else work.inbound.thread
