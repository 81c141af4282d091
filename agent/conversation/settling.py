"""Carries decisions out: executes what was approved, answers the call, and shows on the card who decided.

A decision that was stored and then cut off, by a crash or the database's absence, is carried out later. Called by the
approval service.
"""

import json
import logging

from agent.cards import decided_card
from agent.conversation.approval_words import decider
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import CARD_KEY, Approval, ApprovalState
from agent.domain.content import Content
from agent.domain.errors import TransientError
from agent.domain.policy import Effect
from agent.ports import Clock, ModelMessage, Role, ToolCall
from agent.stores import Approvals, Conversations, Turn
from agent.tools.dispatch import UNKNOWN_OUTCOME, Dispatcher, failure_of
from agent.tools.tool import Caller

log = logging.getLogger(__name__)
LEFT_ALONE = "Nothing was done: the run is left alone."
DECIDED = (ApprovalState.APPROVED, ApprovalState.REJECTED, ApprovalState.EXPIRED)


class Settling:
    """Executes each decision once."""

    def __init__(
        self,
        approvals: Approvals,
        conversations: Conversations,
        dispatcher: Dispatcher,
        delivery: OutboxDelivery,
        clock: Clock,
    ) -> None:
        """What it has begun is kept in memory, so that two callers do not carry out one decision."""
        self._approvals = approvals
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._clock = clock
        self._in_hand: set[str] = set()  # decisions that are being carried out now

    async def recover(self) -> list[Turn]:
        """Carry out what was decided and then cut off, by a crash or the database's absence; the turns that go on."""
        going_on: list[Turn] = []
        for approval in await self._approvals.of_state(*DECIDED):
            try:
                turn = await self._conversations.turn(approval.turn_id)
                if await self.carry_out(approval, turn):
                    going_on.append(turn)
            except TransientError as error:
                log.warning("decision waits", extra={"approval": approval.id, "cause": str(error)})
        return going_on

    async def carry_out(self, approval: Approval, turn: Turn) -> bool:
        """Execute what was approved and answer the call; False where another call of this method does, or has done."""
        if approval.id in self._in_hand:
            return False
        self._in_hand.add(approval.id)
        try:
            return await self._settle(approval, turn)
        finally:
            self._in_hand.discard(approval.id)

    async def end(self, approval: Approval, turn: Turn) -> None:
        """Close a question that another one has replaced, with its turn; its card says so."""
        if await self.carry_out(approval, turn):
            last = ModelMessage(Role.ASSISTANT, f"Not done: {approval.reason}.")
            shown = await self._decided(approval)
            await self._conversations.end_turn(turn, last, key=CARD_KEY.format(approval.id), content=shown)

    async def _settle(self, approval: Approval, turn: Turn) -> bool:
        call = ToolCall(approval.call_id, approval.tool, "")
        if approval.state is ApprovalState.APPROVED:
            answer = await self._execute(approval, turn, call)
            if approval.edits:
                answer = _json(json.loads(answer) | {"changed_by_people": approval.edits})
        else:
            answer = self._undone(approval)
        shown = await self._decided(approval)
        if not await self._approvals.settle(approval, call, answer, shown, at=self._clock.now()):
            return False
        self._delivery.wake(turn.thread.key)
        return True

    async def _decided(self, approval: Approval) -> Content:
        """The card of a question with its decision."""
        shown = await self._approvals.card(approval.id)
        if shown.card is None:
            return shown
        at = approval.decided_at or self._clock.now()
        card = decided_card(shown.card, approval.state, by=decider(approval), at=at, reason=approval.reason)
        return Content(text=shown.text, files=shown.files, card=card)

    def _undone(self, approval: Approval) -> str:
        """The answer of a call that was rejected, or that nobody decided in time."""
        about_run = LEFT_ALONE if "run" in approval.arguments else "Nothing was done."
        undone = "Nothing was started." if self._dispatcher.effect(approval.tool) is Effect.SPEND else about_run
        why = {"reason": approval.reason, "by": decider(approval)} if approval.reason else {}
        return _json({"approval": approval.state.value, "text": undone, **why})

    async def _execute(self, approval: Approval, turn: Turn, call: ToolCall) -> str:
        caller = Caller(turn.person, turn.session_id, turn.thread, turn.id)
        once = self._dispatcher.begins_once(approval.tool)
        if once and not await self._conversations.start_call(turn.id, approval.call_id):
            return UNKNOWN_OUTCOME
        try:
            token = f"approval:{approval.id}"
            result = await self._dispatcher.execute(approval.tool, caller, approval.arguments, token)
            return self._dispatcher.answer(approval.tool, result)
        except Exception as error:
            if isinstance(error, TransientError) and not once and self._clock.now() < approval.expires_at:
                raise  # it may have been done: it stays decided, and is repeated with its token until the card expires
            return failure_of(error, call, reads=False)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
