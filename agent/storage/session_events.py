"""The events of a session, made of its rows: messages, commands, approvals, questions, cards, compactions, turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from sqlalchemy import Connection, Row, String, cast, literal, select

from agent import wire
from agent.domain.content import Card, Content
from agent.domain.inbound import Commanded, Inbound, Person, Said, Thread
from agent.domain.questions import Question
from agent.domain.session_events import (
    COMMAND_KEY,
    TOOL_CARD_KEY,
    ApprovalAct,
    ApprovalAsked,
    Asked,
    CardShown,
    Compacted,
    Interrupted,
    QuestionAsked,
    Replied,
    SessionEvent,
    Steered,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
)
from agent.ports import ModelMessage, Role, ToolCall
from agent.storage.conversations import as_message
from agent.storage.tables import approval, audit_entry, binding, compaction, inbox, message, outbox, question, turn
from agent.stores import TurnKind, TurnState

_BY = {TurnKind.ASKED: "words", TurnKind.COMMANDED: "command", TurnKind.NOTICED: "monitor"}


def events_of(connection: Connection, session_id: str) -> list[SessionEvent]:
    """Everything that happened in a session, oldest first; none where there is no such session."""
    rows = connection.execute(
        select(message, turn.c.person, turn.c.kind, turn.c.created_at, turn.c.state, turn.c.thread, turn.c.inbox_id)
        .join_from(message, turn, message.c.turn_id == turn.c.id)
        .where(message.c.session_id == session_id)
        .order_by(message.c.id)
    ).all()
    commands = _commands(connection, session_id) if rows else []
    fresh = (compaction.c.upto > 0) & (compaction.c.cleared == compaction.c.upto)  # else, without a summary, no event
    made = connection.execute(
        select(compaction)
        .where(compaction.c.session_id == session_id, (compaction.c.summary != "") | fresh)
        .order_by(compaction.c.id)
    ).all()
    compactions, turns = list(made), _turns(connection, session_id, rows)
    last = {row.turn_id: row.id for row in rows}
    events: list[SessionEvent] = []
    for row in rows:
        while commands and commands[0][0] < row.inbox_id:
            events += commands.pop(0)[1]
        while compactions and _came_before(compactions[0], row):
            events.append(_compacted(compactions.pop(0), row.turn_id))
        events += turns[row.turn_id].events(row)
        if last[row.turn_id] == row.id:
            events += turns[row.turn_id].cards()
            events.append(TurnEnded(turn=row.turn_id, state=row.state))
    events += (_compacted(left, rows[-1].turn_id) for left in compactions)
    return [*events, *(event for _, of in commands for event in of)]


def _commands(connection: Connection, session_id: str) -> list[tuple[int, list[SessionEvent]]]:
    """Commands that made no turn and were answered in the thread, by their inbox item, oldest first."""
    keys = [
        row.thread_key
        for row in connection.execute(select(binding.c.thread_key).where(binding.c.session_id == session_id)).all()
    ]
    key = literal(COMMAND_KEY.format("")) + cast(inbox.c.id, String)
    query = (
        select(inbox.c.id, inbox.c.payload, outbox.c.content)
        .join(outbox, outbox.c.key == key)
        .where(inbox.c.thread_key.in_(keys), inbox.c.payload != "", outbox.c.whisper.is_(None))
        .order_by(inbox.c.id)
    )
    return [(row.id, _looked(row.payload, row.content)) for row in connection.execute(query).all()]


def _looked(payload: str, answer: str) -> list[SessionEvent]:
    """A command and its answer."""
    inbound, content = wire.decode(Inbound, payload), wire.decode(Content, answer)
    match inbound.act:
        case Said(text=text):
            words = text
        case Commanded(words=said):
            words = " ".join(("/train", *said))
        case _:
            return []
    asked = Asked(turn="", at=inbound.at, by="command", person=inbound.person.shown, text=words)
    words_of_bot = [Replied(turn="", text=content.text)] if content.text else []
    return [asked, *words_of_bot, *([CardShown(turn="", card=content.card)] if content.card else [])]


def _came_before(made: Row[Any], said: Row[Any]) -> bool:
    """Whether a compaction was made before a message; a turn that was taken back does not count as its newest."""
    return bool(made.made_after < said.id) and bool(said.state != TurnState.UNDONE or made.at < said.created_at)


def _compacted(made: Row[Any], turn_id: str) -> Compacted:
    return Compacted(turn=turn_id, at=made.at, summary=made.summary)


@dataclass
class _Turn:
    """What stands beside the messages of one turn; the events of a message take what belongs to it."""

    id: str
    nameless: Mapping[str, str]  # ids of people without a name, as they had it deleted, by their keys
    approvals: dict[str, Row[Any]] = field(default_factory=dict)  # by call
    acts: dict[str, list[Row[Any]]] = field(default_factory=dict)  # entries of the audit log by approval
    questions: dict[str, Question] = field(default_factory=dict)  # by call
    shown: dict[str, Card] = field(default_factory=dict)  # by call, or by the name that a tool gave its post
    tools: dict[str, str] = field(default_factory=dict)  # names by call

    def events(self, row: Row[Any]) -> Iterator[SessionEvent]:
        """What one message says."""
        said = as_message(row)
        match said.role:
            case Role.USER:
                yield self._words(said, row)
            case Role.TOOL:
                yield ToolAnswered(
                    turn=self.id,
                    at=row.at,
                    call=said.call_id,
                    tool=self.tools.get(said.call_id, ""),
                    text=said.text,
                    chars=said.cut_chars or len(said.text),
                )
                yield from self.cards(said.call_id)
            case _:
                yield from self._reply(said, row.at)

    def cards(self, *posts: str) -> Iterator[SessionEvent]:
        """Cards that are not given yet: of these posts, else all."""
        for post in posts or tuple(self.shown):
            if (card := self.shown.pop(post, None)) is not None:
                yield CardShown(turn=self.id, card=card)

    def _words(self, said: ModelMessage, row: Row[Any]) -> SessionEvent:
        files, person = tuple(file.name for file in said.files), said.speaker or "somebody"
        if said.steers:
            return Steered(turn=self.id, at=row.at, person=person, text=said.text, files=files)
        person = "the monitor" if said.noticed else person
        by = _BY[TurnKind(row.kind)]
        return Asked.model_validate(
            {"turn": self.id, "at": row.created_at, "by": by, "person": person, "text": said.text, "files": files}
        )

    def _reply(self, said: ModelMessage, at: datetime | None) -> Iterator[SessionEvent]:
        took = {"model": said.model, "tokens": said.tokens, "cost_usd": said.cost_usd, "seconds": said.seconds}
        yield Replied.model_validate({"turn": self.id, "at": at, "text": said.text, **took})
        if said.stopped:
            yield Interrupted(turn=self.id, at=at)
        for call in said.calls:
            self.tools[call.id] = call.name
            yield ToolCalled(turn=self.id, at=at, call=call.id, tool=call.name, arguments=call.arguments)
            yield from self._people(call)

    def _people(self, call: ToolCall) -> Iterator[SessionEvent]:
        """What people were asked about a call, and what they decided."""
        if (asked := self.questions.get(call.id)) is not None:
            yield QuestionAsked(turn=self.id, call=call.id, text=asked.text, choices=asked.choices)
        if (row := self.approvals.get(call.id)) is None:
            return
        card = wire.decode(Content, row.card).card
        yield ApprovalAsked(turn=self.id, at=row.created_at, approval=row.id, tool=row.tool, card=card)
        for entry in self.acts.get(row.id, ()):
            reason = row.reason if entry.act == "rejected" else ""
            yield ApprovalAct(
                turn=self.id,
                at=entry.at,
                approval=row.id,
                act=entry.act,
                person=self.nameless.get(entry.who, entry.name),
                reason=reason,
            )


def _turns(connection: Connection, session_id: str, rows: Sequence[Row[Any]]) -> dict[str, _Turn]:
    """The turns of these messages, each with what stands beside them."""
    people = [wire.decode(Person, text) for text in {row.person for row in rows}]
    nameless = {person.key: person.id for person in people if not person.name}
    turns = {row.turn_id: _Turn(row.turn_id, nameless) for row in rows}
    threads = [wire.decode(Thread, text) for text in {row.thread for row in rows}]
    acts = _acts(connection, threads)
    for row in connection.execute(select(approval).where(approval.c.session_id == session_id)).all():
        if row.turn_id in turns:
            turns[row.turn_id].approvals[row.call_id] = row
            turns[row.turn_id].acts[row.id] = acts.get(row.id, [])
    for row in connection.execute(select(question).where(question.c.session_id == session_id)).all():
        if row.turn_id in turns:
            turns[row.turn_id].questions[row.call_id] = wire.decode(Question, row.asked)
    posts = (
        select(outbox.c.key, outbox.c.content)
        .where(outbox.c.thread_key.in_({thread.key for thread in threads}))
        .order_by(outbox.c.id)
    )
    for row in connection.execute(posts.where(outbox.c.key.startswith(TOOL_CARD_KEY.partition("{")[0]))).all():
        _, turn_id, post = row.key.split(":", 2)
        if turn_id in turns and (card := wire.decode(Content, row.content).card) is not None:
            turns[turn_id].shown[post] = card
    return turns


def _acts(connection: Connection, threads: Sequence[Thread]) -> dict[str, list[Row[Any]]]:
    """What the audit log of these threads' channels says that people did, by approval."""
    query = select(audit_entry).where(
        audit_entry.c.channel.in_({thread.channel_key for thread in threads}),
        audit_entry.c.act.in_(get_args(ApprovalAct.model_fields["act"].annotation)),
    )
    acts: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(query.order_by(audit_entry.c.number)).all():
        acts.setdefault(row.subject.partition(" ")[0], []).append(row)
    return acts
