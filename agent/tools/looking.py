"""Tools that look at runs: list, status, metrics, logs, hosts."""

import math
from collections.abc import Sequence

from pydantic import Field

from agent.cards import duration, number, result_card, run_card, size, state_words
from agent.domain.content import Card, Table
from agent.domain.errors import NotFound
from agent.domain.policy import Effect
from agent.domain.runs import Run, RunState
from agent.ports import Clock, Fleet
from agent.stores import Runs
from agent.tools.tool import Arguments, Caller, Result, Tool

LOG_LINES = 30
NO_RUN = "There is no run yet. Attach a csv file and say what to predict."


class RunArguments(Arguments):
    """One run."""

    run: str | None = Field(None, description="Run id; the newest run of this thread if unsaid.")


class LogArguments(RunArguments):
    """The log of a run."""

    lines: int = Field(LOG_LINES, ge=1, le=200, description="How many of the last lines.")


class NoArguments(Arguments):
    """Nothing to say."""


class Looking:
    """The tools of this family."""

    def __init__(self, runs: Runs, fleet: Fleet, clock: Clock) -> None:
        """Reads only."""
        self._runs = runs
        self._fleet = fleet
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        read = Effect.READ
        return (
            Tool("list_runs", "The runs of this thread.", NoArguments, read, run=self.list_runs),
            Tool("run_status", "State, step and result of a run.", RunArguments, read, run=self.status),
            Tool("run_logs", "The last lines of a run's log.", LogArguments, read, run=self.logs),
            Tool("run_metrics", "The metrics of a run as a table.", RunArguments, read, run=self.metrics),
            Tool("list_hosts", "The connected GPU hosts.", NoArguments, read, run=self.hosts),
        )

    async def _run(self, caller: Caller, run_id: str | None) -> Run:
        """A run by id; the newest of this thread, else the newest of all, when no id is given."""
        if run_id is not None:
            return await self._runs.get(run_id)
        found = await self._runs.of_session(caller.session_id, 1) or await self._runs.recent(1)
        if not found:
            raise NotFound(NO_RUN)
        return found[0]

    async def list_runs(self, caller: Caller, _asked: NoArguments) -> Result:
        """The runs of this thread; all runs where this thread has none."""
        found = await self._runs.of_session(caller.session_id, 15) or await self._runs.recent(15)
        if not found:
            return Result(NO_RUN)
        table = Table(columns=("run", "state", "target", "data", "result"), rows=tuple(_row(run) for run in found))
        return Result(
            f"{len(found)} runs, newest first.",
            {"runs": [{"run": run.id, "state": run.state.value, "result": _row(run)[-1]} for run in found]},
            Card(kind="notice", title="Runs", table=table),
        )

    async def status(self, caller: Caller, asked: RunArguments) -> Result:
        """Where a run stands."""
        run = await self._run(caller, asked.run)
        rows = await self._runs.metrics(run.id)
        text = status_text(run)
        if run.state is RunState.SUCCEEDED:
            return Result(text, {"run": run.id, "state": run.state.value}, result_card(run))
        card = run_card(run, rows, await self._runs.log(run.id, 6), None, now=self._clock.now())
        last = {name: number(value) for name, value in rows[-1].values.items()} if rows else {}
        return Result(text, {"run": run.id, "state": run.state.value, "last": dict(last)}, card)

    async def logs(self, caller: Caller, asked: LogArguments) -> Result:
        """The last lines of the log."""
        run = await self._run(caller, asked.run)
        lines = await self._runs.log(run.id, asked.lines)
        if not lines:
            return Result(f"Run `{run.id}` has written no log yet.", {"run": run.id})
        card = Card(kind="notice", title=f"Log of {run.id}", log=tuple(lines), footer=f"last {len(lines)} lines")
        return Result(f"The last {len(lines)} lines of `{run.id}`.", {"run": run.id, "lines": list(lines)}, card)

    async def metrics(self, caller: Caller, asked: RunArguments) -> Result:
        """Every metric with its first, last, lowest and highest value."""
        run = await self._run(caller, asked.run)
        rows = await self._runs.metrics(run.id)
        if not rows:
            return Result(f"Run `{run.id}` has logged no metrics yet.", {"run": run.id})
        columns: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row.values.items():
                columns.setdefault(name, []).append(value)
        table = Table(
            columns=("metric", "first", "last", "lowest", "highest"),
            rows=tuple(
                (name, *(number(value) for value in (values[0], values[-1], *_range(values))))
                for name, values in columns.items()
            ),
        )
        card = Card(kind="notice", title=f"Metrics of {run.id}", table=table, footer=f"{len(rows):,} rows logged")
        last = {name: number(values[-1]) for name, values in columns.items()}
        return Result(f"{len(rows):,} rows of metrics in `{run.id}`.", {"run": run.id, "last": dict(last)}, card)

    async def hosts(self, _caller: Caller, _asked: NoArguments) -> Result:
        """What each connected host has."""
        found = await self._fleet.hosts()
        if not found:
            return Result("No GPU host is connected. Start one with `trainyard worker`.")
        rows = tuple(
            (
                host.host,
                str(host.cpus),
                size(host.memory_bytes),
                ", ".join(gpu.name for gpu in host.gpus) or "none",
                host.sandbox,
            )
            for host in found
        )
        table = Table(columns=("host", "cpus", "memory", "gpus", "sandbox"), rows=rows)
        card = Card(kind="notice", title="Hosts", table=table)
        return Result(f"{len(found)} hosts are connected.", {"hosts": [list(row) for row in rows]}, card)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest; NaN is neither, unless there is nothing else."""
    known = [value for value in values if not math.isnan(value)] or values
    return min(known), max(known)


def status_text(run: Run) -> str:
    """A run's state in a sentence."""
    ended = {RunState.SUCCEEDED: "has succeeded", RunState.FAILED: "has failed", RunState.STOPPED: "was stopped"}
    text = f"Run `{run.id}` {ended.get(run.state, f'is {state_words(run)}')}"
    if run.step and run.total_steps:
        text += f", step {run.step:,} of {run.total_steps:,}"
    text += "."
    if run.outcome and run.outcome.reason:
        text += f" {run.outcome.reason}"
    if run.started_at and run.ended_at:
        text += f" It took {duration((run.ended_at - run.started_at).total_seconds())}."
    return text


def _row(run: Run) -> tuple[str, str, str, str, str]:
    result = "–"
    if run.outcome and run.outcome.scorecard:
        score = run.outcome.scorecard
        result = f"{score.metric} {number(score.model.value)} (baseline {number(score.best_baseline.value)})"
    return run.id, state_words(run), run.spec.target, run.spec.dataset.name, result
