"""The doctor asks each model of the chain, and says what it answered."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from bot.doctor import examine
from bot.settings import Settings
from tests.platforms.model_server import Fail, Hang, ModelServer, Reply


async def test_each_model_is_asked_and_what_it_answered_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.doctor.MODEL_S", 5.0)
    monkeypatch.setenv("TRAINYARD_HOME", str(tmp_path))
    for name in ("MISTRAL_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with ModelServer() as server:
        for name, act in (("good", Reply("ok")), ("shut", Fail(401)), ("gone", Fail(404)), ("slow", Hang())):
            server.script(act, model=name)
        own = [f"openai/{name}@{server.url}" for name in ("good", "shut", "gone", "slow")]
        others = ["openai/x@http://127.0.0.1:1/v1", "openai/y@127.0.0.1:1", "nobody/z", "mistral/small"]
        monkeypatch.setenv("TRAINYARD_MODELS", ",".join((*own, *others)))
        printed = io.StringIO()
        assert await examine(Settings(), Console(file=printed, width=240)) == 1
    said = " ".join(printed.getvalue().split())
    for words in (
        "✓ model openai/good answers in",
        "✗ model openai/shut There is no key for openai/shut. Put TRAINYARD_MODEL_KEYS into `.env`",
        "✗ model openai/gone The provider does not know the model openai/gone. Check its name",
        "✗ model openai/slow It did not answer within 5 s.",
        "✗ model openai/x openai/x cannot be reached.",
        "Write the server's whole address, such as openai/y@http://127.0.0.1:1/v1.",
        "✗ model nobody/z The provider of nobody/z is unknown. Names in TRAINYARD_MODELS begin with it: `openai/…`.",
        "✗ model mistral/small There is no key for mistral/small. Put MISTRAL_API_KEY into `.env`",
    ):
        assert words in said, said
    assert server.requests[0].body["max_tokens"] <= 16
