"""One turn: model, tools, approval or answer. Every reply and every result is a row before the next step.

Resumable at every row: `run` looks at what is stored and goes on from there. Knows no platform and no vendor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from agent.cards import duration
from agent.commands.calls import call_in, command_answer, command_call_id
from agent.conversation.approvals import ApprovalService
from agent.conversation.prompt import conversation
from agent.delivery.outbox import LiveReply, OutboxDelivery
from agent.domain.content import Button, Card, Content
from agent.domain.datasets import DatasetRef
from agent.domain.inbound import Person
from agent.domain.policy import Effect
from agent.ports import Model, ModelMessage, ModelReply, Role, ToolCall
from agent.stores import Context, Conversations, Turn, TurnKind
from agent.tools.dispatch import Dispatcher, NeedsApproval, failure_of
from agent.tools.tool import Caller, Result

log = logging.getLogger(__name__)
T = TypeVar("T")
MOST_MODEL_CALLS = 16
UNKNOWN_OUTCOME = (
    '{"error": "This call was begun before a restart and its outcome is unknown. '
    'Check the state before you repeat it."}'
)
NOT_ASKED = '{"text": "People stopped this turn before they were asked about the call. Nothing was done."}'


class Interrupt:
    """How people end a turn that is being carried out; one for each time that a turn is. `by` is who did."""

    def __init__(self, person: Person) -> None:
        """`person` is whose turn it is."""
        self.person = person
        self.by: Person | None = None
        self._limit: asyncio.Timeout | None = None

    def press(self, by: Person) -> None:
        """End the model's answer now; a tool that is at work is waited for."""
        self.by = self.by or by
        if self._limit is not None:
            self._limit.reschedule(_now_s())

    async def wait(self, coming: Awaitable[T], *, until_s: float) -> T:
        """What comes next. Raises `TimeoutError` when somebody interrupts, and at `until_s` on the loop's clock."""
        if self.by is not None:
            raise TimeoutError
        try:
            async with asyncio.timeout_at(until_s) as self._limit:
                return await coming
        finally:
            self._limit = None


class _CutOffError(Exception):
    """The model's answer was ended; `said` is what it had said by then."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


class TurnLoop:
    """Carries turns through."""

    def __init__(
        self,
        conversations: Conversations,
        model: Model,
        dispatcher: Dispatcher,
        approvals: ApprovalService,
        delivery: OutboxDelivery,
        *,
        answer_s: float,
    ) -> None:
        """One loop serves every session; it keeps no state between calls. `answer_s` is the most for one answer."""
        self._conversations = conversations
        self._model = model
        self._dispatcher = dispatcher
        self._approvals = approvals
        self._delivery = delivery
        self._answer_s = answer_s

    async def run(self, turn: Turn, context: Context, interrupt: Interrupt) -> None:
        """Go on with a turn until its answer, an approval that waits, or a limit."""
        history = list(context.history)
        for _ in range(MOST_MODEL_CALLS):
            if await self._answer_calls(turn, history, interrupt) or await self._command(turn, history, interrupt):
                return
            if await self._step(turn, history, context.files, interrupt):
                return
        text = f"I stopped after {MOST_MODEL_CALLS} steps without an end in sight."
        await self._end(turn, f"reply:{turn.id}:limit", Content(text=text, card=_go_on(turn)))

    async def _end(self, turn: Turn, key: str, content: Content) -> None:
        said = ModelMessage(Role.ASSISTANT, content.text)
        await self._conversations.end_turn(turn, said, key=key, content=content)
        self._delivery.wake(turn.thread.key)

    async def _answer_calls(self, turn: Turn, history: list[ModelMessage], interrupt: Interrupt) -> bool:
        """Carry out calls that have no answer yet; whether one of them waits for people."""
        waits = False
        for together in self._batches(unanswered(history)):
            if interrupt.by:
                break
            answers = await asyncio.gather(*(self._carry_out(turn, call, interrupt) for call in together))
            for call, answer in zip(together, answers, strict=True):
                if answer is None:
                    waits = True
                    continue
                if isinstance(answer, Result):
                    await self._show(turn, call, answer)
                    answer = self._dispatcher.answer(call.name, answer)
                said = ModelMessage(Role.TOOL, answer, call_id=call.id)
                await self._conversations.append(turn, [said])
                history.append(said)
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

    async def _command(self, turn: Turn, history: list[ModelMessage], interrupt: Interrupt) -> bool:
        """Where the request is a command: make its call, or answer with what that gave; whether the turn is over.

        No model is asked. That the call waits for people, and goes on after their click, is the same as for a model's.
        """
        last = history[-1]
        if last.role is Role.USER and not last.noticed:
            call = call_in(last, turn.id, self._dispatcher)
            if call is None:
                return False
            said = ModelMessage(Role.ASSISTANT, "", (call,))
            await self._conversations.append(turn, [said])
            history.append(said)
            if await self._answer_calls(turn, history, interrupt):
                return True
            last = history[-1]
        if last.call_id != command_call_id(turn.id):
            return False
        await self._end(turn, f"reply:{turn.id}:{len(history)}", Content(text=command_answer(last.text)))
        return True

    async def _carry_out(self, turn: Turn, call: ToolCall, interrupt: Interrupt) -> Result | str | None:
        """What a call gave, or the answer for the model where it could not be done; None where people are asked."""
        unattended = turn.kind is TurnKind.NOTICED
        caller = Caller(turn.person, turn.session_id, turn.thread, turn.id, unattended=unattended)
        asks = self._dispatcher.asks(call.name)
        if asks and await self._approvals.waits(turn, call):
            return None
        writes = not asks and self._dispatcher.effect(call.name) is not Effect.READ
        if writes and not await self._conversations.start_call(turn.id, call.id):
            return UNKNOWN_OUTCOME
        try:
            result = await self._dispatcher.call(caller, call)
        except Exception as error:  # noqa: BLE001 - a failing tool answers its call; the turn goes on
            return failure_of(error, call)
        if isinstance(result, NeedsApproval):
            if interrupt.by:
                return NOT_ASKED
            await self._approvals.ask(turn, call, result)
            return None
        return result

    async def _show(self, turn: Turn, call: ToolCall, result: Result) -> None:
        """What a tool has for people's eyes: its card and its files."""
        if result.card is not None or result.files:
            text = "" if result.card else result.text
            content = Content(text=text, card=result.card, files=result.files)
            await self._delivery.put(f"card:{turn.id}:{call.id}", turn.thread, content, urgent=True)

    async def _step(
        self, turn: Turn, history: list[ModelMessage], files: Sequence[DatasetRef], interrupt: Interrupt
    ) -> bool:
        """Ask the model once and store its reply; whether that was the answer."""
        key = f"reply:{turn.id}:{len(history)}"
        async with self._delivery.open(key, turn.thread) as live:
            try:
                reply = await self._ask(conversation(history, files), live, interrupt)
                content = Content(text=reply.text)
            except _CutOffError as cut:
                content = self._cut_off(turn, cut.said, interrupt.by)
                reply = ModelReply(content.text, (), "")
            said = ModelMessage(Role.ASSISTANT, reply.text, reply.calls, model=reply.model, offers=reply.offers)
            history.append(said)
            if not reply.calls:
                version = await self._conversations.end_turn(turn, said, key=key, content=content)
                await live.finish(content, version)
            else:
                await self._conversations.append(turn, [said])
                if reply.text:
                    await live.finish(content, await self._delivery.put(key, turn.thread, content, urgent=True))
        return not reply.calls

    async def _ask(self, messages: Sequence[ModelMessage], live: LiveReply, interrupt: Interrupt) -> ModelReply:
        """The model's whole reply.

        Raises:
            _CutOffError: somebody ended it, or it took too long.
        """
        said, reply, until_s = "", None, _now_s() + self._answer_s
        pieces = aiter(self._model.stream(messages, self._dispatcher.schemas()))
        try:
            while (piece := await interrupt.wait(anext(pieces, None), until_s=until_s)) is not None:
                if isinstance(piece, ModelReply):
                    reply = piece
                elif piece:
                    said += piece
                    await live.append(piece)
        except TimeoutError:
            raise _CutOffError(said) from None
        return reply or ModelReply("The language model ended without an answer. Ask again.", (), "none")

    def _cut_off(self, turn: Turn, said: str, by: Person | None) -> Content:
        """What stays of an answer that was ended, and why."""
        if by is not None:
            return Content(text=f"{said.rstrip()}\n\n_Stopped by {by.name or by.id}._".lstrip())
        why = f"I ended this answer: it took longer than {duration(self._answer_s)}."
        return Content(text=f"{said.rstrip()}\n\n_{why}_".lstrip(), card=_go_on(turn))


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _go_on(turn: Turn) -> Card:
    button = Button(action="continue", subject=turn.id, label="Continue", style="primary")
    return Card(kind="notice", title="Go on?", tone="warn", buttons=(button,))


def unanswered(history: Sequence[ModelMessage]) -> list[ToolCall]:
    """Calls of the last assistant message that no tool message answers."""
    answered: set[str] = set()
    for said in reversed(history):
        if said.role is Role.TOOL:
            answered.add(said.call_id)
        elif said.role is Role.ASSISTANT:
            return [call for call in said.calls if call.id not in answered]
        else:
            return []
    return []
