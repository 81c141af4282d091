"""Questions to people: asked with exact arguments, decided by compare-and-set, executed once."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import JsonValue

from agent.cards import decided_card
from agent.commands.typed import changes_of
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import SHOWN_DIGEST_CHARS, Approval, ApprovalState, difference, digest_of, with_edits
from agent.domain.content import REJECT_BECAUSE, Button, Card, Content, Fact
from agent.domain.errors import BadRequest, Conflict, NotAllowed, TransientError
from agent.domain.ids import new_approval_id, new_ulid
from agent.domain.inbound import Person
from agent.domain.policy import Effect, Right, SecondPerson, may_decide
from agent.ports import Clock, ToolCall
from agent.stores import Approvals, Conversations, Turn, TurnKind
from agent.tools.dispatch import Dispatcher, NeedsApproval, failure_of
from agent.tools.members import Members
from agent.tools.tool import Caller, Plan

log = logging.getLogger(__name__)
EDITED = "I planned `{}` anew: {}. Its card shows the new plan, which waits for your decision."
REASON_CHARS = 500
LEFT_ALONE = "Nothing was done: the run is left alone."
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
        *,
        lifetime: timedelta,
        second_person: SecondPerson = SecondPerson.NEVER,
    ) -> None:
        """Approvers among the `members` may decide for others; `second_person` says where they have to."""
        self._approvals = approvals
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._clock = clock
        self._members = members
        self._lifetime = lifetime
        self._second_person = second_person
        self._in_hand: set[str] = set()  # decisions that are being carried out now

    async def ask(self, turn: Turn, call: ToolCall, needed: NeedsApproval) -> None:
        """Store the question and show its card; the turn is paused in the same transaction."""
        now = self._clock.now()
        approval = Approval(
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
        )
        approval = _sealed(approval)
        card = _asking(needed.plan.card, approval, turn)
        await self._approvals.ask(approval, Content(card=card, files=needed.plan.files))
        self._delivery.wake(turn.thread.key)

    async def edit(self, approval_id: str, person: Person, words: Sequence[str]) -> str:
        """Plan an open question's call anew with changes, `epochs=3`, and ask about that instead; what differs.

        The new plan waits for a decision like the first one: nobody has seen it yet.

        Raises:
            AppError: nothing was changed; the text says why.
        """
        approval = await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        await self._check_decider(approval, turn, person)
        now = self._clock.now()
        if approval.state is not ApprovalState.PENDING or approval.expires_at <= now:
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
        shown = Content(card=_asking(card, edited, turn))
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
        """Whether people are being asked about this call already."""
        pending = await self._approvals.of_state(ApprovalState.PENDING)
        return any((asked.turn_id, asked.call_id) == (turn.id, call.id) for asked in pending)

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
        self, approval_id: str, person: Person, *, approve: bool, digest: str | None, reason: str = ""
    ) -> Turn | None:
        """Take one person's decision and carry it out; the turn that goes on now, unless `recover` was quicker.

        `digest` is what the button carried; None where the person typed the id. `reason` is why they reject it.

        Raises:
            NotAllowed, NotFound, Conflict: nothing was done; the text says why.
            TransientError: it is decided and waits, until `expire` or `recover` can carry it out.
        """
        approval = await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        await self._check_decider(approval, turn, person)
        now = self._clock.now()
        decided = await self._approvals.decide(
            approval_id,
            digest=approval.digest[:SHOWN_DIGEST_CHARS] if digest is None else digest,
            state=ApprovalState.APPROVED if approve else ApprovalState.REJECTED,
            by=person.key,
            name=person.shown,
            at=now,
            reason=reason[:REASON_CHARS],
        )
        if decided is None:
            raise Conflict(_why_not(await self._approvals.get(approval_id), now))
        try:
            return turn if await self._carry_out(decided, turn, person.shown) else None
        except TransientError as error:
            stored = "Your decision is stored and is carried out by itself as soon as it can be."
            raise TransientError(f"{stored} What is in the way: {error}") from error

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
        """Close what nobody answered in time, and what is left of earlier decisions; the turns that go on."""
        now = self._clock.now()
        for approval in await self._approvals.of_state(ApprovalState.PENDING):
            if approval.expires_at <= now:
                shown = approval.digest[:SHOWN_DIGEST_CHARS]
                await self._approvals.decide(approval.id, digest=shown, state=ApprovalState.EXPIRED, by="", at=now)
        return await self.recover()

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
            undone = "Nothing was started." if self._dispatcher.effect(call.name) is Effect.SPEND else LEFT_ALONE
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


def _asking(card: Card, approval: Approval, turn: Turn) -> Card:
    """The card of a plan, with buttons to decide about it."""
    shown = approval.digest[:SHOWN_DIGEST_CHARS]
    buttons = (
        Button(action="approve", subject=approval.id, label="Approve", style="primary", digest=shown),
        Button(action="reject", subject=approval.id, label="Reject", style="danger", digest=shown),
        Button(action=REJECT_BECAUSE, subject=approval.id, label="Reject, because…", digest=shown),
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
