"""Tools between a model and the people of its thread: a question that the turn waits for, and a plan that they see."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from agent.domain.content import Card
from agent.domain.errors import BadRequest, NotFound
from agent.domain.policy import Effect, Role
from agent.domain.questions import MOST_CHARS
from agent.stores import Conversations
from agent.tools.tool import Arguments, Caller, Result, Tool

MARKS = {"done": "✓", "doing": "▸", "todo": "○"}
PAGE_CHARS = 8_000
Choice = Annotated[str, Field(min_length=1, max_length=MOST_CHARS)]


class AskArguments(Arguments):
    question: str = Field(min_length=1, max_length=1000)
    choices: tuple[Choice, ...] = Field(
        min_length=2, max_length=5, description="shown as buttons", examples=[["By region", "By month"]]
    )


class PlanItem(Arguments):
    text: str = Field(min_length=1, max_length=200)
    state: Literal["todo", "doing", "done"] = "todo"


class PlanArguments(Arguments):
    items: tuple[PlanItem, ...] = Field(
        min_length=1,
        max_length=20,
        description="the whole plan, each time",
        examples=[[{"text": "Train a baseline", "state": "doing"}, {"text": "Compare losses"}]],
    )


class MoreArguments(Arguments):
    id: int = Field(description="as it stands beside what was cut or put away")
    page: int = Field(1, ge=1, description="from 1")


class Asking:
    """The tools of this family: a question, a checklist, and reading on in a long result."""

    def __init__(self, conversations: Conversations) -> None:
        """`conversations` have the whole results of tools."""
        self._conversations = conversations

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
                quotes=False,
                roles=frozenset({Role.MEMBER, Role.GUEST}),  # a turn that nobody asked for waits for nobody
            ),
            Tool(
                "plan",
                "Show people your plan as a checklist, for work of three steps or more; again when a state changes.",
                PlanArguments,
                Effect.READ,
                run=self.plan,
                beside=False,
                quotes=False,
            ),
            Tool(
                "read_more",
                "Read on in a message or a tool's result that was cut or put away, a page at a time.",
                MoreArguments,
                Effect.READ,
                run=self.more,
                cap_chars=3 * PAGE_CHARS,
            ),
        )

    async def ask(self, _caller: Caller, asked: AskArguments) -> Result:
        """Ask people; the turn waits for the answer. Raises `BadRequest` where there is nothing to choose from."""
        choices = {choice.strip().casefold(): choice.strip() for choice in asked.choices if choice.strip()}
        if len(choices) < 2:
            raise BadRequest("Give at least two choices that differ.")
        return Result(asked.question, choices=tuple(choices.values()))

    async def more(self, caller: Caller, asked: MoreArguments) -> Result:
        """One page of a long result."""
        whole = await self._conversations.whole_text(caller.session_id, asked.id)
        if whole is None:
            raise NotFound(f"There is no message {asked.id} in this conversation.")
        pages = max(1, -(-len(whole) // PAGE_CHARS))
        if asked.page > pages:
            raise BadRequest(f"It has {pages} pages only.")
        start = (asked.page - 1) * PAGE_CHARS
        return Result(whole[start : start + PAGE_CHARS], {"page": asked.page, "pages": pages})

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
