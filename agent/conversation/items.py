"""What inbox items say: the command in them, the words that a turn begins with, and to whom they are answered. Pure."""

from collections.abc import Sequence

from agent.commands.typed import may_be_talk, words_of
from agent.commands.words import joined
from agent.conversation.actors import Work
from agent.conversation.going_on import CONTINUE
from agent.domain.inbound import Away, Clicked, Commanded, Inbound, Noticed, Said
from agent.ports import Whisper
from agent.stores import InboxItem, Turn, TurnKind


def item_id(work: Work) -> int:
    """The id of the inbox item that this work is, or that its turn began with."""
    return work.id if isinstance(work, InboxItem) else work.inbox_id


def typed_in(inbound: Inbound) -> Sequence[str] | None:
    """The words of a command that somebody typed; None where it is none."""
    match inbound.act:
        case Commanded(words=words):
            return words
        case Said(text=text, attachments=()):
            return words_of(text)
        case _:
            return None


def command_in(inbound: Inbound) -> Sequence[str]:
    """The words of a command that was typed, or that a button carries."""
    if isinstance(inbound.act, Clicked):
        return (inbound.act.action, inbound.act.subject)
    return typed_in(inbound) or ()


def said_in(inbound: Inbound) -> Said:
    """The words that a turn begins with."""
    match inbound.act:
        case Said() as said:
            return said
        case Noticed(text=text):
            return Said(text=text)
        case Commanded(words=words):
            return Said(text=joined(("/train", *words)))
        case Clicked(action=action) if action == CONTINUE:
            return Said(text="Go on.")
        case Clicked(action=action, subject=subject):
            return Said(text=f"/train {action} {subject}")


def steers(inbound: Inbound, turn: Turn) -> bool:
    """Whether words that wait may belong to a turn at work: said by its person or the team, and surely no command."""
    words = typed_in(inbound)
    return (
        turn.kind is not TurnKind.COMMANDED
        and isinstance(inbound.act, Said)
        and (words is None or may_be_talk(words))
        and (not inbound.person.external or inbound.person.key == turn.person.key)
    )


def whisper_for(item: InboxItem) -> Whisper | None:
    """The person who alone gets the answer to a click or slash command; None for other acts."""
    inbound = item.inbound
    if isinstance(inbound.act, Clicked) or inbound.reply_handle:
        return Whisper(inbound.person.id, inbound.reply_handle)
    return None


def was_away(away: Away) -> str:
    """The line that says when the bot was away."""
    form = "%H:%M" if away.since.date() == away.until.date() else "%d %b %H:%M"
    return f"I was away from {away.since:{form}} to {away.until:{form}} UTC. Here is what I missed."
