"""Questions to people: asked with exact arguments, decided by compare-and-set, executed once.

Who may decide is in `deciders`, what is shown in `approval_cards`, changes of a plan are in `approval_edits`, and what
follows a decision is in `settling`. Called by tool calls, decisions, turns and the inbox router.
"""

import contextlib
from collections.abc import Sequence
from datetime import timedelta

from agent.cards import usd
from agent.conversation.approval_cards import ApprovalCards
from agent.conversation.approval_edits import ApprovalEdits
from agent.conversation.approval_words import why_not
from agent.conversation.deciders import Deciders
from agent.conversation.settling import Settling
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import INSTEAD, SHOWN_DIGEST_CHARS, Allowance, Approval, ApprovalState, sealed
from agent.domain.content import Content
from agent.domain.errors import BadRequest, Conflict, OverBudget, TransientError
from agent.domain.ids import new_approval_id
from agent.domain.inbound import Person
from agent.domain.policy import Effect, Right, SecondPerson
from agent.domain.runs import RunSpec
from agent.ports import Clock, ToolCall
from agent.runs.affording import Affording
from agent.runs.allowances import AllowanceService
from agent.runs.budgets import BudgetService
from agent.stores import Approvals, Conversations, InboxItem, Turn, TurnKind
from agent.tools.dispatch import Dispatcher, NeedsApproval
from agent.tools.members import Members

AWAY = "The server that has `{}` is not connected now. Approve it once it is back, or reject it."
REASON_CHARS = 500
REMINDED_AT = 0.2  # of its time is left


class ApprovalService:
    """Asks and takes decisions. A waiting question is a row, never a waiting coroutine."""

    def __init__(  # noqa: PLR0913 - the service joins these parts
        self,
        approvals: Approvals,
        conversations: Conversations,
        dispatcher: Dispatcher,
        delivery: OutboxDelivery,
        clock: Clock,
        members: Members,
        budgets: BudgetService,
        allowances: AllowanceService,
        affording: Affording,
        *,
        lifetime: timedelta,
        second_person: SecondPerson = SecondPerson.NEVER,
        quorum: int = 1,
    ) -> None:
        """Approvers among the `members` may decide for others; `second_person` says where they have to.

        `quorum` is how many people have to approve what spends.
        """
        self._approvals = approvals
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._clock = clock
        self._members = members
        self._budgets = budgets
        self._allowances = allowances
        self._lifetime = lifetime
        self._quorum = quorum
        self._deciders = Deciders(conversations, dispatcher, members, second_person)
        self._cards = ApprovalCards(approvals, conversations, dispatcher, delivery, budgets, allowances)
        self._settling = Settling(approvals, conversations, dispatcher, delivery, clock)
        self._edits = ApprovalEdits(approvals, conversations, dispatcher, delivery, clock, self._deciders, self._cards)
        self._by_itself: set[str] = set()  # turns with a call that was approved by an allowance
        self._spending = affording.spending

    async def ask(self, turn: Turn, call: ToolCall, needed: NeedsApproval, *, tainted: bool) -> None:
        """Store the question and show its card; the turn is paused in the same transaction.

        Where an allowance of the thread covers it, it is approved at once: `go_on` carries it out. Not where it is
        `tainted`, since others' words may be behind it.
        """
        approval = self._question(turn, call, needed)
        may_spend = needed.tool.effect is Effect.SPEND and not tainted
        async with self._spending:
            covered = await self._covering(approval, turn) if may_spend else None
            if covered is not None:
                approval = _approved_by(covered, approval)
            card = await self._cards.of(needed.plan, approval, turn)
            asked = await self._approvals.ask(approval, Content(card=card, files=needed.plan.files))
            if covered is not None and asked:
                self._by_itself.add(turn.id)
        if needed.plan.instead and turn.kind is not TurnKind.NOTICED:
            await self._replace_by(approval, turn)
        if turn.id not in self._by_itself:
            self._delivery.wake(turn.thread.key)

    async def _replace_by(self, new: Approval, turn: Turn) -> None:
        """Close the newest of this tool's questions that wait here, if the same person was asked, and end its turn."""
        asked = [
            one
            for one in await self._approvals.of_state(ApprovalState.PENDING)
            if one.turn_id != new.turn_id and (one.session_id, one.tool) == (new.session_id, new.tool)
        ]
        if not asked or asked[-1].requester != new.requester:
            return
        decided = await self._approvals.decide(
            asked[-1].id,
            digest=asked[-1].digest[:SHOWN_DIGEST_CHARS],
            state=ApprovalState.REJECTED,
            by=turn.person.key,
            name=turn.person.shown,
            at=self._clock.now(),
            reason=f"`{new.id}`{INSTEAD}",
        )
        if decided is not None:
            await self._settling.end(decided, await self._conversations.turn(decided.turn_id))

    async def same(self, turn: Turn, needed: NeedsApproval) -> Approval | None:
        """The question that waits already and asks for exactly this; a second card would hide it."""
        asks = self._question(turn, ToolCall("", needed.tool.name, ""), needed)
        for one in await self._approvals.of_state(ApprovalState.PENDING):
            about = (one.session_id, one.tool, one.requester, one.arguments)
            if about == (asks.session_id, asks.tool, asks.requester, asks.arguments):
                return one
        return None

    def _question(self, turn: Turn, call: ToolCall, needed: NeedsApproval) -> Approval:
        now = self._clock.now()
        return sealed(
            Approval(
                id=new_approval_id(),
                session_id=turn.session_id,
                turn_id=turn.id,
                call_id=call.id,
                tool=needed.tool.name,
                arguments=needed.plan.exact,
                requester=needed.plan.owner or turn.person.key,
                digest="",
                state=ApprovalState.PENDING,
                created_at=now,
                expires_at=now + self._lifetime,
                quorum=self._quorum if needed.tool.effect is Effect.SPEND else 1,
            )
        )

    async def _covering(self, approval: Approval, turn: Turn) -> Allowance | None:
        """The allowance that lets this be approved by itself."""
        if approval.spec is None:
            return None
        found = await self._allowances.covering(turn.thread, approval.tool, approval.spec)
        if found is None or Right.LAUNCH not in await self._members.rights(turn.person, turn.thread):
            return None
        try:
            await self._admit(approval, turn)
        except OverBudget:
            return None  # people see it on the card
        return found

    async def go_on(self, turn: Turn) -> bool:
        """Carry out what was approved by itself in a turn that has just paused; whether the turn goes on."""
        if turn.id not in self._by_itself:
            return False
        self._by_itself.discard(turn.id)
        approved = [one for one in await self._approvals.of_state(ApprovalState.APPROVED) if one.turn_id == turn.id]
        return any([await self._settling.carry_out(one, turn) for one in approved])

    async def _admit(self, approval: Approval, turn: Turn) -> None:
        """Raises `OverBudget` where it may take more than is left."""
        if approval.spec is not None:
            spec = RunSpec.model_validate(approval.spec)
            await self._budgets.admit(spec, approval.requester, turn.thread, turn.session_id)

    async def waits(self, turn: Turn, call: ToolCall) -> bool:
        """Whether people were asked about this call, so that it is answered by what becomes of that."""
        return await self._approvals.asked(turn.id, call.id)

    async def may_decide(self, approval: Approval, person: Person) -> bool:
        """Whether this question waits for this person."""
        return await self._deciders.may(approval, person)

    def takes_long(self, approval: Approval) -> bool:
        """Whether somebody else's server carries this out."""
        return self._dispatcher.begins_once(approval.tool)

    async def edit(self, approval_id: str, item: InboxItem, words: Sequence[str], *, digest: str | None = None) -> str:
        """Ask about a changed plan instead; see `ApprovalEdits.edit`."""
        return await self._edits.edit(approval_id, item, words, digest=digest)

    async def decide(
        self,
        approval_id: str,
        item: InboxItem,
        *,
        approve: bool,
        digest: str | None,
        reason: str = "",
        always: bool = False,
    ) -> Turn | None:
        """Take one person's decision and carry it out; the turn that goes on now, unless `recover` was quicker.

        `item` decides it, and ends with the decision. `digest` is what its button carried; None where the person typed
        the id. `reason` is why they reject it; `always` lets its kind of job start without asking from then on.

        Raises:
            NotAllowed, NotFound, Conflict, OverBudget: nothing was done; the text says why.
            TransientError: it is decided and waits, until `expire` or `recover` can carry it out.
        """
        person, approval = item.inbound.person, await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        if approve and not self._dispatcher.knows(approval.tool):
            raise Conflict(AWAY.format(approval.tool))
        await self._deciders.check(approval, turn, person)
        spends = self._dispatcher.effect(approval.tool) is Effect.SPEND
        if always and not (spends and approval.spec is not None and self._allowances.in_force):
            raise BadRequest("This is asked about every time; approve or reject it.")
        digest = approval.digest[:SHOWN_DIGEST_CHARS] if digest is None else digest
        takes = approve and approval.spec is not None
        async with self._spending if takes else contextlib.nullcontext():
            if takes and approval.state is ApprovalState.PENDING:
                await self._admit(approval, turn)
            lets = self._allowances.new(turn.thread, person, tool=approval.tool) if always else None
            decided = await self._decided(approval, item, approve=approve, digest=digest, reason=reason, lets=lets)
            if decided is None:
                return None
            try:
                return turn if await self._settling.carry_out(decided, turn) else None
            except TransientError as error:
                stored = "Your decision is stored and is carried out by itself as soon as it can be."
                raise TransientError(f"{stored} What is in the way: {error}") from error

    async def _decided(
        self, approval: Approval, item: InboxItem, *, approve: bool, digest: str, reason: str, lets: Allowance | None
    ) -> Approval | None:
        """The question once it is decided; None where others have to approve it too. Raises `Conflict`."""
        now, person = self._clock.now(), item.inbound.person
        name = person.shown
        if approve and approval.quorum > 1:
            names = await self._approvals.vote(approval.id, person, digest=digest, at=now)
            if not names:
                raise Conflict(why_not(await self._approvals.get(approval.id), now))
            if len(names) < approval.quorum:
                await self._cards.show_votes(approval, names)
                return None
            name = " and ".join(names)
        decided = await self._approvals.decide(
            approval.id,
            digest=digest,
            state=ApprovalState.APPROVED if approve else ApprovalState.REJECTED,
            by=person.key,
            name=name,
            at=now,
            reason=reason[:REASON_CHARS],
            lets=lets,
            item_id=item.id,
        )
        if decided is None:
            raise Conflict(why_not(await self._approvals.get(approval.id), now))
        return decided

    async def recover(self) -> list[Turn]:
        """Carry out what was decided and then cut off; the turns that go on."""
        return await self._settling.recover()

    async def expire(self) -> list[Turn]:
        """Close what nobody answered in time, and what is left of earlier decisions; the turns that go on.

        Of a question that has used up most of its time people are reminded once.
        """
        now = self._clock.now()
        for approval in await self._approvals.of_state(ApprovalState.PENDING):
            if approval.expires_at <= now:
                shown = approval.digest[:SHOWN_DIGEST_CHARS]
                await self._approvals.decide(approval.id, digest=shown, state=ApprovalState.EXPIRED, by="", at=now)
            elif approval.expires_at - now <= (approval.expires_at - approval.created_at) * REMINDED_AT:
                await self._cards.remind(approval)
        return await self.recover()


def _approved_by(covered: Allowance, approval: Approval) -> Approval:
    """The question as an allowance answers it."""
    how = "always here" if covered.tool else f"up to {usd(covered.cap_usd or 0)} here"
    return approval.model_copy(
        update={
            "allowance": covered.id,
            "state": ApprovalState.APPROVED,
            "decided_by": covered.by,
            "decided_name": f"{covered.name}, {how}",
            "decided_at": approval.created_at,
        }
    )
