"""A conversation stays within its model's window: what is put away, summarised, kept and read again."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from agent.conversation.context import (
    Conversation,
    answered_upto,
    estimated_tokens,
    fitting,
    read_by_model,
    summarised_upto,
)
from agent.conversation.prompt import as_read
from agent.domain.errors import OverBudget, TooLong, Unavailable
from agent.domain.models import ModelFacts, Preference
from agent.domain.runs import RunState
from agent.llm.chain import paired
from agent.ports import OFFLINE, Model, ModelMessage, ModelReply, Role, ToolCall, ToolSchema, Unused
from agent.stores import Compaction
from agent.tools.tool import Caller, Result, Tool
from tests.agent.conftest import Harness
from tests.agent.slow_tools import What
from tests.agent.stage import Stage
from tests.fakes import ALICE, THREAD, ScriptedModel, said


class LongTool:
    """Answers with a letter as often as it is asked to."""

    def tools(self) -> Sequence[Tool]:
        from agent.domain.policy import Effect

        return (Tool("look", "Look.", What, Effect.READ, run=self._look, cap_chars=100_000),)

    async def _look(self, caller: Caller, asked: What) -> Result:
        letter, _, count = asked.what.partition(":")
        return Result(letter * int(count))


def looks(*what: str, tokens: int = 0, text: str = "") -> ModelReply:
    calls = tuple(ToolCall(f"c-{one}", "look", json.dumps({"what": one})) for one in what)
    return ModelReply(text, calls, "m", tokens_in=tokens)


def text_of(messages: Sequence[ModelMessage]) -> str:
    return "\n".join(map(as_read, messages))


@pytest.fixture
def small(harness: Harness) -> Harness:
    """A model with a small window of 40,000 tokens."""
    harness.toolsets = (LongTool(),)
    harness.options = replace(harness.options, context_tokens=40_000)
    return harness


async def test_old_results_are_put_away_first_and_read_again(small: Harness) -> None:
    def reads_again(messages: Sequence[ModelMessage]) -> ModelReply:
        (put_away,) = [m.text for m in messages if "read again with" in m.text]
        assert put_away.startswith("[result of look, 36012 characters")
        number = int(put_away.rpartition(" ")[2].strip("]"))
        return ModelReply("", (ToolCall("again", "read_more", json.dumps({"id": number, "page": 2})),), "m")

    small.model = model = ScriptedModel(
        looks("a:36000", tokens=13_000),
        looks("b:29000", tokens=26_000),
        reads_again,
        ModelReply("Done.", (), "m"),
    )
    async with small.open() as brain:
        await brain.router.accept(said("look at all of it"))
        await small.until(lambda: "Done." in small.adapter.texts())
        await brain.delivery.idle()
    assert any("I put 1 result of earlier steps away" in text for text in small.adapter.texts())
    assert "b" * 29_000 in text_of(model.asked[2])
    assert "I summarised" not in "".join(small.adapter.texts())
    page = json.loads(model.asked[3][-1].text)
    assert (page["page"], page["pages"], page["text"]) == (2, 5, "a" * 8000)


class Counting:
    """One scripted model with a tokenizer of its own: six letters are a token."""

    names = ("m",)

    def __init__(self, model: Model) -> None:
        self._model = model
        self.counted: list[int] = []

    def model(self, preference: Preference, unused: Unused | None = None) -> Model:
        return self._model

    async def facts(self, *, ask: bool = True) -> Sequence[ModelFacts]:
        return (ModelFacts("m"),)

    async def has_efforts(self, name: str) -> bool:
        return False

    async def tokens(self, preference: Preference, messages: Sequence[ModelMessage]) -> int:
        self.counted.append(sum(len(said.text) for said in messages) // 6)
        return self.counted[-1]


async def test_what_seems_too_long_is_counted_by_the_models_own_tokenizer(small: Harness) -> None:
    model = ScriptedModel(
        looks("a:45000", tokens=20_000),  # 13,000 more by the estimate, 7,500 counted: of 40,000 less than 80 %
        looks("b:45000", tokens=26_000),  # too long by both
        ModelReply("Done.", (), "m"),
    )
    small.models = counting = Counting(model)
    async with small.open() as brain:
        await brain.router.accept(said("look at all of it"))
        await small.until(lambda: "Done." in small.adapter.texts())
        await brain.delivery.idle()
    assert [count // 100 for count in counting.counted] == [75, 75]
    assert "a" * 10_000 in text_of(model.asked[1])
    assert "a" * 10_000 not in text_of(model.asked[2])
    assert [text for text in small.adapter.texts() if "The conversation was getting long" in text]


async def test_one_message_and_many_steps_are_summarised_and_the_task_stays(small: Harness) -> None:
    harness = small
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
    words = "w" * 6000
    script = [looks(f"{letter}:8000", tokens=4100 * n, text=words) for n, letter in enumerate("abcdefgh", 1)]
    summary = ModelReply("I looked at a to f; alice wants all of it.", (), "m", tokens_in=5)
    harness.model = model = ScriptedModel(*script, summary, looks("z:10", tokens=2000), ModelReply("Done.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at all of it, please"))
        await harness.until(lambda: "Done." in harness.adapter.texts())
        await brain.delivery.idle()
    (told,) = [text for text in harness.adapter.texts() if "I summarised" in text]
    assert "Kept as they are: the request and the newest steps." in told
    assert "Write what you need to go on" in model.asked[8][0].text  # the summary's own prompt
    after = model.asked[9]
    assert [message.role for message in after[:3]] == [Role.SYSTEM, Role.USER, Role.USER]
    assert after[1].text.endswith("I looked at a to f; alice wants all of it.")
    assert after[2].text == "look at all of it, please"
    assert "f" * 2000 not in text_of(after)
    assert "g" * 8000 in text_of(after)
    assert "h" * 8000 in text_of(after)
    assert f"Run {run.id} for" in after[-1].facts  # they are looked up, not remembered
    assert "is running" in after[-1].facts
    harness.model = model = ScriptedModel(ModelReply("Again.", (), "m"))
    async with harness.open() as brain:  # and it holds over a restart
        await brain.router.accept(said("and now?"))
        await harness.until(lambda: "Again." in harness.adapter.texts())
    assert model.asked[0][1].text.endswith("alice wants all of it.")
    assert "a" * 2000 not in text_of(model.asked[0])


async def test_a_run_that_is_not_over_is_a_fact_however_many_are_newer(small: Harness) -> None:
    small.model = model = ScriptedModel(ModelReply("Done.", (), "m"))
    async with small.open() as brain:
        stage = Stage(small, brain)
        runs = [await stage.running()]
        for _ in range(9):
            small.clock.forward(60)
            runs.append(await stage.create())
            await brain.service.stop(runs[-1].id, by="alice")
            await stage.ended(runs[-1], RunState.STOPPED)
        await brain.router.accept(said("what runs?"))
        await brain.router.idle()
    assert [run.id for run in model.asked[0][-1].runs] == [run.id for run in (*runs[:1:-1], runs[0])]
    assert f"Run {runs[0].id} for " in model.asked[0][-1].facts


async def test_an_overflow_is_mended_and_asked_once_more(small: Harness) -> None:
    small.model = model = ScriptedModel(
        ModelReply("Hello. " * 50, (), "m"),
        TooLong("The conversation is too long for m."),
        ModelReply("They greeted me.", (), "m"),
        ModelReply("Here I am.", (), "m"),
    )
    async with small.open() as brain:
        await brain.router.accept(said("hello there"))
        await small.until(lambda: "Hello. " * 50 in small.adapter.texts())
        await brain.router.accept(said("are you still there?"))
        await small.until(lambda: "Here I am." in small.adapter.texts())
    assert [message.text for message in model.asked[3][1:]] == [
        "[summary, by Trainyard, of what was said before] They greeted me.",
        "are you still there?",
    ]


class Narrow(ScriptedModel):
    """A model that reads less than anybody told; it answers by its script, and summarises whatever it reads."""

    most_tokens = 16_000

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        if estimated_tokens(messages) > self.most_tokens:
            raise TooLong("The conversation is too long for m.")
        if tools:
            async for piece in super().stream(messages, tools):
                yield piece
        else:
            yield ModelReply("They spoke.", (), "m")


async def test_one_message_that_is_too_long_is_read_in_part_and_said_so(small: Harness) -> None:
    def looks_back(messages: Sequence[ModelMessage]) -> ModelReply:
        (asked,) = [m for m in messages if m.role is Role.USER]
        assert asked.text.startswith("begin word word")
        assert asked.text.endswith("word end")
        assert f"[cut: {len(long)} characters in all; read_more with id " in as_read(asked)
        return ModelReply("Read.", (), "m")

    long = f"begin {'word ' * 30_000}end"
    small.model = model = Narrow(looks_back, ModelReply("Still here.", (), "m"))
    model.most_tokens = 8_000
    async with small.open() as brain:
        await brain.router.accept(said(long))
        await small.until(lambda: "Read." in small.adapter.texts())
        await brain.router.accept(said("and now?"))
        await small.until(lambda: "Still here." in small.adapter.texts())
        await brain.delivery.idle()
    assert sum("reads the beginning and the end" in text for text in small.adapter.texts()) == 1


async def test_a_message_that_is_read_in_part_is_told_of_without_an_overflow_too(small: Harness) -> None:
    small.model = model = ScriptedModel(ModelReply("Read.", (), "m"), ModelReply("Short.", (), "m"))
    async with small.open() as brain:
        await brain.router.accept(said(f"begin {'word ' * 7_000}end"))
        await small.until(lambda: "Read." in small.adapter.texts())
        await brain.router.accept(said("and now?"))
        await small.until(lambda: "Short." in small.adapter.texts())
        await brain.delivery.idle()
    assert "\n…\n" in model.asked[0][-1].text
    assert sum("reads the beginning and the end" in text for text in small.adapter.texts()) == 1


async def test_results_of_one_reply_that_are_too_long_together_are_read_in_part(small: Harness) -> None:
    small.model = model = Narrow(looks(*(f"{letter}:40000" for letter in "abcdef")), ModelReply("All seen.", (), "m"))
    async with small.open() as brain:
        await brain.router.accept(said("look at all of it"))
        await small.until(lambda: "All seen." in small.adapter.texts())
        await brain.delivery.idle()
    results = [message for message in model.asked[-1] if message.role is Role.TOOL]
    assert [result.text[10] for result in results] == list("abcdef")
    assert not any("I summarised" in text for text in small.adapter.texts())  # there is nothing but the request


async def test_a_window_that_is_full_at_every_step_is_told_of_in_one_line(small: Harness) -> None:
    small.model = model = Narrow(
        *(looks(f"{letter}:9000", tokens=39_000, text="w" * 30_000) for letter in "abcd"), ModelReply("Done.", (), "m")
    )
    model.most_tokens = 100_000
    async with small.open() as brain:
        await brain.router.accept(said("look at all of it"))
        await small.until(lambda: "Done." in small.adapter.texts())
        await brain.delivery.idle()
    (told,) = [history for history in small.adapter.messages.values() if "I summarised" in history[0].text]
    assert len({content.text for content in told}) > 1  # it counts on


async def test_a_message_that_never_fits_is_said(small: Harness) -> None:
    small.model = ScriptedModel(*[TooLong("The conversation is too long for m.")] * 4)
    async with small.open() as brain:
        await brain.router.accept(said("x" * 90_000))
        await small.until(lambda: "The conversation is too long for m." in small.adapter.texts())
        assert await brain.stores.conversations.running_turns() == []


async def test_without_a_model_the_summary_is_what_people_said(small: Harness) -> None:
    small.model = model = ScriptedModel(
        looks("a:10", tokens=9500, text="w" * 60_000),
        looks("b:10", tokens=39_000),
        ModelReply("I did not understand.", (), OFFLINE),
        ModelReply("Done.", (), "m"),
    )
    async with small.open() as brain:
        await brain.router.accept(said("look at a"))
        await small.until(lambda: "Done." in small.adapter.texts())
    assert model.asked[3][1].text == (
        "[summary, by Trainyard, of what was said before] alice: look at a\nTools that were used: look."
    )


async def test_what_people_answered_is_known_after_a_summary_without_a_model(small: Harness) -> None:
    ask = ToolCall("q", "ask_user", json.dumps({"question": "Which column?", "choices": ["churn", "revenue"]}))
    small.model = model = ScriptedModel(
        ModelReply("", (ask,), "m"),
        looks("a:10", tokens=9500, text="w" * 60_000),
        looks("b:10", tokens=39_000),
        Unavailable("No model answers."),
        ModelReply("Done.", (), "m"),
    )
    async with small.open() as brain:
        await brain.router.accept(said("look at it"))
        await brain.router.idle()
        await brain.router.accept(said("churn"))
        await small.until(lambda: "Done." in small.adapter.texts())
    summary = model.asked[4][1].text
    assert "Which column?" in summary
    assert "alice answered: churn" in summary


async def test_a_summary_takes_a_tenth_of_the_window_at_most(small: Harness) -> None:
    summary = ModelReply(f"begin {'Wort ' * 40_000}end", (), "m")
    small.model = model = ScriptedModel(
        ModelReply("Hello. " * 50, (), "m"), summary, ModelReply("Fine.", (), "m"), OverBudget("m cannot be paid.")
    )
    async with small.open() as brain:
        for words in ("hello there", "compact", "and now?"):
            await brain.router.accept(said(words))
            await brain.router.idle()
        assert 3900 < estimated_tokens([model.asked[2][1]]) < 4100
        assert "begin Wort" in model.asked[2][1].text
        assert model.asked[2][1].text.endswith("Wort end")
        await brain.router.accept(said("compact"))  # without a model: the last summary, and what was said since
        await brain.router.idle()
        session = await brain.stores.conversations.session_of(THREAD, create=False) or ""
        made = (await brain.stores.conversations.context(session)).compaction
    assert estimated_tokens([ModelMessage(Role.USER, made.summary)]) < 4_100
    assert "alice: and now?" in made.summary


def test_a_summary_in_any_script_fits() -> None:
    assert estimated_tokens([ModelMessage(Role.USER, fitting("训练" * 5000, most_tokens=500))]) < 520
    assert fitting("训练", most_tokens=500) == "训练"


async def test_what_a_tool_says_too_much_is_read_page_by_page(small: Harness) -> None:
    def reads_on(messages: Sequence[ModelMessage]) -> ModelReply:
        cut = as_read(messages[-1]).split("[cut: ")[1]
        assert cut.startswith("60012 characters in all; read_more with id ")
        number = int(cut.split("read_more with id ")[1].split(" ")[0])
        return ModelReply("", (ToolCall("c2", "read_more", json.dumps({"id": number, "page": 8})),), "m")

    small.options = replace(small.options, context_tokens=100_000)
    small.model = model = ScriptedModel(looks("a:60000"), reads_on, ModelReply("Done.", (), "m"))
    async with small.open() as brain:
        await brain.router.accept(said("look at all of it"))
        await small.until(lambda: "Done." in small.adapter.texts())
    page = json.loads(model.asked[2][-1].text)
    assert (page["page"], page["pages"], len(page["text"])) == (8, 8, 4012)


def test_a_call_without_an_answer_holds_up_a_summary_only_while_its_turn_waits() -> None:
    def asks(number: int) -> ModelMessage:
        return ModelMessage(Role.USER, "go", speaker="alice", id=number)

    def calls(number: int, *ids: str) -> ModelMessage:
        return ModelMessage(Role.ASSISTANT, "", tuple(ToolCall(i, "look", "{}") for i in ids), model="m", id=number)

    def upto(*history: ModelMessage) -> int:
        return answered_upto(Conversation(list(history), (), Compaction()))

    stopped = (asks(1), calls(2, "a", "b"), ModelMessage(Role.TOOL, "ended", call_id="a", id=3), calls(4))
    assert upto(*stopped) == 4  # nobody answers `b` any more
    assert upto(*stopped, asks(5), calls(6, "c")) == 5
    waits = (asks(1), calls(2, "a"))
    assert upto(*waits, asks(3), calls(4)) == 1
    went_on = (ModelMessage(Role.TOOL, "ended", call_id="a", id=5), calls(6))
    assert upto(asks(3), calls(4), *waits, *went_on) == 6
    assert upto(asks(3), calls(4, "b"), *waits, went_on[0]) == 1  # at 5 `b` waits, before that `a`


@pytest.mark.parametrize("seed", range(20))
def test_a_summary_never_parts_a_call_from_its_result(seed: int) -> None:
    draw = random.Random(seed)
    history, ids = [ModelMessage(Role.USER, "go", speaker="alice", id=1)], iter(range(2, 1000))
    for step in range(draw.randrange(1, 12)):
        calls = tuple(ToolCall(f"{step}-{n}", "look", "{}") for n in range(draw.randrange(0, 4)))
        history.append(ModelMessage(Role.ASSISTANT, "x" * draw.randrange(0, 300), calls, model="m", id=next(ids)))
        answered = [ModelMessage(Role.TOOL, "y" * draw.randrange(900), call_id=c.id, id=next(ids)) for c in calls]
        history += draw.sample(answered, len(answered))
        if draw.random() < 0.3:
            history.append(ModelMessage(Role.USER, "more", steers=ALICE.key, id=next(ids)))
    talk = Conversation(history, (), Compaction())
    upto = summarised_upto(talk, keep_tokens=draw.randrange(0, 400))
    talk.compaction = Compaction(upto, 0, 0, "Before.")
    shown = read_by_model(talk, window=100_000)
    assert not [
        message for message in paired(shown) if "late result" in message.text or "No answer yet" in message.text
    ]
    assert history[0] in shown  # what was asked stays
    assert all(message in shown for message in history if message.role is Role.USER)
    if history[-1].role is not Role.ASSISTANT:
        assert history[-1] in shown  # what nobody has read yet stays
