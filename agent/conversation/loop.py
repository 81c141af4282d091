"""One turn: model, tools, approval or answer. Every reply and every result is a row before the next step.

Resumable at every row: `run` looks at what is stored and goes on from there. Knows no platform and no vendor.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

from agent.cards import duration
from agent.commands.calls import call_in, command_answer, command_call_id
from agent.conversation.bills import Bills
from agent.conversation.compaction import Compactor
from agent.conversation.context import Conversation, read_by_model, since_request
from agent.conversation.facts import FactsInWords
from agent.conversation.going_on import REPLY_KEY, go_on_card
from agent.conversation.guards import TurnLimits, circles, reached
from agent.conversation.prompt import SYSTEM
from agent.conversation.redacted import Growing, said_safely
from agent.conversation.taint import led_by_model
from agent.conversation.tool_calls import ToolCalls, with_own_ids
from agent.conversation.turn_control import TurnControl
from agent.delivery.outbox import LiveReply, OutboxDelivery
from agent.domain.content import Card, Content
from agent.domain.errors import TooLong
from agent.ports import Model, ModelMessage, ModelNotice, ModelOf, ModelReply, Role
from agent.runs.budgets import BudgetService
from agent.stores import Context, Conversations, Turn
from agent.tools.dispatch import Dispatcher

STILL_WAITS = "_Stopped by {}. What was asked above still waits for its answer._"
TAKEN_BACK = "_I took back what I had begun to say here, and go on below._"
OVERFLOWS = 3  # of one step, each of which makes the conversation shorter
RUN_ID = re.compile(r"\br-[0-9a-z]{6}\b")


class _CutOffError(Exception):
    """The model's answer was ended; `said` is what it had said by then."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


class TurnLoop:
    """Carries out turns."""

    def __init__(  # noqa: PLR0913 - the loop joins these parts
        self,
        conversations: Conversations,
        model_of: ModelOf,
        dispatcher: Dispatcher,
        calls: ToolCalls,
        delivery: OutboxDelivery,
        compactor: Compactor,
        facts: FactsInWords,
        bills: Bills,
        budgets: BudgetService,
        *,
        limits: TurnLimits,
        answer_s: float,
        charged: bool,
    ) -> None:
        """One loop serves every session; it keeps no state between calls. `answer_s` is the most for one answer,
        from its first word.

        Where no language model is `charged` for, the facts are read for what speaks of a run alone.
        """
        self._conversations = conversations
        self._model_of = model_of
        self._dispatcher = dispatcher
        self._calls = calls
        self._delivery = delivery
        self._compactor = compactor
        self._facts = facts
        self._bills = bills
        self._budgets = budgets
        self._limits = limits
        self._answer_s = answer_s
        self._charged = charged

    async def run(self, turn: Turn, context: Context, control: TurnControl) -> None:
        """Go on with a turn until its answer, an approval that waits, or a limit."""
        talk, begun_s = Conversation.of(context), _now_s()
        control.ends_s = begun_s + self._limits.minutes * 60
        history = talk.history
        while True:
            if await self._calls.answer(turn, talk, control):
                await self._say_stopped(turn, control)
                return
            if await self._command(turn, talk, control):
                return
            so_far = since_request(history)
            limit = circles(so_far, self._dispatcher.polls) or reached(self._limits, so_far, seconds=_now_s() - begun_s)
            if why := limit or await self._budgets.refusal(turn.person.key, turn.thread, turn.session_id):
                await self._end(turn, history, Content(text=why, card=go_on_card(turn.id, history[-1].id)), control)
                return
            if led_by_model(so_far) and control.by is None:
                history += await control.hear(turn)
            if await self._step(turn, talk, control):
                return

    async def _say_stopped(self, turn: Turn, control: TurnControl) -> None:
        """If somebody ended a turn that waits for people, say that the rest ended and the question stays open."""
        if control.by is not None:
            text = STILL_WAITS.format(control.by.shown)
            await self._delivery.put(f"stopped:{turn.id}", turn.thread, Content(text=text), urgent=True)

    async def _end(self, turn: Turn, history: Sequence[ModelMessage], content: Content, control: TurnControl) -> None:
        said, key = ModelMessage(Role.ASSISTANT, content.text), REPLY_KEY.format(turn.id, history[-1].id)
        await self._conversations.end_turn(turn, said, key=key, content=content, ended_by=control.ended_by)
        self._delivery.wake(turn.thread.key)

    async def _command(self, turn: Turn, talk: Conversation, control: TurnControl) -> bool:
        """Where the request is a command: make its call, or answer with what that gave; whether the turn is over.

        No model is asked. That the call waits for people, and goes on after their click, is the same as for a model's.
        """
        history = talk.history
        last = history[-1]
        if last.role is Role.USER and not (last.noticed or last.steers):
            call = call_in(last, turn.id, self._dispatcher)
            if call is None:
                return False
            said = ModelMessage(Role.ASSISTANT, "", (call,))
            history += await self._conversations.append(turn, [said])
            if await self._calls.answer(turn, talk, control):
                return True
            last = history[-1]
        if last.call_id != command_call_id(turn.id):
            return False
        await self._end(turn, history, Content(text=command_answer(last.text)), control)
        return True

    async def _step(self, turn: Turn, talk: Conversation, control: TurnControl) -> bool:
        """Ask the model once and store its reply; whether that was the answer."""
        last = talk.history[-1].id
        key = REPLY_KEY.format(turn.id, last)
        async with self._delivery.open(key, turn.thread) as live:
            try:
                begun_s = _now_s()
                reply = await self._reply(turn, talk, live, control)
                reply = replace(reply, seconds=round(_now_s() - begun_s, 2))
                content = Content(text=reply.shown)
            except _CutOffError as cut:
                content = self._cut_off(go_on_card(turn.id, last), cut.said, control)
                reply = ModelReply(content.text, (), "", ended_by=next(iter(control.ended_by), 0))
            said, paid = _stored(reply, talk.history), self._bills.add(turn, reply)  # together, as a rule in one commit
            if not reply.calls:
                by = control.ended_by
                end = self._conversations.end_turn(turn, said, key=key, content=content, ended_by=by)
                _, version = await asyncio.gather(paid, end)
                await live.finish(content, version)
            else:
                _, stored = await asyncio.gather(paid, self._conversations.append(turn, [said]))
                talk.history += stored
                if not (reply.text or live.is_empty):
                    content = Content(text=TAKEN_BACK)
                if content.text:
                    await live.finish(content, await self._delivery.put(key, turn.thread, content, urgent=True))
        return not reply.calls

    async def _reply(self, turn: Turn, talk: Conversation, live: LiveReply, control: TurnControl) -> ModelReply:
        """The model's reply to a conversation that fits into its window.

        Raises:
            TooLong: it does not fit, however much is left out.
            _CutOffError: somebody ended it, or it took too long.
        """
        try:
            await control.wait(self._compactor.fit(turn, talk))
            for _ in range(OVERFLOWS):
                try:
                    return await self._ask(turn, talk, live, control)
                except TooLong:
                    await control.wait(self._compactor.fit(turn, talk, overflowed=True))
        except TimeoutError:
            raise _CutOffError("") from None
        return await self._ask(turn, talk, live, control)

    async def _messages(self, turn: Turn, talk: Conversation) -> list[ModelMessage]:
        """What the model reads: the system's word, the conversation, and with its last message what is so now."""
        *before, last = read_by_model(talk, window=self._compactor.window(talk))
        if self._charged or _names_run((*before, last)):
            facts = await self._facts.read(turn, talk)
            last = replace(last, facts=facts.words, runs=facts.runs)
        return [ModelMessage(Role.SYSTEM, SYSTEM), *before, last]

    async def _ask(self, turn: Turn, talk: Conversation, live: LiveReply, control: TurnControl) -> ModelReply:
        """The model's whole reply; what was paid for in vain is stored. Raises as `_read` does."""
        messages, unused = await self._messages(turn, talk), list[ModelReply]()
        try:
            return await self._read(self._model_of(talk.preference, unused.append), messages, live, control)
        finally:
            for reply in unused:
                await self._bills.add(turn, reply)

    async def _read(
        self, model: Model, messages: Sequence[ModelMessage], live: LiveReply, control: TurnControl
    ) -> ModelReply:
        """The model's whole reply, without secrets.

        Raises:
            _CutOffError: somebody ended it, or it took too long.
        """
        growing, said, reply = Growing(), "", None
        until_s: float | None = None  # until the first words, models and their gateway have limits of their own
        tools = self._dispatcher.schemas(messages[1:], runs=_names_run(messages[1:]))
        pieces = aiter(model.stream(messages, tools))
        try:
            while (piece := await control.wait(anext(pieces, None), until_s=until_s)) is not None:
                if isinstance(piece, ModelReply):
                    reply = said_safely(piece)
                elif isinstance(piece, ModelNotice):
                    growing, said, until_s = Growing(), "", None
                    await live.append(f"\n\n_{piece.text}_\n\n")
                elif piece:
                    until_s = until_s or _now_s() + self._answer_s
                    if words := growing.more(piece):
                        said += words
                        await live.append(words)
        except TimeoutError:
            raise _CutOffError(said + growing.end()) from None
        return reply or ModelReply("The language model ended without an answer. Ask again.", (), "none")

    def _cut_off(self, go_on: Card, said: str, control: TurnControl) -> Content:
        """The content of an answer that was ended: the words so far, and why it ended."""
        if control.by is not None:
            done = "".join(f" `{tool}` was finished first." for tool in control.finished)
            return Content(text=f"{said.rstrip()}\n\n_Stopped by {control.by.shown}.{done}_".lstrip())
        why = f"I ended this answer: it took longer than {duration(self._answer_s)}."
        return Content(text=f"{said.rstrip()}\n\n_{why}_".lstrip(), card=go_on)


def _names_run(messages: Sequence[ModelMessage]) -> bool:
    """Whether a run's id stands in what is said or so now."""
    return any(RUN_ID.search(said.text) or RUN_ID.search(said.facts) for said in messages)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _stored(reply: ModelReply, history: Sequence[ModelMessage]) -> ModelMessage:
    return ModelMessage(
        Role.ASSISTANT,
        reply.text,
        with_own_ids(reply.calls, history),
        model=reply.model,
        offers=reply.offers,
        window=reply.window,
        tokens=reply.tokens_in + reply.tokens_out,
        failed_tokens=reply.failed_tokens,
        cost_usd=reply.cost_usd or 0.0,
        seconds=reply.seconds,
        ended_by=reply.ended_by,
    )
