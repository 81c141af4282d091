"""The inbox router: three actors per thread, for what acts at once, for commands that may take long, and for turns.

No thread waits for another. Commands, clicks and decisions act beside a turn, in their own order; a command that may
take long holds up none but those of its kind, and what becomes a turn keeps its order there. Owns the life of an inbox
item: stored, handled, done. Bugs stop here: they get an id in the thread and a traceback in the log.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from agent.commands.calls import asks_people, carry_out, changes, may_take_long
from agent.commands.typed import decision_of, ends_answer, is_decision, may_be_talk, words_of
from agent.commands.words import joined
from agent.conversation.actors import Actor, Work
from agent.conversation.approvals import ApprovalService
from agent.conversation.attached import AttachedFiles
from agent.conversation.backlog import Backlog
from agent.conversation.decisions import Decisions
from agent.conversation.going_on import CONTINUE, LEAVE, answered_once, take_answer
from agent.conversation.loop import TurnLoop
from agent.conversation.questions import ANSWER, QuestionService
from agent.conversation.redacted import PASTED, redacted
from agent.conversation.signs import Signs
from agent.conversation.turn_control import TurnControl
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import AGAIN_KEY, Approval
from agent.domain.content import ALWAYS, CHANGE, END_ANSWER, REJECT_BECAUSE, Content
from agent.domain.errors import AppError, BadRequest, Conflict, NotAllowed
from agent.domain.ids import new_ulid
from agent.domain.inbound import Away, Clicked, Commanded, Inbound, Noticed, Person, Said, Thread
from agent.domain.policy import Right
from agent.ports import Blobs, ChatAdapter, Clock, ModelMessage, Role, Whisper
from agent.stores import InboxItem, Stores, Turn, TurnKind, TurnState
from agent.tools.dispatch import Dispatcher
from agent.tools.members import Members
from agent.tools.tool import Caller

log = logging.getLogger(__name__)
BUTTON_COMMANDS = frozenset(
    {
        *("pause", "resume", "stop", "kill", "retry", "priority", "clone", "update", "serve"),
        *("logs", "status", "metrics", "chart", "card", "results"),
    }
)
ON_ITS_WAY = "I am on it; the answer stands in this channel in a moment."
DONE = "Done; it stands in the thread."
STOPPED = "I stopped that answer."
ENDED = "That was ended before it was done, as somebody said `stop`. It only looks, so nothing was changed."
DROPPED = "I dropped my question. `stop` once more is about a run."
WAITED_FOR = "{} is at work and changes something, so I wait for its end; then I stop."
NO_RIGHT = "You may not use me here. Who runs me grants that (`TRAINYARD_ASK`); admins: {}."
NOT_YOURS = "Guests of another organisation end only answers to themselves."


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
        self._inbox = stores.inbox
        self._conversations = stores.conversations
        self._decisions = Decisions(stores, approvals, adapters)
        self._loop = loop
        self._approvals = approvals
        self._questions = questions
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._files = AttachedFiles(self._conversations, blobs, adapters, delivery, clock)
        self._adapters = adapters
        self._members = members
        self._acts: dict[str, Actor] = {}  # by thread: what acts at once
        self._slow: dict[str, Actor] = {}  # by thread: commands that may take long
        self._turns: dict[str, Actor] = {}  # by thread: turns, one after the other
        self._answering: dict[str, list[TurnControl]] = {}  # by thread: what is carried out and may be ended
        self._backlog = Backlog(self._store)
        self._signs = Signs(adapters)
        self._taken: set[int] = set()  # inbox items that an actor has, or whose turn one has

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
        item = await self._inbox.add(inbound)
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

    def _hand(self, thread: Thread, work: Work) -> None:
        """Give work to its thread; what belongs to a platform that is not connected now stays stored."""
        if thread.platform not in self._adapters:
            return
        self._taken.add(_item_id(work))
        if isinstance(work, Turn) and work.kind is not TurnKind.COMMANDED:
            self._queue(thread, work)
        else:
            self._put(self._acts, thread, work, self._act)

    def _queue(self, thread: Thread, work: Work) -> bool:
        """Let a turn, or what becomes one, wait for the turns before it; False, since nothing was done yet."""
        self._put(self._turns, thread, work, self._turn)
        return False

    def _put(
        self, actors: "dict[str, Actor]", thread: Thread, work: Work, do: Callable[[Any], Awaitable[bool]]
    ) -> None:
        if thread.key not in actors:
            ended = partial(actors.pop, thread.key, None)
            actors[thread.key] = Actor(lambda work: self._handle(work, do), ended=ended)
        actors[thread.key].put(work)

    async def recover(self) -> None:
        """Go on with everything that a stopped bot had left."""
        turns = await self._approvals.recover()
        known = {turn.id for turn in turns}
        turns += [turn for turn in await self._conversations.running_turns() if turn.id not in known]
        begun = {turn.inbox_id for turn in turns}
        waiting = await self._inbox.waiting()
        self._signs.left = begun.union(item.id for item in waiting)
        for turn in turns:
            self._hand(turn.thread, turn)
        for item in waiting:
            if item.id not in begun | self._taken:
                self._hand(item.inbound.thread, item)

    async def expire(self) -> None:
        """Close questions that nobody answered in time, and finish what was decided and cut off."""
        for turn in [*await self._approvals.expire(), *await self._questions.expire()]:
            self._hand(turn.thread, turn)

    async def idle(self) -> None:
        """Wait until everything that was accepted has been handled."""
        while busy := [actor for actor in self._all_actors() if actor.busy]:
            await asyncio.gather(*(actor.idle() for actor in busy))

    async def close(self) -> None:
        """Stop handling; what is left is handled after the next start."""
        await self._backlog.close()
        tasks = [actor.task for actor in self._all_actors()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._signs.close(), return_exceptions=True)

    def _all_actors(self) -> "list[Actor]":
        return [*self._acts.values(), *self._slow.values(), *self._turns.values()]

    async def _handle(self, work: Work, do: Callable[[Any], Awaitable[bool]]) -> None:
        """Carry one piece of work to its end, or hand it on. Raises only what keeps even the error from being stored.

        `do` says whether the work is done; where it is not, the thread's turns have it now.
        """
        try:
            if not await do(work):
                return
        except AppError as error:
            await self._fail(work, error.text)
        except Exception:
            bug = new_ulid()[-8:]
            log.exception("handling broke", extra={"bug": bug, "work": work.id})
            await self._fail(work, f"Something broke here (id {bug}); the log has the details. Please ask again.")
        if isinstance(work, InboxItem):
            await self._inbox.done(work.id)
        self._signs.end(_item_id(work))
        self._taken.discard(_item_id(work))

    async def _fail(self, work: Work, text: str) -> None:
        """Say what went wrong, once; a turn ends with it, so that no later start takes it up again."""
        key, content = f"error:{work.id}", Content(text=text)
        turn = await self._turn_of(work)
        if turn is not None and turn.state is TurnState.RUNNING:
            await self._conversations.end_turn(turn, ModelMessage(Role.ASSISTANT, text), key=key, content=content)
            self._delivery.wake(turn.thread.key)
        elif isinstance(work, InboxItem):
            await self._delivery.put(key, work.inbound.thread, content, whisper=_whisper(work), urgent=True)

    async def _turn_of(self, work: Work) -> Turn | None:
        if isinstance(work, Turn):
            return await self._conversations.turn(work.id)
        return await self._conversations.turn_of_item(work.id)

    async def _act(self, work: Work) -> bool:
        """Do at once what needs no model; False where it became a turn that waits for those before it."""
        if isinstance(work, Turn):
            await self._resume(work, self._control(work.person, []))
            return True
        return not await self._admits(work) or await self._act_on(work)

    async def _act_on(self, item: InboxItem) -> bool:
        inbound = item.inbound
        match inbound.act:
            case Commanded(words=words):
                if not inbound.reply_handle:  # the platform shows that a slash command is worked on
                    await self._take_up(item)
                await self._warn_of_secrets(item)
                return await self._command(item, words)
            case Clicked() as click:
                self._signs.begin(item.id, inbound.thread, inbound)
                await self._warn_of_secrets(item)
                return await self._click(item, click)
            case Said(text=text):
                if not (inbound.mentions_bot or await self._is_ours(inbound.thread)):
                    await self._inbox.forget(item.id)  # a thread of others
                    return True
                await self._take_up(item)
                await self._warn_of_secrets(item)
                typed = _typed(inbound)
                if typed is not None and not (may_be_talk(typed) and not await self._decisions.open_in(inbound.thread)):
                    return await self._command(item, typed)
                if (ends_answer(text) and await self._ends(item)) or await self._answers(item):
                    return True
            case Noticed():
                pass
        return self._queue(inbound.thread, item)

    async def _answers(self, item: InboxItem) -> bool:
        """Whether words answer an open question; then its turn goes on."""
        inbound = item.inbound
        question = None if inbound.to_others else await self._questions.open_for(inbound.thread, inbound.person)
        if question is None:
            return False
        said = _said(inbound)
        files, refused = await self._files.take(item, said)
        words = " ".join((said.text, *refused))
        turn = await self._questions.answer(item, question, words, files)
        self._hand(turn.thread, turn)
        return True

    async def _admits(self, item: InboxItem) -> bool:
        """Whether this person may talk to the bot; words that do not name it are passed over in silence.

        Raises:
            NotAllowed: they do, and it is answered.
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

    def _is_busy(self, thread: Thread) -> bool:
        return thread.key in self._turns and self._turns[thread.key].busy

    async def _take_up(self, item: InboxItem) -> None:
        """Show that the bot is at work on it; say once in a thread that it was away, where it was."""
        inbound, away = item.inbound, item.inbound.away
        self._signs.begin(item.id, inbound.thread, inbound)
        if away is not None:
            key = f"away:{away.since.isoformat()}:{inbound.thread.key}"
            await self._delivery.put(key, inbound.thread, Content(text=_was_away(away)), urgent=True)

    async def _is_ours(self, thread: Thread) -> bool:
        """Whether this is a thread of ours, or becomes one with a turn that waits."""
        return self._is_busy(thread) or await self._conversations.session_of(thread, create=False) is not None

    async def _turn(self, work: Work) -> bool:
        """Carry out what needs a model, or may."""
        thread, person = (
            (work.thread, work.person) if isinstance(work, Turn) else (work.inbound.thread, work.inbound.person)
        )
        asked = await self._inbox.get(work.inbox_id) if isinstance(work, Turn) else work.inbound
        if not (asked and isinstance(asked.act, Noticed)):
            self._signs.begin(_item_id(work), thread, asked)
        if isinstance(work, InboxItem) and await self._decides(work):
            return True
        with self._controlled(thread, person) as control:
            if isinstance(work, InboxItem):
                kind = TurnKind.NOTICED if isinstance(work.inbound.act, Noticed) else TurnKind.ASKED
                await self._begin_turn(work, kind, control)
            else:
                await self._resume(work, control)
        return True

    async def _decides(self, item: InboxItem) -> bool:
        """Whether an item is a decision about what was planned before its turn came; then it is taken."""
        words = _typed(item.inbound)
        if words is None or not is_decision(words):
            return False
        if may_be_talk(words) and not await self._decisions.open_in(item.inbound.thread):
            return False
        await self._decide_typed(item, words)
        return True

    async def _resume(self, turn: Turn, control: TurnControl) -> None:
        """Go on with a turn, unless it has ended since somebody handed it on."""
        context = await self._conversations.resume_turn(turn)
        while context is not None:
            await self._loop.run(turn, context, control)
            context = await self._conversations.resume_turn(turn) if await self._approvals.go_on(turn) else None

    def _control(self, person: Person, heard: list[int]) -> TurnControl:
        """Over a turn of this person's; `heard` gets the inbox items that become part of it."""
        return TurnControl(person, partial(self._hear, heard))

    @contextlib.contextmanager
    def _controlled(self, thread: Thread, person: Person) -> Iterator[TurnControl]:
        heard: list[int] = []
        control = self._control(person, heard)
        self._answering.setdefault(thread.key, []).append(control)
        try:
            yield control
        finally:
            self._answering[thread.key].remove(control)
            if not self._answering[thread.key]:
                del self._answering[thread.key]
            for item_id in heard:
                self._signs.end(item_id)

    async def _hear(self, heard: list[int], turn: Turn) -> list[ModelMessage]:
        """What people have said in a turn's thread since it began, taken from those that wait and made part of it.

        It counts as taken with the commit that stores the message and ends the inbox item: a crash before that leaves
        it waiting, after that it is in the turn.
        """
        messages: list[ModelMessage] = []
        waiting = self._turns.get(turn.thread.key)
        while waiting is not None and isinstance(item := waiting.first(), InboxItem) and _steers(item.inbound, turn):
            words, person = _said(item.inbound), item.inbound.person
            files, refused = await self._files.take(item, words)
            said = ModelMessage(
                Role.USER, words.text, files=files, refused=refused, speaker=person.shown, steers=person.key
            )
            messages.append(await self._conversations.steer(turn, item.id, said))
            waiting.take()
            heard.append(item.id)
            self._taken.discard(item.id)
        return messages

    def _interrupt(self, inbound: Inbound) -> Sequence[str] | None:
        """End what is carried out in this thread, and keep what it did; None where there is nothing.

        Gives the tools that are waited for.

        Raises:
            NotAllowed: a guest ends answers to others.
        """
        controls = self._answering.get(inbound.thread.key)
        if controls is None:
            return None
        if inbound.person.external and any(inbound.person.key != control.person.key for control in controls):
            raise NotAllowed(NOT_YOURS)
        return [tool for control in controls for tool in control.press(inbound.person)]

    async def _ends(self, item: InboxItem) -> bool:
        """Whether there is a turn to end in the thread, at work or with a question to this person; then it ends."""
        return await self._stops(item) or await self._drops(item)

    async def _stops(self, item: InboxItem) -> bool:
        """Whether a turn is carried out in the thread; then it ends, and people hear of what is waited for."""
        waited = self._interrupt(item.inbound)
        if waited is None:
            return False
        if waited:
            text = WAITED_FOR.format(", ".join(f"`{tool}`" for tool in waited))
            await self._delivery.put(f"stopping:{item.id}", item.inbound.thread, Content(text=text), urgent=True)
        return True

    async def _drops(self, item: InboxItem) -> bool:
        """Whether a question to this person is open; then it is dropped, with its turn."""
        inbound = item.inbound
        question = await self._questions.open_for(inbound.thread, inbound.person)
        if question is None:
            return False
        await self._questions.drop([question], f"Stopped by {inbound.person.shown}.")
        await self._delivery.put(f"stopping:{item.id}", inbound.thread, Content(text=DROPPED), urgent=True)
        return True

    async def _begin_turn(self, item: InboxItem, kind: TurnKind, control: TurnControl) -> None:
        inbound = item.inbound
        said = _said(inbound)
        turn = Turn(f"t-{new_ulid()}", "", item.id, inbound.thread, inbound.person, kind=kind)
        files, refused = await self._files.take(item, said)
        asked = ModelMessage(Role.USER, said.text, files=files, refused=refused)
        begun = await self._conversations.begin_turn(turn, asked)
        if begun is not None:
            await self._loop.run(*begun, control)
            if await self._approvals.go_on(begun[0]):
                await self._resume(begun[0], control)
        elif found := await self._conversations.turn_of_item(item.id):  # from before a restart
            await self._resume(found, control)

    async def _command(self, item: InboxItem, words: Sequence[str]) -> bool:
        """Carry out a command, in a turn of its own where people are asked about it; True, since it is done."""
        inbound = item.inbound
        if is_decision(words):
            if self._is_busy(inbound.thread) and not await self._decisions.open_in(inbound.thread):
                return self._queue(inbound.thread, item)  # it may be about what is still being planned
            await self._decide_typed(item, words)
            return True
        if ends_answer(" ".join(words)) and await self._ends(item):
            await self._whisper(item, Content(text=STOPPED))
            return True
        if may_take_long(words, self._dispatcher):
            self._put(self._slow, inbound.thread, item, self._carry_out_slowly)
            return False
        await self._carry_out(item, words)
        return True

    async def _carry_out_slowly(self, item: InboxItem) -> bool:
        """Carry out a command that may take long, which people may end meanwhile."""
        with self._controlled(item.inbound.thread, item.inbound.person) as control:
            try:
                await self._carry_out(item, _command_of(item.inbound), control)
            except TimeoutError:
                raise Conflict(ENDED) from None
        return True

    async def _carry_out(self, item: InboxItem, words: Sequence[str], control: TurnControl | None = None) -> None:
        """Carry out a command, in a turn of its own where people are asked about it.

        Raises:
            TimeoutError: somebody ended it, through `control`.
        """
        inbound = item.inbound
        if asks_people(words, self._dispatcher):
            return await self._ask(item, control)
        whisper = _whisper(item)  # without one the answer opens a thread, in which people go on
        session_id = await self._conversations.session_of(inbound.thread, create=whisper is None) or ""
        caller = Caller(inbound.person, session_id, inbound.thread, act=f"act:{item.id}")
        if await self._delivery.has(caller.act):  # it was done before a restart
            return await self._whisper(item, Content(text=DONE))
        coming = carry_out(words, caller, self._dispatcher)
        content = await (control.wait(coming) if control and not changes(words, self._dispatcher) else coming)
        if content is None:
            return await self._ask(item, control)
        if content == Content():  # what it did stands in the thread
            return await self._whisper(item, Content(text=DONE))
        await self._delivery.put(f"command:{item.id}", inbound.thread, content, whisper=whisper, urgent=True)
        return None

    async def _decide_typed(self, item: InboxItem, words: Sequence[str]) -> None:
        """Take a decision that was typed, or ask which one is meant."""
        said = decision_of(words)
        meant = await self._decisions.meant(item.inbound, said)
        thread, whisper = item.inbound.thread, _whisper(item)
        if isinstance(meant, Approval) and said.changes:
            text = await self._approvals.edit(meant.id, item.inbound.person, said.changes)
            await self._delivery.put(f"command:{item.id}", thread, Content(text=text), whisper=whisper, urgent=True)
        elif isinstance(meant, Approval):
            await self._decide(
                item, meant.id, approve=said.approve, digest=None, reason=said.reason, always=said.always
            )
        elif meant is not None:
            await self._delivery.put(AGAIN_KEY.format(item.id), thread, meant, whisper=whisper, urgent=True)

    async def _ask(self, item: InboxItem, control: TurnControl | None) -> None:
        """Ask people about a command."""
        await self._whisper(item, Content(text=ON_ITS_WAY))  # a slash command is owed an answer of its own
        control = control or self._control(item.inbound.person, [])
        await self._begin_turn(item, TurnKind.COMMANDED, control)

    async def _warn_of_secrets(self, item: InboxItem) -> None:
        """Tell the person alone what was taken out of the message, and what to do."""
        if kinds := item.inbound.secrets:
            whisper, text = Whisper(item.inbound.person.id), PASTED.format(kinds=", ".join(kinds))
            await self._delivery.put(
                f"secret:{item.id}", item.inbound.thread, Content(text=text), whisper=whisper, urgent=True
            )

    async def _whisper(self, item: InboxItem, content: Content) -> None:
        """Tell it to the person alone, where the platform waits for that."""
        if (whisper := _whisper(item)) is not None:
            await self._delivery.put(f"command:{item.id}", item.inbound.thread, content, whisper=whisper, urgent=True)

    async def _click(self, item: InboxItem, click: Clicked) -> bool:
        if click.action in {"approve", "reject", ALWAYS, REJECT_BECAUSE, CHANGE}:
            await self._click_on_question(item, click)
            return True
        if click.action == END_ANSWER.action:
            if not await self._stops(item):
                raise Conflict("No answer is being given here any more.")
            return True
        if click.action == ANSWER:
            turn = await self._questions.click(item, click)
            self._hand(turn.thread, turn)
            return True
        if click.action in {CONTINUE, LEAVE}:
            await take_answer(self._conversations, self._delivery, item.inbound, click)
            return click.action == LEAVE or self._queue(item.inbound.thread, item)
        if click.action in BUTTON_COMMANDS:
            return await self._command(item, (click.action, click.subject))
        log.warning("unknown button", extra={"action": click.action, "address": item.inbound.thread.key})
        raise BadRequest("This button belongs to an older version of me; say in words what you want.")

    async def _click_on_question(self, item: InboxItem, click: Clicked) -> None:
        """Decide an approval, or change what it asks. Raises `BadRequest` for a dialog that came back empty."""
        text = " ".join(click.text.split())
        if click.action == CHANGE:
            if not text:
                raise BadRequest(f"Say what is different in the thread: `approve {click.subject} with epochs=3`.")
            person = item.inbound.person
            said = await self._approvals.edit(click.subject, person, text.split(), digest=click.digest)
            await self._whisper(item, Content(text=said))
            return
        if click.action == REJECT_BECAUSE and not text:
            raise BadRequest(f"Say why in the thread: `reject {click.subject} because …`.")
        await self._decide(
            item,
            click.subject,
            approve=click.action in {"approve", ALWAYS},
            digest=click.digest,
            reason=text,
            always=click.action == ALWAYS,
        )

    async def _decide(
        self,
        item: InboxItem,
        approval_id: str,
        *,
        approve: bool,
        digest: str | None,
        reason: str = "",
        always: bool = False,
    ) -> None:
        turn = await self._approvals.decide(
            approval_id, item.inbound.person, approve=approve, digest=digest, reason=reason, always=always
        )
        if turn is not None:
            self._hand(turn.thread, turn)


def _typed(inbound: Inbound) -> Sequence[str] | None:
    """The command that somebody typed."""
    match inbound.act:
        case Commanded(words=words):
            return words
        case Said(text=text, attachments=()):
            return words_of(text)
        case _:
            return None


def _command_of(inbound: Inbound) -> Sequence[str]:
    """The words of a command that was typed, or that a button carries."""
    if isinstance(inbound.act, Clicked):
        return (inbound.act.action, inbound.act.subject)
    return _typed(inbound) or ()


def _steers(inbound: Inbound, turn: Turn) -> bool:
    """Whether words that wait belong to a turn at work: said by its person or the team, and no command."""
    return (
        turn.kind is TurnKind.ASKED
        and isinstance(inbound.act, Said)
        and _typed(inbound) is None
        and (not inbound.person.external or inbound.person.key == turn.person.key)
    )


def _said(inbound: Inbound) -> Said:
    """The words that a turn begins with."""
    match inbound.act:
        case Said() as said:
            return said
        case Noticed(text=text):
            return Said(text=text)
        case Commanded(words=words):
            return Said(text=joined(("/train", *words)))
        case Clicked(action=action) if action == CONTINUE:
            return Said(text="Go on.")
        case Clicked(action=action, subject=subject):
            return Said(text=f"/train {action} {subject}")


def _was_away(away: Away) -> str:
    form = "%H:%M" if away.since.date() == away.until.date() else "%d %b %H:%M"
    return f"I was away from {away.since:{form}} to {away.until:{form}} UTC. Here is what I missed."


def _item_id(work: Work) -> int:
    return work.id if isinstance(work, InboxItem) else work.inbox_id


def _whisper(item: InboxItem) -> Whisper | None:
    """Clicks and slash commands are answered to their person alone."""
    inbound = item.inbound
    if isinstance(inbound.act, Clicked) or inbound.reply_handle:
        return Whisper(inbound.person.id, inbound.reply_handle)
    return None
