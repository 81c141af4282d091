"""What people do to whole sessions: take a turn back, export, continue elsewhere, have their words deleted."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from agent import wire
from agent.domain.approvals import AGAIN_KEY, CARD_KEY
from agent.domain.content import Content
from agent.domain.errors import Conflict
from agent.domain.inbound import Inbound, Person, Thread
from agent.domain.questions import QUESTION_KEY, Question
from agent.domain.session_events import ACT_KEY, ERROR_KEY, Recording, quoted
from agent.ports import ModelMessage, Role
from agent.storage.conversations import as_compaction, as_message, as_turn, note_act
from agent.storage.database import Database
from agent.storage.outbox import put_post
from agent.storage.session_events import SOMEBODY, events_of
from agent.storage.tables import approval, binding, compaction, inbox, message, outbox, question, turn
from agent.stores import Forgotten, InboxState, SessionInfo, Turn, TurnState

DELETED = "[deleted]"
NAMED = r"(\b(?:question for|changed by|asked by|stopped by|continued by|left at that by|told to) |; )({})(?!\w)"
SUMMARISED = "The last turn is part of a summary, or from before a fresh start; it cannot be taken out."
BUSY = "A turn is at work here, or waits for people. Say `stop`, or decide on its card first."


class SqlSessions:
    """Sessions as a whole; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def newest(self, session_id: str) -> tuple[Turn, int] | None:
        """The newest turn and the id of its newest message; None where nothing was said."""
        query = (
            select(turn, message.c.id.label("message_id"))
            .join_from(message, turn, message.c.turn_id == turn.c.id)
            .where(message.c.session_id == session_id, turn.c.state != TurnState.UNDONE)
            .order_by(message.c.id.desc())
            .limit(1)
        )
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else (as_turn(row), int(row.message_id))

    async def undo(
        self, turn_id: str, *, thread: Thread, key: str, notice: Callable[[Sequence[ModelMessage]], str]
    ) -> None:
        """Take a turn out of what models read, and show what is `notice` of its messages, in one transaction.

        Of a summary that was made within the turn they read the one before it again. Raises `Conflict` while it has not
        ended, and where a summary stands for all of it.
        """
        change = update(turn).where(turn.c.id == turn_id, turn.c.state == TurnState.DONE)
        query = (
            select(message, turn.c.person, turn.c.kind)
            .join_from(message, turn, message.c.turn_id == turn.c.id)
            .where(turn.c.id == turn_id)
            .order_by(message.c.id)
        )

        def store(connection: Connection) -> None:
            if connection.execute(change.values(state=TurnState.UNDONE)).rowcount != 1:
                raise Conflict(BUSY)
            rows = connection.execute(query).all()
            _unsummarise(connection, rows)
            note_act(connection, rows[-1].id, "undone", key)
            text = notice([as_message(row) for row in rows])
            put_post(connection, key, thread, Content(text=text), whisper=None, urgent=True)

        await self._database.write(store)

    async def recording(self, session_id: str) -> Recording:
        """Everything that happened; without events where there is no such session."""
        events = await self._database.read(lambda connection: events_of(connection, session_id))
        return Recording(session=session_id, events=tuple(events))

    async def recent(self, most: int) -> Sequence[SessionInfo]:
        """The sessions in which something was said last, the newest first."""
        first, last = func.min(message.c.id), func.max(message.c.id)
        spans = select(message.c.session_id, first.label("first"), last.label("last")).group_by(message.c.session_id)
        span = spans.order_by(last.desc()).limit(most).subquery()
        query = (
            select(span.c.session_id, turn.c.created_at, message.c.text)
            .join(message, message.c.id == span.c.first)
            .join(turn, turn.c.id == message.c.turn_id)
            .order_by(span.c.last.desc())
        )
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        homes = [await self.threads(row.session_id) for row in rows]
        return [
            SessionInfo(row.session_id, home, row.created_at, row.text) for row, home in zip(rows, homes, strict=True)
        ]

    async def threads(self, session_id: str) -> Sequence[Thread]:
        """The threads of a session, or the last one of a session that people left; empty where there is none."""
        bound = select(binding.c.thread).where(binding.c.session_id == session_id)
        left = select(turn.c.thread).where(turn.c.session_id == session_id).order_by(turn.c.created_at.desc()).limit(1)

        def find(connection: Connection) -> Sequence[str]:
            return connection.execute(bound).scalars().all() or connection.execute(left).scalars().all()

        return [wire.decode(Thread, thread) for thread in await self._database.read(find)]

    async def at(self, address: str, near: Thread) -> str | None:
        """The session of the thread that an address of the same workspace is of.

        One of a message that is in no thread is of its channel's own conversation, as in direct messages.
        """
        beginning = f"{near.platform}/{near.tenant}/"
        query = select(binding.c.session_id, binding.c.thread).where(
            binding.c.thread_key.startswith(beginning, autoescape=True)
        )
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        found = [(wire.decode(Thread, row.thread), str(row.session_id)) for row in rows]
        digits, parts = address.replace(".", ""), address.split("/")
        fits = [one for one in found if one[0].thread_id and one[0].thread_id.replace(".", "") in digits]
        fits.sort(key=lambda one: one[0].channel not in address)
        fits += [one for one in found if not one[0].thread_id and one[0].channel in parts and "?" not in address]
        return fits[0][1] if fits else None

    async def bind(self, thread: Thread, session_id: str, *, key: str, text: str) -> None:
        """Let a thread go on with a session, and say so there, in one transaction.

        Raises `Conflict` while a turn of the thread has not ended: what becomes of it belongs to the session it is of.
        """
        query = (
            select(turn.c.thread)
            .join(binding, binding.c.session_id == turn.c.session_id)
            .where(binding.c.thread_key == thread.key, turn.c.state.in_((TurnState.RUNNING, TurnState.PAUSED)))
        )

        def store(connection: Connection) -> None:
            if any(wire.decode(Thread, at).key == thread.key for at in connection.execute(query).scalars()):
                raise Conflict(BUSY)
            connection.execute(delete(binding).where(binding.c.thread_key == thread.key))
            values = {"thread_key": thread.key, "session_id": session_id, "thread": wire.encode(thread).decode()}
            connection.execute(insert(binding), values)
            newest = connection.execute(
                select(func.max(message.c.id)).where(message.c.session_id == session_id)
            ).scalar()
            if newest is not None:
                note_act(connection, newest, "resumed", key)
            put_post(connection, key, thread, Content(text=text), whisper=None, urgent=True)

        await self._database.write(store)

    async def forget(self, person: Person) -> Forgotten:
        """Delete what a person said from messages, summaries, posts and handled inbox items, and their name there."""

        def store(connection: Connection) -> Forgotten:
            forgotten, reasons = _own_messages(connection, person), _own_reasons(connection, person)
            undone = {row.text for row, own_turn in forgotten if own_turn and row.state == TurnState.UNDONE}
            redrawn = _forget_quotes(connection, undone)
            for row, own_turn in forgotten:
                answers = row.role == Role.TOOL
                text = json.dumps({"text": DELETED}) if answers else DELETED
                facts = "" if own_turn else json.dumps({"steers": person.key, "speaker": SOMEBODY})
                connection.execute(update(message).where(message.c.id == row.id).values(text=text, facts=facts))
                if answers:
                    redrawn |= _forget_answer(connection, row)
            for row in reasons:
                redrawn |= _forget_reason(connection, row)
            sessions = {row.session_id for row, _ in forgotten} | {row.session_id for row in reasons}
            said = compaction.c.session_id.in_(sessions) & (compaction.c.summary != "")
            connection.execute(update(compaction).where(said).values(summary=DELETED))
            redrawn |= _forget_names(connection, person)
            redrawn |= _forget_inbox(connection, person)
            return Forgotten(len(forgotten) + len(reasons), redrawn)

        return await self._database.write(store)


def _unsummarise(connection: Connection, undone: Sequence[Row[Any]]) -> None:
    """Go back to what models read before a turn, where they read a summary of its beginning.

    Raises `Conflict` where they read nothing else of it.
    """
    session_id, first, last = undone[0].session_id, undone[0].id, undone[-1].id
    newest = select(compaction).where(compaction.c.session_id == session_id).order_by(compaction.c.id.desc()).limit(1)
    made = connection.execute(newest).one_or_none()
    if made is None or made.upto < first:
        return
    if made.upto >= last:
        raise Conflict(SUMMARISED)
    before = connection.execute(newest.where(compaction.c.upto < first)).one_or_none()
    values = {"session_id": session_id, "at": datetime.now(UTC)} | asdict(as_compaction(before))
    connection.execute(insert(compaction), values)


def _own_messages(connection: Connection, person: Person) -> list[tuple[Row[Any], bool]]:
    """The rows of what a person said, and whether that was in a turn of their own."""
    named = f'"id":{json.dumps(person.id)}'
    asked = select(message, turn.c.person, turn.c.state).join_from(message, turn, message.c.turn_id == turn.c.id)
    likely = (message.c.role == Role.USER) & turn.c.person.contains(named, autoescape=True)
    steered = message.c.facts.contains(json.dumps(person.key), autoescape=True)
    found = []
    for row in connection.execute(asked.where(likely | steered)).all():
        if row.role == Role.TOOL and "approval" in json.loads(row.text):
            continue  # a decision, of which the reason alone is deleted
        steers = json.loads(row.facts).get("steers", "") if row.facts else ""
        if (steers or wire.decode(Person, row.person).key) == person.key:
            found.append((row, not steers))
    return found


def _forget_quotes(connection: Connection, texts: set[str]) -> set[str]:
    """Take from the words of `undo` how they called the turns that began with these texts."""

    def without(content: Content) -> Content:
        text = content.text
        for quote in map(quoted, texts):
            text = text.replace(quote, quoted(DELETED))
        return content.model_copy(update={"text": text})

    return _redraw(connection, outbox.c.key.startswith(ACT_KEY.format("")), without) if texts else set()


def _forget_answer(connection: Connection, answer: Row[Any]) -> set[str]:
    """Take an answer from the card of its question."""
    asked = (question.c.turn_id == answer.turn_id) & (question.c.call_id == answer.call_id)
    keys = [QUESTION_KEY.format(row.id) for row in connection.execute(select(question.c.id).where(asked)).all()]
    return _redraw(connection, outbox.c.key.in_(keys), partial(_with_footer, footer=lambda _: DELETED))


def _own_reasons(connection: Connection, person: Person) -> Sequence[Row[Any]]:
    """The approvals that a person rejected and said why."""
    said = (approval.c.decided_by == person.key) & (approval.c.reason != "")
    return connection.execute(select(approval).where(said)).all()


def _forget_reason(connection: Connection, rejected: Row[Any]) -> set[str]:
    """Take a reason from its approval, from the result that a model reads and from all cards of the question."""
    connection.execute(update(approval).where(approval.c.id == rejected.id).values(reason=DELETED))
    answer = (message.c.turn_id == rejected.turn_id) & (message.c.call_id == rejected.call_id)
    for row in connection.execute(select(message).where(answer, message.c.role == Role.TOOL)).all():
        text = json.dumps(json.loads(row.text) | {"reason": DELETED, "by": SOMEBODY})
        connection.execute(update(message).where(message.c.id == row.id).values(text=text))
    again = outbox.c.key.startswith(AGAIN_KEY.format("")) & outbox.c.content.contains(rejected.id, autoescape=True)
    cards = (outbox.c.key == CARD_KEY.format(rejected.id)) | again
    footer = partial(_with_footer, footer=lambda said: said.replace(rejected.reason, DELETED))
    return _redraw(connection, cards, footer)


def _with_footer(content: Content, *, footer: Callable[[str], str]) -> Content:
    if content.card is None:
        return content
    card = content.card.model_copy(update={"footer": footer(content.card.footer)})
    return content.model_copy(update={"card": card})


def _redraw(connection: Connection, posts: ColumnElement[bool], change: Callable[[Content], Content]) -> set[str]:
    """Show posts changed; the threads of those that a change makes different.

    What one person alone was told is changed here alone.
    """
    threads = set()
    for row in connection.execute(select(outbox).where(posts)).all():
        content = wire.decode(Content, row.content)
        if (shown := change(content)) == content:
            continue
        if row.whisper is not None:
            connection.execute(update(outbox).where(outbox.c.id == row.id).values(content=wire.encode(shown).decode()))
            continue
        put_post(connection, row.key, wire.decode(Thread, row.thread), shown, whisper=None, urgent=False)
        threads.add(row.thread_key)
    return threads


def _deleted(content: Content) -> Content:
    return content.model_copy(update={"text": DELETED})


def _forget_names(connection: Connection, person: Person) -> set[str]:
    """Take a person's names from their turns and questions, and from what the bot says to or of them by name.

    Errors of their turns go as a whole, as they may repeat what was said.
    """
    names, errors = {person.name}, list[str]()
    named = f'"id":{json.dumps(person.id)}'
    query = select(turn.c.id, turn.c.person).where(turn.c.person.contains(named, autoescape=True))
    for row in connection.execute(query).all():
        known = wire.decode(Person, row.person)
        if known.key == person.key:
            names.add(known.name)
            errors.append(ERROR_KEY.format(row.id))
            nameless = wire.encode(known.model_copy(update={"name": ""})).decode()
            connection.execute(update(turn).where(turn.c.id == row.id).values(person=nameless))
    asked = select(question).where(question.c.asked.contains(named, autoescape=True))
    for row in connection.execute(asked).all():
        of = wire.decode(Question, row.asked)
        if of.person.key == person.key:
            nameless = wire.encode(of.model_copy(update={"person": of.person.model_copy(update={"name": ""})})).decode()
            connection.execute(update(question).where(question.c.id == row.id).values(asked=nameless))
    redrawn = _redraw(connection, outbox.c.key.in_(errors), _deleted)
    for name in filter(None, names):
        redrawn |= _forget_mentions(connection, json.dumps(name, ensure_ascii=False)[1:-1])
    return redrawn


def _forget_mentions(connection: Connection, name: str) -> set[str]:
    """Take a name, as it is written in JSON, from cards, posts and the messages that repeat these."""
    written = re.compile(NAMED.format(re.escape(name)), re.IGNORECASE)

    def without(text: str) -> str:
        return written.sub(rf"\1{SOMEBODY}", text)

    def shown(content: Content) -> Content:
        return wire.decode(Content, without(wire.encode(content).decode()))

    for row in connection.execute(select(approval).where(approval.c.card.contains(name, autoescape=True))).all():
        connection.execute(update(approval).where(approval.c.id == row.id).values(card=without(row.card)))
    said = (message.c.role != Role.USER) & message.c.text.contains(name, autoescape=True)
    for row in connection.execute(select(message).where(said)).all():
        connection.execute(update(message).where(message.c.id == row.id).values(text=without(row.text)))
    return _redraw(connection, outbox.c.content.contains(name, autoescape=True), shown)


def _forget_inbox(connection: Connection, person: Person) -> set[str]:
    """Delete what was handled, and the errors about it. What has not become a turn yet waits for its answer."""
    begun, errors = inbox.c.id.in_(select(turn.c.inbox_id)), list[str]()
    query = select(inbox.c.id, inbox.c.payload).where(
        inbox.c.platform == person.platform,
        (inbox.c.state == InboxState.DONE) | begun,
        inbox.c.payload.contains(f'"id":{json.dumps(person.id)}', autoescape=True),
    )
    for row in connection.execute(query).all():
        if wire.decode(Inbound, row.payload).person.key == person.key:
            gone = {"payload": "", "state": InboxState.DONE}
            connection.execute(update(inbox).where(inbox.c.id == row.id).values(gone))
            errors.append(ERROR_KEY.format(row.id))
    return _redraw(connection, outbox.c.key.in_(errors), _deleted)
