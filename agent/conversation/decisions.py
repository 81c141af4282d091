"""Decisions of people about approvals, clicked or typed.

A typed `yes` or `reject a-…` decides only a card that its author can have seen, and only for whom it waits. Everything
else is asked about with buttons, whose digest says what was seen. Called by the inbox router.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

from agent.commands.typed import Decision, decision_of
from agent.conversation.approvals import ApprovalService
from agent.conversation.replies import Replies
from agent.domain.approvals import AGAIN_KEY, CARD_KEY, SHOWN_DIGEST_CHARS, Approval, ApprovalState
from agent.domain.content import ALWAYS, CHANGE, REJECT_BECAUSE, Button, Card, Content, Fact
from agent.domain.errors import BadRequest, NotAllowed
from agent.domain.inbound import Clicked, Inbound, Thread
from agent.ports import ChatAdapter
from agent.stores import InboxItem, PostState, Stores, Turn

SHOWING_S, SHOWING_TRIES = 0.05, 60  # a card that is just being posted is waited for
CLICKS = frozenset({"approve", "reject", ALWAYS, REJECT_BECAUSE, CHANGE})
READING = timedelta(seconds=5)  # after which a card that was changed counts as seen
MOST_LISTED = 5
LINE_CHARS = 300
NOT_SURE = "Do you approve this?"
NOT_SEEN = "You wrote that before this was shown."


class Decisions:
    """Reads decisions and takes them."""

    def __init__(
        self,
        stores: Stores,
        approvals: ApprovalService,
        adapters: Mapping[str, ChatAdapter],
        replies: Replies,
        *,
        go_on: Callable[[Turn], None],
    ) -> None:
        """`adapters` know when a card was shown; `go_on` gets a turn that waited for a decision."""
        self._stores = stores
        self._approvals = approvals
        self._adapters = adapters
        self._replies = replies
        self._go_on = go_on

    async def take_typed(self, item: InboxItem, words: Sequence[str]) -> None:
        """Take a decision that was typed, or ask which one is meant.

        Raises:
            BadRequest, NotAllowed, NotFound: there is no such question, or it is not for this person.
        """
        said = decision_of(words)
        meant = await self._meant(item.inbound, said)
        if isinstance(meant, Approval) and said.changes:
            text = await self._approvals.edit(meant.id, item, said.changes)
            await self._replies.answer(item, Content(text=text))
        elif isinstance(meant, Approval):
            turn = await self._approvals.decide(
                meant.id, item, approve=said.approve, digest=None, reason=said.reason, always=said.always
            )
            self._hand(turn)
        elif meant is not None:
            await self._replies.answer(item, meant, key=AGAIN_KEY)

    async def click(self, item: InboxItem, click: Clicked) -> None:
        """Decide an approval, or change what it asks.

        Raises:
            BadRequest: the dialog was sent without text.
        """
        text = " ".join(click.text.split())
        if click.action == CHANGE:
            if not text:
                raise BadRequest(f"Say what is different in the thread: `approve {click.subject} with epochs=3`.")
            said = await self._approvals.edit(click.subject, item, text.split(), digest=click.digest)
            await self._replies.whisper(item, said)
            return
        if click.action == REJECT_BECAUSE and not text:
            raise BadRequest(f"Say why in the thread: `reject {click.subject} because …`.")
        turn = await self._approvals.decide(
            click.subject,
            item,
            approve=click.action in {"approve", ALWAYS},
            digest=click.digest,
            reason=text,
            always=click.action == ALWAYS,
        )
        self._hand(turn)

    def _hand(self, turn: Turn | None) -> None:
        if turn is not None:
            self._go_on(turn)

    async def may_take_long(self, thread: Thread) -> bool:
        """Whether a decision here may have somebody else's server carry it out, which takes as long as that likes."""
        return any(self._approvals.takes_long(approval) for approval in await self.open_in(thread))

    async def open_in(self, thread: Thread) -> list[Approval]:
        """The open questions of a thread, oldest first."""
        session_id = await self._stores.conversations.session_of(thread, create=False)
        pending = await self._stores.approvals.of_state(ApprovalState.PENDING)
        return [approval for approval in pending if approval.session_id == session_id]

    async def _meant(self, inbound: Inbound, said: Decision) -> Approval | Content | None:
        """Which question a decision is about; a card that asks for it; None where it was not for the bot.

        Raises:
            BadRequest, NotAllowed, NotFound: there is no such question, or it is not for this person.
        """
        if said.approval_id:
            approval = await self._stores.approvals.get(said.approval_id)
            return (
                approval
                if said.changes or await self._counts(inbound, approval)
                else await self._asked_again([approval], NOT_SEEN)
            )
        found = await self.open_in(inbound.thread)
        own = [approval for approval in found if await self._approvals.may_decide(approval, inbound.person)]
        if inbound.to_others or (found and not own and not inbound.mentions_bot):
            return None  # said to a colleague
        if not found:
            raise BadRequest("No question is open in this thread.")
        if not own:
            raise NotAllowed("Only the person who asked, or an approver of this workspace, can decide this.")
        if len(own) > 1:
            return await self._asked_again(own, f"{len(own)} questions are open here.")
        if not (said.sure or inbound.mentions_bot):
            return await self._asked_again(own, NOT_SURE)
        return own[0] if said.changes or await self._counts(inbound, own[0]) else await self._asked_again(own, NOT_SEEN)

    async def _counts(self, inbound: Inbound, approval: Approval) -> bool:
        """Whether the card was shown before this was written; true for a closed question, which `decide` refuses."""
        if approval.state is not ApprovalState.PENDING or not await self._approvals.may_decide(
            approval, inbound.person
        ):
            return True
        post = None
        for _ in range(SHOWING_TRIES):
            post = await self._stores.outbox.get(CARD_KEY.format(approval.id))
            if post is None or post.state not in {PostState.NEW, PostState.SENDING}:
                break
            await asyncio.sleep(SHOWING_S)
        adapter = self._adapters.get(post.thread.platform) if post else None
        shown = adapter.shown_at(post.ref) if adapter and post and post.ref else None
        if approval.edited_at is not None and inbound.at < approval.edited_at + READING:
            return False
        return shown is not None and shown <= inbound.at

    async def _asked_again(self, asked: Sequence[Approval], why: str) -> Content:
        """A card with buttons for each question, and what it would do."""
        listed = asked[:MOST_LISTED]
        cards = [(await self._stores.approvals.card(approval.id)).card for approval in listed]
        same = set.intersection(*(set(card.facts) if card else set() for card in cards)) if len(cards) > 1 else set()
        lines = [f"- `{of.id}` {_summary(card, same)}" for of, card in zip(listed, cards, strict=True)]
        if len(asked) > len(listed):
            lines.append(f"- and {len(asked) - len(listed)} more")
        several = len(listed) > 1
        buttons = tuple(button for approval in listed for button in _buttons(approval, named=several))
        title = "Which one?" if several else f"Approve {listed[0].id}?"
        return Content(
            card=Card(kind="notice", title=title, tone="warn", body="\n".join((why, "", *lines)), buttons=buttons)
        )


def _buttons(approval: Approval, *, named: bool) -> tuple[Button, Button]:
    shown, of = approval.digest[:SHOWN_DIGEST_CHARS], f" {approval.id}" if named else ""
    return (
        Button(action="approve", subject=approval.id, label=f"Approve{of}", style="primary", digest=shown),
        Button(action="reject", subject=approval.id, label=f"Reject{of}", style="danger", digest=shown),
    )


def _summary(card: Card | None, same: Collection[Fact]) -> str:
    """A question in a line: its title, and its facts but for those that all have; the cost always."""
    if card is None:
        return "a question"
    facts = " · ".join(f"{fact.name}: {fact.value}" for fact in card.facts if fact.name == "Cost" or fact not in same)
    return f"**{card.title}** {facts if len(facts) <= LINE_CHARS else facts[:LINE_CHARS] + '…'}".rstrip()
