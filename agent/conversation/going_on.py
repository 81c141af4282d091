"""The question whether a turn that ended before its answer should go on.

Its buttons are answered once, by the first click on either; then they are gone and the card says who decided. Called by
the inbox router.
"""

from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Button, Card
from agent.domain.errors import Conflict, NotAllowed
from agent.domain.inbound import Clicked, Inbound
from agent.stores import Conversations, TurnState

REPLY_KEY = "reply:{}:{}"  # of what a turn says, by its id and that of the message before it
CONTINUE, LEAVE = "continue", "leave"
NOT_YOURS = "Guests of another organisation go on only with what they asked themselves."
TAKEN_BACK = "What this would go on with was taken back, or is from before a fresh start. Say in words what you want."


def go_on_card(turn_id: str, after: int) -> Card:
    """Asks about the message `REPLY_KEY` of these."""
    subject = f"{turn_id}.{after}"
    buttons = (
        Button(action=CONTINUE, subject=subject, label="Continue", style="primary"),
        Button(action=LEAVE, subject=subject, label="Stop"),
    )
    return Card(kind="notice", title="Go on?", tone="warn", buttons=buttons)


def answered_once(inbound: Inbound) -> Inbound:
    """The act with a key that is the same for every click of a person on this card, so that one counts."""
    if isinstance(inbound.act, Clicked) and inbound.act.action in {CONTINUE, LEAVE}:
        return inbound.model_copy(update={"twin": f"go on:{inbound.act.subject}:{inbound.person.key}"})
    return inbound


async def take_answer(conversations: Conversations, delivery: OutboxDelivery, inbound: Inbound, click: Clicked) -> None:
    """Take the buttons away and say who decided.

    Raises:
        NotAllowed: a guest answers what others asked.
        Conflict: somebody else did before, or there is nothing left to go on with.
    """
    turn_id, _, after = click.subject.rpartition(".")
    key = REPLY_KEY.format(turn_id, after)
    content = await delivery.content(key)
    if content is None or content.card is None:
        return
    turn = await conversations.turn(turn_id)
    if inbound.person.external and inbound.person.key != turn.person.key:
        raise NotAllowed(NOT_YOURS)
    footer = f"{'Continued' if click.action == CONTINUE else 'Left at that'} by {inbound.person.shown}"
    if content.card.footer not in {"", footer}:
        raise Conflict(f"{content.card.footer} before.")
    made = (await conversations.context(turn.session_id)).compaction
    if click.action == CONTINUE and (turn.state is TurnState.UNDONE or (int(after) <= made.upto and not made.summary)):
        raise Conflict(TAKEN_BACK)
    card = content.card.model_copy(update={"buttons": (), "tone": "neutral", "footer": footer})
    await delivery.put(key, inbound.thread, content.model_copy(update={"card": card}), urgent=True)
