"""Questions to people: asked with exact arguments, decided by compare-and-set, executed once."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import JsonValue

from agent.cards import decided_card, usd
from agent.commands.typed import can_change, changes_of
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import (
    SHOWN_DIGEST_CHARS,
    Allowance,
    Approval,
    ApprovalState,
    difference,
    digest_of,
    with_edits,
)
from agent.domain.content import ALWAYS, CHANGE, REJECT_BECAUSE, Button, ButtonStyle, Card, Content, Fact
from agent.domain.errors import BadRequest, Conflict, NotAllowed, OverBudget, TransientError
from agent.domain.ids import new_approval_id, new_ulid
from agent.domain.inbound import Person
from agent.domain.policy import Effect, Right, SecondPerson, may_decide
from agent.domain.runs import RunSpec
from agent.ports import Clock, ToolCall
from agent.runs.allowances import AllowanceService
from agent.runs.budgets import OF_RUNS, BudgetService
from agent.stores import Approvals, Conversations, Turn, TurnKind
from agent.tools.dispatch import Dispatcher, NeedsApproval, failure_of
from agent.tools.members import Members
from agent.tools.tool import Caller, Plan

log = logging.getLogger(__name__)
EDITED = "I planned `{}` anew: {}. Its card shows the new plan, which waits for your decision."
REASON_CHARS = 500
LEFT_ALONE = "Nothing was done: the run is left alone."
REMINDED_AT = 0.2  # of its time is left
REMINDER = "`{}`{} still waits for a decision. It expires at {}; {} asked."
DECIDED = (ApprovalState.APPROVED, ApprovalState.REJECTED, ApprovalState.EXPIRED)


class ApprovalService:
    """Asks, takes decisions, executes. A waiting question is a row, never a waiting coroutine."""

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
        self._second_person = second_person
        self._quorum = quorum
        self._in_hand: set[str] = set()  # decisions that are being carried out now
        self._by_itself: set[str] = set()  # turns with a call that was approved by an allowance
        self._reminded: set[str] = set()
        self._spending = asyncio.Lock()  # from the look at what is left to the run that takes it

    async def ask(self, turn: Turn, call: ToolCall, needed: NeedsApproval, *, tainted: bool) -> None:
        """Store the question and show its card; the turn is paused in the same transaction.

        Where an allowance of the thread covers it, it is approved at once: `go_on` carries it out. Not where it is
        `tainted`, since others' words may be behind it.
        """
        now = self._clock.now()
        spends = needed.tool.effect is Effect.SPEND
        approval = _sealed(
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
                quorum=self._quorum if spends else 1,
            )
        )
        async with self._spending:
            covered = None if tainted or not spends else await self._covering(approval, turn)
            if covered is not None:
                approval = approval.model_copy(update={"allowance": covered.id})
            card = await self._card(needed.plan, approval, turn)
            asked = await self._approvals.ask(approval, Content(card=card, files=needed.plan.files))
            if covered is not None and asked:
                await self._approve_by(covered, approval)
                self._by_itself.add(turn.id)
                return
        self._delivery.wake(turn.thread.key)

    async def _covering(self, approval: Approval, turn: Turn) -> Allowance | None:
        """The allowance that lets this be approved by itself."""
        if approval.spec is None:
            return None
        found = await self._allowances.covering(turn.session_id, approval.tool, approval.spec)
        if found is None or Right.LAUNCH not in await self._members.rights(turn.person, turn.thread):
            return None
        try:
            await self._admit(approval, turn)
        except OverBudget:
            return None  # people see it on the card
        return found

    async def _approve_by(self, covered: Allowance, approval: Approval) -> None:
        how = "always here" if covered.tool else f"up to {usd(covered.cap_usd or 0)} here"
        await self._approvals.decide(
            approval.id,
            digest=approval.digest[:SHOWN_DIGEST_CHARS],
            state=ApprovalState.APPROVED,
            by=covered.by,
            name=f"{covered.name}, {how}",
            at=self._clock.now(),
        )

    async def go_on(self, turn: Turn) -> bool:
        """Carry out what was approved by itself in a turn that has just paused; whether the turn goes on."""
        if turn.id not in self._by_itself:
            return False
        self._by_itself.discard(turn.id)
        approved = [one for one in await self._approvals.of_state(ApprovalState.APPROVED) if one.turn_id == turn.id]
        return any([await self._carry_out(one, turn, _decider(one)) for one in approved])

    async def _admit(self, approval: Approval, turn: Turn) -> None:
        """Raises `OverBudget` where it may take more than is left."""
        if approval.spec is not None:
            spec = RunSpec.model_validate(approval.spec)
            await self._budgets.admit(spec, approval.requester, turn.thread, turn.session_id)

    async def _card(self, plan: Plan, approval: Approval, turn: Turn) -> Card:
        """The card of a plan, with what is left of the budgets, and buttons to decide about it."""
        card, spends = plan.card, self._dispatcher.effect(approval.tool) is Effect.SPEND
        if spends:
            held = await self._budgets.standings(approval.requester, turn.thread, turn.session_id, OF_RUNS)
            left = (Fact(name="Budget", value="; ".join(one.words for one in held)),) if held else ()
            votes = (Fact(name="Approvals", value=f"0 of {approval.quorum}"),) if approval.quorum > 1 else ()
            card = card.model_copy(update={"facts": (*card.facts, *left, *votes)})
        may_change = spends and not plan.files and can_change(approval.tool)
        may_repeat = spends and approval.spec is not None and self._allowances.in_force
        return _asking(card, approval, turn, may_change=may_change, may_repeat=may_repeat)

    async def edit(self, approval_id: str, person: Person, words: Sequence[str], *, digest: str | None = None) -> str:
        """Plan an open question's call anew with changes, `epochs=3`, and ask about that instead; what differs.

        The new plan waits for a decision like the first one: nobody has seen it yet. `digest` is what the button
        carried.

        Raises:
            AppError: nothing was changed; the text says why.
        """
        approval = await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        await self._check_decider(approval, turn, person)
        now = self._clock.now()
        older = digest is not None and approval.digest[:SHOWN_DIGEST_CHARS] != digest
        if approval.state is not ApprovalState.PENDING or approval.expires_at <= now or older:
            raise Conflict(_why_not(approval, now))
        if self._dispatcher.effect(approval.tool) is not Effect.SPEND:
            raise BadRequest("There is nothing to change about this; approve or reject it.")
        edits = with_edits(approval.edits, changes_of(approval.tool, words))
        planned = await self._planned_anew(approval, turn, edits)
        changed = difference(approval.arguments, planned.exact)
        if not changed:
            raise BadRequest("That is what the plan says already; approve or reject it.")
        edited = _sealed(approval.model_copy(update={"arguments": planned.exact, "edits": edits}))
        fact = Fact(name=f"Changed by {person.shown}", value=", ".join(changed))
        card = planned.card.model_copy(update={"facts": (fact, *planned.card.facts)})
        shown = Content(card=await self._card(replace(planned, card=card), edited, turn))
        if not await self._approvals.edit(edited, shown, digest=approval.digest, by=person, at=now):
            raise Conflict(_why_not(await self._approvals.get(approval_id), now))
        self._delivery.wake(turn.thread.key)
        return EDITED.format(approval.id, "; ".join(changed))

    async def _planned_anew(self, approval: Approval, turn: Turn, edits: dict[str, JsonValue]) -> Plan:
        """The plan of a question's call with changes. Raises `AppError` where there is none."""
        context = await self._conversations.resume_turn(turn)
        calls = (call for said in reversed(context.history if context else ()) for call in said.calls)
        asked = next((call for call in calls if (call.id, call.name) == (approval.call_id, approval.tool)), None)
        if asked is None:
            raise Conflict("What was asked for is not there any more; ask again instead.")
        call = replace(asked, arguments=json.dumps(with_edits(json.loads(asked.arguments or "{}"), edits)))
        unattended = turn.kind is TurnKind.NOTICED
        caller = Caller(turn.person, turn.session_id, turn.thread, turn.id, unattended=unattended, shared=True)
        needed = await self._dispatcher.call(caller, call)
        if not isinstance(needed, NeedsApproval):
            raise BadRequest(needed.text)
        if needed.plan.files or (await self._approvals.card(approval.id)).files:
            raise BadRequest("This plan is shown in a file, which cannot be changed. Reject it, and ask for another.")
        return needed.plan

    async def waits(self, turn: Turn, call: ToolCall) -> bool:
        """Whether people were asked about this call, so that it is answered by what becomes of that."""
        return await self._approvals.asked(turn.id, call.id)

    async def may_decide(self, approval: Approval, person: Person) -> bool:
        """Whether this question waits for this person."""
        turn = await self._conversations.turn(approval.turn_id)
        if self._needs_another(approval, turn, person):
            return False
        rights = await self._members.rights(person, turn.thread)
        spends = self._dispatcher.effect(approval.tool) is Effect.SPEND
        return may_decide(person, requester=approval.requester, rights=rights, spends=spends)

    def _needs_another(self, approval: Approval, turn: Turn, person: Person) -> bool:
        """Whether this person asked for what somebody else has to decide."""
        return person.key == turn.person.key and self._second_person.needed(self._dispatcher.effect(approval.tool))

    async def decide(
        self,
        approval_id: str,
        person: Person,
        *,
        approve: bool,
        digest: str | None,
        reason: str = "",
        always: bool = False,
    ) -> Turn | None:
        """Take one person's decision and carry it out; the turn that goes on now, unless `recover` was quicker.

        `digest` is what the button carried; None where the person typed the id. `reason` is why they reject it;
        `always` lets its kind of job start without asking from then on.

        Raises:
            NotAllowed, NotFound, Conflict, OverBudget: nothing was done; the text says why.
            TransientError: it is decided and waits, until `expire` or `recover` can carry it out.
        """
        approval = await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        await self._check_decider(approval, turn, person)
        if always and (self._dispatcher.effect(approval.tool) is not Effect.SPEND or not self._allowances.in_force):
            raise BadRequest("This is asked about every time; approve or reject it.")
        digest = approval.digest[:SHOWN_DIGEST_CHARS] if digest is None else digest
        takes = approve and approval.spec is not None
        async with self._spending if takes else contextlib.nullcontext():
            if takes and approval.state is ApprovalState.PENDING:
                await self._admit(approval, turn)
            decided = await self._decided(approval, person, approve=approve, digest=digest, reason=reason)
            if decided is None:
                return None
            if always:
                await self._allowances.allow(turn.session_id, person, tool=approval.tool)
            try:
                return turn if await self._carry_out(decided, turn, _decider(decided)) else None
            except TransientError as error:
                stored = "Your decision is stored and is carried out by itself as soon as it can be."
                raise TransientError(f"{stored} What is in the way: {error}") from error

    async def _decided(
        self, approval: Approval, person: Person, *, approve: bool, digest: str, reason: str
    ) -> Approval | None:
        """The question once it is decided; None where others have to approve it too. Raises `Conflict`."""
        now, name = self._clock.now(), person.shown
        if approve and approval.quorum > 1:
            names = await self._approvals.vote(approval.id, person, digest=digest, at=now)
            if not names:
                raise Conflict(_why_not(await self._approvals.get(approval.id), now))
            if len(names) < approval.quorum:
                await self._show_votes(approval, names)
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
        )
        if decided is None:
            raise Conflict(_why_not(await self._approvals.get(approval.id), now))
        return decided

    async def _show_votes(self, approval: Approval, names: Sequence[str]) -> None:
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

    async def _check_decider(self, approval: Approval, turn: Turn, person: Person) -> None:
        """Raises `NotAllowed` for whom this question does not wait."""
        if self._needs_another(approval, turn, person):
            known = self._members.who(Right.APPROVE)
            raise NotAllowed(f"You asked for this, so somebody else decides it: an approver ({known}).")
        if not await self.may_decide(approval, person):
            if person.key == approval.requester and not person.external:
                raise NotAllowed(
                    "You may ask for what costs, but not start it: an approver decides "
                    f"({self._members.who(Right.APPROVE)})."
                )
            who = "who asked" if approval.requester == turn.person.key else "whose run this is"
            raise NotAllowed(f"Only the person {who}, or an approver, can decide this.")

    async def recover(self) -> list[Turn]:
        """Carry out what was decided and then cut off, by a crash or the database's absence; the turns that go on."""
        left = await self._approvals.of_state(*DECIDED)
        going_on: list[Turn] = []
        for approval in left:
            try:
                turn = await self._conversations.turn(approval.turn_id)
                if await self._carry_out(approval, turn, _decider(approval)):
                    going_on.append(turn)
            except TransientError as error:
                log.warning("decision waits", extra={"approval": approval.id, "cause": str(error)})
        return going_on

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
                await self._remind(approval)
        return await self.recover()

    async def _remind(self, approval: Approval) -> None:
        if approval.id in self._reminded:
            return
        self._reminded.add(approval.id)
        turn, card = await self._conversations.turn(approval.turn_id), (await self._approvals.card(approval.id)).card
        about = f" ({card.title})" if card else ""
        text = REMINDER.format(approval.id, about, f"{approval.expires_at:%H:%M} UTC", turn.person.shown)
        await self._delivery.put(f"reminder:{approval.id}", turn.thread, Content(text=text), urgent=True)

    async def _carry_out(self, approval: Approval, turn: Turn, by: str) -> bool:
        """Whether this call settled it. Of two for one decision one does; what is in hand is left to whoever has it."""
        if approval.id in self._in_hand:
            return False
        self._in_hand.add(approval.id)
        try:
            return await self._settle(approval, turn, by)
        finally:
            self._in_hand.discard(approval.id)

    async def _settle(self, approval: Approval, turn: Turn, by: str) -> bool:
        call = ToolCall(approval.call_id, approval.tool, "")
        if approval.state is ApprovalState.APPROVED:
            answer = await self._execute(approval, turn, call)
            if approval.edits:
                answer = _json(json.loads(answer) | {"changed_by_people": approval.edits})
        else:
            about_run = LEFT_ALONE if "run" in approval.arguments else "Nothing was done."
            undone = "Nothing was started." if self._dispatcher.effect(call.name) is Effect.SPEND else about_run
            why = {"reason": approval.reason, "by": by} if approval.reason else {}
            answer = _json({"approval": approval.state.value, "text": undone, **why})
        shown = await self._approvals.card(approval.id)
        if shown.card is not None:
            at = approval.decided_at or self._clock.now()
            card = decided_card(shown.card, approval.state, by=by, at=at, reason=approval.reason)
            shown = Content(text=shown.text, files=shown.files, card=card)
        if not await self._approvals.settle(approval, call, answer, shown, at=self._clock.now()):
            return False
        self._delivery.wake(turn.thread.key)
        return True

    async def _execute(self, approval: Approval, turn: Turn, call: ToolCall) -> str:
        caller = Caller(turn.person, turn.session_id, turn.thread, turn.id)
        try:
            token = f"approval:{approval.id}"
            result = await self._dispatcher.execute(approval.tool, caller, approval.arguments, token)
            return self._dispatcher.answer(approval.tool, result)
        except Exception as error:
            if isinstance(error, TransientError) and self._clock.now() < approval.expires_at:
                raise  # it may have been done: it stays decided, and is repeated with its token until the card expires
            return failure_of(error, call)


def _sealed(approval: Approval) -> Approval:
    """The question with a new digest over what it asks."""
    digest = digest_of(
        tool=approval.tool,
        arguments=approval.arguments,
        requester=approval.requester,
        session_id=approval.session_id,
        expires_at=approval.expires_at,
        nonce=new_ulid(),
    )
    return approval.model_copy(update={"digest": digest})


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


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _decider(approval: Approval) -> str:
    return approval.decided_name or (approval.decided_by or "").rpartition("/")[2]


def _why_not(approval: Approval, now: datetime) -> str:
    who = _decider(approval)
    match approval.state:
        case ApprovalState.PENDING if approval.expires_at <= now:
            return "This question has expired; nothing was done. Ask again to get a new card."
        case ApprovalState.PENDING:
            return "This card shows an older version of the question; nothing was done. Use the newest card."
        case _ if not who:
            return "This question had expired; nothing was done. Ask again to get a new card."
        case ApprovalState.APPROVED:
            return f"This was approved by {who} and is carried out as soon as it can be; nobody has to ask again."
        case ApprovalState.REJECTED:
            return f"This was rejected by {who} before; nothing was done."
        case _:
            return f"This was decided by {who} before; nothing was done twice."
