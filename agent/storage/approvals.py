"""The approval table: decided by compare-and-set, consumed once."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from agent import wire
from agent.domain.approvals import (
    AGAIN_KEY,
    CARD_KEY,
    SHOWN_DIGEST_CHARS,
    Allowance,
    Approval,
    ApprovalState,
    decided_again,
)
from agent.domain.content import Content
from agent.domain.errors import NotFound
from agent.domain.inbound import Person, Thread
from agent.ports import ModelMessage, Role, ToolCall
from agent.storage.allowances import put_allowance
from agent.storage.audit import record
from agent.storage.conversations import add_message, as_turn
from agent.storage.database import Database
from agent.storage.outbox import put_post
from agent.storage.tables import approval, inbox, outbox, turn, vote
from agent.stores import InboxItem, InboxState, TurnState


def as_approval(row: Row[Any]) -> Approval:
    return Approval(
        id=row.id,
        session_id=row.session_id,
        turn_id=row.turn_id,
        call_id=row.call_id,
        tool=row.tool,
        arguments=json.loads(row.arguments),
        requester=row.requester,
        digest=row.digest,
        state=ApprovalState(row.state),
        created_at=row.created_at,
        expires_at=row.expires_at,
        decided_by=row.decided_by,
        decided_name=row.decided_name,
        decided_at=row.decided_at,
        reason=row.reason,
        edits=json.loads(row.edits),
        edited_at=row.edited_at,
        edited_by=tuple(json.loads(row.edited_by)),
        quorum=row.quorum,
        allowance=row.allowance,
    )


class SqlApprovals:
    """Questions that wait for a click."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def ask(self, asked: Approval, card: Content) -> bool:
        """Store a question, open or approved by itself, pause its turn and show its card, in one transaction."""
        values = asked.model_dump() | {
            "arguments": json.dumps(asked.arguments),
            "edits": json.dumps(asked.edits),
            "edited_by": json.dumps(asked.edited_by),
            "card": wire.encode(card).decode(),
        }

        def store(connection: Connection) -> None:
            owner = as_turn(connection.execute(select(turn).where(turn.c.id == asked.turn_id)).one())
            connection.execute(insert(approval).values(values))
            connection.execute(update(turn).where(turn.c.id == asked.turn_id).values(state=TurnState.PAUSED))
            _end_item(connection, owner.inbox_id)
            put_post(connection, CARD_KEY.format(asked.id), owner.thread, card, whisper=None, urgent=True)
            person = owner.person
            record(connection, "asked", asked, owner.thread, at=asked.created_at, who=person.key, name=person.shown)
            if asked.decided_at is not None:
                by, name = asked.decided_by or "", asked.decided_name
                record(connection, asked.state.value, asked, owner.thread, at=asked.decided_at, who=by, name=name)

        try:
            await self._database.write(store)
        except IntegrityError:
            return False
        return True

    async def asked(self, turn_id: str, call_id: str) -> bool:
        """Whether people were asked about a call, whatever became of that."""
        query = select(approval.c.id).filter_by(turn_id=turn_id, call_id=call_id)
        found = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return found is not None

    async def get(self, approval_id: str) -> Approval:
        """One question."""
        return as_approval(await self._row(approval_id))

    async def card(self, approval_id: str) -> Content:
        """What was shown."""
        return wire.decode(Content, (await self._row(approval_id)).card)

    async def _row(self, approval_id: str) -> Row[Any]:
        query = select(approval).where(approval.c.id == approval_id)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise NotFound(f"There is no approval {approval_id}.")
        return row

    async def edit(self, edited: Approval, card: Content, *, digest: str, by: InboxItem, at: datetime) -> bool:
        """Compare-and-set from pending with this digest: other arguments, and the card that shows them."""
        change = (
            update(approval)
            .where(approval.c.id == edited.id, approval.c.state == ApprovalState.PENDING.value)
            .where(approval.c.digest == digest, approval.c.expires_at > at)
            .values(
                arguments=json.dumps(edited.arguments),
                edits=json.dumps(edited.edits),
                digest=edited.digest,
                edited_at=at,
                edited_by=json.dumps(edited.edited_by),
                card=wire.encode(card).decode(),
            )
        )

        def store(connection: Connection) -> bool:
            if connection.execute(change).rowcount != 1:
                return False
            owner = as_turn(connection.execute(select(turn).where(turn.c.id == edited.turn_id)).one())
            put_post(connection, CARD_KEY.format(edited.id), owner.thread, card, whisper=None, urgent=True)
            person = by.inbound.person
            record(connection, "changed", edited, owner.thread, at=at, who=person.key, name=person.shown)
            _end_item(connection, by.id)
            return True

        return await self._database.write(store)

    async def decide(  # noqa: PLR0913 - who decided what, when, why, and what that lets start
        self,
        approval_id: str,
        *,
        digest: str,
        state: ApprovalState,
        by: str,
        at: datetime,
        name: str = "",
        reason: str = "",
        lets: Allowance | None = None,
        item_id: int | None = None,
    ) -> Approval | None:
        """Compare-and-set from pending; None when it was decided, has expired or shows another digest."""
        open_one = _shows(approval_id, digest)
        if state is not ApprovalState.EXPIRED:
            open_one &= approval.c.expires_at > at
        decision = {"decided_by": by, "decided_name": name, "decided_at": at, "reason": reason}
        change = update(approval).where(open_one).values(state=state.value, **decision)

        def store(connection: Connection) -> Row[Any] | None:
            if connection.execute(change).rowcount != 1:
                return None
            row = connection.execute(select(approval).where(approval.c.id == approval_id)).one()
            owner = as_turn(connection.execute(select(turn).where(turn.c.id == row.turn_id)).one())
            record(connection, state.value, as_approval(row), owner.thread, at=at, who=by, name=name)
            if lets is not None:
                put_allowance(connection, lets)
                record(connection, "always", as_approval(row), owner.thread, at=at, who=by, name=name)
            if item_id is not None:
                _end_item(connection, item_id)
            return row

        row = await self._database.write(store)
        return None if row is None else as_approval(row)

    async def vote(self, approval_id: str, person: Person, *, digest: str, at: datetime) -> Sequence[str]:
        """Add a vote to an open question; the names of all who approved what this digest shows, the first one first."""
        open_one = select(approval).where(_shows(approval_id, digest), approval.c.expires_at > at)

        def store(connection: Connection) -> Sequence[str]:
            row = connection.execute(open_one).one_or_none()
            if row is None:
                return ()
            mine = {"approval_id": approval_id, "person": person.key}
            if connection.execute(select(vote).filter_by(**mine, digest=row.digest)).one_or_none() is None:
                connection.execute(delete(vote).filter_by(**mine))
                connection.execute(insert(vote), {**mine, "name": person.shown, "digest": row.digest, "at": at})
                owner = as_turn(connection.execute(select(turn).where(turn.c.id == row.turn_id)).one())
                asked = as_approval(row)
                record(connection, "voted", asked, owner.thread, at=at, who=person.key, name=person.shown)
            votes = select(vote.c.name).filter_by(approval_id=approval_id, digest=row.digest).order_by(vote.c.at)
            return connection.execute(votes).scalars().all()

        return await self._database.write(store)

    async def show(self, approval_id: str, card: Content) -> None:
        """Show another card of an open question."""
        asks = (approval.c.id == approval_id) & (approval.c.state == ApprovalState.PENDING.value)

        def store(connection: Connection) -> None:
            row = connection.execute(select(approval).where(asks)).one_or_none()
            if row is not None:
                connection.execute(update(approval).where(asks).values(card=wire.encode(card).decode()))
                owner = as_turn(connection.execute(select(turn).where(turn.c.id == row.turn_id)).one())
                put_post(connection, CARD_KEY.format(approval_id), owner.thread, card, whisper=None, urgent=True)

        await self._database.write(store)

    async def settle(self, decided: Approval, call: ToolCall, result: str, card: Content, *, at: datetime) -> bool:
        """Consume a decided approval, answer its call and show its card as decided; False when that was done before.

        Cards of its thread that asked about it once more lose their buttons for it.
        """
        change = (
            update(approval)
            .where(approval.c.id == decided.id, approval.c.state == decided.state.value)
            .values(state=ApprovalState.CONSUMED.value)
        )

        def store(connection: Connection) -> bool:
            if connection.execute(change).rowcount != 1:
                return False
            owner = as_turn(connection.execute(select(turn).where(turn.c.id == decided.turn_id)).one())
            said = decided.decided_by or "" if decided.reason else ""  # who gave the reason that stands in the result
            add_message(connection, owner, ModelMessage(Role.TOOL, result, call_id=call.id, steers=said))
            connection.execute(update(turn).where(turn.c.id == decided.turn_id).values(state=TurnState.RUNNING))
            put_post(connection, CARD_KEY.format(decided.id), owner.thread, card, whisper=None, urgent=True)
            _settle_again(connection, owner.thread, decided.id, card)
            if decided.state is ApprovalState.APPROVED:
                act = "failed" if "error" in json.loads(result) else "done"
                by = decided.decided_by or ""
                record(connection, act, decided, owner.thread, at=at, who=by, name=decided.decided_name)
            return True

        return await self._database.write(store)

    async def of_state(self, *states: ApprovalState) -> Sequence[Approval]:
        """All approvals in these states, the oldest first."""
        names = [state.value for state in states]
        query = select(approval).where(approval.c.state.in_(names)).order_by(approval.c.created_at)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [as_approval(row) for row in rows]


def _end_item(connection: Connection, item_id: int) -> None:
    connection.execute(update(inbox).where(inbox.c.id == item_id).values(state=InboxState.DONE))


def _shows(approval_id: str, digest: str) -> ColumnElement[bool]:
    """That a question is open and shows this digest."""
    return (
        (approval.c.id == approval_id)
        & (approval.c.state == ApprovalState.PENDING.value)
        & (func.substr(approval.c.digest, 1, SHOWN_DIGEST_CHARS) == digest)
    )


def _settle_again(connection: Connection, thread: Thread, approval_id: str, decided: Content) -> None:
    """Show the decision on the cards that asked about a question once more."""
    asked = outbox.c.key.startswith(AGAIN_KEY.format(""))
    for row in connection.execute(select(outbox).where(outbox.c.thread_key == thread.key, asked)).all():
        content = wire.decode(Content, row.content)
        if content.card and decided.card:
            content = content.model_copy(update={"card": decided_again(content.card, approval_id, decided.card)})
            put_post(connection, row.key, thread, content, whisper=None, urgent=True)
