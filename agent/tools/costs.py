"""The tool that says what language models and runs cost: in this thread, in this channel, and each of its runs."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from agent.cards import counted, duration, gpus_words, usd
from agent.clock import month_began
from agent.domain.budgets import TITLES, RunHours, Scope, Used
from agent.domain.content import Card
from agent.domain.policy import Effect
from agent.domain.runs import LIVE, Run
from agent.ports import Clock
from agent.runs.budgets import BudgetService
from agent.stores import ModelUsage, Runs, Spent
from agent.tools.finding import of_all, of_thread
from agent.tools.tool import Arguments, Caller, Result, Tool

RUNS_SHOWN = 5
LEAST_HOURS = 0.01  # of which two decimals show something
NO_PRICE = "no price is set"


class Costs:
    """The tools of this family."""

    def __init__(self, usage: ModelUsage, budgets: BudgetService, runs: Runs, clock: Clock) -> None:
        """`usage` has the calls of language models, `budgets` sums the hours of runs."""
        self._usage = usage
        self._budgets = budgets
        self._runs = runs
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "show_cost",
                "Money of language models and runs, tokens and GPU-hours: of this thread, this month, each newest run.",
                Arguments,
                Effect.READ,
                run=self.show,
            ),
        )

    async def show(self, caller: Caller, _asked: Arguments) -> Result:
        """The sums of each scope, then the newest runs one by one."""
        spent = await self._spent(caller)
        used = await self._budgets.used(caller.person.key, caller.thread, caller.session_id)
        models = await self._usage.by_model(session_id=caller.session_id) if caller.session_id else {}
        parts = [_scope_lines(scope, spent[scope], of, models) for scope, of in used.items()]
        runs = await of_thread(self._runs, caller, RUNS_SHOWN) or await of_all(self._runs, caller, RUNS_SHOWN)
        if each := [await self._run_line(run) for run in runs]:
            parts.append(["**The newest runs**", *each])
        sums: dict[str, JsonValue] = {
            TITLES[scope]: round(of.models_usd + of.runs.usd, 4) for scope, of in used.items()
        }
        body = "\n\n".join("\n".join(lines) for lines in parts)
        card = Card(kind="notice", title="Costs", body=body)
        return Result("What language models and runs cost until now.", {"usd": sums, "said": body}, card)

    async def _spent(self, caller: Caller) -> Mapping[Scope, Spent]:
        """What language models used, by scope."""
        since = month_began(self._clock.now())
        return {
            Scope.THREAD: await self._usage.spent(session_id=caller.session_id) if caller.session_id else Spent(),
            Scope.CHANNEL: await self._usage.spent(channel=caller.thread.channel_key, since=since),
            Scope.PERSON: await self._usage.spent(person=caller.person.key, since=since),
        }

    async def _run_line(self, run: Run) -> str:
        """What one run has taken until now, that of its open attempt with it."""
        seconds = run.used_s
        if run.state in LIVE and (attempts := await self._runs.attempts(run.id)):
            seconds += attempts[-1].heard_s
        hours = seconds / 3600
        on = gpus_words(run.spec.gpus)
        gpu = f", {_hours(hours * run.spec.gpus)} GPU-hours" if run.spec.gpus else ""
        price = run.spec.price_usd
        money = NO_PRICE if price is None else usd(hours * float(price))
        so_far = " so far" if run.state in LIVE else ""
        return f"- `{run.id}` {run.spec.subject}: {duration(seconds)} on {on}{gpu}, {money}{so_far}"


def _scope_lines(scope: Scope, spent: Spent, used: Used, models: Mapping[str, Spent]) -> list[str]:
    """A title, then language models and runs; in a thread with several models also each of them."""
    lines = [f"**{TITLES[scope]}**", f"- Language models: {_spent_words(spent)}"]
    if scope is Scope.THREAD and len(models) > 1:
        lines += [f"  - `{model}`: {_spent_words(of)}" for model, of in models.items()]
    lines.append(f"- Runs: {_run_words(used.runs)}")
    if used.set_aside != RunHours():
        lines.append(f"- Set aside for runs that are not over: {_run_words(used.set_aside)}")
    if used.unpriced_runs and used.runs.usd + used.set_aside.usd:
        lines.append(f"- Without a known price: {counted(used.unpriced_runs, 'run')}")
    return lines


def _run_words(hours: RunHours) -> str:
    time = _time(hours)
    return f"{time}, {usd(hours.usd) if hours.usd else NO_PRICE}" if time else "nothing"


def _time(hours: RunHours) -> str:
    parts = (
        f"{_hours(hours.gpu)} GPU-hours" if hours.gpu else "",
        f"{duration(hours.cpu * 3600)} on CPUs" if hours.cpu else "",
    )
    return ", ".join(part for part in parts if part)


def _hours(hours: float) -> str:
    """Up to two decimals."""
    return f"under {LEAST_HOURS}" if 0 < hours < LEAST_HOURS else f"{hours:,.2f}".rstrip("0").rstrip(".")


def _spent_words(spent: Spent) -> str:
    if not spent.calls:
        return "nothing"
    money = usd(spent.usd) if spent.calls > spent.unpriced else ""
    unpriced = f"{counted(spent.unpriced, 'call')} without a known price" if spent.unpriced else ""
    words = " and ".join(part for part in (money, unpriced) if part)
    return f"{counted(spent.calls, 'call')}, {spent.tokens_in:,} tokens in, {spent.tokens_out:,} out, {words}"
