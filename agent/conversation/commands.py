"""Carries out commands of people, typed or from a button, or asks people about them first."""

from collections.abc import Sequence

from agent.commands.calls import asks_people, carry_out, changes, may_take_long, write_down
from agent.commands.typed import ends_answer, is_decision
from agent.conversation.actors import Next
from agent.conversation.decisions import Decisions
from agent.conversation.items import command_in, whisper_for
from agent.conversation.replies import Replies
from agent.conversation.turn_control import TurnControl
from agent.conversation.turns import Turns
from agent.domain.content import Content
from agent.domain.errors import Conflict
from agent.domain.session_events import ACT_KEY
from agent.stores import Conversations, InboxItem
from agent.tools.dispatch import Dispatcher
from agent.tools.tool import Caller

ON_ITS_WAY = "I am on it; the answer stands in this channel in a moment."
DONE = "Done; it stands in the thread."
STOPPED = "I stopped that answer."
ENDED = "That was ended before it was done, as somebody said `stop`. It only looks, so nothing was changed."


class CommandService:
    """Carries commands out. Called by the inbox router."""

    def __init__(
        self,
        conversations: Conversations,
        dispatcher: Dispatcher,
        decisions: Decisions,
        turns: Turns,
        replies: Replies,
    ) -> None:
        """`turns` carry those that people are asked about, as a turn of its own."""
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._decisions = decisions
        self._turns = turns
        self._replies = replies

    async def take(self, item: InboxItem, words: Sequence[str], *, turn_waits: bool) -> Next:
        """Carry a command out, or say where it waits. `turn_waits` says whether the thread has a turn at work."""
        if is_decision(words):
            if turn_waits and not await self._decisions.open_in(item.inbound.thread):
                return Next.AS_TURN  # it may be about what is still being planned
            if await self._decisions.may_take_long(item.inbound.thread):
                return Next.SLOWLY
            await self._decisions.take_typed(item, words)
        elif ends_answer(" ".join(words)) and await self._turns.ends(item):
            await self._replies.whisper(item, STOPPED)
            return Next.ENDING
        elif may_take_long(words, self._dispatcher):
            return Next.SLOWLY
        else:
            await self._carry_out(item, words)
        return Next.DONE

    async def take_slowly(self, item: InboxItem) -> None:
        """Carry out a decision that may take long, or a command, which people may end meanwhile.

        Raises:
            Conflict: people ended it.
        """
        words = command_in(item.inbound)
        if is_decision(words):
            return await self._decisions.take_typed(item, words)
        with self._turns.controlled(item.inbound.thread, item.inbound.person, of_turn=False) as control:
            try:
                await self._carry_out(item, words, control)
            except TimeoutError:
                raise Conflict(ENDED) from None

    async def _carry_out(self, item: InboxItem, words: Sequence[str], control: TurnControl | None = None) -> None:
        """Carry out a command, in a turn of its own where people are asked about it.

        Raises:
            TimeoutError: somebody ended it, through `control`.
        """
        inbound = item.inbound
        if asks_people(words, self._dispatcher):
            return await self._ask(item, control)
        in_thread = whisper_for(item) is None  # then the answer opens a thread, in which people go on
        session_id = await self._conversations.session_of(inbound.thread, create=in_thread) or ""
        caller = Caller(inbound.person, session_id, inbound.thread, act=ACT_KEY.format(item.id))
        if await self._replies.done(caller.act):  # before a restart
            await write_down(words, caller, self._dispatcher)
            return await self._replies.whisper(item, DONE)
        coming = carry_out(words, caller, self._dispatcher)
        content = await (control.wait(coming) if control and not changes(words, self._dispatcher) else coming)
        if content is None:
            return await self._ask(item, control)
        if content == Content():  # what it did stands in the thread
            return await self._replies.whisper(item, DONE)
        return await self._replies.answer(item, content)

    async def _ask(self, item: InboxItem, control: TurnControl | None) -> None:
        """Ask people about a command."""
        await self._replies.whisper(item, ON_ITS_WAY)  # a slash command is owed an answer of its own
        await self._turns.begin_command(item, control)
