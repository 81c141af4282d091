"""Changes of an open question: its call is planned anew, and people are asked about the new plan instead."""

import json
from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from agent.commands.typed import changes_of
from agent.conversation.approval_cards import ApprovalCards
from agent.conversation.approval_words import why_not
from agent.conversation.deciders import Deciders
from agent.delivery.outbox import OutboxDelivery
from agent.domain.approvals import SHOWN_DIGEST_CHARS, Approval, ApprovalState, difference, sealed, with_edits
from agent.domain.content import Content, Fact
from agent.domain.errors import BadRequest, Conflict
from agent.domain.policy import Effect
from agent.ports import Clock
from agent.stores import Approvals, Conversations, InboxItem, Turn, TurnKind
from agent.tools.dispatch import Dispatcher, NeedsApproval
from agent.tools.tool import Caller, Plan

EDITED = "I planned `{}` anew: {}. Its card shows the new plan, which waits for your decision."


class ApprovalEdits:
    """Makes the new plan and asks about it."""

    def __init__(
        self,
        approvals: Approvals,
        conversations: Conversations,
        dispatcher: Dispatcher,
        delivery: OutboxDelivery,
        clock: Clock,
        deciders: Deciders,
        cards: ApprovalCards,
    ) -> None:
        """Who may decide a question may change it."""
        self._approvals = approvals
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._delivery = delivery
        self._clock = clock
        self._deciders = deciders
        self._cards = cards

    async def edit(self, approval_id: str, item: InboxItem, words: Sequence[str], *, digest: str | None = None) -> str:
        """Plan an open question's call anew with changes, `epochs=3`, and ask about that instead; what differs.

        The new plan waits for a decision like the first one: nobody has seen it yet. `item` asks for it, and ends with
        it; `digest` is what its button carried.

        Raises:
            AppError: nothing was changed; the text says why.
        """
        person, approval = item.inbound.person, await self._approvals.get(approval_id)
        turn = await self._conversations.turn(approval.turn_id)
        mine = approval.model_copy(update={"edited_by": ()})  # who changed it once may do so again
        await self._deciders.check(mine, turn, person)
        now = self._clock.now()
        older = digest is not None and approval.digest[:SHOWN_DIGEST_CHARS] != digest
        if approval.state is not ApprovalState.PENDING or approval.expires_at <= now or older:
            raise Conflict(why_not(approval, now))
        if self._dispatcher.effect(approval.tool) is not Effect.SPEND:
            raise BadRequest("There is nothing to change about this; approve or reject it.")
        edits = with_edits(approval.edits, changes_of(approval.tool, words))
        planned = await self._planned_anew(approval, turn, edits)
        changed = difference(approval.arguments, planned.exact)
        if not changed:
            raise BadRequest("That is what the plan says already; approve or reject it.")
        editors = tuple(dict.fromkeys((*approval.edited_by, person.key)))
        edited = sealed(approval.model_copy(update={"arguments": planned.exact, "edits": edits, "edited_by": editors}))
        fact = Fact(name=f"Changed by {person.shown}", value=", ".join(changed))
        card = planned.card.model_copy(update={"facts": (fact, *planned.card.facts)})
        shown = Content(card=await self._cards.of(replace(planned, card=card), edited, turn))
        if not await self._approvals.edit(edited, shown, digest=approval.digest, by=item, at=now):
            raise Conflict(why_not(await self._approvals.get(approval_id), now))
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
