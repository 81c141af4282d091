"""Turns while they are carried out: people end and steer them by what they say. Used by the inbox router."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from agent.conversation.actors import Actors
from agent.conversation.approvals import ApprovalService
from agent.conversation.attached import AttachedFiles
from agent.conversation.decisions import Decisions
from agent.conversation.items import said_in, steers, typed_in
from agent.conversation.loop import TurnLoop
from agent.conversation.questions import QuestionService
from agent.conversation.replies import Replies
from agent.conversation.turn_control import TurnControl
from agent.domain.errors import NotAllowed
from agent.domain.ids import new_ulid
from agent.domain.inbound import Inbound, Noticed, Person, Thread
from agent.ports import ModelMessage, Role
from agent.stores import Conversations, InboxItem, Turn, TurnKind

DROPPED = "I dropped my question. `stop` once more is about a run."
BEGINNING_S = 0.01  # between two looks whether a turn that is taken up can be ended yet
WAITED_FOR = "{} is at work and changes something, so I wait for its end; then I stop."
NOT_YOURS = "Guests of another organisation end only answers to themselves."


class Turns:
    """Gives turns to the loop, with the control by which people end and steer them."""

    def __init__(  # noqa: PLR0913 - it joins these parts
        self,
        conversations: Conversations,
        loop: TurnLoop,
        approvals: ApprovalService,
        questions: QuestionService,
        decisions: Decisions,
        files: AttachedFiles,
        replies: Replies,
        *,
        waiting: Actors,
        ended: Callable[[int], None],
    ) -> None:
        """`waiting` has what people say meanwhile; `ended` gets the id of an inbox item that became part of a turn."""
        self._conversations = conversations
        self._loop = loop
        self._approvals = approvals
        self._questions = questions
        self._decisions = decisions
        self._files = files
        self._replies = replies
        self._waiting = waiting
        self._ended = ended
        self._answering: dict[str, list[TurnControl]] = {}  # by thread: what is carried out and may be ended
        self._ending: dict[int, list[TurnControl]] = {}  # by inbox item: what it ends

    async def begin(self, item: InboxItem) -> None:
        """Begin the turn of what somebody said, or of what was noticed, and carry it through."""
        kind = TurnKind.NOTICED if isinstance(item.inbound.act, Noticed) else TurnKind.ASKED
        with self.controlled(item.inbound.thread, item.inbound.person) as control:
            await self._begin(item, kind, control)

    async def begin_command(self, item: InboxItem, control: TurnControl | None) -> None:
        """Begin the turn of a command that people are asked about."""
        await self._begin(item, TurnKind.COMMANDED, control or self._control(item.inbound.person, []))

    async def go_on(self, turn: Turn) -> None:
        """Go on with a turn, unless it has ended since somebody handed it on."""
        if turn.kind is TurnKind.COMMANDED:
            await self._go_on(turn, self._control(turn.person, []))
            return
        with self.controlled(turn.thread, turn.person) as control:
            await self._go_on(turn, control)

    async def ends(self, item: InboxItem) -> bool:
        """Whether there is a turn to end in the thread, at work or with a question to this person; then it ends."""
        return await self.stops(item) or await self._drops(item)

    async def stops(self, item: InboxItem) -> bool:
        """Whether a turn is carried out in the thread; then it ends, and people hear of what is waited for.

        Raises:
            NotAllowed: a guest ends answers to others.
        """
        thread = item.inbound.thread
        while self._waiting.busy(thread) and thread.key not in self._answering:  # noqa: ASYNC110 - for a moment
            await asyncio.sleep(BEGINNING_S)
        waited = self._interrupt(item)
        if waited:
            text = WAITED_FOR.format(", ".join(f"`{tool}`" for tool in waited))
            await self._replies.say(item, f"stopping:{item.id}", text)
        return waited is not None

    async def end_of(self, item: InboxItem) -> None:
        """Wait until the turns that this inbox item ends have ended."""
        for control in self._ending.pop(item.id, ()):
            await control.over.wait()

    @contextlib.contextmanager
    def controlled(self, thread: Thread, person: Person, *, of_turn: bool = True) -> Iterator[TurnControl]:
        """While the block lasts, people can end what is carried out in this thread for this person."""
        heard: list[int] = []
        control = self._control(person, heard)
        self._answering.setdefault(thread.key, []).append(control)
        if not of_turn:
            control.over.set()  # nobody waits for its end
        try:
            yield control
        finally:
            control.over.set()
            self._answering[thread.key].remove(control)
            if not self._answering[thread.key]:
                del self._answering[thread.key]
            for item_id in heard:
                self._ended(item_id)

    def _control(self, person: Person, heard: list[int]) -> TurnControl:
        """The control of a turn of this person; `heard` gets the inbox items that become part of it."""
        return TurnControl(person, partial(self._hear, heard))

    async def _begin(self, item: InboxItem, kind: TurnKind, control: TurnControl) -> None:
        inbound = item.inbound
        said = said_in(inbound)
        turn = Turn(f"t-{new_ulid()}", "", item.id, inbound.thread, inbound.person, kind=kind)
        files, refused = await self._files.take(item, said, control)
        asked = ModelMessage(Role.USER, said.text, files=files, refused=refused)
        begun = await self._conversations.begin_turn(turn, asked)
        if begun is not None:
            await self._loop.run(*begun, control)
            if await self._approvals.go_on(begun[0]):
                await self._go_on(begun[0], control)
        elif found := await self._conversations.turn_of_item(item.id):  # from before a restart
            await self._go_on(found, control)

    async def _go_on(self, turn: Turn, control: TurnControl) -> None:
        context = await self._conversations.resume_turn(turn)
        while context is not None:
            await self._loop.run(turn, context, control)
            context = await self._conversations.resume_turn(turn) if await self._approvals.go_on(turn) else None

    async def _hear(self, heard: list[int], control: TurnControl, turn: Turn) -> list[ModelMessage]:
        """What people have said in a turn's thread since it began, taken from what waits and made part of it.

        What else waits keeps its order. It counts as taken with the commit that stores the message and ends the inbox
        item: a crash before that leaves it waiting, after that it is in the turn.
        """
        messages: list[ModelMessage] = []
        waiting, place = self._waiting.of(turn.thread), 0
        while waiting is not None and control.by is None and (item := waiting.waits(place)) is not None:
            if not (isinstance(item, InboxItem) and await self._steers(item.inbound, turn)):
                place += 1
                continue
            words, person = said_in(item.inbound), item.inbound.person
            files, refused = await self._files.take(item, words, control)
            said = ModelMessage(
                Role.USER, words.text, files=files, refused=refused, speaker=person.shown, steers=person.key
            )
            messages.append(await self._conversations.steer(turn, item.id, said))
            waiting.take(place)
            heard.append(item.id)
        return messages

    async def _steers(self, inbound: Inbound, turn: Turn) -> bool:
        """Whether these words belong to a turn at work; a `yes` or `no` does not where something is to be decided."""
        return steers(inbound, turn) and (typed_in(inbound) is None or not await self._decisions.open_in(turn.thread))

    def _interrupt(self, item: InboxItem) -> Sequence[str] | None:
        """End what is carried out in this thread, and keep what it did; None where there is nothing.

        Gives the tools that are waited for.
        """
        inbound = item.inbound
        controls = self._answering.get(inbound.thread.key)
        if controls is None:
            return None
        if inbound.person.external and any(inbound.person.key != control.person.key for control in controls):
            raise NotAllowed(NOT_YOURS)
        self._ending[item.id] = list(controls)
        return [tool for control in controls for tool in control.press(inbound.person, item.id)]

    async def _drops(self, item: InboxItem) -> bool:
        """Whether a question to this person is open; then it is dropped, with its turn."""
        inbound = item.inbound
        question = await self._questions.open_for(inbound.thread, inbound.person)
        if question is None:
            return False
        await self._questions.drop([question], f"Stopped by {inbound.person.shown}.", ended_by=item.id)
        await self._replies.say(item, f"stopping:{item.id}", DROPPED)
        return True
