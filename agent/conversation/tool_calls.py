"""Carries out the calls of a model's reply: neighbours that may run together do, and each result is a row of its own.

Where people end the turn, a tool that reads or plans is cancelled, and one that changes something is waited for; what
has finished stays. Called by the turn loop.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from agent.commands.calls import typed
from agent.conversation.approvals import ApprovalService
from agent.conversation.context import Conversation, since_request
from agent.conversation.guards import note_on
from agent.conversation.questions import QuestionService
from agent.conversation.taint import heard, led_by_model, quotes_others
from agent.conversation.turn_control import TurnControl
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.ids import new_ulid
from agent.domain.policy import Effect
from agent.domain.session_events import TOOL_CARD_KEY
from agent.ports import ModelMessage, Role, ToolCall
from agent.stores import Conversations, ThreadFacts, Turn, TurnKind
from agent.tools.dispatch import UNKNOWN_OUTCOME, Dispatcher, NeedsApproval, failure_of
from agent.tools.tool import Caller, Result

ASKED_FIRST = (
    '{"error": "You asked people first, and this was not done, as their answer may change it. '
    'Call it again after the answer, where it still fits."}'
)
NOT_ASKED = '{"text": "People stopped this turn before they were asked about the call. Nothing was done."}'
ASKED_ALREADY = "People are asked about just this already: its card waits for a decision (`approve {0}`, `reject {0}`)."
FOR_COMMANDS = "People do that themselves, with a command: `{}`."
GIVEN_UP = '{"error": "People stopped this turn before the call had ended, and it was given up."}'
TIME_IS_UP = '{"error": "The time of this turn was used up before the call had ended, and it was given up."}'
CANCELLED = '{"text": "People stopped this turn before the call had ended. It only reads, so nothing was changed."}'


class ToolCalls:
    """Takes the calls of a turn to the dispatcher."""

    def __init__(
        self,
        conversations: Conversations,
        facts: ThreadFacts,
        dispatcher: Dispatcher,
        approvals: ApprovalService,
        questions: QuestionService,
        delivery: OutboxDelivery,
    ) -> None:
        """It keeps no state between calls."""
        self._conversations = conversations
        self._facts = facts
        self._dispatcher = dispatcher
        self._approvals = approvals
        self._questions = questions
        self._delivery = delivery

    async def answer(self, turn: Turn, talk: Conversation, control: TurnControl) -> bool:
        """Carry out calls that have no answer yet, which the history gets; whether one of them waits for people."""
        waits, storing, calls = False, asyncio.Lock(), unanswered(talk.history)
        if calls and talk.told_of_others is None and led_by_model(since_request(talk.history)):  # made before a restart
            talk.told_of_others = quotes_others(await self._facts.now(turn.session_id, turn.thread), turn)
        for together in self._batches(calls):
            if control.by:
                break
            work = (self._answer(turn, call, talk, control, storing) for call in together)
            for asked in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(asked, BaseException):
                    raise asked
                waits = waits or asked
        return waits

    def _batches(self, calls: Sequence[ToolCall]) -> Sequence[Sequence[ToolCall]]:
        """The calls in their order; neighbours that may run at the same time are in one batch."""
        batches: list[list[ToolCall]] = []
        for call in calls:
            beside = self._dispatcher.runs_beside(call.name)
            if beside and batches and self._dispatcher.runs_beside(batches[-1][-1].name):
                batches[-1].append(call)
            else:
                batches.append([call])
        return batches

    async def _answer(
        self, turn: Turn, call: ToolCall, talk: Conversation, control: TurnControl, storing: asyncio.Lock
    ) -> bool:
        """Carry out one call and store what it gave as soon as it is there; whether it waits for people."""
        behind = heard(turn.person, talk, quotes=self._dispatcher.quotes)
        caller = Caller(
            turn.person,
            turn.session_id,
            turn.thread,
            turn.id,
            unattended=turn.kind is TurnKind.NOTICED,
            shared=behind.others,
            words=behind.own,
        )
        answer = await self._carry_out(turn, call, caller, control)
        if answer is None:
            return True
        if isinstance(answer, Result):
            await self._show(turn, call, answer)
            whole = self._dispatcher.whole(call.name, answer)
            said = ModelMessage(
                Role.TOOL,
                self._dispatcher.answer(call.name, answer),
                call_id=call.id,
                tokens=answer.tokens,
                cost_usd=answer.cost_usd,
                whole=whole,
                cut_chars=len(whole),
            )
        else:
            said = ModelMessage(Role.TOOL, answer, call_id=call.id)
        async with storing:  # the note counts the results that are there
            said = replace(said, note=note_on([*since_request(talk.history), said], self._dispatcher.polls))
            reads = self._dispatcher.effect(call.name) is Effect.READ
            said, talk.now = await self._facts.answered(turn, said, read_only=reads)
            talk.history.append(said)
        return False

    async def _carry_out(self, turn: Turn, call: ToolCall, caller: Caller, control: TurnControl) -> Result | str | None:
        """What a call gave, or the answer for the model where it could not be done; None where people are asked."""
        if turn.kind is not TurnKind.COMMANDED and not self._dispatcher.offered(call.name):
            return json.dumps({"error": FOR_COMMANDS.format(typed(call))})
        asks, reads = self._dispatcher.asks(call.name), self._dispatcher.effect(call.name) is Effect.READ
        may_be_cut = self._dispatcher.may_be_cut(call.name)
        if not reads and await self._approvals.waits(turn, call):
            return None
        if not (asks or reads) and await self._questions.waits(turn):
            return ASKED_FIRST
        if not (asks or reads) and not await self._conversations.start_call(turn.id, call.id):
            await self._dispatcher.write_down(caller, call, unsure=True)
            return UNKNOWN_OUTCOME
        try:
            if may_be_cut:
                result = await control.wait(self._dispatcher.call(caller, call), until_s=control.ends_s)
            else:
                with control.finishing(call.name):
                    result = await self._dispatcher.call(caller, call)
        except Exception as error:  # noqa: BLE001 - a failing tool answers its call; the turn goes on
            return self._failed(error, call, control)
        if isinstance(result, Result) and not result.choices:
            if control.by and not may_be_cut:
                control.finished.append(call.name)
            return result
        if control.by:
            return NOT_ASKED
        return await self._asked(turn, call, result, caller)

    def _failed(self, error: Exception, call: ToolCall, control: TurnControl) -> str:
        """The answer of a call that did not come to its end."""
        reads = self._dispatcher.effect(call.name) is Effect.READ
        if not (isinstance(error, TimeoutError) and self._dispatcher.may_be_cut(call.name)):
            return failure_of(error, call, reads=reads)
        if control.by is None:
            return TIME_IS_UP
        return CANCELLED if reads else NOT_ASKED if self._dispatcher.asks(call.name) else GIVEN_UP

    async def _asked(self, turn: Turn, call: ToolCall, needed: Result | NeedsApproval, caller: Caller) -> Result | None:
        """Ask people; the answer where they are asked about just that already."""
        if isinstance(needed, Result):
            await self._questions.ask(turn, call, needed)
        elif (same := await self._approvals.same(turn, needed)) is not None:
            return Result(ASKED_ALREADY.format(same.id), {"waits": same.id})
        else:
            await self._approvals.ask(turn, call, needed, tainted=caller.shared or caller.unattended)
        return None

    async def _show(self, turn: Turn, call: ToolCall, result: Result) -> None:
        """Show people the card and the files of a result."""
        if result.card is not None or result.files:
            text = "" if result.card else result.text
            content = Content(text=text, card=result.card, files=result.files)
            key = TOOL_CARD_KEY.format(turn.id, result.post or call.id)
            await self._delivery.put(key, turn.thread, content, urgent=True)


def unanswered(history: Sequence[ModelMessage]) -> list[ToolCall]:
    """Calls of the last assistant message that no tool message answers; none where people have spoken since."""
    answered: set[str] = set()
    for said in reversed(history):
        if said.role is Role.TOOL:
            answered.add(said.call_id)
        elif said.role is Role.ASSISTANT:
            return [call for call in said.calls if call.id not in answered]
        else:
            return []
    return []


def with_own_ids(calls: Sequence[ToolCall], history: Sequence[ModelMessage]) -> tuple[ToolCall, ...]:
    """The calls, each with an id that no earlier one has: some servers count anew in each reply."""
    known = {call.id for said in history for call in said.calls}
    return tuple(replace(call, id=f"call-{new_ulid()}") if call.id in known else call for call in calls)
