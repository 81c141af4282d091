"""What a run is to have otherwise than the one before it, as a person said it."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.requests.asked import plan_of
from agent.llm.slots.actions import wish_in
from agent.llm.slots.changes import all_said, changes_in
from agent.llm.slots.limits import place_said
from agent.llm.slots.names import setting_called
from agent.llm.slots.numbers import factors_in
from agent.llm.slots.runs import runs_in
from agent.llm.slots.settings import held_out_in, weights_in
from agent.ports import ModelMessage


def plan_settings(asked: str, messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """The settings of the run that a request names, else of the newest plan."""
    return plan_of(messages, next(iter(runs_in(asked)), None)).get("settings") or {}


def changed(asked: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a copy of a run is to have otherwise; `known` are the settings that it has.

    Raises:
        BadRequest: that is said without a number.
    """
    changes = changes_in(asked) | ({"test_frac": share} if (share := held_out_in(asked)) else {})
    if more := multiplied(asked, known) | weights_in(asked):
        changes["settings"] = changes.get("settings", {}) | more
    if not {"settings", "seed"} & changes.keys():
        all_said(asked)
    return changes


def multiplied(asked: str, known: Mapping[str, Any]) -> dict[str, float | int]:
    """Settings that are to be a multiple of what they were. Raises: BadRequest, where that is not known here."""
    found: dict[str, float | int] = {}
    for said, factor in factors_in(asked).items():
        key = setting_called(said)
        was = known.get(key)
        if not isinstance(was, int | float):
            such = 0.01 if "rate" in said else 64
            raise BadRequest(
                f"I do not know the {said} that it had, so say the number itself, such as “{said} {such}”."
            )
        value = round(was * factor, 12)
        found[key] = round(value) if isinstance(was, int) else value
    return found


def place_in(asked: str, before: dict[str, Any], file: str = "", *, ahead: bool = False) -> dict[str, Any]:
    """Where and how long something runs, as far as it was said now or in the plan before; `ahead` as in the reader."""
    wanted = {name: before.get(name) for name in ("max_hours", "gpus", "host", "engine")}
    wanted |= place_said(wish_in(asked), ahead=ahead)
    if file.startswith(str(wanted["host"])):
        wanted["host"] = None  # “on iris2” means iris2.csv
    return wanted
