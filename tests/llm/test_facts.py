"""What the gateway knows of models and sends to them besides the conversation."""

import json
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.conversation.context import estimated_tokens
from agent.domain.errors import ModelError
from agent.domain.models import Preference
from agent.llm.chain import GatewayModels, facts_of
from agent.llm.offline import OfflinePlanner
from agent.ports import ModelMessage, Role, ToolCall
from tests.llm.conftest import ASKED, STATUS, GatewayProcess, answer
from tests.platforms.model_server import Call, Fail, Hang, ModelServer, Page, Reply

ASK_S = 3.0


async def test_models_are_asked_at_once_and_their_prices_known(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply("ok"), model="gpt-4o-mini")
    server.script(Fail(401), model="gpt-5")
    server.script(Hang(), model="slow")
    server.script(Reply("", finish="length"), model="thinks")
    server.script(Page(), model="page")
    names = [f"openai/{name}@{server.url}" for name in ("gpt-4o-mini", "gpt-5", "slow", "thinks", "page")]
    names += ["ollama_chat/qwen3@http://127.0.0.1:9", "anthropic/claude-sonnet-4-5"]
    (known,) = await facts_of(names[:1], gateway.socket, ask_s=0)
    assert known.window_tokens == 128_000
    await facts_of(names[-2:], gateway.socket, ask_s=ASK_S)  # imports of their providers stop the gateway for seconds
    begun = time.monotonic()
    mini, refused, slow, thinks, page, ollama, claude = await facts_of(names, gateway.socket, ask_s=ASK_S)
    assert time.monotonic() - begun < ASK_S * 3
    assert (mini.trouble, mini.window_tokens, mini.efforts) == ("", 128_000, False)
    assert (round(mini.usd_in or 0, 2), round(mini.usd_out or 0, 2)) == (0.15, 0.6)
    assert mini.tokens_in > 0
    assert 0 < (mini.cost_usd or 0) < 0.001
    assert (refused.tokens_in, refused.cost_usd) == (0, 0.0)
    assert (refused.trouble[:33], refused.efforts) == ("There is no key for openai/gpt-5.", True)
    assert "did not answer within" in slow.trouble
    assert (slow.usd_in, slow.window_tokens) == (None, None)
    assert thinks.trouble == ""
    assert "no streamed answer" in page.trouble
    assert (ollama.usd_in, ollama.usd_out) == (0.0, 0.0)
    assert "ollama_chat/qwen3" in ollama.trouble
    assert "Put ANTHROPIC_API_KEY into `.env`" in claude.trouble
    assert len(server.requests) == 5


async def test_tokens_are_counted_as_the_model_reads_them(gateway: GatewayProcess) -> None:
    names = ("openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5")
    models = GatewayModels(names, gateway.socket, OfflinePlanner(), patience_s=0, silence_s=5)
    call = ToolCall("c-1", "run_status", '{"run": "r-abc123"}')
    asked = [ModelMessage(Role.USER, "training " * 2000), ModelMessage(Role.ASSISTANT, "", (call,))]
    asked.append(ModelMessage(Role.TOOL, "gestört " * 1000, call_id="c-1"))
    for preference in map(Preference, names):
        tokens = await models.tokens(preference, asked)
        assert 4_000 < tokens < 5_200 < estimated_tokens(asked)  # "gestört" has two or three


async def test_an_estimate_of_what_we_read_is_rather_too_large(gateway: GatewayProcess) -> None:
    """So that the exact count decides wherever a window is nearly full."""
    models = GatewayModels(
        ("openai/gpt-4o", "openai/gpt-4"), gateway.socket, OfflinePlanner(), patience_s=0, silence_s=5
    )
    draw = random.Random(1)
    texts = [
        "\n".join(f"{n},{draw.random():.6f},{draw.random():.6f},{draw.random():.3e}" for n in range(200)),
        json.dumps([{"step": n, "loss": draw.random(), "lr": 1e-4 * draw.random()} for n in range(150)]),
        "\n".join(f"2026-11-21 12:{n % 60:02}:07 epoch {n} step {n * 7} loss={draw.random():.4f}" for n in range(150)),
        draw.randbytes(3000).hex(),
        "我想训练一个模型来预测客户流失率，请使用较小的学习率。" * 60,
        "the quick brown fox jumps over the lazy dog and then trains a model " * 80,
        Path(__file__).read_text(),
    ]
    for text in texts:
        asked = [ModelMessage(Role.USER, text)]
        for preference in map(Preference, models.names):
            assert await models.tokens(preference, asked) < estimated_tokens(asked) * 1.01, text[:60]
        assert estimated_tokens(asked) < 2 * await models.tokens(Preference(), asked), text[:60]


async def test_ollama_answers_and_costs_nothing(gateway: GatewayProcess, server: ModelServer) -> None:
    calls = [Call("run_status", {"run": run}) for run in ("r-1", "r-2")]  # without ids, all with the same index
    server.script(Reply("I look.", calls=calls, usage=(900, 12)), model="qwen3")
    pieces, reply = await answer(gateway.of([f"ollama_chat/qwen3@{server.origin}"]), tools=[STATUS])
    assert "".join(pieces) == reply.text == "I look."
    assert [json.loads(call.arguments) for call in reply.calls] == [{"run": "r-1"}, {"run": "r-2"}]
    assert len({call.id for call in reply.calls}) == 2
    assert (reply.model, reply.tokens_in, reply.tokens_out, reply.cost_usd) == ("ollama_chat/qwen3", 900, 12, 0.0)


async def test_effort_goes_to_models_that_have_levels(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply("yes"), Reply("yes"), Reply("yes"))
    for name in ("gpt-5", "gpt-4o-mini", "qwen3"):
        await answer(gateway.model(server, name, effort="high"))
    assert [request.body.get("reasoning_effort") for request in server.requests] == ["high", None, None]


async def test_claude_that_has_called_thinks_only_where_it_needs_no_thoughts_back(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    """Anthropic refuses a call of its own without the thoughts before it where a budget for thoughts is set."""
    call = ToolCall("toolu_1", "run_status", '{"run": "r-abc123"}')
    called = (*ASKED, ModelMessage(Role.ASSISTANT, "", (call,)), ModelMessage(Role.TOOL, "{}", call_id="toolu_1"))
    answered = (*called, ModelMessage(Role.ASSISTANT, "Fine."), ModelMessage(Role.USER, "and now?"))
    kinds = []
    for name in ("claude-sonnet-4-5", "claude-opus-4-6"):
        for asked in (ASKED, called, answered):
            server.script(Fail(400))
            with pytest.raises(ModelError):
                await answer(gateway.of([f"anthropic/{name}@{server.origin}"], effort="high"), asked, [STATUS])
            kinds.append((server.requests[-1].body.get("thinking") or {}).get("type"))
    assert kinds == ["enabled", None, "enabled", "adaptive", "adaptive", "adaptive"]


async def test_what_providers_cache_is_marked(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Fail(400), model="claude-sonnet-4-5")
    server.script(Reply("yes"), model="gpt-4o-mini")
    names = [f"anthropic/claude-sonnet-4-5@{server.origin}", f"openai/gpt-4o-mini@{server.url}"]
    asked = (*ASKED[:-1], replace(ASKED[-1], facts="It is Monday."))
    await answer(gateway.of(names), asked, tools=[STATUS])
    anthropic, openai = (request.body for request in server.requests)
    mark = {"type": "ephemeral"}
    assert anthropic["system"][-1]["cache_control"] == mark  # which holds for the tools, too: they come before
    (hello, facts) = anthropic["messages"][-1]["content"]
    assert hello["cache_control"] == mark
    assert facts == {"type": "text", "text": "[note of Trainyard: It is Monday.]"}  # it differs in the next call
    assert openai["messages"][-1]["content"] == "hello\n[note of Trainyard: It is Monday.]"
    assert "cache_control" not in str(openai)
