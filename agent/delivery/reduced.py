"""A message with less in it, for a platform that refuses the whole: without pictures and files, then words alone.

Pure. Called by the delivery of the outbox.
"""

from collections.abc import Iterator

from agent.domain.content import Card, Content


def reductions(content: Content, why: str) -> Iterator[Content]:
    """Less and less of a message, each with the sentence that says what is in the way."""
    card = content.card
    note = f"{content.text}\n\n_{why}_".strip()
    if content.files or (card is not None and card.picture is not None):
        bare = card.model_copy(update={"picture": None}) if card is not None else None
        yield Content(text=note, card=bare)
    if card is not None:
        yield Content(text="\n\n".join(part for part in (content.text, words_of_card(card), f"_{why}_") if part))


def words_of_card(card: Card) -> str:
    """A card as plain text; what its buttons do can be typed."""
    lines = [f"**{card.title}**", card.body, *(f"{fact.name}: {fact.value}" for fact in card.facts)]
    if card.table is not None:
        lines += [" | ".join(row) for row in (card.table.columns, *card.table.rows)]
    lines += ["```", *card.log, "```"] if card.log else []
    if card.buttons:
        lines.append("You can say: " + ", ".join(f"`{button.action} {button.subject}`" for button in card.buttons))
    return "\n".join(line for line in (*lines, card.footer) if line)
