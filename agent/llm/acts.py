"""What a person's own words plainly ask to be done with a run: a model that does just that is not questioned."""

from agent.domain.errors import AppError
from agent.llm.intents import decide, wish_to_act
from agent.llm.slots.actions import priority_in
from agent.llm.slots.runs import run_to_act_on
from agent.ports import ActAsked


def act_asked(words: str) -> ActAsked | None:
    """Implements `agent.ports.ReadsActs`."""
    try:
        tool = decide(words).intent
        if tool is None:
            return None
        wish = wish_to_act(words, tool)
        return ActAsked(tool, run_to_act_on(wish) or "", priority_in(wish) if tool == "set_priority" else "")
    except AppError:
        return None
