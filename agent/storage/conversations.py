"""Sessions, turns, messages and files in SQL."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from agent import wire
from agent.domain.content import Content
from agent.domain.datasets import DatasetRef
from agent.domain.errors import NotFound
from agent.domain.ids import new_ulid
from agent.domain.inbound import Person, Thread
from agent.domain.models import Preference
from agent.ports import AttachedFile, ModelMessage, Role, ToolCall
from agent.storage.database import Database
from agent.storage.outbox import put_post
from agent.storage.tables import binding, compaction, file, inbox, message, session, started_call, turn, whole_text
from agent.stores import Compaction, Context, InboxState, Turn, TurnKind, TurnState


def add_message(connection: Connection, owner: Turn, said: ModelMessage) -> ModelMessage:
    """Insert one message of a turn, and give it with its id; used by every transaction that answers a call."""
    text = said.text.replace("\x00", "")
    number = connection.execute(
        _ADD_MESSAGE,
        {
            "session_id": owner.session_id,
            "turn_id": owner.id,
            "role": said.role,
            "text": text,
            "calls": json.dumps([[call.id, call.name, call.arguments] for call in said.calls]) if said.calls else "",
            "call_id": said.call_id,
            "facts": _facts(said),
            "at": datetime.now(UTC),
        },
    ).scalar_one()
    if said.whole:
        connection.execute(insert(whole_text), {"message_id": number, "text": said.whole.replace("\x00", "")})
    return replace(said, id=number, text=text, whole="")


def note_act(connection: Connection, message_id: int, act: str, key: str, number: int = 0) -> None:
    """Keep with a message what a command did to its session after it; `key` is of what that says in the thread."""
    own = message.c.id == message_id
    facts = json.loads(connection.execute(select(message.c.facts).where(own)).scalar_one() or "{}")
    acts = [*facts.get("acts", ()), [act, key, number]]
    connection.execute(update(message).where(own).values(facts=json.dumps(facts | {"acts": acts})))


def as_turn(row: Row[Any]) -> Turn:
    """A turn from its row."""
    thread, person = wire.decode(Thread, row.thread), wire.decode(Person, row.person)
    return Turn(row.id, row.session_id, row.inbox_id, thread, person, TurnState(row.state), TurnKind(row.kind))


def as_compaction(row: Row[Any] | None) -> Compaction:
    """A compaction from its row; without one, what a session begins with."""
    return Compaction() if row is None else Compaction(row.upto, row.cleared, row.made_after, row.summary)


def as_message(row: Row[Any]) -> ModelMessage:
    """A message from its row, with person and kind of its turn."""
    calls = tuple(ToolCall(*call) for call in json.loads(row.calls)) if row.calls else ()
    facts = json.loads(row.facts) if row.facts else {}
    said = ModelMessage(
        Role(row.role),
        row.text,
        calls,
        row.call_id,
        files=tuple(AttachedFile(*file) for file in facts.get("files", ())),
        refused=tuple(facts.get("refused", ())),
        model=facts.get("model", ""),
        offers=facts.get("offers", ""),
        steers=facts.get("steers", ""),
        tokens=facts.get("tokens", 0),
        failed_tokens=facts.get("failed_tokens", 0),
        window=facts.get("window", 0),
        cost_usd=facts.get("cost_usd", 0.0),
        seconds=facts.get("seconds", 0.0),
        ended_by=facts.get("ended_by", -int(facts.get("stopped", False))),  # `stopped` is what older bots stored
        note=facts.get("note", ""),
        cut_chars=facts.get("cut_chars", 0),
        id=row.id,
    )
    if said.role is not Role.USER or not row.person:
        return said
    said = replace(said, speaker=facts.get("speaker", ""))
    return _said_by(wire.decode(Person, row.person), TurnKind(row.kind), said)


def _said_by(person: Person, kind: TurnKind, said: ModelMessage) -> ModelMessage:
    """The words that began a turn, or steer it, with who said them."""
    if kind is TurnKind.NOTICED and not said.steers:
        return replace(said, noticed=True)
    guest = person.external and said.steers in {"", person.key}
    return replace(said, speaker=said.speaker or person.shown, person=person.key, guest=guest)


def _facts(said: ModelMessage) -> str:
    """What there is to say of a message beside its words, as JSON; empty for nothing."""
    facts = {
        "files": [[file.name, file.size_bytes, file.program] for file in said.files],
        "refused": said.refused,
        "model": said.model,
        "offers": said.offers,
        "steers": said.steers,
        "tokens": said.tokens,
        "failed_tokens": said.failed_tokens,
        "window": said.window,
        "cost_usd": said.cost_usd,
        "seconds": said.seconds if said.tokens else 0.0,  # of the rules nobody asks how long they took
        "ended_by": said.ended_by,
        "note": said.note,
        "cut_chars": said.cut_chars,
        "speaker": said.speaker if said.steers else "",  # else it is the turn's person
    }
    kept = {name: fact for name, fact in facts.items() if fact}
    return json.dumps(kept) if kept else ""


# Built once: building a statement costs three times what carrying it out does.
_ADD_MESSAGE = insert(message).returning(message.c.id)
_ADD_SESSION, _ADD_BINDING, _ADD_TURN = insert(session), insert(binding), insert(turn)
_NEWEST_TURN = (
    select(message.c.turn_id).where(message.c.session_id == bindparam("session")).order_by(message.c.id.desc()).limit(1)
)
_COMPACTION = (
    select(compaction).where(compaction.c.session_id == bindparam("session")).order_by(compaction.c.id.desc()).limit(1)
)
_HISTORY = (
    select(message, turn.c.person, turn.c.kind)
    .join_from(message, turn, message.c.turn_id == turn.c.id, isouter=True)
    .where(
        message.c.session_id == bindparam("session"),
        (message.c.id > bindparam("upto")) | (message.c.turn_id == bindparam("turn")),
        turn.c.state != TurnState.UNDONE,
    )
    .order_by(message.c.id)
)
_FILES = select(file.c.dataset).where(file.c.session_id == bindparam("session")).order_by(file.c.added_at.desc())
_SESSION = select(binding.c.session_id).where(binding.c.thread_key == bindparam("thread"))
_PREFERENCE = select(session.c.model, session.c.effort).where(session.c.id == bindparam("session"))
_END_TURN = update(turn).where(turn.c.id == bindparam("turn")).values(state=TurnState.DONE)
_END_ITEM = update(inbox).where(inbox.c.id == bindparam("item")).values(state=InboxState.DONE)


def _history(connection: Connection, session_id: str, last: str = "", *, upto: int = 0) -> list[ModelMessage]:
    """A session turn by turn, since one may act while another waits or runs; the newest word of each orders them.

    Messages up to `upto` are left out, but for those of the turn `last`.
    """
    rows = list(connection.execute(_HISTORY, {"session": session_id, "upto": upto, "turn": last}).all())
    newest = {row.turn_id: row.id for row in rows}
    rows.sort(key=lambda row: (row.turn_id == last, newest[row.turn_id]))
    return [as_message(row) for row in rows]


def _files(connection: Connection, session_id: str) -> list[DatasetRef]:
    rows = connection.execute(_FILES, {"session": session_id}).all()
    return [wire.decode(DatasetRef, row.dataset) for row in rows]


def _context(connection: Connection, session_id: str, last: str = "") -> Context:
    made = as_compaction(connection.execute(_COMPACTION, {"session": session_id}).one_or_none())
    if made.upto and not last:
        last = connection.execute(_NEWEST_TURN, {"session": session_id}).scalar_one_or_none() or ""
    history = _history(connection, session_id, last, upto=made.upto)
    return Context(history, _files(connection, session_id), made, _preference(connection, session_id))


def _preference(connection: Connection, session_id: str) -> Preference:
    row = connection.execute(_PREFERENCE, {"session": session_id}).one_or_none()
    return Preference(row.model, row.effort) if row else Preference()


def _find_session(connection: Connection, thread: Thread) -> str | None:
    return connection.execute(_SESSION, {"thread": thread.key}).scalar_one_or_none()


def _make_session(connection: Connection, thread: Thread) -> str:
    made = f"s-{new_ulid()}"
    connection.execute(_ADD_SESSION, {"id": made, "created_at": datetime.now(UTC)})
    connection.execute(
        _ADD_BINDING, {"thread_key": thread.key, "session_id": made, "thread": wire.encode(thread).decode()}
    )
    return made


class SqlConversations:
    """Conversations; every answer and its outbox row are one transaction."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def session_of(self, thread: Thread, *, create: bool) -> str | None:
        """The session bound to a thread."""
        if create:
            return await self._database.write(
                lambda connection: _find_session(connection, thread) or _make_session(connection, thread)
            )
        return await self._database.read(lambda connection: _find_session(connection, thread))

    async def threads(self, platform: str, *, since: datetime) -> Sequence[Thread]:
        """The threads with a session in which somebody did something since then."""
        active = select(inbox.c.thread_key).where(inbox.c.platform == platform, inbox.c.received_at >= since)
        query = select(binding.c.thread).where(binding.c.thread_key.in_(active))
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [wire.decode(Thread, row.thread) for row in rows]

    async def people(self, platform: str, tenant: str) -> Sequence[Person]:
        """Who began a turn in this workspace, by each name that they had then."""
        query = select(turn.c.person).distinct()
        rows = await self._database.read(lambda connection: connection.execute(query).scalars().all())
        found = [wire.decode(Person, row) for row in rows]
        return [person for person in found if (person.platform, person.tenant) == (platform, tenant)]

    async def begin_turn(self, turn_: Turn, asked: ModelMessage) -> tuple[Turn, Context] | None:
        """Store a new turn with the person's words; None when this inbox item has a turn already.

        A turn without a session gets the thread's, which is made if there is none. The context ends in `asked`.
        """

        def store(connection: Connection) -> tuple[Turn, Context]:
            known = turn_.session_id or _find_session(connection, turn_.thread)
            session_id = known or _make_session(connection, turn_.thread)
            begun = replace(turn_, session_id=session_id)
            values = {
                "id": begun.id,
                "session_id": session_id,
                "inbox_id": begun.inbox_id,
                "thread": wire.encode(begun.thread).decode(),
                "person": wire.encode(begun.person).decode(),
                "state": begun.state,
                "kind": begun.kind,
                "created_at": datetime.now(UTC),
            }
            connection.execute(_ADD_TURN, values)
            said = _said_by(begun.person, begun.kind, add_message(connection, begun, asked))
            return begun, _context(connection, session_id) if known else Context([said], [])

        try:
            return await self._database.write(store, flushed=False)  # its inbox item would begin it anew
        except IntegrityError:
            return None

    async def turn_of_item(self, inbox_id: int) -> Turn | None:
        """The turn that an inbox item started."""
        query = select(turn).where(turn.c.inbox_id == inbox_id)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else as_turn(row)

    async def turn(self, turn_id: str) -> Turn:
        """A turn by id."""
        query = select(turn).where(turn.c.id == turn_id)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise NotFound(f"There is no turn {turn_id}.")
        return as_turn(row)

    async def history(self, session_id: str) -> Sequence[ModelMessage]:
        """All messages of a session, turn by turn, the turn with the newest one last."""
        return await self._database.read(lambda connection: _history(connection, session_id))

    async def context(self, session_id: str) -> Context:
        """`history` and `files` at once."""
        return await self._database.read(lambda connection: _context(connection, session_id))

    async def resume_turn(self, turn_: Turn) -> Context | None:
        """What a turn goes on with, itself last; None where it has ended."""

        def find(connection: Connection) -> Context | None:
            state = connection.execute(select(turn.c.state).where(turn.c.id == turn_.id)).scalar_one()
            return None if state == TurnState.DONE else _context(connection, turn_.session_id, turn_.id)

        return await self._database.read(find)

    async def append(self, turn_: Turn, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        """Add messages to a running turn; the same with their ids."""

        def store(connection: Connection) -> list[ModelMessage]:
            return [add_message(connection, turn_, said) for said in messages]

        return await self._database.write(store)

    async def steer(self, turn_: Turn, item_id: int, said: ModelMessage) -> ModelMessage:
        """Take an inbox item's words into a running turn: the message and the item's end, in one transaction."""

        def store(connection: Connection) -> ModelMessage:
            connection.execute(_END_ITEM, {"item": item_id})
            return add_message(connection, turn_, said)

        return await self._database.write(store)

    async def compact(self, session_id: str, made: Compaction, *, thread: Thread, text: str, key: str = "") -> None:
        """What models read of a session from now on, and a line in the thread that says so, in one transaction."""
        values = {"session_id": session_id, "at": datetime.now(UTC)} | asdict(made)

        def store(connection: Connection) -> None:
            number = connection.execute(insert(compaction).returning(compaction.c.id), values).scalar_one()
            if key:
                note_act(connection, made.made_after, "compacted" if made.upto else "resumed", key, number)
            shown = key or f"compaction:{number}"
            put_post(connection, shown, thread, Content(text=text), whisper=None, urgent=True)

        await self._database.write(store)

    async def whole_text(self, session_id: str, message_id: int) -> str | None:
        """The whole text of a message, also where a model got a part.

        None where this session has no such message, or its turn was undone.
        """
        query = (
            select(func.coalesce(whole_text.c.text, message.c.text))
            .join_from(message, whole_text, whole_text.c.message_id == message.c.id, isouter=True)
            .join(turn, turn.c.id == message.c.turn_id)
            .where(message.c.id == message_id, message.c.session_id == session_id, turn.c.state != TurnState.UNDONE)
        )
        return await self._database.read(lambda connection: connection.execute(query).scalar_one_or_none())

    async def end_turn(
        self, turn_: Turn, last: ModelMessage, *, key: str, content: Content, ended_by: Sequence[int] = ()
    ) -> int:
        """The answer, the turn's end, its inbox item and its outbox row, in one transaction; that row's version."""

        def store(connection: Connection) -> int:
            add_message(connection, turn_, last)
            version = put_post(connection, key, turn_.thread, content, whisper=None, urgent=True)
            connection.execute(_END_TURN, {"turn": turn_.id})
            for item_id in (turn_.inbox_id, *ended_by):
                connection.execute(_END_ITEM, {"item": item_id})
            return version

        # A loss of power before the answer is noted as sent, which is flushed, has the inbox item answered anew.
        return await self._database.write(store, flushed=False)

    async def running_turns(self) -> Sequence[Turn]:
        """Turns that were cut off, oldest first."""
        query = select(turn).where(turn.c.state == TurnState.RUNNING).order_by(turn.c.created_at)
        return [as_turn(row) for row in await self._database.read(lambda connection: connection.execute(query).all())]

    async def prefer(self, session_id: str, preference: Preference) -> None:
        """The model and the effort that the people of a session want from the next turn on."""
        values = {"model": preference.model, "effort": preference.effort}
        change = update(session).where(session.c.id == session_id).values(values)
        await self._database.write(lambda connection: connection.execute(change))

    async def preference(self, session_id: str) -> Preference:
        """What they want; the usual where there is no such session."""
        return await self._database.read(lambda connection: _preference(connection, session_id))

    async def start_call(self, turn_id: str, call_id: str) -> bool:
        """Mark a call with an effect as begun; False when it was begun before (its outcome is unknown)."""
        change = insert(started_call).values(turn_id=turn_id, call_id=call_id)
        try:
            await self._database.write(lambda connection: connection.execute(change))
        except IntegrityError:
            return False
        return True

    async def add_file(self, session_id: str, dataset: DatasetRef, at: datetime) -> None:
        """A data file of this session; a file of the same name is replaced."""

        def store(connection: Connection) -> None:
            same = (file.c.session_id == session_id) & (file.c.name == dataset.name)
            connection.execute(delete(file).where(same))
            connection.execute(
                insert(file).values(
                    session_id=session_id, name=dataset.name, dataset=wire.encode(dataset).decode(), added_at=at
                )
            )

        await self._database.write(store)

    async def files(self, session_id: str) -> Sequence[DatasetRef]:
        """The files of a session, newest first."""
        return await self._database.read(lambda connection: _files(connection, session_id))
