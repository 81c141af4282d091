"""Questions to people: asked with exact arguments, decided by compare-and-set, executed once."""

import logging
from datetime import datetime, timedelta

from agent.cards import decided_card
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import SHOWN_DIGEST_CHARS, Approval, ApprovalState, digest_of
from agent.domain.content import Button, Content
from agent.domain.errors import Conflict, NotAllowed, TransientError
from agent.domain.ids import new_approval_id, new_ulid
from agent.domain.inbound import Person
from agent.domain.policy import Effect, may_decide
from agent.ports import Clock, ToolCall
from agent.stores import Approvals, Conversations, Turn
from agent.tools.dispatch import Dispatcher, NeedsApproval, failure_of
from agent.tools.tool import Caller

log = logging.getLogger(__name__)
LEFT_ALONE = "Nothing was done: the run is left alone."
DECIDED = (ApprovalState.APPROVED, ApprovalState.REJECTED, ApprovalState.EXPIRED)


class ApprovalService:
    """Asks, takes decisions, executes. A waiting question is a row, never a waiting coroutine."""

    def __init__(
        self,
        approvals: Approvals,
        conversations: Conversations,
        dispatcher: Dispatcher,
        delivery: OutboxDelivery,
        clock: Clock,
        *,
        approvers: frozenset[str],
        lifetime: timedelta,
    ) -> None:
        """`approvers` are ids of people who may decide for others."""
        self._approvals = approvals
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._clock = clock
        self._approvers = approvers
        self._lifetime = lifetime
        self._in_hand: set[str] = set()  # decisions that are being carried out now

    async def ask(self, turn: Turn, call: ToolCall, needed: NeedsApproval) -> None:
        """Store the question and show its card; the turn is paused in the same transaction."""
        now = self._clock.now()
        expires = now + self._lifetime
        exact = needed.plan.exact
        decides = needed.plan.owner or turn.person.key
        digest = digest_of(
            tool=needed.tool.name,
            arguments=exact,
            requester=decides,
            session_id=turn.session_id,
            expires_at=expires,
            nonce=new_ulid(),
        )
        approval = Approval(
            id=new_approval_id(),
            session_id=turn.session_id,
            turn_id=turn.id,
            call_id=call.id,
            tool=needed.tool.name,
            arguments=exact,
            requester=decides,
            digest=digest,
            state=ApprovalState.PENDING,
            created_at=now,
            expires_at=expires,
        )
        shown = digest[:SHOWN_DIGEST_CHARS]
        card = needed.plan.card.model_copy(
            update={
                "buttons": (
                    Button(action="approve", subject=approval.id, label="Approve", style="primary", digest=shown),
                    Button(action="reject", subject=approval.id, label="Reject", style="danger", digest=shown),
                ),
                "footer": f"{approval.id} · digest {shown} · asked by {turn.person.shown} · "
                f"expires {expires:%Y-%m-%d %H:%M} UTC",
            }
        )
        await self._approvals.ask(approval, Content(card=card, files=needed.plan.files))
        self._delivery.wake(turn.thread.key)

    async def waits(self, turn: Turn, call: ToolCall) -> bool:
        """Whether people are being asked about this call already."""
        pending = await self._approvals.of_state(ApprovalState.PENDING)
        return any((asked.turn_id, asked.call_id) == (turn.id, call.id) for asked in pending)

    async def may_decide(self, approval: Approval, person: Person) -> bool:
        """Whether this question waits for this person."""
        thread = (await self._conversations.turn(approval.turn_id)).thread
        return may_decide(person, requester=approval.requester, approvers=self._approvers, thread=thread)

    async def decide(self, approval_id: str, person: Person, *, approve: bool, digest: str | None) -> Turn | None:
        """Take one person's decision and carry it out; the turn that goes on now, unless `recover` was quicker.

        `digest` is what the button carried; None where the person typed the id.

        Raises:
            NotAllowed, NotFound, Conflict: nothing was done; the text says why.
            TransientError: it is decided and waits, until `expire` or `recover` can carry it out.
        """
        approval = await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        if not await self.may_decide(approval, person):
            who = "who asked" if approval.requester == turn.person.key else "whose run this is"
            raise NotAllowed(f"Only the person {who}, or an approver, can decide this.")
        now = self._clock.now()
        decided = await self._approvals.decide(
            approval_id,
            digest=approval.digest[:SHOWN_DIGEST_CHARS] if digest is None else digest,
            state=ApprovalState.APPROVED if approve else ApprovalState.REJECTED,
            by=person.key,
            name=person.shown,
            at=now,
        )
        if decided is None:
            raise Conflict(_why_not(await self._approvals.get(approval_id), now))
        try:
            return turn if await self._carry_out(decided, turn, person.shown) else None
        except TransientError as error:
            stored = "Your decision is stored and is carried out by itself as soon as it can be."
            raise TransientError(f"{stored} What is in the way: {error}") from error

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
        else:
            undone = "Nothing was started." if self._dispatcher.effect(call.name) is Effect.SPEND else LEFT_ALONE
            answer = f'{{"approval": "{approval.state.value}", "text": "{undone}"}}'
        shown = await self._approvals.card(approval.id)
        if shown.card is not None:
            at = approval.decided_at or self._clock.now()
            shown = Content(
                text=shown.text, files=shown.files, card=decided_card(shown.card, approval.state, by=by, at=at)
            )
        if not await self._approvals.settle(approval, call, answer, shown):
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
