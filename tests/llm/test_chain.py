"""Fail-over down the chain, in the real turn loop with the real gateway."""

import asyncio
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.domain.errors import TooLong, Unavailable
from agent.llm.chain import BY_RULES, GatewayModel, GatewayModels, ModelChain
from agent.llm.offline import OfflinePlanner
from agent.llm.rules import Rules
from agent.ports import ModelMessage, ModelReply, Role
from tests.agent.conftest import Harness
from tests.fakes import ScriptedModel, said
from tests.llm.conftest import ASKED, CANARY, HANG_S, SILENCE_S, STATUS, GatewayProcess, answer
from tests.platforms.model_server import Act, Call, Cut, Fail, Garbled, Hang, ModelServer, Reply, Request


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def chain(gateway: GatewayProcess, server: ModelServer, *names: str, patience_s: float = 0.0) -> ModelChain:
    return ModelChain(gateway.chain(server, *(names or ("first", "second")), patience_s=patience_s), OfflinePlanner())


async def test_a_refused_key_and_then_an_answer_that_says_whose_it_is(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    server.script(Fail(401), model="first")
    server.script(Reply("I am the second."), Reply("Still me."), model="second")
    pieces, reply = await answer(chain(gateway, server))
    assert "".join(pieces) == reply.text == "I am the second."
    assert reply.model == "openai/second"
    assert reply.note.startswith("There is no key for openai/first. Put TRAINYARD_MODEL_KEYS")
    assert reply.note.endswith("So openai/second answers:")
    _, again = await answer(chain(gateway, server))
    assert again.shown.startswith("_There is no key for openai/first.")  # it cools down: nobody asks it
    assert [request.body["model"] for request in server.requests] == ["first", "second", "second"]


async def test_what_a_rate_limit_asks_for_is_how_long_a_model_is_left_alone(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    server.script(Fail(429, headers={"Retry-After": "1"}), Reply("I am back."), model="first")
    server.script(Reply("yes"), Reply("yes"), model="second")
    for _ in range(2):
        _, reply = await answer(chain(gateway, server))
        assert "too often" in reply.note
    async with asyncio.timeout(5):
        while reply.model != "openai/first":
            server.script(Reply("yes"), model="second")
            _, reply = await answer(chain(gateway, server))
    assert (reply.text, reply.note) == ("I am back.", "")


async def test_those_that_cool_down_are_asked_when_nobody_else_answers(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    server.script(Fail(500), Reply("I try."), model="first")
    server.script(Reply("yes"), Fail(400), model="second")
    await answer(chain(gateway, server))
    _, reply = await answer(chain(gateway, server))
    assert (reply.text, reply.note) == ("I try.", "")


async def test_cut_in_the_middle_only_the_seconds_words_stay(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(Cut(after=3), model="first")
    server.script(Reply("All is well."), Reply("Still well."), model="second")
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("how are things"))
        await harness.until(lambda: any(text.endswith("All is well.") for text in harness.adapter.texts()), 30)
        await brain.router.accept(said("and now"))
        await harness.until(lambda: len(harness.adapter.texts()) == 2, 30)
    first, _ = harness.adapter.texts()
    assert first.startswith("_openai/first broke off in the middle of its answer. So openai/second answers:_")
    grown = next(iter(harness.adapter.messages.values()))[-2].text
    assert "word0 word1 word2" in grown  # it was shown, and replaced
    assert "openai/second answers instead" in grown
    history = [message["content"].split("\n[note of Trainyard: ")[0] for message in server.requests[-1].messages]
    assert history[1:] == ['[from "alice"]\nhow are things', "All is well.", '[from "alice"]\nand now']


async def test_a_chain_of_one_waits_says_so_and_tries_again(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(Fail(503), Fail(429, headers={"Retry-After": "1"}), Reply("Here I am."))
    harness.model = chain(gateway, server, "only", patience_s=20)
    async with harness.open() as brain:
        await brain.router.accept(said("how are things"))
        await harness.until(lambda: harness.adapter.texts() == ["Here I am."], 30)
    shown = [content.text for versions in harness.adapter.messages.values() for content in versions]
    assert any("_openai/only is overloaded; I try again in 1 s._" in text for text in shown)
    assert any("ask too often or have used up the quota; I try again in" in text for text in shown)
    assert len(server.requests) == 3


async def test_patience_ends(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Fail(500), Fail(500), Reply("late"))
    _, reply = await answer(chain(gateway, server, "only", patience_s=1.3))
    assert reply.note.startswith("openai/only failed at its provider.")
    server.reset()
    server.script(Fail(429, headers={"Retry-After": "50"}))
    _, reply = await answer(chain(gateway, server, "other", patience_s=20))
    assert "It asks to wait 50 s." in reply.note
    server.script(Fail(401))
    _, reply = await answer(chain(gateway, server, "third", patience_s=20))
    assert "There is no key" in reply.note
    assert len(server.requests) == 2  # nobody waits in vain


@pytest.mark.parametrize(
    "bad",
    [Fail(500), Fail(429), Cut(after=3), Cut(after=0), Cut(after=3, clean=True), Garbled(1), Hang(), Hang(1)],
    ids=str,
)
async def test_who_fails_for_now_is_left_alone_for_a_while(
    gateway: GatewayProcess, server: ModelServer, bad: Act
) -> None:
    first = f"first-{bad}".replace(" ", "")
    server.script(bad, Reply("I am back."), model=first)
    server.script(Reply("yes"), Reply("yes again"), model="second")
    for _ in range(2):
        await answer(chain(gateway, server, first, "second"))
    assert [request.body["model"] for request in server.requests] == [first, "second", "second"]


async def test_who_hangs_is_waited_for_once(gateway: GatewayProcess, server: ModelServer, harness: Harness) -> None:
    """Not again while patience lasts, and not at the next step; the limit of an answer counts from its first word."""
    server.script(Reply("I am loaded."), model="other")
    await answer(chain(gateway, server, "other"))
    server.reset()
    server.script(*[Hang()] * 3, model="one")
    server.script(*[Hang()] * 3, model="two")
    harness.options = replace(harness.options, answer_s=SILENCE_S)
    harness.model = ModelChain(gateway.chain(server, "one", "two", patience_s=5, silence_s=SILENCE_S * 1.5), Rules())
    async with harness.open() as brain:
        await brain.router.accept(said("list hosts and which runs are there"))
        await harness.until(lambda: any(BY_RULES in text for text in harness.adapter.texts()), 30)
        await brain.router.idle()
        await brain.delivery.idle()
    told = "openai/one did not answer in time. openai/two did not answer in time."
    assert harness.adapter.texts()[0] == f"_{told} {BY_RULES}_"
    assert harness.adapter.texts()[1].startswith("This thread has no run yet")  # their next step, at once
    assert [request.body["model"] for request in server.requests] == ["one", "two"]


async def test_nothing_is_asked_for_once_more(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply(" \n "), Reply("Now."), Reply(""), Reply(""), model="first")
    server.script(Reply("I do."), model="second")
    _, reply = await answer(chain(gateway, server))
    assert (reply.text, reply.note) == ("Now.", "")
    _, reply = await answer(chain(gateway, server))
    assert reply.note == "openai/first answered nothing. So openai/second answers:"


async def test_an_answer_that_was_not_used_is_billed_too(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply("", usage=(1000, 0)), Reply("", usage=(1000, 0)), model="gpt-4o-mini")
    server.script(Reply("yes", usage=(2000, 10)), model="gpt-4o")
    *_, reply = [piece async for piece in gateway.chain(server, "gpt-4o-mini", "gpt-4o").stream(ASKED, ())]
    assert isinstance(reply, ModelReply)
    assert (reply.tokens_in, reply.tokens_out, reply.failed_tokens) == (4000, 10, 2000)
    assert reply.cost_usd == pytest.approx(2000 * 0.15e-6 + 2000 * 2.5e-6 + 10 * 10e-6)


async def test_what_was_paid_for_in_vain_is_stored(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    names = (f"openai/gpt-4o-mini@{server.url}",)
    harness.models = GatewayModels(names, gateway.socket, OfflinePlanner(), patience_s=0.0, silence_s=30.0)
    server.script(Reply("", usage=(1000, 0)), Reply("", usage=(1000, 0)), Hang(after=3))
    async with harness.open() as brain:
        await brain.router.accept(said("what is the weather"))
        await harness.until(lambda: any("answered nothing" in text for text in harness.adapter.texts()), 30)
        await brain.router.idle()
        in_vain = await brain.stores.usage.spent()
        assert (in_vain.calls, in_vain.tokens_in, in_vain.unpriced) == (1, 2000, 0)
        assert in_vain.usd == pytest.approx(2000 * 0.15e-6)
        await brain.router.accept(said("a long story"))
        await harness.until(lambda: any("word2" in text for text in harness.adapter.texts()), 30)
        await brain.router.accept(said("stop"))
        await brain.router.idle()
        stopped = await brain.stores.usage.spent()
    assert (stopped.calls, stopped.unpriced) == (2, 0)
    assert stopped.tokens_in > 2100
    read, said_words = stopped.tokens_in - 2000, stopped.tokens_out
    assert stopped.usd == pytest.approx(2000 * 0.15e-6 + read * 0.15e-6 + said_words * 0.6e-6)


async def given_up(model: GatewayModel, server: ModelServer, *, after: int) -> None:
    """End an answer after so many pieces, or, after none, once its request was sent."""
    before = len(server.requests)
    stream = model.stream(ASKED, (STATUS,))
    for _ in range(after):
        await anext(stream)
    if not after:
        silent = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(HANG_S):
            while len(server.requests) == before:
                await asyncio.sleep(0.01)
        silent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await silent
    await stream.aclose()


@pytest.mark.parametrize("after", [0, 3])
async def test_an_answer_that_is_given_up_costs_what_was_read_and_said(
    gateway: GatewayProcess, server: ModelServer, after: int
) -> None:
    for name, price in (("gpt-4o", (2.5e-6, 10e-6)), ("nobody-knows", None)):
        server.script(Hang(after=after or -1))
        unused: list[ModelReply] = []
        await given_up(gateway.chain(server, name, unused=unused.append), server, after=after)
        (one,) = unused
        assert one.model == f"openai/{name}"
        assert one.tokens_in > 40  # the messages, and a tool
        assert one.tokens_out >= after
        expected = price and pytest.approx(one.tokens_in * price[0] + one.tokens_out * price[1])
        assert one.cost_usd == expected


async def test_what_is_given_up_counts_the_models_that_failed_before(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    server.script(Reply("", usage=(1000, 0)), Reply("", usage=(1000, 0)), model="gpt-4o-mini")
    server.script(Hang(after=2), model="gpt-4o")
    unused: list[ModelReply] = []
    await given_up(gateway.chain(server, "gpt-4o-mini", "gpt-4o", unused=unused.append), server, after=2)
    (one,) = unused
    assert one.tokens_in > 2040
    assert one.cost_usd == pytest.approx(2000 * 0.15e-6 + (one.tokens_in - 2000) * 2.5e-6 + one.tokens_out * 10e-6)


async def test_a_model_that_stayed_silent_costs_what_it_was_sent(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Hang(after=-1), Fail(500))
    unused: list[ModelReply] = []
    with pytest.raises(Unavailable):
        await answer(gateway.chain(server, "gpt-4o", unused=unused.append), tools=(STATUS,))
    (silent,) = unused
    assert silent.tokens_in > 40
    assert silent.tokens_out == 0
    assert silent.cost_usd == pytest.approx(silent.tokens_in * 2.5e-6)
    unused.clear()
    with pytest.raises(Unavailable):
        await answer(gateway.chain(server, "gpt-4o", unused=unused.append))
    assert unused == [], "an answer that was refused costs nothing"


async def test_tries_that_failed_make_a_conversation_no_longer(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    names = (f"openai/first@{server.url}", f"openai/second@{server.url}")
    harness.models = GatewayModels(names, gateway.socket, OfflinePlanner(), patience_s=0.0, silence_s=30.0)
    harness.options = replace(harness.options, context_tokens=30_000)
    server.script(Reply("", usage=(10_000, 1)), Reply("", usage=(10_000, 1)), model="first")
    server.script(Reply("Hello.", usage=(10_000, 5)), Reply("Still here.", usage=(10_020, 5)), model="second")
    async with harness.open() as brain:
        await brain.router.accept(said("what is the weather"))
        await harness.until(lambda: any("Hello." in text for text in harness.adapter.texts()), 30)
        await brain.router.idle()
        spent = await brain.stores.usage.spent()
        assert (spent.calls, spent.tokens_in, spent.tokens_out) == (1, 30_000, 7)
        await brain.router.accept(said("and tomorrow?"))
        await harness.until(lambda: any("Still here." in text for text in harness.adapter.texts()), 30)
    assert not [text for text in harness.adapter.texts() if "was getting long" in text]
    assert "what is the weather" in str(server.requests[-1].body["messages"])


async def test_a_summary_that_is_of_no_use_was_paid_for_too(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    names = (f"openai/gpt-4o-mini@{server.url}",)
    harness.models = GatewayModels(names, gateway.socket, OfflinePlanner(), patience_s=0.0, silence_s=30.0)
    server.script(Reply("Hello.", usage=None), Reply("", usage=(1000, 0)), Reply("", usage=(1000, 0)))
    async with harness.open() as brain:
        await brain.router.accept(said("what is the weather"))
        await brain.router.idle()
        before = await brain.stores.usage.spent()
        await brain.router.accept(said("compact"))
        await harness.until(lambda: any("I summarised the 2 messages" in text for text in harness.adapter.texts()), 30)
        after = await brain.stores.usage.spent()
    assert (after.calls - before.calls, after.tokens_in - before.tokens_in) == (1, 2000)


async def test_a_name_that_nobody_knows_is_passed_over(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply("yes"), Reply("yes"))
    for _ in range(2):
        _, reply = await answer(gateway.of(["nonsense/x", f"openai/known@{server.url}"]))
        assert reply.note.startswith("The provider of nonsense/x is unknown.")


async def test_a_conversation_that_is_too_long_is_nothing_for_rules(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    full = Fail(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")
    server.script(full, model="first")
    server.script(full, model="second")
    with pytest.raises(TooLong, match="too long for openai/first"):
        await answer(chain(gateway, server))


async def test_all_fail_and_the_planner_says_why(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(Fail(500), model="first")
    server.script(Fail(401, f"bad key {CANARY}"), model="second")
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("what is the weather"))
        await harness.until(lambda: bool(harness.adapter.texts()), 30)
    (text,) = harness.adapter.texts()
    assert text.startswith("_openai/first failed at its provider. There is no key for openai/second. Put TRAINYARD")
    assert BY_RULES in text
    assert "did not understand" in text
    assert CANARY not in text


async def test_the_planner_says_why_once_a_turn() -> None:
    asked, tool = ModelMessage(Role.USER, "go"), ModelMessage(Role.TOOL, "{}", call_id="1")
    told = ModelMessage(Role.ASSISTANT, "I look.", model="p")
    cases = [
        ([asked], f"_It broke. {BY_RULES}_\n\nI look."),
        ([asked, told, tool], "I look."),
        ([asked, told, tool, asked], f"_It broke. {BY_RULES}_\n\nI look."),
    ]
    for messages, shown in cases:
        broken, planner = ScriptedModel(Unavailable("It broke.")), ScriptedModel(ModelReply("I look.", (), "p"))
        *_, reply = [piece async for piece in ModelChain(broken, planner).stream(messages, ())]
        assert isinstance(reply, ModelReply)
        assert reply.shown == shown


async def test_arguments_that_are_no_json_go_back_to_the_model(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(
        Reply(
            "Let me look.",
            calls=[
                Call("list_hosts", '{"host": ', id="c1"),
                Call("list_hosts", {}, id="c2"),
                Call("run_statuses", {}, id="c3"),
                Call("run_status", {"of": "r-1"}, id="c4"),
            ],
        ),
        Reply("One host is there."),
    )
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("which machines have you got"))
        await harness.until(lambda: "One host is there." in harness.adapter.texts(), 30)
    sent = server.requests[1].messages
    answers = {message["tool_call_id"]: message["content"] for message in sent if message["role"] == "tool"}
    assert "`list_hosts` cannot use these arguments" in answers["c1"]
    assert "gpu-1" in answers["c2"]
    assert "There is no tool `run_statuses`. Did you mean `run_status`?" in answers["c3"]
    assert "It takes `run`" in answers["c4"]
    assert server.requests[1].body["model"] == "first"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("multi_tool_use.parallel", "{}"),
        ("", "{}"),
        ("look at it", "{}"),
        ("x" * 200, "{}"),
        ("list_hosts", '{"what":' + "[" * 5000 + "]" * 5000 + "}"),
        ("set_budget", "[]"),
        ("set_budget", '{"what":' + "[" * 5000 + "]" * 5000 + "}"),
    ],
)
async def test_a_call_that_nobody_can_make_ends_no_thread(
    gateway: GatewayProcess, server: ModelServer, harness: Harness, name: str, arguments: str
) -> None:
    """The server refuses what OpenAI refuses."""

    def strict(request: Request) -> Act:
        names = [call["function"]["name"] for said in request.messages for call in said.get("tool_calls", ())]
        whole = all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in names)
        return Reply(f"Answer {len(request.messages)}.") if whole else Fail(400, "string does not match pattern")

    server.script(Reply(calls=[Call(name, arguments, pieces=1)]), strict, strict)
    harness.model = chain(gateway, server, "only")
    async with harness.open() as brain:
        for text in ("which machines have you got", "thanks for that"):
            await brain.router.accept(said(text))
            await brain.router.idle()
        await brain.delivery.idle()
    assert [text.startswith("Answer") for text in harness.adapter.texts()] == [True, True]


async def test_a_call_that_is_written_into_an_answer_is_not_shown(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    call = '{"name": "list_hosts", "arguments": {}}'
    server.script(Reply(f"<tool_call> {call} </tool_call>"), Reply(call), Reply(f"I look. <tool_call> {call}"))
    server.script(Reply('{"so": "the end"}'))
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("which machines have you got"))
        await harness.until(lambda: '{"so": "the end"}' in harness.adapter.texts(), 30)
    assert harness.adapter.texts() == ["I look.", '{"so": "the end"}']
    assert not any("list_hosts" in content.text for content in harness.adapter.shown)


def test_the_bots_side_imports_no_vendor() -> None:
    code = "import sys, agent.llm.chain; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "agent" in loaded
    assert not {"litellm", "openai", "httpx", "aiohttp", "tiktoken"} & set(loaded)
