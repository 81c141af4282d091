"""The same turn by the peers, each through its public way of streaming, and by the bare OpenAI client.

The client's own time is measured with the messages and the tool that the peers send, and taken out of theirs.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import agents
import pydantic_ai
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from agent.conversation.prompt import SYSTEM
from tests.bench.turn_ours import ADD

Take = Callable[[str], Awaitable[float]]
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": ADD.name, "description": ADD.description, "parameters": ADD.schema().parameters},
}


def bare_client(client: AsyncOpenAI) -> Take:
    """The calls of one turn without any framework, streamed and read to the end."""

    async def call(messages: list[dict[str, Any]]) -> tuple[str, dict[int, list[str]]]:
        text: list[str] = []
        calls: dict[int, list[str]] = {}
        stream = await client.chat.completions.create(  # type: ignore[call-overload]
            model="local",
            messages=messages,
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    text.append(choice.delta.content)
                for part in choice.delta.tool_calls or ():
                    made = calls.setdefault(part.index, ["", "", ""])
                    made[0] = made[0] or part.id or ""
                    if part.function:
                        made[1] += part.function.name or ""
                        made[2] += part.function.arguments or ""
        return "".join(text), calls

    async def take(text: str) -> float:
        began = time.perf_counter()
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        answer, calls = await call(messages)
        if calls:
            made = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id_, name, arguments in calls.values()
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": made})
            messages += [{"role": "tool", "tool_call_id": id_, "content": "5"} for id_, _, _ in calls.values()]
            answer, _ = await call(messages)
        return _checked(answer, began)

    return take


def pydantic_ai_turn(client: AsyncOpenAI) -> Take:
    """`Agent.run_stream`, its text read as it comes."""
    model = OpenAIChatModel("local", provider=OpenAIProvider(openai_client=client))
    agent = pydantic_ai.Agent(model, instructions=SYSTEM)

    @agent.tool_plain(description=ADD.description)
    async def add(a: int, b: int) -> str:
        return str(a + b)

    async def take(text: str) -> float:
        began = time.perf_counter()
        words: list[str] = []
        async with agent.run_stream(text) as result:
            words.extend([word async for word in result.stream_text(delta=True, debounce_by=None)])
        return _checked("".join(words), began)

    return take


def openai_agents_turn(client: AsyncOpenAI) -> Take:
    """`Runner.run_streamed`, its events read as they come; tracing is off."""
    agents.set_tracing_disabled(True)

    @agents.function_tool(description_override=ADD.description)
    async def add(a: int, b: int) -> str:
        return str(a + b)

    model = agents.OpenAIChatCompletionsModel("local", client)
    agent: agents.Agent[None] = agents.Agent("Trainyard", instructions=SYSTEM, model=model, tools=[add])

    async def take(text: str) -> float:
        began = time.perf_counter()
        result = agents.Runner.run_streamed(agent, text)
        async for _ in result.stream_events():
            pass
        return _checked(str(result.final_output), began)

    return take


def _checked(answer: str, began: float) -> float:
    seconds = time.perf_counter() - began
    if not answer.startswith("word"):
        raise RuntimeError(f"the turn ended without its answer: {answer!r}")
    return seconds
