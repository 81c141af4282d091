"""Tools about language models: which there are, which one answers in a thread, how hard it thinks, and their prices."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from agent.cards import counted, usd
from agent.domain.content import Card
from agent.domain.errors import BadRequest
from agent.domain.models import Effort, ModelFacts, Preference, split_name
from agent.domain.policy import Effect
from agent.ports import Clock, Models
from agent.runs.budgets import BudgetService
from agent.stores import Conversations, ModelCall, ModelUsage, Turn
from agent.tools.tool import Arguments, Caller, Result, Tool

NONE = "No language model is configured, so I go by rules. The README says how to set TRAINYARD_MODELS."
USUAL = "usual"
ASK_S = 20.0


class PreferArguments(Arguments):
    """What is left out stays as it is."""

    model: str | None = Field(
        None, description="A configured model or a part of its name; `usual` for the first.", examples=["sonnet"]
    )
    effort: Literal["low", "medium", "high", "usual"] | None = Field(None, description="How hard it thinks.")


class LanguageModels:
    """The tools of this family."""

    def __init__(
        self,
        models: Models | None,
        conversations: Conversations,
        usage: ModelUsage,
        budgets: BudgetService,
        clock: Clock,
    ) -> None:
        """`models` are the configured ones, if there are any; `usage` gets what it costs to ask them."""
        self._models = models
        self._conversations = conversations
        self._usage = usage
        self._budgets = budgets
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "list_models",
                "The language models that are configured: reachable, window, price, which answers in this thread.",
                Arguments,
                Effect.READ,
                run=self.show,
                limit_s=ASK_S,
            ),
            Tool(
                "prefer_model",
                "Which language model answers in this thread from the next message on, and its effort; alone: which.",
                PreferArguments,
                Effect.WRITE,
                run=self.prefer,
                limit_s=ASK_S,
                quotes=False,
            ),
        )

    async def show(self, caller: Caller, _asked: Arguments) -> Result:
        """A line for each model, in the order in which they are asked here."""
        if self._models is None:
            return Result(NONE)
        names = self._models.names
        preference = await self._conversations.preference(caller.session_id)
        refusal = await self._budgets.refusal(caller.person.key, caller.thread, caller.session_id)
        facts = {one.name: one for one in await self._models.facts(ask=not refusal)}
        for one in facts.values():
            await self._bill(caller, one)
        order = preference.order(names)
        lines = [
            f"{number}. {_line(facts[name], preference, first=number == 1, asked=not refusal)}"
            for number, name in enumerate((name for name in order if name in facts), 1)
        ]
        last = "When none of them answers, I go by rules. `model <name>` puts another one first in this thread."
        body = "\n".join((*lines, "", *([refusal] if refusal else []), last))
        card = Card(kind="notice", title="Language models", body=body)
        return Result(f"{counted(len(lines), 'language model')}, in the order in which I ask.", {"said": body}, card)

    async def _bill(self, caller: Caller, facts: ModelFacts) -> None:
        """Store what it cost to ask a model whether it answers."""
        if facts.tokens_in or facts.tokens_out:
            turn = Turn(caller.turn_id, caller.session_id, 0, caller.thread, caller.person)
            took, now = (facts.tokens_in, facts.tokens_out, facts.cost_usd), self._clock.now()
            await self._usage.add(ModelCall(turn, split_name(facts.name)[0], *took, now))

    async def prefer(self, caller: Caller, asked: PreferArguments) -> Result:
        """Keep what the thread's people prefer, and say what answers from now on."""
        if self._models is None:
            return Result(NONE)
        if not caller.session_id:
            raise BadRequest("A model is chosen for a thread. Say it in one with me: `@trainyard model …`.")
        names = self._models.names
        now = await self._conversations.preference(caller.session_id)
        model = now.model if asked.model is None else _named(asked.model, names)
        effort: Effort = now.effort if asked.effort is None else "" if asked.effort == "usual" else asked.effort
        chosen = Preference(model, effort)
        if chosen != now:
            await self._conversations.prefer(caller.session_id, chosen)
        first = chosen.order(names)[0]
        said = f"In this thread `{split_name(first)[0]}` answers{_with(chosen)}"
        if chosen.effort and not await self._models.has_efforts(first):
            said += "; it has no levels of effort that I know of, so it answers in its own way"
        return Result(f"{said}.", {"model": split_name(first)[0], "effort": chosen.effort})


def _named(asked: str, names: Sequence[str]) -> str:
    """The configured name that is meant; empty for the usual. Raises `BadRequest`."""
    word = asked.strip("`").lower()
    if word == USUAL:
        return ""
    plain = {name: split_name(name)[0].lower() for name in names}
    for found in (
        [name for name in names if word in {name.lower(), plain[name], plain[name].rpartition("/")[2]}],
        [name for name in names if word and word in plain[name]],
    ):
        if len(found) == 1:
            return found[0]
    known = ", ".join(f"`{split_name(name)[0]}`" for name in names)
    raise BadRequest(f"`{asked[:60]}` is none, or more than one, of the configured models: {known}.")


def _with(chosen: Preference) -> str:
    return f" with {chosen.effort} effort" if chosen.effort else ""


def _line(facts: ModelFacts, preference: Preference, *, first: bool, asked: bool) -> str:
    here = f", answers here{_with(preference) if facts.efforts else ''}" if first else ""
    window = f"window {facts.window_tokens:,} tokens" if facts.window_tokens else "window unknown"
    state = facts.trouble or (f"It answered in {facts.seconds:.1f} s." if asked else "")
    return f"`{split_name(facts.name)[0]}`{here}: {window}, {price_of(facts)}. {state}".rstrip()


def price_of(facts: ModelFacts) -> str:
    """What it costs, in words."""
    if facts.usd_in is None or facts.usd_out is None:
        return "price unknown"
    free = facts.usd_in == facts.usd_out == 0
    return "no price" if free else f"{usd(facts.usd_in)} in and {usd(facts.usd_out)} out per million tokens"
