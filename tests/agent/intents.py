"""What the planner without a model takes a sentence for."""

from agent.llm.intents import decide


def intent_of(asked: str) -> str | None:
    """What a request is surely about."""
    return decide(asked).intent
