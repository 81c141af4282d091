"""Wishes that are about no run: what they are called with, by their tool. What is not plain is a command to type."""

from collections.abc import Callable, Mapping
from typing import Any

from agent.domain.errors import BadRequest
from agent.llm.slots.budgets import allowance_arguments, budget_arguments
from agent.llm.slots.charts import card_arguments
from agent.llm.slots.conversations import audit_arguments, preference_arguments, spoken_of

WISHES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "set_budget": budget_arguments,
    "set_allowance": allowance_arguments,
    "prefer_model": preference_arguments,
    "show_audit": audit_arguments,
    **dict.fromkeys(
        ("new_session", "compact_session", "undo_turn", "export_session", "forget_person"), lambda _words: {}
    ),
}


def card_wish(words: str) -> dict[str, Any]:
    """What a run's card is to draw. Raises: BadRequest, where no such wish is said."""
    if not spoken_of(words) and (found := card_arguments(words)):
        return found
    raise BadRequest("Say what the card should draw: `card r-abc123 loss log`, or `card r-abc123 all`.")
