"""What tools declare, and that the dispatcher keeps them to it, whoever calls."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import pytest
from pydantic import JsonValue, TypeAdapter

from agent.conversation.prompt import SYSTEM
from agent.domain.content import Card
from agent.domain.errors import BadRequest, NotAllowed, TransientError, Unavailable
from agent.domain.inbound import Person
from agent.domain.policy import Effect, Role
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema
from agent.ports import Role as Speaker
from agent.tools.dispatch import REST, WHOLE_CHARS, Dispatcher, NeedsApproval
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.fakes import ALICE, GUEST, THREAD, ScriptedModel, said


class Family:
    """A toolset of the tools that a test gives it."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools

    def tools(self) -> Sequence[Tool]:
        return self._tools


async def nothing(_caller: Caller, _asked: Arguments) -> Result:
    return Result("Done.")


async def for_ever(_caller: Caller, _asked: Arguments) -> Result:
    await asyncio.Event().wait()
    raise AssertionError


async def plan(_caller: Caller, _asked: Arguments) -> Plan:
    return Plan({"hours": 3}, Card(kind="approval", title="Spend?"))


async def execute(_caller: Caller, _exact: dict[str, JsonValue], _token: str) -> Result:
    return Result("Spent.")


def hours(exact: Mapping[str, JsonValue]) -> str:
    return f"{exact['hours']} h"


LOOK = Tool("look", "Looks.", Arguments, Effect.READ, run=nothing)
SPEND = Tool("spend", "Spends.", Arguments, Effect.SPEND, plan=plan, execute=execute, cost=hours)


async def call(tool: Tool, *, person: Person = ALICE, unattended: bool = False) -> Result | NeedsApproval:
    caller = Caller(person, "s", THREAD, unattended=unattended)
    return await Dispatcher([Family(tool)]).call(caller, ToolCall("c", tool.name, "{}"))


class Lines(Arguments):
    """So many, of something that has to be named."""

    run: str
    count: int = 20


async def test_an_option_that_is_null_has_its_usual_value() -> None:
    seen: list[Lines] = []

    async def read(_caller: Caller, asked: Lines) -> Result:
        seen.append(asked)
        return Result("Read.")

    dispatcher = Dispatcher([Family(Tool("read", "Reads.", Lines, Effect.READ, run=read))])
    for given in ('{"run": "r-1", "count": null}', '{"run": "r-1", "count": "3"}'):
        await dispatcher.call(Caller(ALICE, "s", THREAD), ToolCall("c", "read", given))
    assert [asked.count for asked in seen] == [20, 3]
    with pytest.raises(BadRequest, match="run: Field required"):
        await dispatcher.call(Caller(ALICE, "s", THREAD), ToolCall("c", "read", '{"run": null}'))


def test_a_declaration_that_could_not_be_carried_out_is_refused() -> None:
    with pytest.raises(ValueError, match="what it costs"):
        replace(SPEND, cost=None)
    with pytest.raises(ValueError, match="either `run`"):
        replace(SPEND, execute=None)
    with pytest.raises(ValueError, match="either `run`"):
        Tool("idle", "Does nothing.", Arguments, Effect.READ)
    with pytest.raises(ValueError, match="two tools are called look"):
        Dispatcher([Family(LOOK), Family(SPEND, LOOK)])


@pytest.mark.parametrize("tool", [replace(LOOK, run=for_ever), replace(SPEND, plan=for_ever)])
async def test_what_takes_longer_than_its_limit_is_given_up_with_a_sentence(tool: Tool) -> None:
    with pytest.raises(TransientError, match=f"`{tool.name}` took longer than 0 s and was given up."):
        await call(replace(tool, limit_s=0.01))


def test_an_answer_keeps_to_the_cap_of_its_tool_and_says_what_is_missing() -> None:
    dispatcher = Dispatcher([Family(replace(LOOK, cap_chars=1_000))])
    whole = json.loads(dispatcher.answer("look", Result("Short.", {"rows": [1, 2]})))
    assert whole == {"text": "Short.", "rows": [1, 2]}
    answer = dispatcher.answer("look", Result("Long. " * 500, {"rows": ["x" * 900], "run": "r-abc123"}))
    read = json.loads(answer)
    assert len(answer) < 1_200
    assert read["run"] == "r-abc123"
    assert read["text"].endswith("…")
    assert read["cut"] == (
        "This answer was too long and is without rows: it may have 1,000 characters. Ask for less at a time."
    )


@pytest.mark.parametrize(
    ("tool", "person", "unattended", "allowed"),
    [
        (LOOK, GUEST, False, True),
        (LOOK, ALICE, True, True),
        (SPEND, GUEST, False, False),
        (SPEND, ALICE, True, True),
        (replace(LOOK, effect=Effect.WRITE), GUEST, False, False),
        (replace(LOOK, effect=Effect.WRITE), ALICE, True, False),
        (replace(LOOK, roles=frozenset({Role.MEMBER})), GUEST, False, False),
        (replace(LOOK, roles=frozenset({Role.MEMBER})), ALICE, False, True),
        (replace(LOOK, effect=Effect.WRITE, roles=frozenset(Role)), ALICE, True, True),
    ],
)
async def test_who_may_call_a_tool_follows_from_its_effect_unless_it_says_so(
    tool: Tool, person: Person, unattended: bool, allowed: bool
) -> None:
    if allowed:
        assert await call(tool, person=person, unattended=unattended)
        return
    with pytest.raises(NotAllowed, match=r"Guests|The monitor began"):
        await call(tool, person=person, unattended=unattended)


async def test_the_card_says_what_the_exact_arguments_cost() -> None:
    asked = await call(SPEND)
    assert isinstance(asked, NeedsApproval)
    assert [(fact.name, fact.value) for fact in asked.plan.card.facts] == [("Cost", "3 h")]


@pytest.mark.parametrize("beside", [None, False])
async def test_calls_of_one_reply_run_beside_each_other_where_their_tools_may(
    harness: Harness, beside: bool | None
) -> None:
    running, most = 0, 0

    async def look(_caller: Caller, _asked: Arguments) -> Result:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):  # whoever may begin beside it has begun by then
            await asyncio.sleep(0)
        running -= 1
        return Result(f"Seen by {running}.")

    harness.toolsets = [Family(replace(LOOK, run=look, beside=beside))]
    calls = tuple(ToolCall(f"c{n}", "look", "{}") for n in range(3))
    model = harness.model = ScriptedModel(ModelReply("", calls, "m"), ModelReply("All seen.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look three times"))
        await harness.until(lambda: harness.adapter.texts() == ["All seen."])
    assert most == (3 if beside is None else 1)
    answered = [message.call_id for message in model.asked[-1] if message.role is Speaker.TOOL]
    assert answered == ["c0", "c1", "c2"]


async def test_what_a_model_reads_of_its_tools_is_short_and_grows_with_what_there_is(harness: Harness) -> None:
    async with harness.open() as brain:
        dispatcher: Dispatcher = brain.dispatcher
        every, usual = dispatcher.schemas(), dispatcher.schemas(runs=False)
    written = {schema.name: json.dumps(schema.parameters) for schema in every}
    assert not [name for name, text in written.items() if '"title"' in text or '"$ref"' in text or '"null"' in text]
    assert not [name for name, text in written.items() if "hashes" in text or '"marks"' in text]  # of buttons
    plan_items = json.loads(written["plan"])["properties"]["items"]["items"]
    assert plan_items["properties"]["state"] == {"type": "string", "enum": ["todo", "doing", "done"], "default": "todo"}
    assert plan_items["required"] == ["text"]
    clone = json.loads(written["clone_run"])["properties"]
    assert clone["settings"]["examples"] == [{"learning_rate": 0.05, "rounds": None}]
    # By characters, as tokenizers read such text four to a token; `make bench` counts tokens.
    characters = len(SYSTEM) + sum(
        len(text) + len(schema.description) for text, schema in zip(written.values(), every, strict=True)
    )
    assert characters < 26_000
    without = {name for name, text in written.items() if '"properties": {"' in text and '"examples"' not in text}
    assert without <= {"list_experiments", "read_more"}, "what is more than a number or a choice has an example"
    hidden = {schema.name for schema in every} - {schema.name for schema in usual}
    assert {"run_chart", "pause_run", "compare_runs"} <= hidden
    assert not {"start_training", "inspect_dataset", "list_runs", "ask_user"} & hidden


async def test_the_examples_of_arguments_are_such_as_the_tool_takes(harness: Harness) -> None:
    async with harness.open() as brain:
        tools = brain.dispatcher._tools.values()
    fields = [(tool.name, field) for tool in tools for field in tool.arguments.model_fields.values()]
    shown = [(name, field, example) for name, field in fields for example in field.examples or ()]
    assert {"start_training", "clone_run", "update_script", "predict", "run_status"} <= {name for name, _, _ in shown}
    for _, field, example in shown:
        TypeAdapter(field.annotation).validate_python(example)


async def test_tools_about_runs_are_offered_once_one_is_known(harness: Harness) -> None:
    class Notes(ScriptedModel):
        tools: list[set[str]] = []  # noqa: RUF012 - one test

        async def stream(
            self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
        ) -> AsyncIterator[str | ModelReply]:
            self.tools.append({tool.name for tool in tools})
            async for piece in super().stream(messages, tools):
                yield piece

    harness.model = model = Notes(*(ModelReply(text, (), "m") for text in ("One.", "Two.", "Three.")))
    async with harness.open() as brain:
        for text, answer in (("hello there", "One."), ("why did r-abc123 fail so early?", "Two.")):
            await brain.router.accept(said(text))
            await harness.until(lambda answer=answer: answer in harness.adapter.texts())
        await Stage(harness, brain).running()
        elsewhere = THREAD.model_copy(update={"thread_id": "2.0"})
        await brain.router.accept(said("hello here", thread=elsewhere))
        await harness.until(lambda: "Three." in harness.adapter.texts())
    assert ["run_logs" in tools for tools in model.tools] == [False, True, False]


async def test_a_tool_that_was_cancelled_from_within_answers_its_call(harness: Harness) -> None:
    """What a tool waits for may be cancelled by others, as a closing connection does; its turn goes on."""

    async def look(_caller: Caller, _asked: Arguments) -> Result:
        raise asyncio.CancelledError

    harness.toolsets = [Family(replace(LOOK, run=look), replace(LOOK, name="glance"))]
    calls = (ToolCall("c1", "look", "{}"), ToolCall("c2", "glance", "{}"))
    model = harness.model = ScriptedModel(ModelReply("", calls, "m"), ModelReply("One is seen.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look twice"))
        await harness.until(lambda: harness.adapter.texts() == ["One is seen."])
    answers = {message.call_id: message.text for message in model.asked[-1] if message.role is Speaker.TOOL}
    assert "`look` broke (id " in answers["c1"]
    assert "error" not in answers["c2"]


async def test_a_key_over_many_lines_of_a_result_is_hidden_whole() -> None:
    key = ["-----BEGIN PRIVATE KEY-----", *["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIB"] * 3]

    async def look(_caller: Caller, _asked: Arguments) -> Result:
        return Result("Seen.", {"lines": ["before", *key, "-----END PRIVATE KEY-----", "after"], "rows": [["a", 1]]})

    result = await call(replace(LOOK, run=look))
    assert isinstance(result, Result)
    assert result.data == {"lines": ["before", *["[secret: private-key]"] * 5, "after"], "rows": [["a", 1]]}


async def test_a_family_comes_and_goes_and_takes_no_name_of_another(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher([Family(LOOK)])
    far, own = replace(SPEND, name="far_spend", parameters={"type": "object"}), replace(SPEND, name="look")
    caller = Caller(ALICE, "s", THREAD)
    assert [schema.name for schema in dispatcher.schemas()] == ["look"]
    dispatcher.offer("far", [far, own])
    assert [schema.name for schema in dispatcher.schemas()] == ["look", "far_spend"]
    assert "its name is taken" in caplog.text
    assert isinstance(await dispatcher.call(caller, ToolCall("c", "look", "{}")), Result)
    assert isinstance(await dispatcher.call(caller, ToolCall("c", "far_spend", "{}")), NeedsApproval)
    dispatcher.offer("far", [])
    assert [schema.name for schema in dispatcher.schemas(runs=False)] == ["look"]
    with pytest.raises(BadRequest, match="server `far`, which is not connected now"):
        await dispatcher.call(caller, ToolCall("c", "far_spend", "{}"))
    with pytest.raises(Unavailable, match="not connected now"):
        await dispatcher.execute("far_spend", caller, {}, "t")
    assert dispatcher.quotes("far_spend"), "what it said before is still others' words"
    assert not dispatcher.quotes("")
    assert json.loads(dispatcher.answer("far_spend", Result("late"))) == {"text": "late"}
    dispatcher.offer("other", [far])
    assert not dispatcher.knows("far_spend"), "its name stays its own"
    dispatcher.offer("far", [far])
    assert dispatcher.knows("far_spend")


def test_a_result_that_is_too_long_to_be_kept_says_where_it_ends() -> None:
    dispatcher = Dispatcher([Family(LOOK)])
    kept = dispatcher.whole("look", Result("x" * WHOLE_CHARS))
    assert len(kept) == WHOLE_CHARS
    assert kept.endswith(f"x{REST}")
    assert REST not in dispatcher.whole("look", Result("x" * (WHOLE_CHARS - 100)))
