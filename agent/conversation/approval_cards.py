"""The cards of questions: a plan with its budgets and buttons, who has approved it so far, a reminder in time."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from agent.cards import counted
from agent.commands.typed import can_change
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import SHOWN_DIGEST_CHARS, Approval
from agent.domain.budgets import Standing, Unit
from agent.domain.content import ALWAYS, CHANGE, REJECT_BECAUSE, Button, ButtonStyle, Card, Content, Fact
from agent.domain.policy import Effect
from agent.runs.allowances import AllowanceService
from agent.runs.budgets import OF_RUNS, BudgetService
from agent.stores import Approvals, Conversations, Turn
from agent.tools.dispatch import Dispatcher
from agent.tools.tool import Plan

REMINDER = "`{}`{} still waits for a decision. It expires at {}; {} asked."


class ApprovalCards:
    """Makes cards, and changes those that are shown."""

    def __init__(
        self,
        approvals: Approvals,
        conversations: Conversations,
        dispatcher: Dispatcher,
        delivery: OutboxDelivery,
        budgets: BudgetService,
        allowances: AllowanceService,
    ) -> None:
        """`allowances` say whether a kind of job may start without a question from then on."""
        self._approvals = approvals
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._budgets = budgets
        self._allowances = allowances
        self._reminded: set[str] = set()

    async def of(self, plan: Plan, approval: Approval, turn: Turn) -> Card:
        """The card of a plan, with what is left of the budgets, and buttons to decide about it."""
        card, spends = plan.card, self._dispatcher.effect(approval.tool) is Effect.SPEND
        if spends or self._dispatcher.spends_again(approval.tool):
            held = await self._budgets.standings(approval.requester, turn.thread, turn.session_id, OF_RUNS)
            left = (Fact(name="Budget", value=_left_words(held, approval.spec)),) if held else ()
            votes = (Fact(name="Approvals", value=f"0 of {approval.quorum}"),) if approval.quorum > 1 else ()
            card = card.model_copy(update={"facts": (*card.facts, *left, *votes)})
        may_change = spends and not plan.files and can_change(approval.tool)
        may_repeat = spends and approval.spec is not None and self._allowances.in_force
        return _asking(card, approval, turn, may_change=may_change, may_repeat=may_repeat)

    async def show_votes(self, approval: Approval, names: Sequence[str]) -> None:
        """Say on the card who has approved it so far."""
        shown = await self._approvals.card(approval.id)
        if shown.card is None:
            return
        votes = Fact(name="Approvals", value=f"{len(names)} of {approval.quorum}: {', '.join(names)}")
        facts = tuple(votes if fact.name == votes.name else fact for fact in shown.card.facts)
        card = shown.card.model_copy(update={"facts": facts})
        await self._approvals.show(approval.id, shown.model_copy(update={"card": card}))
        turn = await self._conversations.turn(approval.turn_id)
        self._delivery.wake(turn.thread.key)

    async def remind(self, approval: Approval) -> None:
        """Say in the thread that a question still waits; once."""
        if approval.id in self._reminded:
            return
        self._reminded.add(approval.id)
        turn, card = await self._conversations.turn(approval.turn_id), (await self._approvals.card(approval.id)).card
        about = f" ({card.title})" if card else ""
        text = REMINDER.format(approval.id, about, f"{approval.expires_at:%H:%M} UTC", turn.person.shown)
        await self._delivery.put(f"reminder:{approval.id}", turn.thread, Content(text=text), urgent=True)


def _left_words(held: Sequence[Standing], spec: Mapping[str, JsonValue] | None) -> str:
    """What is left of each budget, and what those of money do not count."""
    words = [f"{one.left_words}{_uncounted(one)}" for one in held]
    if spec is not None and spec.get("price_usd") is None and any(one.budget.unit is Unit.USD for one in held):
        words.append("this job has no known price, so no budget of money counts it")
    return "; ".join(words)


def _uncounted(standing: Standing) -> str:
    calls, runs = counted(standing.unpriced, "call"), counted(standing.unpriced_runs, "run")
    named = [words for words, number in ((calls, standing.unpriced), (runs, standing.unpriced_runs)) if number]
    return f" (without {' and '.join(named)} of no known price)" if named else ""


def _asking(card: Card, approval: Approval, turn: Turn, *, may_change: bool, may_repeat: bool) -> Card:
    """The card of a plan, with buttons to decide about it."""
    shown = approval.digest[:SHOWN_DIGEST_CHARS]

    def button(action: str, label: str, style: ButtonStyle = "plain") -> Button:
        return Button(action=action, subject=approval.id, label=label, style=style, digest=shown)

    buttons = (
        button("approve", "Approve", "primary"),
        button("reject", "Reject", "danger"),
        *((button(CHANGE, "Change…"),) if may_change else ()),
        button(REJECT_BECAUSE, "Reject, because…"),
        *((button(ALWAYS, "Always here"),) if may_repeat else ()),
    )
    asked = f"{approval.id} · digest {shown} · asked by {turn.person.shown}"
    footer = f"{asked} · expires {approval.expires_at:%Y-%m-%d %H:%M} UTC"
    return card.model_copy(update={"buttons": buttons, "footer": footer})
