"""What people do to a whole conversation: start afresh, compact, undo, export, continue, have their words deleted."""

import asyncio
import contextlib
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent.brain import Brain
from agent.conversation.prompt import SUMMARY, as_read
from agent.domain.content import Document
from agent.domain.errors import Conflict
from agent.domain.inbound import Thread
from agent.domain.policy import Effect
from agent.domain.session_events import Compacted
from agent.llm.chain import paired
from agent.ports import ModelMessage, ModelReply, Role, ToolCall
from agent.tools.tool import Caller, Result, Tool
from tests.agent.conftest import Harness
from tests.agent.slow_tools import SlowTools, What
from tests.agent.stage import Stage
from tests.agent.test_turns import asked_to_train, attached
from tests.fakes import ALICE, BOB, GUEST, THREAD, ScriptedModel, clicked, said

ELSEWHERE = THREAD.model_copy(update={"thread_id": "1700000000.123456"})


def answers(*texts: str) -> ScriptedModel:
    return ScriptedModel(*(ModelReply(text, (), "m") for text in texts))


def words(messages: Sequence[ModelMessage]) -> list[str]:
    """What a model reads of a conversation."""
    return [message.text for message in messages if message.role is not Role.SYSTEM]


async def tells(harness: Harness, brain: Brain, text: str, **more: object) -> str:
    """What stands in the thread as an answer to that."""
    await brain.router.idle()
    await brain.delivery.idle()
    before = len(harness.adapter.shown)
    await brain.router.accept(said(text, **more))  # type: ignore[arg-type]
    await harness.until(lambda: len(harness.adapter.shown) > before)
    await brain.router.idle()
    await brain.delivery.idle()
    return harness.adapter.shown[-1].text


async def test_new_starts_afresh_and_resume_brings_it_back(harness: Harness) -> None:
    harness.model = model = answers("Hello.", "Fresh.", "All of it.")
    async with harness.open() as brain:
        await tells(harness, brain, "my name is alice")
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        told = await tells(harness, brain, "new")
        assert told.startswith("_A fresh start: of what was said so far I read nothing any more.")
        assert f"`resume {session_id}` brings it back" in told
        await tells(harness, brain, "who am I?")
        assert words(model.asked[1]) == ["who am I?"]
        assert "from its beginning again" in await tells(harness, brain, f"resume {session_id}")
        await tells(harness, brain, "and now?")
    assert words(model.asked[2]) == ["my name is alice", "Hello.", "who am I?", "Fresh.", "and now?"]


async def test_a_fresh_start_drops_the_question_that_waits(harness: Harness) -> None:
    ask = ToolCall("c1", "ask_user", '{"question": "Which?", "choices": ["a", "b"]}')
    harness.model = model = ScriptedModel(ModelReply("", (ask,), "m"), ModelReply("Hello.", (), "m"))
    async with harness.open() as brain:
        await tells(harness, brain, "do something")
        card = harness.adapter.shown[-1].card
        assert card is not None
        assert (await tells(harness, brain, "new")).startswith("_A fresh start")
        assert await tells(harness, brain, "something else") == "Hello."  # and no answer to the question
        await brain.router.accept(clicked(card.buttons[0]))
        await harness.until(lambda: any("was answered before" in told.text for _, told in harness.adapter.whispers))
        closed = harness.adapter.shown[0].card
        assert closed is not None
        assert (closed.buttons, closed.footer) == ((), "A fresh start was made before anybody answered.")
        assert await brain.stores.conversations.running_turns() == []
    assert words(model.asked[1]) == ["something else"]


async def test_a_fresh_start_waits_for_the_end_of_an_answer(harness: Harness) -> None:
    slow = SlowTools()
    harness.toolsets = (slow,)
    look = ModelReply("", (ToolCall("c1", "look_long", '{"what": "a"}'),), "m")
    harness.model = ScriptedModel(look, ModelReply("Seen.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look around"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("new"))
        await harness.until(lambda: any("Say `stop`, or wait for its end" in text for text in harness.adapter.texts()))
        slow.go_on.set()
        await harness.until(lambda: "Seen." in harness.adapter.texts())
        assert (await tells(harness, brain, "new")).startswith("_A fresh start")


async def test_compact_summarises_at_any_length_and_says_so(harness: Harness) -> None:
    harness.model = model = answers("Hello.", "Alice greeted me.", "Yes.")
    async with harness.open() as brain:
        assert await tells(harness, brain, "compact") == "Nothing was said in this conversation yet."
        await tells(harness, brain, "hello there")
        assert (await tells(harness, brain, "compact")).startswith("_I summarised the 2 messages so far.")
        assert await tells(harness, brain, "compact") == "There is nothing here to summarise yet."
        await tells(harness, brain, "go on?")
    assert words(model.asked[2]) == ["[summary, by Trainyard, of what was said before] Alice greeted me.", "go on?"]


async def test_compact_leaves_what_waits_for_an_answer(harness: Harness) -> None:
    ask = ToolCall("q", "ask_user", json.dumps({"question": "Which target?", "choices": ["age", "health"]}))
    harness.model = model = ScriptedModel(
        ModelReply("Hello.", (), "m"),
        ModelReply("", (ask,), "m"),
        ModelReply("Alice greeted me and wants to train.", (), "m"),
        ModelReply("health it is.", (), "m"),
    )
    async with harness.open() as brain:
        await tells(harness, brain, "hello there")
        await brain.router.accept(said("train"))
        await brain.router.idle()
        assert (await tells(harness, brain, "compact")).startswith("_I summarised the 3 messages so far.")
        assert await tells(harness, brain, "compact") == "There is nothing here to summarise yet."
        await brain.router.accept(said("health"))
        await harness.until(lambda: "health it is." in harness.adapter.texts())
    read = paired(model.asked[3][1:])
    assert [message.role for message in read] == [Role.USER, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert read[-1].text == '{"text": "alice answered: health"}'


async def test_what_undo_took_back_is_not_read_on_in(harness: Harness) -> None:
    more = ToolCall("r", "read_more", '{"id": 1}')
    harness.model = model = ScriptedModel(
        ModelReply("Hello.", (), "m"), ModelReply("", (more,), "m"), ModelReply("Gone.", (), "m")
    )
    async with harness.open() as brain:
        await tells(harness, brain, "my embarrassing words")
        await tells(harness, brain, "undo")
        await brain.router.accept(said("what did I say?"))
        await harness.until(lambda: "Gone." in harness.adapter.texts())
    assert model.asked[2][-1].text == '{"error": "There is no message 1 in this conversation."}'


async def test_rules_keep_all_that_was_said(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, charged=False)
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        assert (await tells(harness, brain, "compact")).startswith("I go by rules here")
        await brain.router.accept(said("make it 50 rounds"))
        await harness.until(lambda: any(c.card and "50" in str(c.card.facts) for c in harness.adapter.shown))


async def test_undo_takes_a_whole_turn_back_and_names_what_stays_done(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
    pause = ModelReply("", (ToolCall("c1", "pause_run", json.dumps({"run": run.id})),), "m")
    wrong = ModelReply("", (ToolCall("c2", "pause_run", '{"run": "r-zzzzzz"}'),), "m")
    hello, paused, empty = (ModelReply(text, (), "m") for text in ("Hello.", "It is paused.", "Empty."))
    harness.model = model = ScriptedModel(hello, pause, wrong, paused, empty)
    async with harness.open() as brain:
        await tells(harness, brain, "hello there")
        await tells(harness, brain, "pause the run")
        told = await tells(harness, brain, "undo")
        assert told.startswith("I forgot the last turn: “pause the run”, with all that was said in it.\n")
        assert told.count("- `pause_run`: ") == 1
        assert f"Run `{run.id}`" in told
        assert (
            await tells(harness, brain, "undo")
            == "I forgot the last turn: “hello there”, with all that was said in it."
        )
        assert await tells(harness, brain, "undo") == "Nothing was said in this conversation yet."
        await tells(harness, brain, "what did we say?")
    assert words(model.asked[-1]) == ["what did we say?"]


async def test_undo_names_the_files_that_stay(harness: Harness, csv: Path) -> None:
    harness.model = model = answers("Seen.", "Yes.")
    async with harness.open() as brain:
        await tells(harness, brain, "look at this", files=attached(csv))
        *_, name = (await tells(harness, brain, "undo")).splitlines()
        assert name == f"`{csv.name}` stays attached."
        await tells(harness, brain, "what is there?")
    assert f'Files in this thread, newest first: "{csv.name}".' in model.asked[-1][-1].facts


async def test_undo_takes_a_summary_that_was_made_in_the_turn_with_it(harness: Harness) -> None:
    slow = SlowTools()
    harness.toolsets = (slow,)
    calls = (ToolCall("c1", "look", '{"what": "b"}'), ToolCall("c2", "look_long", '{"what": "a"}'))
    looks = (ModelReply("", (call,), "m") for call in calls)
    texts = ("Hello.", "They greeted.", "Yes.", "They greeted, and plan the canary.", "Done.", "Well.")
    hello, greeted, yes, plan, done, well = (ModelReply(text, (), "m") for text in texts)
    harness.model = model = ScriptedModel(hello, greeted, yes, *looks, plan, done, well)
    async with harness.open() as brain:
        await tells(harness, brain, "hello there")
        await tells(harness, brain, "compact")
        await tells(harness, brain, "and you?")
        await brain.router.accept(said("do the canary"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("compact"))
        await harness.until(lambda: any("I summarised the 5 messages" in text for text in harness.adapter.texts()))
        slow.go_on.set()
        await harness.until(lambda: "Done." in harness.adapter.texts())
        assert "I forgot the last turn: “do the canary”" in await tells(harness, brain, "undo")
        await tells(harness, brain, "what now?")
        await tells(harness, brain, "export")
    summary = "[summary, by Trainyard, of what was said before] They greeted."
    assert words(model.asked[-1]) == [summary, "and you?", "Yes.", "what now?"]
    assert "fresh start" not in Path(harness.adapter.shown[-1].files[1].path).read_text()


async def test_undo_of_a_turn_that_compacts_itself_leaves_no_summary(harness: Harness) -> None:
    class Large:
        def tools(self) -> Sequence[Tool]:
            async def run(_caller: Caller, asked: What) -> Result:
                return Result(f"{'w ' * 3_500}{asked.what}")

            return (Tool("read", "Read it.", What, Effect.READ, run=run, cap_chars=60_000),)

    class Summarises:
        async def stream(self, messages: Sequence[ModelMessage], _tools: object) -> AsyncIterator[ModelReply]:
            asked.append(messages)
            if messages[0].text == SUMMARY:
                yield ModelReply("They plan the canary.", (), "m")
            elif len(asked) > 12 or messages[-1].text == "what now?":
                yield ModelReply("Done.", (), "m")
            else:
                yield ModelReply("", (ToolCall(f"c{len(asked)}", "read", f'{{"what": "{len(asked)}"}}'),), "m")

    asked: list[Sequence[ModelMessage]] = []
    harness.toolsets, harness.model = (Large(),), Summarises()
    harness.options = replace(harness.options, context_tokens=12_000)
    async with harness.open() as brain:
        await tells(harness, brain, "do the canary")
        assert any("getting long, so I summarised" in text for text in harness.adapter.texts())
        session_id = await brain.stores.conversations.session_of(THREAD, create=False) or ""
        before = (await brain.stores.sessions.recording(session_id)).events
        assert "I forgot the last turn: “do the canary”" in await tells(harness, brain, "undo")
        after = (await brain.stores.sessions.recording(session_id)).events
        await tells(harness, brain, "what now?")
    assert words(asked[-1]) == ["what now?"]
    by_itself = [event for event in before if isinstance(event, Compacted)]
    assert {event.person for event in by_itself} == {""}
    assert [event for event in after if isinstance(event, Compacted)] == by_itself


async def test_what_a_summary_alone_stands_for_is_not_undone(harness: Harness) -> None:
    harness.model = answers("Hello.", "They greeted.")
    async with harness.open() as brain:
        for made in ("compact", "new"):
            await tells(harness, brain, "hello there")
            await tells(harness, brain, made)
            assert "it cannot be taken out" in await tells(harness, brain, "undo")


class Doubtful:
    """Tools that change something and then give no answer, and one that refuses before it changes anything."""

    def tools(self) -> Sequence[Tool]:
        def tool(name: str, run: Callable[[Caller, What], Awaitable[Result]]) -> Tool:
            return Tool(name, "Change it.", What, Effect.WRITE, run=run, limit_s=0.05, quotes=False)

        return (tool("late", self._late), tool("broken", self._broken), tool("refused", self._refused))

    async def _late(self, caller: Caller, asked: What) -> Result:
        await asyncio.Event().wait()
        return Result(asked.what)

    async def _broken(self, caller: Caller, asked: What) -> Result:
        raise ValueError(asked.what)

    async def _refused(self, caller: Caller, asked: What) -> Result:
        raise Conflict("It is gone.")


async def test_undo_names_what_may_have_been_done(harness: Harness) -> None:
    slow = SlowTools()
    harness.toolsets = (slow, Doubtful())
    names = ("late", "broken", "refused", "change")
    calls = tuple(ToolCall(f"c{at}", name, '{"what": "a"}') for at, name in enumerate(names))
    harness.model = ScriptedModel(ModelReply("", calls, "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("change it"))
        await harness.until(lambda: slow.begun == ["a"])
    harness.model = ScriptedModel(ModelReply("I do not know.", (), "m"))
    async with harness.open() as brain:
        await harness.until(lambda: "I do not know." in harness.adapter.texts())
        told = await tells(harness, brain, "undo")
    *_, late, broken, change = told.splitlines()
    assert late == "- `late` may have been done: `late` took longer than 0 s and was given up."
    assert broken.startswith("- `broken` may have been done: `broken` broke (id ")
    assert change.startswith("- `change` may have been done: This call was begun before a restart")
    assert "refused" not in told


async def test_undo_takes_what_was_said_during_the_turn_and_the_guards_note_with_it(harness: Harness) -> None:
    slow = SlowTools()
    harness.toolsets = (slow,)
    look = ModelReply("", (ToolCall("c1", "look_long", "{}"),), "m")
    again = [ModelReply("", (ToolCall(f"d{number}", "look", "{}"),), "m") for number in range(3)]
    harness.model = model = ScriptedModel(look, *again, ModelReply("Seen.", (), "m"), ModelReply("Nothing.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look around"))
        await harness.until(lambda: bool(slow.begun))
        await brain.router.accept(said("and behind you", person=BOB))
        await harness.until(lambda: len(harness.adapter.busy_with) == 2)
        slow.go_on.set()
        await harness.until(lambda: "Seen." in harness.adapter.texts())
        await brain.router.idle()
        assert [message for message in model.asked[-1] if "same calls" in message.note]
        await tells(harness, brain, "undo")
        await tells(harness, brain, "what is there?")
    assert words(model.asked[-1]) == ["what is there?"]


async def test_a_turn_that_waits_is_not_undone(harness: Harness) -> None:
    ask = ToolCall("c1", "ask_user", '{"question": "Which?", "choices": ["a", "b"]}')
    harness.model = ScriptedModel(ModelReply("", (ask,), "m"))
    async with harness.open() as brain:
        await tells(harness, brain, "do something")
        assert "or waits for people. Say `stop`" in await tells(harness, brain, "undo", person=BOB)
        assert "I dropped my question." in await tells(harness, brain, "stop")
        assert (await tells(harness, brain, "undo")).startswith("I forgot the last turn: “do something”")
        assert "no run to stop" in await tells(harness, brain, "stop")


async def test_export_gives_all_of_it_as_two_files(harness: Harness) -> None:
    harness.model = answers("Hello.", "Bye.")
    async with harness.open() as brain:
        await tells(harness, brain, "hello there")
        await tells(harness, brain, "new")
        await tells(harness, brain, "bye", person=BOB)
        await tells(harness, brain, "export")
    files: tuple[Document, ...] = harness.adapter.shown[-1].files
    assert [file.name for file in files] == ["conversation.jsonl", "conversation.md"]
    header, *rows = [json.loads(line) for line in Path(files[0].path).read_text().splitlines()]
    assert (header["kind"], header["version"]) == ("session", 3)
    assert [(row["kind"], row.get("text") or row.get("state"), row.get("person")) for row in rows] == [
        ("asked", "hello there", "alice"),
        ("replied", "Hello.", None),
        ("turn_ended", "done", None),
        ("compacted", None, "alice"),
        ("asked", "bye", "bob"),
        ("replied", "Bye.", None),
        ("turn_ended", "done", None),
    ]
    assert "_A fresh start, asked for by alice._" in Path(files[1].path).read_text()
    assert "**Trainyard**\n\nBye." in Path(files[1].path).read_text()


async def test_a_thread_goes_on_with_another_one_of_its_channel_only(harness: Harness) -> None:
    secret = Thread(platform="slack", tenant="T1", channel="C-secret", thread_id="1800000000.000001")
    harness.model = model = answers("It is blue.", "Hush.", "As I said, blue.")
    async with harness.open() as brain:
        await brain.router.accept(said("what colour is it?", thread=ELSEWHERE))
        await harness.until(lambda: "It is blue." in harness.adapter.texts())
        await brain.router.accept(said("a secret", thread=secret))
        await harness.until(lambda: "Hush." in harness.adapter.texts())
        await brain.router.idle()
        hidden = await brain.stores.conversations.session_of(secret, create=False)
        for address in (hidden, "https://team.slack.com/archives/C-secret/p1800000000000001", "https://x.org/nothing"):
            assert "no conversation there that you may read" in await tells(harness, brain, f"resume {address}")
        link = "https://team.slack.com/archives/C1/p1700000000123456?thread_ts=1700000000.123456&cid=C1"
        assert "Guests" in await tells(harness, brain, f"resume {link}", person=GUEST)
        told = await tells(harness, brain, f"resume {link}")
        assert "goes on with the conversation `s-" in told
        await tells(harness, brain, "which one?")
    assert words(model.asked[2]) == ["what colour is it?", "It is blue.", "which one?"]


async def test_a_conversation_that_a_thread_left_is_found_again(harness: Harness) -> None:
    elsewhere = THREAD.model_copy(update={"channel": "C2"})
    harness.model = model = answers("Hello.", "It is blue.", "As I said.", "You said hello.")
    async with harness.open() as brain:
        await tells(harness, brain, "hello there")
        left = await brain.stores.conversations.session_of(THREAD, create=False)
        await tells(harness, brain, "what colour is it?", thread=ELSEWHERE)
        other = await brain.stores.conversations.session_of(ELSEWHERE, create=False)
        told = await tells(harness, brain, f"resume {other}")
        assert (
            told
            == f"This thread goes on with the conversation `{other}`; what was said here before is kept as `{left}`."
        )
        await tells(harness, brain, "which one?")
        assert "that you may read" in await tells(harness, brain, f"resume {left}", thread=elsewhere)
        assert f"goes on with the conversation `{left}`" in await tells(harness, brain, f"resume {left}")
        await tells(harness, brain, "and I?")
        await tells(harness, brain, "export")
        assert f"The conversation `{left}`: 4 messages." in harness.adapter.texts()
        new = THREAD.model_copy(update={"thread_id": "1700000001.000001"})
        told = await tells(harness, brain, f"resume {left}", thread=new)
        assert told == f"This thread goes on with the conversation `{left}`.", "nothing was said there before"
    assert words(model.asked[-1]) == ["hello there", "Hello.", "and I?"]


async def test_a_thread_goes_on_elsewhere_only_when_nothing_is_at_work_or_waits(harness: Harness, csv: Path) -> None:
    slow = SlowTools()
    harness.toolsets = (slow,)
    look = ToolCall("c1", "look_long", '{"what": "a"}')
    ask = ToolCall("c2", "ask_user", '{"question": "Which?", "choices": ["a", "b"]}')
    train = ToolCall("c3", "start_training", '{"target": "health"}')
    hello, seen, well, pity = (ModelReply(text, (), "m") for text in ("Hello.", "Seen.", "Well.", "A pity."))
    calls = [ModelReply("", (call,), "m") for call in (look, ask, train)]
    harness.model = ScriptedModel(hello, calls[0], seen, calls[1], well, calls[2], pity)
    async with harness.open() as brain:
        await tells(harness, brain, "hello there", thread=ELSEWHERE)
        other = await brain.stores.conversations.session_of(ELSEWHERE, create=False)

        async def refused() -> None:
            before = len(harness.adapter.texts())
            await brain.router.accept(said(f"resume {other}"))
            await harness.until(lambda: len(harness.adapter.texts()) > before)
            assert "A turn is at work here, or waits for people. Say `stop`" in harness.adapter.texts()[-1]

        await brain.router.accept(said("look around"))
        await harness.until(lambda: slow.begun == ["a"])
        await refused()
        slow.go_on.set()
        await harness.until(lambda: "Seen." in harness.adapter.texts())
        await tells(harness, brain, "ask me")
        await refused()
        await tells(harness, brain, "a")
        await brain.router.accept(said("train", files=attached(csv)))
        card = (await Stage(harness, brain).asked()).card
        assert card is not None
        await refused()
        await tells(harness, brain, f"reject {card.buttons[0].subject}")
        assert "goes on with the conversation" in await tells(harness, brain, f"resume {other}")


async def test_a_link_to_a_message_in_no_thread_is_of_the_direct_messages(harness: Harness) -> None:
    direct = THREAD.model_copy(update={"channel": "D-alice", "thread_id": ""})
    aside = direct.model_copy(update={"thread_id": "1800000000.000001"})
    harness.model = model = answers("It is blue.", "As I said.")
    async with harness.open() as brain:
        await tells(harness, brain, "what colour is it?", thread=direct)
        link = "https://team.slack.com/archives/D-alice/p1790000000000009"
        told = await tells(harness, brain, f"resume {link}?thread_ts=1790000000.000001&cid=D-alice", thread=aside)
        assert told == "I find no conversation there that you may read here."
        assert "goes on with the conversation" in await tells(harness, brain, f"resume {link}", thread=aside)
        await tells(harness, brain, "which one?", thread=aside)
        assert "that you may read" in await tells(harness, brain, f"resume {link}")
    assert words(model.asked[-1]) == ["what colour is it?", "It is blue.", "which one?"]


async def test_a_private_conversation_stays_private_where_runs_are_open_to_the_workspace(harness: Harness) -> None:
    harness.options = replace(harness.options, runs_open=True)
    private = THREAD.model_copy(update={"channel": "D-alice", "thread_id": "1800000000.000001"})
    harness.model = model = answers("I keep it.", "Nothing.")
    async with harness.open() as brain:
        await brain.router.accept(said("my salary is 5", thread=private))
        await harness.until(lambda: "I keep it." in harness.adapter.texts())
        await brain.router.idle()
        hidden = await brain.stores.conversations.session_of(private, create=False)
        for address in (hidden, "https://team.slack.com/archives/D-alice/p1800000000000001"):
            told = await tells(harness, brain, f"resume {address}", person=BOB)
            assert told == "I find no conversation there that you may read here."
        await tells(harness, brain, "what was said?", person=BOB)
    assert words(model.asked[1]) == ["what was said?"]


async def test_people_have_their_words_deleted_after_a_button(harness: Harness) -> None:
    harness.model = model = answers("Noted.", "Fine.", "A summary of the canary.", "Then we begin again.")
    async with harness.open() as brain:
        await tells(harness, brain, "the canary sings", person=BOB)
        await tells(harness, brain, "the sparrow too", person=ALICE)
        await tells(harness, brain, "compact")
        await brain.router.accept(said("forget me", person=BOB))
        await harness.until(
            lambda: any(c.card and c.card.title == "Delete what you said?" for c in harness.adapter.shown)
        )
        await brain.router.accept(clicked(harness.adapter.button("approve"), person=ALICE))
        await harness.until(lambda: any("Only the person who asked" in c.text for _, c in harness.adapter.whispers))
        await brain.router.accept(clicked(harness.adapter.button("approve"), person=BOB))
        await harness.until(lambda: any("I deleted 2 messages of yours." in text for text in harness.adapter.texts()))
        await brain.router.idle()
        await tells(harness, brain, "and now?")
    kept = kept_in(harness, "message", "inbox", "compaction")
    assert "canary" not in kept
    assert "sparrow" in kept
    assert "canary" not in "".join(map(as_read, model.asked[-1]))


async def test_words_of_a_turn_at_work_are_deleted_too_and_it_goes_on(harness: Harness) -> None:
    slow = SlowTools()
    harness.toolsets = (slow,)
    look = ModelReply("", (ToolCall("c1", "look_long", '{"what": "a"}'),), "m")
    harness.model = ScriptedModel(look)
    async with harness.open() as brain:
        await brain.router.accept(said("the canary sings", person=BOB))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("forget me", person=BOB))
        await harness.until(lambda: any(c.card and c.card.buttons for c in harness.adapter.shown))
        await brain.router.accept(clicked(harness.adapter.button("approve"), person=BOB))
        await harness.until(lambda: any("I deleted 2 messages of yours." in text for text in harness.adapter.texts()))
    assert "canary" not in kept_in(harness)
    slow.go_on.set()
    harness.model = ScriptedModel(ModelReply("Seen.", (), "m"))
    async with harness.open() as brain:
        await harness.until(lambda: "Seen." in harness.adapter.texts())
        await brain.router.idle()
    assert "canary" not in kept_in(harness)
    assert '"bob"' not in kept_in(harness, "turn")


async def test_what_undo_and_exports_repeat_is_deleted_too(harness: Harness) -> None:
    harness.model = answers("Noted.", "Fine.", "Seen.")
    async with harness.open() as brain:
        await tells(harness, brain, "the canary\nsings", person=BOB)
        await tells(harness, brain, "the sparrow too")
        await tells(harness, brain, "export")
        assert "canary" in files_of(harness)
        assert "“the sparrow too”" in await tells(harness, brain, "undo")
        assert "“the canary\nsings”" in await tells(harness, brain, "undo", person=ALICE)
        await brain.router.accept(said("forget me", person=BOB, thread=ELSEWHERE))
        await harness.until(lambda: any(c.card and c.card.buttons for c in harness.adapter.shown))
        await brain.router.accept(clicked(harness.adapter.button("approve"), person=BOB, thread=ELSEWHERE))
        await harness.until(lambda: any("I deleted 2 messages of yours." in text for text in harness.adapter.texts()))
        await brain.router.idle()
        await brain.delivery.idle()
        assert "I forgot the last turn: “[deleted]”, with all that was said in it." in harness.adapter.texts()
        assert "“the sparrow too”" in str(harness.adapter.shown)
        await tells(harness, brain, "export")
    assert "canary" not in kept_in(harness) + str(harness.adapter.shown)
    assert "canary" not in files_of(harness)
    assert "sparrow" in files_of(harness)


def files_of(harness: Harness) -> str:
    """All that stands in files beside the database."""
    files = (path for path in harness.folder.rglob("*") if path.is_file() and not path.name.startswith("test.db"))
    return "".join(path.read_text(errors="replace") for path in files)


def kept_in(harness: Harness, *tables: str) -> str:
    """All that stands in these tables; unsaid, in all."""
    with contextlib.closing(sqlite3.connect(harness.folder / "test.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return str([database.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables or names])


async def test_reasons_and_answers_are_words_that_are_deleted_too(harness: Harness, csv: Path) -> None:
    ask = ToolCall("c1", "ask_user", '{"question": "Which?", "choices": ["one", "two"]}')
    train = ToolCall("c2", "start_training", '{"target": "health"}')
    calls = [ModelReply("", (ask,), "m"), ModelReply("", (train,), "m"), ModelReply("A pity.", (), "m")]
    harness.model = model = ScriptedModel(*calls, ModelReply("Gone.", (), "m"))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await brain.router.accept(said("train", person=BOB, files=attached(csv)))
        await harness.until(
            lambda: any(c.card and c.card.title.startswith("A question") for c in harness.adapter.shown)
        )
        await brain.router.accept(said("the canary one", person=BOB))
        asked = (await stage.asked()).card
        assert asked is not None
        await brain.router.accept(said(f"reject {asked.buttons[0].subject} because the canary died", person=BOB))
        await harness.until(lambda: "A pity." in harness.adapter.texts())
        assert "the canary died" in str(harness.adapter.shown)
        await brain.router.accept(said("forget me", person=BOB))
        await harness.until(
            lambda: any(b.action == "approve" for c in harness.adapter.shown if c.card for b in c.card.buttons)
        )
        await brain.router.accept(clicked(harness.adapter.button("approve"), person=BOB))
        await harness.until(lambda: any("I deleted 4 messages of yours." in text for text in harness.adapter.texts()))
        await stage.settled()
        await tells(harness, brain, "and now?")
    assert "canary" not in kept_in(harness)
    assert "canary" not in str(harness.adapter.shown)
    assert "canary" not in "".join(map(as_read, model.asked[-1]))
    assert 'start_training was rejected by "somebody": "[deleted]".' in model.asked[-1][-1].facts


async def test_the_name_goes_from_cards_questions_and_errors_too(harness: Harness, csv: Path) -> None:
    ask = ToolCall("c1", "ask_user", '{"question": "Which?", "choices": ["one", "two"]}')
    train, again = (ToolCall(name, "start_training", '{"target": "health"}') for name in ("c2", "c3"))
    calls = [ModelReply("", (call,), "m") for call in (ask, train, ask, again)]
    thanks, pity = (ModelReply(text, (), "m") for text in ("Thanks.", "A pity."))
    harness.model = ScriptedModel(calls[0], thanks, calls[1], pity, calls[2], calls[3])
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await tells(harness, brain, "ask me", person=BOB)
        await tells(harness, brain, "one", person=BOB)
        await tells(harness, brain, "the canary", person=BOB, files=attached(csv))
        card = (await stage.asked()).card
        assert card is not None
        await tells(harness, brain, f"approve {card.buttons[0].subject} with seed=3", person=BOB)
        await brain.router.accept(clicked(harness.adapter.button("reject"), person=BOB))
        await tells(harness, brain, "ask me again", person=BOB)
        assert "dropped my question" in await tells(harness, brain, "stop", person=BOB)
        await brain.router.accept(said("train again", person=BOB))
        await harness.until(lambda: any("asked by bob" in content for content in shown(harness)))
        assert "canary" in (await stage.asks("canary", "sings", person=BOB)).text
        await brain.router.accept(
            said(f"approve {harness.adapter.button('approve').subject} with seed=canary", person=BOB)
        )
        await harness.until(lambda: any("canary" in text for text in harness.adapter.texts()))
        for named in ("A question for bob", "Changed by bob", "asked by bob", "Stopped by bob"):
            assert any(named in content for content in shown(harness)), named
        assert "Rejected by bob" in str(shown(harness))
        await brain.router.accept(said("forget me", person=BOB))
        await card_titled(harness, "Delete what you said?")
        await brain.router.accept(clicked(harness.adapter.button("approve"), person=BOB))
        await harness.until(lambda: any("messages of yours." in text for text in harness.adapter.texts()))
        await stage.settled()
        exported = await stage.asks("export")
    kept = kept_in(harness, "message", "question", "turn", "inbox", "outbox")
    for text in (kept, str(shown(harness)), "".join(Path(file.path).read_text() for file in exported.files)):
        assert "canary" not in text
        left = re.findall(r".{0,20}(?<!U-)\bbob\b", text)
        assert [words for words in left if not re.search("(Approved|Rejected) by bob", words)] == []
    assert "asked by somebody" in str(shown(harness))


def shown(harness: Harness) -> list[str]:
    """What the thread shows now."""
    return [str(history[-1]) for history in harness.adapter.messages.values()]


async def card_titled(harness: Harness, title: str) -> None:
    """Wait for a card with buttons."""
    await harness.until(lambda: any(c.card and c.card.title == title and c.card.buttons for c in harness.adapter.shown))


def trains(*texts: str) -> ScriptedModel:
    """A model that wants to train, and then says these."""
    call = ToolCall("c1", "start_training", '{"target": "health"}')
    return ScriptedModel(ModelReply("", (call,), "m"), *(ModelReply(text, (), "m") for text in texts))


async def rejects(harness: Harness, brain: Brain, csv: Path, why: str) -> None:
    """A person rejects what a model of `trains` asked about, and it answers."""
    await brain.router.accept(said("train", files=attached(csv)))
    card = (await Stage(harness, brain).asked()).card
    assert card is not None
    await tells(harness, brain, f"reject {card.buttons[0].subject} because {why}")


async def test_a_rejection_is_known_after_a_summary_and_not_after_a_fresh_start(harness: Harness, csv: Path) -> None:
    harness.model = model = trains("A pity.", "They talked.", "Yes.", "Hello.", "Well.")
    known = 'start_training was rejected by "alice": "the data are of last year".'
    async with harness.open() as brain:
        await rejects(harness, brain, csv, "the data are of last year")
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        await tells(harness, brain, "compact")
        await tells(harness, brain, "and now?")
        assert known in model.asked[-1][-1].facts
        await tells(harness, brain, "new")
        await tells(harness, brain, "hello there")
        assert "rejected" not in model.asked[-1][-1].facts
        await tells(harness, brain, f"resume {session_id}")
        await tells(harness, brain, "and now?")
        assert known in model.asked[-1][-1].facts
    assert len(model.asked) == 6


async def test_a_rejection_is_forgotten_with_its_turn(harness: Harness, csv: Path) -> None:
    harness.model = model = trains("A pity.", "Yes.")
    async with harness.open() as brain:
        await rejects(harness, brain, csv, "it is late")
        assert "it is late" in model.asked[-1][-1].facts
        await tells(harness, brain, "undo")
        await tells(harness, brain, "and now?")
    assert "rejected" not in model.asked[-1][-1].facts


async def test_what_nobody_decided_in_time_is_known(harness: Harness, csv: Path) -> None:
    harness.model = model = trains("A pity.")
    async with harness.open() as brain:
        await brain.router.accept(said("train", files=attached(csv)))
        await Stage(harness, brain).asked()
        harness.clock.forward(8 * 24 * 3600)
        await brain.router.expire()
        await harness.until(lambda: "A pity." in harness.adapter.texts())
    assert "start_training expired: nobody decided in time." in model.asked[-1][-1].facts


async def test_a_model_cannot_do_what_is_for_commands(harness: Harness) -> None:
    call = ToolCall("c1", "new_session", "{}")
    harness.model = model = ScriptedModel(ModelReply("", (call,), "m"), ModelReply("I cannot.", (), "m"))
    async with harness.open() as brain:
        await tells(harness, brain, "forget all of this")
        await harness.until(lambda: "I cannot." in harness.adapter.texts())
        assert not [schema for schema in brain.dispatcher.schemas() if schema.name == "new_session"]
    assert model.asked[1][-1].text == '{"error": "People do that themselves, with a command: `new`."}'


async def test_people_of_one_name_are_told_apart_by_their_ids(harness: Harness) -> None:
    harness.model = model = answers("1", "2", "3")
    other = ALICE.model_copy(update={"id": "U-alice2"})
    async with harness.open() as brain:
        await tells(harness, brain, "one")
        await tells(harness, brain, "two", person=BOB)
        await tells(harness, brain, "three", person=other)
    first, second, third = ([as_read(said) for said in asked if said.speaker] for asked in model.asked)
    assert '[from "alice"]' in first[0]
    assert '[from "bob"]' in second[-1]
    named = [f'[from "{name}"]' for name in (f"alice ({ALICE.id})", "bob", "alice (U-alice2)")]
    assert [line.partition("]")[0] + "]" for line in third] == named
