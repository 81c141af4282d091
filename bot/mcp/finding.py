"""Finds tools that are not offered from the start, by what they should do: servers have more than a model reads."""

import re
from collections.abc import Sequence

from pydantic import Field

from agent.cards import counted
from agent.domain.policy import ROLES, Effect
from agent.tools.dispatch import MOST_ON_DEMAND
from agent.tools.tool import Arguments, Caller, Result, Tool

NAME = "find_tools"
LEAST_CHARS, SAME_CHARS = 3, 5  # of a word that counts, and of its beginning by which words are the same
THERE = "They are there from your next step on."
NONE = "None of {} says that. Look for other words, such as what it works on; two or three are enough."


class FindArguments(Arguments):
    words: str = Field(min_length=1, max_length=300, description="what it should do, in English")


def finder(tools: Sequence[Tool], servers: Sequence[str]) -> Tool:
    """The tool that finds those of the servers."""

    async def find(_caller: Caller, asked: FindArguments) -> Result:
        wanted = _words(asked.words)
        found = sorted(tools, key=lambda tool: -_fits(tool, wanted))[:MOST_ON_DEMAND]
        fitting = [tool for tool in found if _fits(tool, wanted)]
        if not fitting:
            return Result(NONE.format(counted(len(tools), "tool")))
        lines = [f"- {tool.name}{'' if tool.run else ' (people are asked)'}: {tool.description}" for tool in fitting]
        return Result("\n".join((*lines, THERE)), {"tools": [tool.name for tool in fitting]})

    return Tool(
        NAME,
        f"Find one of {counted(len(tools), 'more tool')} of {', '.join(servers)}, by what it should do.",
        FindArguments,
        Effect.READ,
        run=find,
        roles=ROLES[Effect.SPEND],
        finds=True,
    )


def _fits(tool: Tool, wanted: frozenset[str]) -> int:
    """How many of the words its name and description have; those of its name count twice."""
    return 2 * len(wanted & _words(tool.name)) + len(wanted & _words(tool.description))


def _words(text: str) -> frozenset[str]:
    """The beginnings of the words of a text, as people and names of programs write them."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    found = re.findall(r"[^\W_]+", spaced.lower())
    return frozenset(word[:SAME_CHARS] for word in found if len(word) >= LEAST_CHARS)
