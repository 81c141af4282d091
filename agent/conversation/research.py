"""The tool `research`: the chain of models, in a context of its own, reads and reports.

It keeps much reading out of the conversation. Its calls go through the same dispatcher as all others, and it is given
only tools that read. Nothing of it is stored but its report, its costs and its card: after a restart it begins anew.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import Field

from agent.cards import counted, usd
from agent.conversation.bills import Bills
from agent.conversation.context import Conversation, estimated_tokens
from agent.conversation.facts import FactsInWords
from agent.conversation.guards import TurnLimits, circles, note_on, reached
from agent.conversation.prompt import RESEARCH
from agent.conversation.tool_calls import with_own_ids
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Card, Content, Tone
from agent.domain.errors import AppError, NotAllowed, OverBudget, TooLong, Unavailable
from agent.domain.inbound import one_line
from agent.domain.policy import Effect
from agent.domain.session_events import TOOL_CARD_KEY
from agent.ports import OFFLINE, Model, ModelMessage, ModelOf, ModelReply, Role, ToolCall, ToolSchema
from agent.runs.budgets import BudgetService
from agent.stores import Conversations, Turn
from agent.tools.dispatch import Dispatcher, failure_of
from agent.tools.tool import Arguments, Caller, Result, Tool

NAME = "research"
NOT_BELOW = frozenset({NAME, "read_more"})  # it has no stored results to read on in, and starts no other
STEPS, SHARE, MINUTES = 25, 0.25, 10.0  # the most steps; of a turn's tokens and money; and minutes
REPORT_MINUTES = 5.0  # for the step at work after that, and the report
FULL_SHARE = 0.6  # of the window; then it reports
REPORT_NOW = "{} Write the report now, from what you have found, and say what is missing. Call no tool."
FULL = "What you have read fills your context."
NO_MODEL = "No language model answers now, so nobody can look into it."
NOT_ONE = "`{}` is none of your tools: you only read."
NOTHING_SAID = "It ended without a report."
FAILED = "It ended without a report. {}"


class ResearchArguments(Arguments):
    question: str = Field(
        min_length=1,
        max_length=2_000,
        description="complete: only files and runs are known besides",
        examples=["Which of the runs of this channel overfit, and what do they share?"],
    )


@dataclass(slots=True)
class _Inquiry:
    """One question, while it is looked into."""

    caller: Caller
    turn: Turn
    question: str
    facts: str
    said: list[ModelMessage]
    used: Counter[str] = field(default_factory=Counter)
    tokens: int = 0  # what it has read and written, and what that cost as far as prices are known
    cost_usd: float = 0.0

    @property
    def post(self) -> str:
        """The name of its card within the turn."""
        return f"{NAME}-{hashlib.sha256(self.question.encode()).hexdigest()[:12]}"

    @property
    def key(self) -> str:
        """The key of its card."""
        return TOOL_CARD_KEY.format(self.turn.id, self.post)

    @property
    def steps(self) -> Sequence[ModelMessage]:
        """The model's replies so far."""
        return [said for said in self.said if said.role is Role.ASSISTANT]

    def read(self, why: str) -> list[ModelMessage]:
        """What the model reads: its task, what it found and, where it must report now, `why`."""
        end = [ModelMessage(Role.USER, REPORT_NOW.format(why))] if why else []
        *before, last = [ModelMessage(Role.SYSTEM, RESEARCH), *self.said, *end]
        return [*before, replace(last, facts=self.facts)]

    def card(self, done: str, tone: Tone) -> Card:
        """What people see of it."""
        tools = ", ".join(f"`{name}` {count}×" if count > 1 else f"`{name}`" for name, count in self.used.items())
        cost = f" · {usd(self.cost_usd)}" if self.cost_usd else ""
        footer = f"{counted(len(self.steps), 'step')}{cost}" if self.steps else ""
        body = f"_{one_line(self.question)}_" + (f"\n{tools}" if tools else "")
        return Card(kind="notice", title=f"{done} a question", tone=tone, body=body, footer=footer)


class Research:
    """The family of this tool."""

    def __init__(  # noqa: PLR0913 - like the turn loop, it joins these parts
        self,
        dispatcher: Dispatcher,
        conversations: Conversations,
        model_of: ModelOf,
        facts: FactsInWords,
        bills: Bills,
        budgets: BudgetService,
        delivery: OutboxDelivery,
        *,
        limits: TurnLimits,
        window: int,
    ) -> None:
        """`limits` are those of a turn, of which it may use a part; `window` is of models whose own is not known."""
        self._dispatcher = dispatcher
        self._conversations = conversations
        self._model_of = model_of
        self._facts = facts
        self._bills = bills
        self._budgets = budgets
        self._delivery = delivery
        self._limits = TurnLimits(STEPS, int(limits.tokens * SHARE), limits.usd * SHARE, MINUTES)
        self._window = window
        self._at_work: dict[str, list[_Inquiry]] = {}  # by turn

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        return (
            Tool(
                NAME,
                "A report on what needs much reading (many logs, runs, pages), apart from this conversation.",
                ResearchArguments,
                Effect.READ,
                run=self.look_into,
                limit_s=60 * (MINUTES + REPORT_MINUTES),
            ),
        )

    async def look_into(self, caller: Caller, asked: ResearchArguments) -> Result:
        """The report on a question, or why it ended without one, with what it cost by then.

        Raises:
            AppError: it could not begin: no language model answers, or the person's budgets are used up.
        """
        context = await self._conversations.context(caller.session_id)
        turn = Turn(caller.turn_id, caller.session_id, 0, caller.thread, caller.person)
        facts = await self._facts.read(turn, Conversation.of(context))
        inquiry = _Inquiry(caller, turn, asked.question, facts.words, [ModelMessage(Role.USER, asked.question)])
        unused, at_work = list[ModelReply](), self._at_work.setdefault(turn.id, [])
        at_work.append(inquiry)
        try:
            report = await self._report(inquiry, self._model_of(context.preference, unused.append))
            card = inquiry.card("Looked into", "good")
        except BaseException as error:
            card = inquiry.card("Stopped looking into", "neutral")
            if not (isinstance(error, AppError) and inquiry.steps):
                await self._show(inquiry, card)
                raise
            report = FAILED.format(error.text)
        finally:
            at_work.remove(inquiry)
            if not at_work:
                self._at_work.pop(turn.id, None)
            for reply in unused:
                await self._bills.add(turn, reply)
        return Result(
            report,
            {"steps": len(inquiry.steps), "looked_at": dict(inquiry.used)},
            card,
            post=inquiry.post,
            tokens=inquiry.tokens,
            cost_usd=inquiry.cost_usd,
        )

    async def _report(self, inquiry: _Inquiry, model: Model) -> str:
        """Ask and carry out calls until the report."""
        now_s = asyncio.get_running_loop().time
        begun_s = now_s()
        while True:
            turn = inquiry.turn
            if refusal := await self._budgets.refusal(turn.person.key, turn.thread, turn.session_id):
                raise OverBudget(refusal)
            tools = [one for one in self._dispatcher.schemas(inquiry.said) if self._is_for_it(one.name)]
            why = self._must_end(inquiry, seconds=now_s() - begun_s)
            reply = await self._ask(inquiry, model, () if why else tools, why)
            if why or not reply.calls:
                return reply.text or NOTHING_SAID
            inquiry.used.update(call.name for call in reply.calls)
            await self._show(inquiry, inquiry.card("Looking into", "busy"))
            results = await asyncio.gather(*(self._call(inquiry, call) for call in inquiry.said[-1].calls))
            inquiry.said += results
            note = note_on(inquiry.said, self._dispatcher.polls)
            inquiry.said[-1] = replace(inquiry.said[-1], note=note)

    def _is_for_it(self, name: str) -> bool:
        """Whether it is a tool that reads, and needs neither people nor the stored conversation."""
        return self._dispatcher.reads_alone(name) and self._dispatcher.offered(name) and name not in NOT_BELOW

    def _must_end(self, inquiry: _Inquiry, *, seconds: float) -> str:
        """Why it has to report now; empty while it may go on."""
        window = next((said.window for said in reversed(inquiry.said) if said.window), self._window)
        full = FULL if estimated_tokens(inquiry.said) > FULL_SHARE * window else ""
        others = [one for one in self._at_work[inquiry.turn.id] if one is not inquiry]
        spent = [ModelMessage(Role.TOOL, "", tokens=one.tokens, cost_usd=one.cost_usd) for one in others]
        return (
            full
            or circles(inquiry.said, self._dispatcher.polls)
            or reached(self._limits, [*spent, *inquiry.said], seconds=seconds)
        )

    async def _ask(self, inquiry: _Inquiry, model: Model, tools: Sequence[ToolSchema], why: str) -> ModelReply:
        """The model's next reply, paid for and kept; what overflows its window is left out once.

        Raises:
            Unavailable: the rules answered.
            TooLong: the question alone is too long.
        """
        try:
            reply = await _whole(model, inquiry.read(why), tools)
        except TooLong:
            last = max((number for number, said in enumerate(inquiry.said) if said.calls), default=0)
            if not last:
                raise
            del inquiry.said[last:]
            reply = await _whole(model, inquiry.read(FULL), ())
        await self._bills.add(inquiry.turn, reply)
        inquiry.tokens += reply.tokens_in + reply.tokens_out
        inquiry.cost_usd += reply.cost_usd or 0.0
        if reply.model == OFFLINE:
            raise Unavailable(NO_MODEL)
        inquiry.said.append(
            ModelMessage(
                Role.ASSISTANT,
                reply.text,
                with_own_ids(reply.calls, inquiry.said),
                model=reply.model,
                window=reply.window,
                tokens=reply.tokens_in + reply.tokens_out,
                cost_usd=reply.cost_usd or 0.0,
            )
        )
        return reply

    async def _call(self, inquiry: _Inquiry, call: ToolCall) -> ModelMessage:
        """What a call gave, as the model reads it; a failing one answers with its error."""
        try:
            answer = self._dispatcher.answer(call.name, await self._result(inquiry.caller, call))
        except Exception as error:  # noqa: BLE001 - a failing tool answers its call; the research goes on
            answer = failure_of(error, call, reads=True)
        return ModelMessage(Role.TOOL, answer, call_id=call.id)

    async def _result(self, caller: Caller, call: ToolCall) -> Result:
        """What a tool that only reads gave. Raises `NotAllowed` for any other, and what the tool raises."""
        result = await self._dispatcher.call(caller, call) if self._is_for_it(call.name) else None
        if not isinstance(result, Result):
            raise NotAllowed(NOT_ONE.format(call.name))
        return result

    async def _show(self, inquiry: _Inquiry, card: Card) -> None:
        await self._delivery.put(inquiry.key, inquiry.turn.thread, Content(card=card))


async def _whole(model: Model, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> ModelReply:
    """A model's whole reply. Raises `Unavailable` where none comes, and what the model raises."""
    async for piece in model.stream(messages, tools):
        if isinstance(piece, ModelReply):
            return piece
    raise Unavailable("The language model ended without an answer.")
