"""Tools between a model and the people of its thread: a question that the turn waits for, and a plan that they see."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from agent.domain.content import Card
from agent.domain.policy import Effect, Role
from agent.domain.questions import MOST_CHARS
from agent.tools.tool import Arguments, Caller, Result, Tool

MARKS = {"done": "✓", "doing": "▸", "todo": "○"}
Choice = Annotated[str, Field(min_length=1, max_length=MOST_CHARS)]


class AskArguments(Arguments):
    question: str = Field(min_length=1, max_length=1000)
    choices: tuple[Choice, ...] = Field(min_length=2, max_length=5, description="shown as buttons")


class PlanItem(Arguments):
    text: str = Field(min_length=1, max_length=200)
    state: Literal["todo", "doing", "done"] = "todo"


class PlanArguments(Arguments):
    items: tuple[PlanItem, ...] = Field(min_length=1, max_length=20, description="the whole plan, each time")


class Asking:
    """What a model says through tools instead of words."""

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "ask_user",
                "Ask people something that only they can decide, with 2 to 5 choices; the turn waits for their answer.",
                AskArguments,
                Effect.READ,
                run=self.ask,
                beside=False,
                roles=frozenset({Role.MEMBER, Role.GUEST}),  # a turn that nobody asked for waits for nobody
            ),
            Tool(
                "plan",
                "Show people your plan as a checklist, for work of three steps or more; again when a state changes.",
                PlanArguments,
                Effect.READ,
                run=self.plan,
                beside=False,
            ),
        )

    async def ask(self, _caller: Caller, asked: AskArguments) -> Result:
        """The question; the conversation waits for its answer."""
        return Result(asked.question, choices=tuple(dict.fromkeys(asked.choices)))

    async def plan(self, _caller: Caller, asked: PlanArguments) -> Result:
        """The checklist, in the one card of its turn."""
        done = sum(item.state == "done" for item in asked.items)
        lines = [f"{MARKS[item.state]} {' '.join(item.text.split())}" for item in asked.items]
        card = Card(
            kind="notice",
            title=f"Plan: {done} of {len(asked.items)} done",
            tone="good" if done == len(asked.items) else "busy",
            body="\n".join(lines),
            progress=done / len(asked.items),
        )
        return Result(f"{done} of {len(asked.items)} done.", card=card, post="plan")
