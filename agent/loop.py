"""One turn: model, tools, approval or answer. Every reply and every result is a row before the next step.

Resumable at every row: `run` looks at what is stored and goes on from there. Knows no platform and no vendor.
"""

import logging
from collections.abc import Sequence

from agent.approvals import ApprovalDesk
from agent.commands import call_in, command_answer
from agent.domain.content import Button, Card, Content
from agent.domain.datasets import DatasetRef
from agent.domain.policy import Effect
from agent.ports import Model, ModelMessage, ModelReply, ToolCall
from agent.postman import LiveReply, Postman
from agent.prompt import conversation
from agent.stores import Context, Conversations, Turn
from agent.tools.dispatch import Dispatcher, NeedsApproval, answer_of, failure_of
from agent.tools.tool import Caller, Result

log = logging.getLogger(__name__)
MOST_MODEL_CALLS = 16
ASKED, NOTICED = "t-", "n-"  # how the ids of turns begin that a person asked for, and that nobody did
UNKNOWN_OUTCOME = (
    '{"error": "This call was begun before a restart and its outcome is unknown. '
    'Check the state before you repeat it."}'
)


class TurnLoop:
    """Carries turns through."""

    def __init__(
        self,
        conversations: Conversations,
        model: Model,
        dispatcher: Dispatcher,
        desk: ApprovalDesk,
        postman: Postman,
    ) -> None:
        """One loop serves every session; it keeps no state between calls."""
        self._conversations = conversations
        self._model = model
        self._dispatcher = dispatcher
        self._desk = desk
        self._postman = postman

    async def run(self, turn: Turn, context: Context | None = None) -> None:
        """Go on with a turn until its answer, an approval that waits, or the limit. `context` is read if not given."""
        context = context or await self._conversations.context(turn.session_id)
        history = list(context.history)
        for _ in range(MOST_MODEL_CALLS):
            if await self._answer_calls(turn, history) or await self._command(turn, history):
                return
            if await self._step(turn, history, context.files):
                return
        content = Content(
            text=f"I stopped after {MOST_MODEL_CALLS} steps without an end in sight.",
            card=Card(
                kind="notice",
                title="Go on?",
                tone="warn",
                buttons=(Button(action="continue", subject=turn.id, label="Continue", style="primary"),),
            ),
        )
        await self._conversations.end_turn(
            turn, ModelMessage("assistant", content.text), key=f"reply:{turn.id}:limit", content=content
        )
        self._postman.wake(turn.room.key)

    async def _answer_calls(self, turn: Turn, history: list[ModelMessage]) -> bool:
        """Carry out calls that have no answer yet; whether one of them waits for people."""
        waits = False
        for call in unanswered(history):
            answer = await self._carry_out(turn, call)
            if answer is None:
                waits = True
                continue
            said = ModelMessage("tool", answer, call_id=call.id)
            await self._conversations.append(turn, [said])
            history.append(said)
        return waits

    async def _command(self, turn: Turn, history: list[ModelMessage]) -> bool:
        """Where the request is a command: make its call, or answer with what that gave; whether the turn is over.

        No model is asked. That the call waits for people, and goes on after their click, is the same as for a model's.
        """
        last = history[-1]
        if last.role == "user" and not turn.id.startswith(NOTICED):
            call = call_in(last.text, turn.id, self._dispatcher)
            if call is None:
                return False
            said = ModelMessage("assistant", "", (call,))
            await self._conversations.append(turn, [said])
            history.append(said)
            if await self._answer_calls(turn, history):
                return True
            last = history[-1]
        text = command_answer(last.call_id, last.text) if last.role == "tool" else None
        if text is None:
            return False
        key = f"reply:{turn.id}:{len(history)}"
        await self._conversations.end_turn(turn, ModelMessage("assistant", text), key=key, content=Content(text=text))
        self._postman.wake(turn.room.key)
        return True

    async def _carry_out(self, turn: Turn, call: ToolCall) -> str | None:
        unattended = turn.id.startswith(NOTICED)
        caller = Caller(turn.person, turn.session_id, turn.room, turn.id, unattended=unattended)
        effect = self._dispatcher.effect(call.name)
        if effect is Effect.SPEND and await self._desk.waits(turn, call):
            return None
        writes = effect in {Effect.WRITE, Effect.DESTROY}
        if writes and not await self._conversations.start_call(turn.id, call.id):
            return UNKNOWN_OUTCOME
        try:
            result = await self._dispatcher.call(caller, call)
        except Exception as error:  # noqa: BLE001 - a failing tool answers its call; the turn goes on
            return failure_of(error, call)
        if isinstance(result, NeedsApproval):
            await self._desk.ask(turn, call, result)
            return None
        await self._show(turn, call, result)
        return answer_of(result)

    async def _show(self, turn: Turn, call: ToolCall, result: Result) -> None:
        """What a tool has for people's eyes: its card and its files."""
        if result.card is not None or result.files:
            text = "" if result.card else result.text
            content = Content(text=text, card=result.card, files=result.files)
            await self._postman.put(f"card:{turn.id}:{call.id}", turn.room, content, urgent=True)

    async def _step(self, turn: Turn, history: list[ModelMessage], files: Sequence[DatasetRef]) -> bool:
        """Ask the model once and store its reply; whether that was the answer."""
        key = f"reply:{turn.id}:{len(history)}"
        async with self._postman.open(key, turn.room) as live:
            reply = await self._ask(conversation(history, files), live)
            said = ModelMessage("assistant", reply.text, reply.calls)
            history.append(said)
            content = Content(text=reply.text)
            if not reply.calls:
                version = await self._conversations.end_turn(turn, said, key=key, content=content)
                await live.finish(content, version)
            else:
                await self._conversations.append(turn, [said])
                if reply.text:
                    await live.finish(content, await self._postman.put(key, turn.room, content, urgent=True))
        return not reply.calls

    async def _ask(self, messages: Sequence[ModelMessage], live: LiveReply) -> ModelReply:
        reply: ModelReply | None = None
        async for piece in self._model.stream(messages, self._dispatcher.schemas()):
            if isinstance(piece, ModelReply):
                reply = piece
            elif piece:
                await live.append(piece)
        if reply is None:
            return ModelReply("The language model ended without an answer. Ask again.", (), "none")
        return reply


def unanswered(history: Sequence[ModelMessage]) -> list[ToolCall]:
    """Calls of the last assistant message that no tool message answers."""
    answered: set[str] = set()
    for said in reversed(history):
        if said.role == "tool":
            answered.add(said.call_id)
        elif said.role == "assistant":
            return [call for call in said.calls if call.id not in answered]
        else:
            return []
    return []
