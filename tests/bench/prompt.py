"""Row: how many tokens a model reads before the first word of a conversation: the system's word and every tool."""

import asyncio
import importlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.conversation.prompt import SYSTEM
from tests.agent.conftest import Harness
from tests.bench.progress import say
from tests.bench.rows import Row, alone

MODEL = "openai/gpt-4o"
MOST_TOKENS = 6_000.0


def measure() -> Sequence[Row]:
    """Counted by LiteLLM, with everything switched on, and without what is offered once a run is known."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = importlib.import_module("litellm")
    said = [{"role": "system", "content": SYSTEM}]
    every, usual = asyncio.run(_tools())
    counts = [litellm.token_counter(model=MODEL, messages=said, tools=tools) for tools in (every, usual)]
    raw = litellm.token_counter(model=MODEL, text=SYSTEM + json.dumps(every))
    say(f"prompt: {len(every)} tools, {len(usual)} before a run is known; {raw:,} tokens as plain JSON")
    return [
        alone("prompt: system and all tools", ours=counts[0], unit="tokens", at_most=MOST_TOKENS),
        alone("prompt: the same before a run is known", ours=counts[1], unit="tokens", at_most=MOST_TOKENS),
    ]


async def _tools() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory(prefix="bench-prompt-") as folder:
        async with Harness(Path(folder)).open() as brain:
            dispatcher = brain.dispatcher
            every, usual = dispatcher.schemas(), dispatcher.schemas(runs=False)
    function = ("name", "description", "parameters")
    return tuple(  # type: ignore[return-value]
        [{"type": "function", "function": {key: getattr(tool, key) for key in function}} for tool in tools]
        for tools in (every, usual)
    )
