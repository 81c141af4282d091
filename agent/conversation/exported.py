"""A recorded session as a text for people, in markdown."""

from agent.domain.content import Card
from agent.domain.session_events import (
    ApprovalAct,
    ApprovalAsked,
    Asked,
    CardShown,
    Compacted,
    Failed,
    Interrupted,
    QuestionAsked,
    Recording,
    Replied,
    Resumed,
    SessionEvent,
    Steered,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    Undone,
)

RESULT_CHARS = 2_000  # of a tool's result


def said_in(recording: Recording) -> int:
    """How many messages of people and of the agent it holds."""
    return sum(isinstance(event, Asked | Steered | Replied | Failed) for event in recording.events)


def as_markdown(recording: Recording) -> str:
    """One paragraph for each event that has something to read."""
    return "\n\n".join(filter(None, map(_paragraph, recording.events))) + "\n"


def _paragraph(event: SessionEvent) -> str:
    match event:
        case Asked() | Steered():
            at = f" ({event.at:%Y-%m-%d %H:%M} UTC)" if event.at else ""
            files = "".join(f"\n\n- `{name}`" for name in event.files)
            return f"**{event.person}**{at}\n\n{event.text}{files}"
        case Replied(text=text):
            return f"**Trainyard**\n\n{text}" if text else ""
        case Failed(text=text):
            return f"**Trainyard** (failed)\n\n{text}"
        case ToolCalled():
            return f"`{event.tool}` `{event.arguments[:RESULT_CHARS]}`"
        case ToolAnswered():
            return f"```json\n{event.text[:RESULT_CHARS]}\n```"
        case CardShown(card=card):
            return _of_card(card)
        case Interrupted():
            return ""  # its reply says so
        case QuestionAsked() | ApprovalAsked():
            return _question(event)
        case ApprovalAct() | Compacted() | Undone() | Resumed() | TurnEnded():
            return f"_{what_became(event)}_" if what_became(event) else ""


def _question(event: QuestionAsked | ApprovalAsked) -> str:
    if isinstance(event, QuestionAsked):
        return "\n".join((f"_Question:_ {event.text}", *(f"- {choice}" for choice in event.choices)))
    return _of_card(event.card) if event.card else f"_Approval asked for_ `{event.tool}`"


def what_became(event: ApprovalAct | Compacted | Undone | Resumed | TurnEnded) -> str:
    """A line about the event; empty for the end of a turn with an answer."""
    match event:
        case Compacted(summary=summary, person=person):
            asked = f", asked for by {person}" if person else ""
            return f"Summary of what was said so far{asked}: {summary}" if summary else f"A fresh start{asked}."
        case Undone(person=person, text=text):
            return f"Taken back by {person}: {text}"
        case Resumed(person=person, text=text):
            return f"Resumed by {person}: {text}"
        case TurnEnded(state=state):
            return {"undone": "This turn was taken back.", "paused": "It waits for people."}.get(state, "")
        case ApprovalAct(act="always"):
            return f"{event.person or 'Somebody'} lets this kind of job start here without asking from then on."
        case ApprovalAct(act=act):
            who = f" by {event.person}" if event.person else ""
            return f"{act.capitalize()}{who}{f': {event.reason}' if event.reason else ''}"


def _of_card(card: Card) -> str:
    facts = "".join(f"\n> {fact.name}: {fact.value}" for fact in card.facts)
    body = "".join(f"\n> {line}" for line in card.body.splitlines())
    return f"> **{card.title}**{facts}{body}"
