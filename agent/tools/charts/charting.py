"""The tool that draws curves of one run or several, of chosen metrics and steps, or a run's result. Reads only."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field, JsonValue

from agent.cards import number
from agent.domain.charts import ChartSpec
from agent.domain.content import Card
from agent.domain.errors import BadRequest
from agent.domain.policy import Effect
from agent.domain.results import ResultView
from agent.domain.runs import Run
from agent.ports import Blobs, Clock
from agent.run_store import ALL_STEPS, Steps
from agent.runs.cards.card_view import MOST, mark
from agent.runs.charts.run_charts import (
    BASELINE,
    LEARNING_RATE,
    MAX_PANELS,
    MOST_PANELS,
    Curves,
    Look,
    clock_name,
    curves_chart,
    is_learning_rate,
    last_value,
    restarts,
)
from agent.runs.charts.usage import UsageView
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.charts.chart_views import MOST_MINUTES, SUBJECT_CHARS, ChartView, buttons, selector
from agent.tools.charts.chart_words import USAGE_WORDS
from agent.tools.charts.usage_charts import UsageCharts, began_at
from agent.tools.charts.zooming import clock_in, steps_of_epochs, steps_since
from agent.tools.finding import Before, named, named_or_newest, one_before
from agent.tools.runs.resulting import Resulting
from agent.tools.runs.watching import RunArguments
from agent.tools.tool import BUTTONS_ONLY, Caller, Result, Tool

MOST_OTHERS = 4
MOST_MARKS = SUBJECT_CHARS // 4  # as many as a button can carry, none is refused


class ChartArguments(RunArguments):
    """What to draw."""

    metrics: tuple[str, ...] = Field((), max_length=16, description="Names or parts of names; all metrics if unsaid.")
    first_step: int | None = Field(None, ge=ALL_STEPS[0], le=ALL_STEPS[1], description="From this step on.")
    last_step: int | None = Field(None, ge=ALL_STEPS[0], le=ALL_STEPS[1], description="Up to this step.")
    newest: int | None = Field(None, ge=1, le=ALL_STEPS[1], description="Only that many steps before the newest.")
    log_scale: bool = Field(False, description="Logarithmic y axis.")
    first_epoch: float | None = Field(None, description="From this epoch on, by the run's metric `epoch`.")
    last_epoch: float | None = Field(None, description="Up to this epoch.")
    newest_epochs: float | None = Field(None, gt=0, description="Only that many epochs before the newest.")
    by_time: bool = Field(False, description="Hours instead of steps along x.")
    by_epoch: bool = Field(False, description="Epochs instead of steps along x, of the run's metric `epoch`.")
    smooth: float = Field(
        0.0,
        ge=0,
        le=MOST / 1000,
        description="Weight of a moving average, such as 0.9; 0 for none. Label smoothing is something else.",
    )
    page: int = Field(0, ge=0, description="Which four panels, from 0; with `every`, which twelve.")
    every: bool = Field(False, description="All metrics as small multiples, up to twelve panels.")
    others: tuple[str, ...] = Field((), max_length=MOST_OTHERS, description="Runs to lay over this one.")
    before: Before | None = Field(None, description="Lay over this one: the thread's newest other run, or yesterday's.")
    marks: tuple[str, ...] = Field(  # hashes of metric names
        (), max_length=MOST_MARKS, json_schema_extra={BUTTONS_ONLY: True}
    )
    used: UsageView | None = Field(
        None,
        description="Instead of metrics, by time: `usage` (GPUs, processors, memory), `gpu`, `throughput` (steps/s).",
    )
    minutes: int | None = Field(
        None, ge=1, le=MOST_MINUTES, description="Only so many minutes before the newest, of metrics or of `used`."
    )
    result: ResultView | None = Field(
        None, description="Instead of curves: a picture of the result of a finished run on its sealed test rows."
    )


class Charting:
    """The tool of this family."""

    def __init__(self, runs: Runs, files: ArtifactWriter, blobs: Blobs, clock: Clock) -> None:
        """`files` draws, `blobs` has the facts of results, `clock` knows what was yesterday."""
        self._runs = runs
        self._files = files
        self._usage = UsageCharts(runs, files)
        self._results = Resulting(runs, files, blobs)
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        said = (
            "Draw curves of a run: chosen metrics, steps, log scale, smoothed, against other runs. Or its result: "
            "confusion matrix, ROC, what it got wrong, what it leans on. Or GPU use, processors, memory, throughput."
        )
        return (Tool("run_chart", said, ChartArguments, Effect.READ, run=self.chart),)

    async def chart(self, caller: Caller, asked: ChartArguments) -> Result:
        """One picture of up to four panels, and buttons to other views."""
        run = await named_or_newest(self._runs, caller, asked.run)
        if asked.result is not None:
            return await self._results.measured(run, asked.result)
        if asked.used is not None:
            return await self._usage.chart(run, asked.used, minutes=asked.minutes, smooth=asked.smooth)
        others = [await named(self._runs, caller, other) for other in dict.fromkeys(asked.others) if other != run.id]
        if asked.before is not None:
            earlier = await one_before(self._runs, caller, run, asked.before, now=self._clock.now())
            others = [*[other for other in others if other.id != earlier.id][: MOST_OTHERS - 1], earlier]
        known = [name for name in await self._runs.metric_names(run.id) if not name.startswith(BASELINE)]
        if not known:
            return Result(f"Run `{run.id}` has logged no metrics yet.", {"run": run.id})
        if asked.by_epoch and len(known) > 1:
            known = [name for name in known if name != clock_name(known)]
        names, unknown = _chosen(known, asked, run)
        asked = await self._zoomed(run, names, asked)
        view = _view(run, others, asked, names if len(names) < len(known) else ())
        steps = _steps(run, asked)
        curves = {one.id: await self._curves(one, names, steps) for one in (run, *others)}
        shown = [found.spans for of in curves.values() for found in of.values() if len(found.spans)]
        if not shown:
            raise BadRequest(f"Run `{run.id}` has no values of {', '.join(names)} between these steps.")
        spec, more = curves_chart((run, *others), curves, await self._look(run, others, asked))
        picture = await self._files.draw(spec, about=f"chart/{run.id}")
        missed = f" No metric is called {', '.join(f'`{word}`' for word in unknown)}." if unknown else ""
        card = Card(
            kind="notice",
            title=f"Chart of {run.id}" + (f" and {', '.join(other.id for other in others)}" if others else ""),
            picture=picture,
            menus=selector(view, known),
            buttons=buttons(
                view,
                first=min(int(of["first"].min()) for of in shown),
                last=max(int(of["last"].max()) for of in shown),
                more=more,
                measured=bool(run.outcome and run.outcome.results and not others),
                used="gpu" if run.spec.gpus else "usage",
            ),
            footer=missed.strip() if picture else "The chart could not be drawn",
        )
        return Result(_words(run, spec, curves[run.id]) + missed, _data(run, curves), card)

    async def _look(self, run: Run, others: Sequence[Run], asked: ChartArguments) -> Look:
        marks = restarts(await self._runs.attempts(run.id)) if run.attempt > 1 and not others else ()
        clocks = {one.id: await clock_in(self._runs, one) for one in (run, *others)} if asked.by_epoch else {}
        if clocks:
            marks = tuple(replace(mark, x=float(clocks[run.id].at(np.array([mark.x]))[0])) for mark in marks)
        unsaid = [one for one in (run, *others) if one.started_at is None] if asked.by_time else []
        return Look(
            log_scale=asked.log_scale,
            by_time=asked.by_time,
            page=asked.page,
            panels=MOST_PANELS if asked.every else MAX_PANELS,
            marks=marks,
            clocks=clocks,
            smooth=asked.smooth,
            anew={one.id: await self._began(one) for one in (run, *others)} if asked.smooth else {},
            began={one.id: await began_at(self._runs, one) or 0.0 for one in unsaid},
        )

    async def _began(self, run: Run) -> tuple[int, ...]:
        """The steps at which later attempts began."""
        return tuple(one.first_step for one in (await self._runs.attempts(run.id))[1:]) if run.attempt > 1 else ()

    async def _zoomed(self, run: Run, names: Sequence[str], asked: ChartArguments) -> ChartArguments:
        """Epochs and times as the steps that they are, along an axis of their own. Raises: BadRequest."""
        epochs = (asked.first_epoch, asked.last_epoch, asked.newest_epochs)
        by_epoch = any(epoch is not None for epoch in epochs)
        by_step = any(step is not None for step in (asked.first_step, asked.last_step, asked.newest))
        if by_epoch + by_step + (asked.minutes is not None) > 1:
            raise BadRequest("Say steps, epochs or a time, one of them: two would not meet.")
        if by_epoch:
            low, high = await steps_of_epochs(self._runs, run, *epochs)
        elif asked.minutes is not None:
            low, high = await steps_since(self._runs, run, names, asked.minutes)
        else:
            return asked
        ends = {"first_step": None if low == ALL_STEPS[0] else low, "last_step": None if high == ALL_STEPS[1] else high}
        return asked.model_copy(
            update={**ends, "by_epoch": asked.by_epoch or by_epoch, "by_time": asked.by_time or not by_epoch}
        )

    async def _curves(self, run: Run, names: Sequence[str], steps: Steps) -> Curves:
        beaten = [name for name in await self._runs.metric_names(run.id) if name.startswith(BASELINE)]
        found = await self._runs.windows(run.id, names, steps)
        return {one.name: one for one in (*found, *await self._runs.windows(run.id, beaten)) if len(one.spans)}


def _chosen(known: Sequence[str], asked: ChartArguments, run: Run) -> tuple[list[str], list[str]]:
    """The metrics that are meant, and the words that mean none. Raises: BadRequest."""
    if asked.marks:
        return [name for name in known if mark(name) in asked.marks] or list(known), []
    if not asked.metrics:
        return list(known), []
    said = "\n".join(_plain(word) for word in asked.metrics).replace("learning\nrate", LEARNING_RATE)
    meant = {word: _meant(known, word) for word in said.split("\n")}
    found = [name for name in known if any(name in names for names in meant.values())]
    unknown = [word[:60] for word, names in meant.items() if not names]
    if found:
        return found, unknown
    used = next((word for word in asked.metrics if word.lower() in USAGE_WORDS), None)
    if used is not None:
        raise BadRequest(
            f"`{used}` is no metric of this run. What it used is drawn by time, and alone: "
            f"`chart {run.id} {USAGE_WORDS[used.lower()]} last=2h`."
        )
    shown = ", ".join(f"`{name}`" for name in known[: MAX_PANELS * 3])
    raise BadRequest(f"No metric is called {', '.join(asked.metrics)}. This run has {shown}.")


def _meant(known: Sequence[str], word: str) -> list[str]:
    """The metrics of this name, else those with it in their names."""
    exact = [
        name for name in known if _plain(name) == word or (word in {"lr", LEARNING_RATE} and is_learning_rate(name))
    ]
    return exact or [name for name in known if word in _plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_").replace("/", "_")


def _view(run: Run, others: Sequence[Run], asked: ChartArguments, names: Sequence[str]) -> ChartView:
    """What buttons below the picture go on from; no `names` for all metrics."""
    return ChartView(
        run.id,
        tuple(mark(name) for name in names),
        asked.first_step,
        asked.last_step,
        asked.newest,
        asked.log_scale,
        asked.by_time,
        asked.by_epoch,
        asked.page,
        asked.every,
        tuple(other.id for other in others),
        smooth=round(asked.smooth * 1000),
    )


def _steps(run: Run, asked: ChartArguments) -> Steps:
    low, high = ALL_STEPS
    if asked.newest is not None:
        low = run.step - asked.newest + 1
    return max(low, asked.first_step if asked.first_step is not None else low), (
        asked.last_step if asked.last_step is not None else high
    )


def _words(run: Run, spec: ChartSpec, curves: Curves) -> str:
    said = [f"{name} {number(last_value(curves[name]))}" for name in curves if not name.startswith(BASELINE)]
    count = len(spec.panels)
    return f"`{run.id}` in {'one panel' if count == 1 else f'{count} panels'}; last values: {', '.join(said[:4])}."


def _data(run: Run, curves: dict[str, Curves]) -> dict[str, JsonValue]:
    last: dict[str, JsonValue] = {
        one: {name: number(last_value(found)) for name, found in of.items()} for one, of in curves.items()
    }
    return {"run": run.id, "last": last}
