"""The database: group commit, races, idempotent events, and a schema that is what the code says."""

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select

from agent import wire
from agent.clock import month_began
from agent.domain.approvals import Approval, ApprovalState
from agent.domain.content import Content
from agent.domain.errors import Conflict, Unavailable
from agent.domain.events import Ended, Logged, Measured, MetricRow, Started, WorkerEvent
from agent.domain.ids import is_run_id, new_run_id, new_ulid
from agent.domain.inbound import Inbound
from agent.domain.questions import Question
from agent.domain.runs import ENDED, TRANSITIONS, Outcome, Run, RunState, may_become
from agent.domain.session_events import Asked, TurnEnded
from agent.ports import AttachedFile, MessageRef, ModelMessage, Role, ToolCall, Whisper
from agent.storage import sql_stores
from agent.storage.database import Database
from agent.storage.tables import metadata, session
from agent.stores import Compaction, ModelCall, Spent, Stores, Turn, TurnKind, TurnState
from tests.agent.databases import on_both
from tests.agent.engine import ENDING, a_run
from tests.fakes import ALICE, BOB, START, THREAD, said


@pytest.fixture
def stores(either_database: Database) -> Stores:
    return sql_stores(either_database)


async def a_turn(stores: Stores, kind: TurnKind = TurnKind.ASKED) -> Turn:
    item = await stores.inbox.add(said("go"))
    assert item is not None
    session_id = await stores.conversations.session_of(THREAD, create=True)
    assert session_id is not None
    turn = Turn(f"t-{new_ulid()}", session_id, item.id, THREAD, ALICE, kind=kind)
    assert await stores.conversations.begin_turn(turn, ModelMessage(Role.USER, "go"))
    return turn


def event(run: Run, seq: int, body: object, attempt: int = 1) -> WorkerEvent:
    return WorkerEvent(run=run.id, attempt=attempt, seq=seq, host="gpu-1", at=START, body=body)  # type: ignore[arg-type]


@on_both
async def test_the_migrations_make_what_the_tables_say(either_database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    assert await either_database.read(differences) == []


@on_both
async def test_one_failing_write_harms_no_other_in_its_group(either_database: Database) -> None:
    def good(connection: Connection, name: str) -> str:
        connection.execute(insert(session).values(id=name, created_at=START))
        return name

    def bad(connection: Connection) -> str:
        connection.execute(insert(session).values(id="bad", created_at=START))
        raise ValueError("on purpose")

    jobs = [
        either_database.write(lambda c, n=n: good(c, f"s{n}")) if n % 5 else either_database.write(bad)
        for n in range(100)
    ]  # type: ignore[misc]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    stored = await either_database.read(lambda c: {row.id for row in c.execute(select(session.c.id))})
    assert stored == {f"s{n}" for n in range(100) if n % 5}
    assert sum(isinstance(result, ValueError) for result in results) == 20


async def test_an_unreachable_database_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=r"cannot be opened .*TRAINYARD_DATABASE_URL"):
        await Database(f"sqlite:///{tmp_path}/file/sub/test.db").start()


@on_both
async def test_of_fifty_deciders_exactly_one_wins(stores: Stores) -> None:
    turn = await a_turn(stores)
    approval = Approval(
        id="a-1",
        session_id=turn.session_id,
        turn_id=turn.id,
        call_id="c1",
        tool="start_training",
        arguments={"x": 1},
        requester=ALICE.key,
        digest="d" * 64,
        state=ApprovalState.PENDING,
        created_at=START,
        expires_at=START + timedelta(hours=1),
    )
    assert await stores.approvals.ask(approval, Content(text="?"))
    assert not await stores.approvals.ask(approval.model_copy(update={"id": "a-2"}), Content(text="?"))
    states = [ApprovalState.APPROVED, ApprovalState.REJECTED]
    answers = await asyncio.gather(
        *(stores.approvals.decide("a-1", digest="d" * 16, state=states[n % 2], by=f"p{n}", at=START) for n in range(50))
    )
    (winner,) = [answer for answer in answers if answer is not None]
    call = ToolCall("c1", "start_training", "")
    settled = await asyncio.gather(
        *(stores.approvals.settle(winner, call, "{}", Content(text="!"), at=START) for _ in range(10))
    )
    assert settled.count(True) == 1
    history = await stores.conversations.history(turn.session_id)
    assert [said_.role for said_ in history] == [Role.USER, Role.TOOL]


@on_both
async def test_a_message_comes_back_with_the_facts_about_it(stores: Stores) -> None:
    turn, by = await a_turn(stores), ALICE.key
    for told in (
        ModelMessage(Role.USER, "a\n[file: b]", speaker="alice", person=by, files=(AttachedFile("c d.csv", 3),)),
        ModelMessage(Role.USER, "", speaker="alice", person=by, refused=("Too large.", "Gone.")),
        ModelMessage(Role.ASSISTANT, "Shall I?", (ToolCall("c1", "look", "{}"),), model="m", offers="churn"),
        ModelMessage(Role.TOOL, "{}", call_id="c1"),
    ):
        await stores.conversations.append(turn, [told])
        assert (await stores.conversations.history(turn.session_id))[-1] == told
    noticed = await a_turn(stores, TurnKind.NOTICED)
    assert await stores.conversations.turn(noticed.id) == noticed
    assert noticed in await stores.conversations.running_turns()
    (last,) = [m for m in await stores.conversations.history(turn.session_id) if m.noticed]
    assert (last.text, last.speaker) == ("go", "")


@on_both
async def test_a_run_is_created_once_per_token(stores: Stores) -> None:
    runs = await asyncio.gather(*(a_run(stores, "same") for _ in range(10)))
    assert len({run.id for run in runs}) == 1


@on_both
async def test_events_are_applied_once_in_any_repetition(stores: Stores) -> None:
    run = await a_run(stores)
    assert await stores.runs.dispatch(run.id, host="gpu-1", at=START) is not None
    assert await stores.runs.dispatch(run.id, host="gpu-1", at=START) is None
    rows = tuple(MetricRow(step=n, at=1.0, values={"loss": math.nan if n == 1 else 1 / (n + 1)}) for n in range(3))
    events = [
        event(run, 1, Started(model="m", total_steps=3)),
        event(run, 2, Measured(rows=rows)),
        event(run, 3, Logged(lines=("one", "two"))),
        event(run, 4, Ended(outcome=Outcome(state=RunState.SUCCEEDED))),
    ]
    assert (await stores.runs.apply(events[:2], at=START, ending=ENDING)).changed == (run.id,)
    await stores.runs.apply([*events, *events], at=START, ending=ENDING)
    assert (await stores.runs.apply(events, at=START, ending=ENDING)).changed == ()
    ended = await stores.runs.get(run.id)
    assert (ended.state, ended.step, ended.total_steps) == (RunState.SUCCEEDED, 2, 3)
    stored = await stores.runs.metrics(run.id)
    assert len(stored) == 3
    assert math.isnan(stored[1].values["loss"])
    assert list(await stores.runs.log(run.id, 10)) == ["one", "two"]


@on_both
async def test_a_superseded_attempt_changes_nothing(stores: Stores) -> None:
    run = await a_run(stores)
    await stores.runs.dispatch(run.id, host="gpu-1", at=START)
    await stores.runs.end(
        run.id, expect=RunState.STARTING, outcome=Outcome(state=RunState.LOST, reason="silent"), at=START
    )
    assert await stores.runs.move(run.id, expect=RunState.LOST, to=RunState.QUEUED)
    assert await stores.runs.dispatch(run.id, host="gpu-1", at=START) is not None
    late = event(run, 9, Ended(outcome=Outcome(state=RunState.SUCCEEDED)), attempt=1)
    assert (await stores.runs.apply([late], at=START, ending=ENDING)).changed == ()
    assert (await stores.runs.get(run.id)).state is RunState.STARTING


@on_both
async def test_illegal_moves_are_refused(stores: Stores) -> None:
    run = await a_run(stores)
    assert not await stores.runs.move(run.id, expect=RunState.QUEUED, to=RunState.RUNNING)
    assert not await stores.runs.move(run.id, expect=RunState.RUNNING, to=RunState.STOPPING)
    assert (await stores.runs.get(run.id)).state is RunState.QUEUED


@on_both
async def test_equal_content_is_not_a_new_version(stores: Stores) -> None:
    for words in ("one", "one", "two", "two"):
        await stores.outbox.put("k", THREAD, Content(text=words), whisper=Whisper("p", "h"), urgent=False)
    post = await stores.outbox.get("k")
    assert post is not None
    assert (post.version, post.shown, post.whisper) == (2, 0, Whisper("p", "h"))
    await stores.outbox.sent("k", MessageRef("C", "1"), shown=2)
    assert list(await stores.outbox.due(THREAD.key)) == []


@on_both
async def test_new_content_gives_a_dead_message_another_chance(stores: Stores) -> None:
    await stores.outbox.put("k", THREAD, Content(text="cannot be shown"), whisper=None, urgent=False)
    await stores.outbox.dead("k", version=1)
    assert list(await stores.outbox.due(THREAD.key)) == []
    await stores.outbox.put("k", THREAD, Content(text="can be shown"), whisper=None, urgent=False)
    assert [(post.key, post.state) for post in await stores.outbox.due(THREAD.key)] == [("k", "new")]


@on_both
async def test_what_models_cost_adds_up(stores: Stores) -> None:
    turn = await a_turn(stores)
    elsewhere = replace(
        turn, person=ALICE.model_copy(update={"id": "U-bob"}), thread=THREAD.model_copy(update={"channel": "C2"})
    )
    now = START.replace(day=15)
    await stores.usage.add(ModelCall(turn, "m/a", 1000, 200, 0.25, now))
    await stores.usage.add(ModelCall(turn, "m/b", 10, 2, None, now))
    await stores.usage.add(ModelCall(elsewhere, "m/a", 500, 100, 0.5, month_began(now) - timedelta(seconds=1)))
    assert await stores.usage.spent() == Spent(3, 1510, 302, 0.75, 1)
    assert await stores.usage.spent(since=month_began(now)) == Spent(2, 1010, 202, 0.25, 1)
    assert await stores.usage.spent(person=ALICE.key, session_id=turn.session_id) == Spent(2, 1010, 202, 0.25, 1)
    assert await stores.usage.spent(channel=elsewhere.thread.channel_key) == Spent(1, 500, 100, 0.5, 0)
    assert await stores.usage.spent(person="slack/T1/nobody") == Spent()
    assert await stores.usage.by_model() == {"m/a": Spent(2, 1500, 300, 0.75, 0), "m/b": Spent(1, 10, 2, 0.0, 1)}


def test_what_has_ended_well_stays_ended() -> None:
    assert TRANSITIONS[RunState.SUCCEEDED] == frozenset()
    assert all(not may_become(state, RunState.RUNNING) for state in ENDED - {RunState.LOST})
    assert set(TRANSITIONS) == set(RunState)


@given(st.dictionaries(st.text(min_size=1), st.floats(allow_nan=True, allow_infinity=True)))
def test_metrics_survive_the_wire(values: dict[str, float]) -> None:
    body = Measured(rows=(MetricRow(step=1, at=0.5, values=values),))
    again = wire.decode(Measured, wire.encode(body)).rows[0].values
    assert again.keys() == values.keys()
    assert all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(again.values(), values.values(), strict=True)
    )


def test_garbage_on_the_wire_is_kept_for_the_log() -> None:
    with pytest.raises(wire.Malformed) as caught:
        wire.decode(Measured, b'{"rows": 3}')
    assert caught.value.raw == b'{"rows": 3}'


@given(st.text(max_size=12))
def test_run_ids_have_one_form(text: str) -> None:
    assert is_run_id(new_run_id())
    assert not is_run_id(text) or (len(text) == 8 and text.isascii() and "/" not in text)


@on_both
async def test_questions_on_both_databases(stores: Stores) -> None:
    turn = await a_turn(stores)
    fields = {"id": f"q-{new_ulid()}", "session_id": turn.session_id, "turn_id": turn.id, "call_id": "c1"}
    question = Question(**fields, thread=THREAD, person=ALICE, text="?", choices=("a", "b"), expires_at=START)
    assert await stores.questions.ask(question, Content(text="card"))
    assert not await stores.questions.ask(question.model_copy(update={"id": "q-2"}), Content(text="card"))
    assert (await stores.conversations.turn(turn.id)).state is TurnState.PAUSED
    assert await stores.questions.open_in(THREAD) == [question]
    assert await stores.questions.expired(START - timedelta(seconds=1)) == []
    assert await stores.questions.expired(START) == [question] == [await stores.questions.get(question.id)]
    answer = ModelMessage(Role.TOOL, "b", call_id="c1", steers=BOB.key)
    item = await stores.inbox.add(said("b"))
    assert item is not None
    closed = [await stores.questions.close(question, answer, Content(text="closed"), item_id=item.id) for _ in range(2)]
    assert closed == [True, False]
    assert await stores.inbox.waiting() == []
    assert await stores.questions.open_in(THREAD) == []
    assert (await stores.conversations.turn(turn.id)).state is TurnState.RUNNING
    assert (await stores.conversations.history(turn.session_id))[-1] == answer


def words(turn: Sequence[ModelMessage]) -> str:
    """All that was said in a turn."""
    return " ".join(said.text for said in turn)


@on_both
async def test_what_is_left_out_and_taken_back_on_both_databases(stores: Stores) -> None:
    conversations, sessions = stores.conversations, stores.sessions
    first = await a_turn(stores)
    long = ModelMessage(Role.TOOL, "short", call_id="c1", whole="long " * 9, cut_chars=45)
    (stored,) = await conversations.append(first, [long])
    assert await conversations.whole_text(first.session_id, stored.id) == "long " * 9
    assert await conversations.whole_text("s-other", stored.id) is None
    await conversations.end_turn(first, ModelMessage(Role.ASSISTANT, "Bye."), key="k", content=Content(text="Bye."))
    found = await sessions.newest(first.session_id)
    assert found is not None
    assert found[0].id == first.id
    made = Compaction(upto=found[1], cleared=found[1], made_after=found[1], summary="They parted.")
    await conversations.compact(first.session_id, made, thread=THREAD, text="Summarised.")
    second = await a_turn(stores)
    context = await conversations.resume_turn(second)
    assert context is not None
    assert ([said.text for said in context.history], context.compaction) == (["go"], made)
    with pytest.raises(Conflict, match="or waits for people"):
        await sessions.undo(second.id, thread=THREAD, key="undo", notice=words)
    await conversations.end_turn(second, ModelMessage(Role.ASSISTANT, "Hm."), key="k2", content=Content(text="Hm."))
    await sessions.undo(second.id, thread=THREAD, key="undo", notice=words)
    undone = await stores.outbox.get("undo")
    assert undone is not None
    assert undone.content.text == "go Hm."
    events = (await sessions.recording(first.session_id)).events
    assert [(event.kind, getattr(event, "text", "")) for event in events] == [
        *(("asked", "go"), ("tool_answered", "short"), ("replied", "Bye."), ("turn_ended", ""), ("compacted", "")),
        *(("asked", "go"), ("replied", "Hm."), ("turn_ended", "")),
    ]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].state == "undone"
    (listed,) = await sessions.recent(5)
    assert (listed.id, listed.asked, [thread.key for thread in listed.threads]) == (
        *(first.session_id, "go"),
        [THREAD.key],
    )
    other = THREAD.model_copy(update={"thread_id": "1700000000.123456"})
    await sessions.bind(other, first.session_id, key="moved", text="It goes on here.")
    assert await sessions.at("https://x.slack.com/archives/C1/p1700000000123456", THREAD) == first.session_id
    assert await sessions.at("https://x.slack.com/archives/C1/p1700000000999999", THREAD) is None
    assert {thread.key for thread in await sessions.threads(first.session_id)} == {THREAD.key, other.key}
    assert (await sessions.forget(BOB)).messages == 0
    assert (await sessions.forget(ALICE)).messages == 2
    begun = (await sessions.recording(first.session_id)).events[0]
    assert isinstance(begun, Asked)
    assert (begun.text, begun.person) == ("[deleted]", "U-alice")
    assert (await conversations.context(first.session_id)).compaction.summary == "[deleted]"


def test_acts_carry_the_version_of_their_union_and_one_of_a_newer_bot_is_refused() -> None:
    written = json.loads(wire.encode(said("hello")))
    assert written["version"] == 1
    assert wire.decode(Inbound, json.dumps({**written, "version": 1})).act.kind == "said"
    with pytest.raises(wire.Malformed):
        wire.decode(Inbound, json.dumps({**written, "version": 2}))
