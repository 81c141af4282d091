"""A recorded session has everything that happened in it, and can be read back and shown."""

import contextlib
import io
import json
import sqlite3
from pathlib import Path

import pytest
from rich.console import Console

from agent.brain import Brain
from agent.conversation.exported import as_markdown
from agent.domain.errors import BadData
from agent.domain.session_events import (
    ApprovalAct,
    ApprovalAsked,
    Asked,
    CardShown,
    Compacted,
    Failed,
    Interrupted,
    Recording,
    Resumed,
    Undone,
    recording_of,
)
from agent.ports import ModelReply, ToolCall
from bot.console.replay import play
from bot.console.replay import recorded as read
from tests.agent.conftest import Harness
from tests.agent.test_beside_a_turn import Drips
from tests.agent.test_sessions import ELSEWHERE, answers, tells
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, THREAD, ScriptedModel, commanded, said

ASK = ToolCall("c1", "ask_user", '{"question": "Which seed?", "choices": ["3", "7"]}')
LOOK = ToolCall("c2", "inspect_dataset", '{"file": "visits.csv"}')
TRAIN = ToolCall("c3", "start_training", '{"file": "visits.csv", "target": "visited_doctor", "settings": {"seed": 7}}')


async def recorded(harness: Harness, csv: Path) -> Recording:
    """A question, an answer, a card, an approval that somebody rejects, an undone turn and a fresh start."""
    harness.model = ScriptedModel(
        ModelReply("Let me look.", (ASK, LOOK), "m", tokens_in=900, tokens_out=100, cost_usd=0.01),
        ModelReply("", (TRAIN,), "m"),
        ModelReply("Then not.", (), "m"),
        ModelReply("Hello, bob.", (), "m"),
    )
    async with harness.open() as brain:
        await brain.router.accept(said("train on it", files=attached(csv)))
        await harness.until(lambda: any(c.card and "A question" in c.card.title for c in harness.adapter.shown))
        await harness.until(lambda: any(c.card and c.card.kind == "data" for c in harness.adapter.shown))
        await brain.router.accept(said("7"))
        await harness.until(lambda: any(c.card and c.card.kind == "approval" for c in harness.adapter.shown))
        approval = harness.adapter.button("approve").subject
        await brain.router.accept(said(f"reject {approval} because it is late"))
        await harness.until(lambda: "Then not." in harness.adapter.texts())
        for words in ("hello there", "undo", "new"):
            await brain.router.accept(said(words, person=BOB))
            await brain.router.idle()
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        return await brain.stores.sessions.recording(session_id or "")


async def test_a_recording_has_all_that_happened_and_can_be_read_back(harness: Harness, csv: Path) -> None:
    recording = await recorded(harness, csv)
    assert [event.kind for event in recording.events] == [
        *("asked", "replied", "tool_called", "question_asked", "tool_called", "tool_answered", "card_shown"),
        *("tool_answered", "replied", "tool_called", "approval_asked", "approval_act", "tool_answered"),
        *("replied", "turn_ended", "asked", "replied", "turn_ended", "undone", "compacted"),
    ]
    (asked,) = (event for event in recording.events if isinstance(event, ApprovalAsked))
    (decided,) = (event for event in recording.events if isinstance(event, ApprovalAct))
    assert asked.card is not None
    assert (decided.approval, decided.act, decided.person, decided.reason) == (
        *(asked.approval, "rejected", "alice"),
        "it is late",
    )
    timed = {
        "asked",
        "replied",
        "tool_called",
        "tool_answered",
        "approval_asked",
        "approval_act",
        "undone",
        "compacted",
    }
    assert {event.kind for event in recording.events if event.at} == timed
    lines = list(recording.lines())
    assert json.loads(lines[0]) == {"kind": "session", "version": 3, "session": recording.session}
    assert recording_of(lines) == recording


async def test_an_answer_that_somebody_ended_and_how_long_one_took_are_recorded(harness: Harness) -> None:
    harness.model = drips = Drips()
    async with harness.open() as brain:
        await brain.router.accept(said("tell me"))
        await harness.until(lambda: any("Slowly" in text for text in harness.adapter.texts()))
        await brain.router.accept(said("stop", person=BOB))
        await brain.router.idle()
        drips.may_end.set()
        await brain.router.accept(said("and now?"))
        await brain.router.idle()
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        recording = await brain.stores.sessions.recording(session_id or "")
        with contextlib.closing(sqlite3.connect(harness.folder / "test.db")) as database, database:
            database.execute("UPDATE message SET facts = ? WHERE facts LIKE '%ended_by%'", ('{"stopped": true}',))
        unknown = await brain.stores.sessions.recording(session_id or "")
    assert [event.person for event in recording.events if isinstance(event, Interrupted)] == ["bob"]
    assert [event.person for event in unknown.events if isinstance(event, Interrupted)] == [""]  # of an older bot
    kinds = [event.kind for event in recording.events]
    assert kinds == ["asked", "replied", "interrupted", "turn_ended", "asked", "replied", "turn_ended"]
    for version in (1, 2):
        older = [line.replace('"version": 3', f'"version": {version}') for line in unknown.lines()]
        assert recording_of(older) == unknown
    assert "interrupted" not in as_markdown(recording)


async def test_a_recording_is_shown_as_it_was(harness: Harness, csv: Path) -> None:
    recording = await recorded(harness, csv)
    out = io.StringIO()
    await play(recording, Console(file=out, width=100))
    shown = out.getvalue()
    for text in (
        *("› alice", "train on it", "@visits.csv", "Let me look.", "→ inspect_dataset", "Which seed?", "[3 · 7]"),
        *("Rejected by alice: it is late", "Then not.", "› bob", "This turn was taken back."),
        *("Taken back by bob: I forgot the last turn: “hello there”", "A fresh start, asked for by bob."),
    ):
        assert text in shown
    assert "[Approve]" not in shown
    markdown = as_markdown(recording)
    assert "**bob**" in markdown
    assert "_Rejected by alice: it is late_" in markdown
    assert "_Taken back by bob: I forgot the last turn" in markdown


async def test_a_recording_names_no_folder_of_this_machine(harness: Harness, csv: Path) -> None:
    recording = await recorded(harness, csv)
    card = next(event for event in recording.events if isinstance(event, CardShown)).card
    picture = {"path": "/home/ann/.trainyard/charts/a.png", "alt": "A curve.", "sha256": "0"}
    drawn = CardShown.model_validate({"turn": "t-1", "card": card.model_dump() | {"picture": picture}})
    lines = "\n".join(recording.model_copy(update={"events": (drawn,)}).lines())
    assert '"path": "a.png"' in lines
    assert "/home/ann" not in lines


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "The file is empty"),
        (['{"role": "user"}'], "its first line is not about a session"),
        (['{"kind": "session", "version": 9}'], "has version 9, and this Trainyard reads up to version 3"),
        (['{"kind": "session", "version": 1}', "", '{"kind": "sang"}'], "Line 3 is no event of a session"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(lines: list[str], why: str) -> None:
    with pytest.raises(BadData, match=why):
        recording_of(lines)


async def test_a_command_that_only_looks_stands_in_the_recording_with_its_answer(harness: Harness) -> None:
    harness.model = ScriptedModel(ModelReply("Hello.", (), "m"), ModelReply("Bye.", (), "m"))
    async with harness.open() as brain:
        for words in ("hi", "runs", "cost", "bye"):
            await brain.router.accept(said(words))
            await brain.router.idle()
        await brain.router.accept(commanded("status"))  # answered to its person alone
        await brain.router.idle()
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        recording = await brain.stores.sessions.recording(session_id or "")
        looked = [event for event in recording.events if not event.turn]
        assert [event.kind for event in looked] == ["asked", "replied", "asked", "card_shown"]
        assert [event.text for event in recording.events if isinstance(event, Asked)] == ["hi", "runs", "cost", "bye"]
        assert recording_of(recording.lines()) == recording
        await brain.stores.sessions.forget(ALICE)
        left = await brain.stores.sessions.recording(session_id or "")
        assert not [event for event in left.events if not event.turn]


async def recording_here(brain: Brain) -> Recording:
    session_id = await brain.stores.conversations.session_of(THREAD, create=False)
    return await brain.stores.sessions.recording(session_id or "")


async def test_what_failed_is_told_from_an_answer(harness: Harness) -> None:
    def breaks(_: object) -> ModelReply:
        raise RuntimeError("a bug")

    harness.model = ScriptedModel(breaks, ModelReply("Hello.", (), "m"))
    async with harness.open() as brain:
        await tells(harness, brain, "break")
        await tells(harness, brain, "hi")
        await tells(harness, brain, "new")
        await tells(harness, brain, "undo")  # of what is before a fresh start
        recording = await recording_here(brain)
        assert [event.kind for event in recording.events] == [
            *("asked", "failed", "turn_ended", "asked", "replied", "turn_ended", "compacted", "asked", "failed"),
        ]
        broke, refused = (event for event in recording.events if isinstance(event, Failed))
        assert broke.text.startswith("Something broke here (id ")
        assert refused.text.startswith("The last turn is part of a summary, or from before a fresh start")
        assert recording_of(recording.lines()) == recording
        out = io.StringIO()
        await play(recording, Console(file=out, width=100))
        for shown in (out.getvalue(), as_markdown(recording)):
            assert "Something broke here (id " in shown
        assert "**Trainyard** (failed)\n\nSomething broke here" in as_markdown(recording)
        await brain.stores.sessions.forget(ALICE)
        left = await recording_here(brain)
    assert [event.text for event in left.events if isinstance(event, Failed)] == ["[deleted]"]
    assert [event.person for event in left.events if isinstance(event, Compacted)] == ["somebody"]


async def test_who_compacted_undid_and_resumed_is_recorded(harness: Harness) -> None:
    harness.model = answers("It is blue.", "They spoke of a colour.", "It is red.", "It is green.", "Yes.")
    async with harness.open() as brain:
        await tells(harness, brain, "what colour is it?")
        here = (await recording_here(brain)).session
        await tells(harness, brain, "compact", person=BOB)
        await tells(harness, brain, "and now?")
        await tells(harness, brain, "undo", person=BOB)
        await tells(harness, brain, f"resume {here}")
        await tells(harness, brain, "what now?", thread=ELSEWHERE)
        await tells(harness, brain, f"resume {here}", thread=ELSEWHERE, person=BOB)
        recording = await recording_here(brain)
        assert [event.kind for event in recording.events] == [
            *("asked", "replied", "turn_ended", "compacted", "asked", "replied", "turn_ended"),
            *("undone", "resumed", "resumed"),
        ]
        (compacted,) = (event for event in recording.events if isinstance(event, Compacted))
        assert (compacted.summary, compacted.person) == ("They spoke of a colour.", "bob")
        (undone,) = (event for event in recording.events if isinstance(event, Undone))
        taken_back = next(event.turn for event in recording.events if getattr(event, "text", "") == "and now?")
        assert (undone.turn, undone.person) == (taken_back, "bob")
        resumed = [(event.person, event.text) for event in recording.events if isinstance(event, Resumed)]
        assert [person for person, _ in resumed] == ["alice", "bob"]
        assert resumed[0][1] == "I read this conversation from its beginning again."
        assert f"goes on with the conversation `{here}`" in resumed[1][1]
        assert recording_of(recording.lines()) == recording
        await brain.stores.sessions.forget(BOB)
        left = await recording_here(brain)
    assert [event.person for event in left.events if isinstance(event, Undone | Resumed)] == [
        *("somebody", "alice", "somebody"),
    ]


async def test_who_dropped_a_question_ended_its_turn(harness: Harness) -> None:
    harness.model = ScriptedModel(ModelReply("", (ASK,), "m"))
    async with harness.open() as brain:
        await tells(harness, brain, "ask me")
        assert "dropped my question" in await tells(harness, brain, "stop")
        events = (await recording_here(brain)).events
    assert [event.kind for event in events][-3:] == ["replied", "interrupted", "turn_ended"]
    assert [event.person for event in events if isinstance(event, Interrupted)] == ["alice"]


async def test_a_recording_that_an_editor_gave_a_byte_order_mark_is_read(harness: Harness, tmp_path: Path) -> None:
    harness.model = answers("Hello.")
    async with harness.open() as brain:
        await tells(harness, brain, "hi")
        recording = await recording_here(brain)
    path = tmp_path / "conversation.jsonl"
    path.write_text("\n".join(recording.lines()), encoding="utf-8-sig")
    assert await read(str(path)) == recording
