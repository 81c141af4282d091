"""The question under a turn that ended before its answer: whether it should go on.

Its buttons are answered once, by the first click on either; then they are gone and the card says who decided.
"""

from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Button, Card
from agent.domain.inbound import Clicked, Inbound

REPLY_KEY = "reply:{}:{}"  # of what a turn says, by its id and that of the message before it
CONTINUE, LEAVE = "continue", "leave"


def go_on_card(turn_id: str, after: int) -> Card:
    """Asks about the message `REPLY_KEY` of these."""
    subject = f"{turn_id}.{after}"
    buttons = (
        Button(action=CONTINUE, subject=subject, label="Continue", style="primary"),
        Button(action=LEAVE, subject=subject, label="Stop"),
    )
    return Card(kind="notice", title="Go on?", tone="warn", buttons=buttons)


def answered_once(inbound: Inbound) -> Inbound:
    """A click on such a card is the same act as every other click on it."""
    if isinstance(inbound.act, Clicked) and inbound.act.action in {CONTINUE, LEAVE}:
        return inbound.model_copy(update={"twin": f"go on:{inbound.act.subject}"})
    return inbound


async def show_answer(delivery: OutboxDelivery, inbound: Inbound, click: Clicked) -> None:
    """Take the buttons away and say who decided."""
    key = REPLY_KEY.format(*click.subject.rpartition(".")[::2])
    content = await delivery.content(key)
    if content is not None and content.card is not None:
        footer = f"{'Continued' if click.action == CONTINUE else 'Left at that'} by {inbound.person.shown}"
        card = content.card.model_copy(update={"buttons": (), "tone": "neutral", "footer": footer})
        await delivery.put(key, inbound.thread, content.model_copy(update={"card": card}), urgent=True)
