"""The events of a session, made of its rows: messages, commands, approvals, questions, cards, compactions, turns."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, get_args

from sqlalchemy import ColumnElement, Connection, Row, String, cast, literal, select

from agent import wire
from agent.domain.content import Card, Content
from agent.domain.inbound import Commanded, Inbound, Person, Said, Thread
from agent.domain.questions import Question
from agent.domain.session_events import (
    ACT_KEY,
    COMMAND_KEY,
    ERROR_KEY,
    TOOL_CARD_KEY,
    ApprovalAct,
    ApprovalAsked,
    Asked,
    CardShown,
    Compacted,
    Failed,
    Interrupted,
    QuestionAsked,
    Replied,
    Resumed,
    SessionEvent,
    Steered,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    Undone,
)
from agent.ports import ModelMessage, Role, ToolCall
from agent.storage.conversations import as_message
from agent.storage.tables import approval, audit_entry, binding, compaction, inbox, message, outbox, question, turn
from agent.stores import TurnKind, TurnState

SOMEBODY = "somebody"  # whose words were deleted
_BY = {TurnKind.ASKED: "words", TurnKind.COMMANDED: "command", TurnKind.NOTICED: "monitor"}


def events_of(connection: Connection, session_id: str) -> list[SessionEvent]:
    """Everything that happened in a session, oldest first; none where there is no such session."""
    rows = connection.execute(
        select(message, turn.c.person, turn.c.kind, turn.c.created_at, turn.c.state, turn.c.thread, turn.c.inbox_id)
        .join_from(message, turn, message.c.turn_id == turn.c.id)
        .where(message.c.session_id == session_id)
        .order_by(message.c.id)
    ).all()
    if not rows:
        return []
    items = _items(connection, rows)
    made = _compactions(connection, session_id)
    acts = list(_acts_in(rows, items, made))
    commands = sorted([*_commands(connection, session_id), *acts], key=itemgetter(0))
    compactions, turns = list(made.values()), _turns(connection, session_id, rows, items)
    last = {row.turn_id: row.id for row in rows}
    events: list[SessionEvent] = []
    for row in rows:
        while commands and commands[0][0] < row.inbox_id:
            events += commands.pop(0)[1]
        while compactions and _came_before(compactions[0], row):
            made_itself = compactions.pop(0)
            events.append(Compacted(turn=row.turn_id, at=made_itself.at, summary=made_itself.summary))
        is_last = last[row.turn_id] == row.id
        events += turns[row.turn_id].events(row, last=is_last)
        if is_last:
            events += turns[row.turn_id].cards()
            events.append(TurnEnded(turn=row.turn_id, state=row.state))
    events += (Compacted(turn=rows[-1].turn_id, at=left.at, summary=left.summary) for left in compactions)
    return [*events, *(event for _, of in commands for event in of)]


def _commands(connection: Connection, session_id: str) -> list[tuple[int, list[SessionEvent]]]:
    """Commands that made no turn and were answered in the thread, or failed there, by their inbox item."""
    keys = [
        row.thread_key
        for row in connection.execute(select(binding.c.thread_key).where(binding.c.session_id == session_id)).all()
    ]
    query = (
        select(inbox.c.id, inbox.c.payload, outbox.c.key, outbox.c.content)
        .join(outbox, outbox.c.key.in_((_of_item(COMMAND_KEY), _of_item(ERROR_KEY))))
        .where(inbox.c.thread_key.in_(keys), inbox.c.payload != "", outbox.c.whisper.is_(None))
        .where(inbox.c.id.not_in(select(turn.c.inbox_id)))
    )
    return [(row.id, _looked(row.payload, row.key, row.content)) for row in connection.execute(query).all()]


def _of_item(key: str) -> ColumnElement[str]:
    """A key of the outbox that has the id of an inbox item."""
    return literal(key.format("")) + cast(inbox.c.id, String)


def _looked(payload: str, key: str, answer: str) -> list[SessionEvent]:
    """A command and its answer, whose key says whether it failed."""
    inbound, content = wire.decode(Inbound, payload), wire.decode(Content, answer)
    match inbound.act:
        case Said(text=text):
            words = text
        case Commanded(words=said):
            words = " ".join(("/train", *said))
        case _:
            return []
    asked = Asked(turn="", at=inbound.at, by="command", person=inbound.person.shown, text=words)
    if key.startswith(ERROR_KEY.format("")):
        return [asked, Failed(turn="", text=content.text)]
    words_of_bot = [Replied(turn="", text=content.text)] if content.text else []
    return [asked, *words_of_bot, *([CardShown(turn="", card=content.card)] if content.card else [])]


def _came_before(made: Row[Any], said: Row[Any]) -> bool:
    """Whether a compaction was made before a message; a turn that was taken back does not count as its newest."""
    return bool(made.made_after < said.id) and bool(said.state != TurnState.UNDONE or made.at < said.created_at)


def _compactions(connection: Connection, session_id: str) -> dict[int, Row[Any]]:
    """What stands for more than before, and fresh starts, by number: not where `undo` or `resume` go back to less."""
    query = select(compaction).where(compaction.c.session_id == session_id).order_by(compaction.c.id)
    before, found = 0, {}
    for row in connection.execute(query).all():
        if row.upto > before or (row.upto == before == row.cleared != 0 and not row.summary):
            found[row.id] = row
        before = row.upto
    return found


@dataclass(frozen=True)
class _Item:
    """An inbox item that ended an answer or acted on the whole session."""

    person: str
    at: datetime
    said: str  # what the thread was told of such an act


def _items(connection: Connection, rows: Iterable[Row[Any]]) -> dict[int, _Item]:
    """Those that these messages name."""
    ids = {item for row in rows for _, item, _ in _acts_after(row)} | {as_message(row).ended_by for row in rows}
    query = select(inbox, outbox.c.content).join(outbox, outbox.c.key == _of_item(ACT_KEY), isouter=True)
    return {
        row.id: _Item(
            wire.decode(Inbound, row.payload).person.shown if row.payload else SOMEBODY,
            row.received_at,
            wire.decode(Content, row.content).text.strip("_") if row.content else "",
        )
        for row in connection.execute(query.where(inbox.c.id.in_(ids))).all()
    }


def _acts_after(row: Row[Any]) -> Iterator[tuple[str, int, int]]:
    """What commands did to the session after a message, by inbox item, and the number of a compaction."""
    for act, key, number in json.loads(row.facts).get("acts", ()) if row.facts else ():
        if key.startswith(ACT_KEY.format("")):
            yield act, int(key.removeprefix(ACT_KEY.format(""))), number


def _acts_in(
    rows: Iterable[Row[Any]], items: Mapping[int, _Item], made: dict[int, Row[Any]]
) -> Iterator[tuple[int, list[SessionEvent]]]:
    """What commands did to the whole session, by inbox item; takes from `made` what they compacted."""
    for row in rows:
        for act, item_id, number in _acts_after(row):
            if (item := items.get(item_id)) is None:
                continue
            if act == "undone":
                yield item_id, [Undone(turn=row.turn_id, at=item.at, person=item.person, text=item.said)]
            elif act == "resumed":
                yield item_id, [Resumed(turn="", at=item.at, person=item.person, text=item.said)]
            elif (row_made := made.pop(number, None)) is not None:
                yield item_id, [Compacted(turn="", at=row_made.at, summary=row_made.summary, person=item.person)]


@dataclass
class _Turn:
    """What stands beside the messages of one turn; the events of a message take what belongs to it."""

    id: str
    nameless: Mapping[str, str]  # ids of people without a name, as they had it deleted, by their keys
    items: Mapping[int, _Item]
    approvals: dict[str, Row[Any]] = field(default_factory=dict)  # by call
    acts: dict[str, list[Row[Any]]] = field(default_factory=dict)  # entries of the audit log by approval
    questions: dict[str, Question] = field(default_factory=dict)  # by call
    shown: dict[str, Card] = field(default_factory=dict)  # by call, or by the name that a tool gave its post
    tools: dict[str, str] = field(default_factory=dict)  # names by call
    error: str = ""

    def events(self, row: Row[Any], *, last: bool) -> Iterator[SessionEvent]:
        """What one message says, and the error of a turn with its `last` one."""
        said = as_message(row)
        if last and self.error:
            if said.role is not Role.ASSISTANT or said.calls or said.model:  # it failed while it waited for people
                yield from self.events(row, last=False)
            yield Failed(turn=self.id, at=row.at, text=self.error)
            return
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
        files, person = tuple(file.name for file in said.files), said.speaker or SOMEBODY
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
        if said.ended_by:
            ended_by = self.items.get(said.ended_by)
            yield Interrupted(turn=self.id, at=at, person=ended_by.person if ended_by else "")
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


def _turns(
    connection: Connection, session_id: str, rows: Sequence[Row[Any]], items: Mapping[int, _Item]
) -> dict[str, _Turn]:
    """The turns of these messages, each with what stands beside them."""
    people = [wire.decode(Person, text) for text in {row.person for row in rows}]
    nameless = {person.key: person.id for person in people if not person.name}
    turns = {row.turn_id: _Turn(row.turn_id, nameless, items) for row in rows}
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
    of_item = {str(row.inbox_id): row.turn_id for row in rows}
    failed = outbox.c.key.startswith(ERROR_KEY.format("")) & outbox.c.whisper.is_(None)
    for row in connection.execute(posts.where(failed)).all():
        about = row.key.removeprefix(ERROR_KEY.format(""))
        if (owner := turns.get(of_item.get(about, about))) is not None:
            owner.error = wire.decode(Content, row.content).text
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
