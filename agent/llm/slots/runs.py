"""Reads which runs a request names."""

import re

from agent.domain.errors import BadRequest
from agent.llm.slots.actions import wish_in

RUN_ID = re.compile(r"(?<![a-z0-9])r-[0-9a-z]{6}(?![0-9a-z])")


def runs_in(asked: str) -> tuple[str, ...]:
    """The runs that are named, each once."""
    return tuple(dict.fromkeys(RUN_ID.findall(asked.lower())))


def run_to_act_on(asked: str) -> str | None:
    """The run that a wish names; one that only its reason names is not meant. Raises: BadRequest."""
    named = runs_in(wish_in(asked))
    if not named and runs_in(asked):
        raise BadRequest("Nothing was done, since I am not sure which run is meant. Say no more than “stop r-abc123”.")
    return named[0] if named else None
