"""Charts of what a run used and of how fast it went: the part of the chart tool that reads no metric by step.

Reads the store, has the picture drawn, puts card and words together. Called by `agent.tools.charts.charting`.
"""

from collections.abc import Sequence

from pydantic import JsonValue

from agent.domain.charts import ChartSpec
from agent.domain.content import Card
from agent.domain.runs import LIVE, Run
from agent.runs.cards.run_cards import state_words
from agent.runs.charts.usage import USAGE_LABELS, UsageLook, UsageView, Used, rate_names, throughput_chart, usage_chart
from agent.runs.charts.usage_words import pace_words, usage_words
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.series.window import Stretch
from agent.stores import Runs
from agent.tools.charts.chart_views import ChartView, usage_buttons
from agent.tools.tool import Result


class UsageCharts:
    """Draws charts by time."""

    def __init__(self, runs: Runs, files: ArtifactWriter) -> None:
        """`files` draws."""
        self._runs = runs
        self._files = files

    async def chart(self, run: Run, view: UsageView, *, minutes: int | None, smooth: float) -> Result:
        """One picture by time, of the newest `minutes` or of all; `smooth` is the weight of a moving average."""
        last_s = None if minutes is None else 60.0 * minutes
        look, began = UsageLook(smooth), await began_at(self._runs, run)
        if view == "throughput":
            paces = await self._runs.paces(run.id, last_s=last_s)
            spec = throughput_chart(run, paces, await self._rates(run, paces, last_s), look, began=began)
            said = "" if spec is None else pace_words(run, paces, spec)
        else:
            used = await self._runs.usage(run.id, last_s=last_s)
            spec = usage_chart(run, used, view, look, began=began)
            said = "" if spec is None else usage_words(run, used, view)
        if spec is None:
            return Result(_nothing(run, view), {"run": run.id})
        if minutes is not None:
            said += " Shown is the newest minute." if minutes == 1 else f" Shown are the newest {minutes:,} minutes."
        shown = ChartView(run.id, used=view, minutes=minutes, smooth=round(smooth * 1000))
        data = _data(run, spec) | {"said": said}
        return Result(f"{USAGE_LABELS[view]} of `{run.id}` by time.", data, await self._card(run, shown, spec, said))

    async def _card(self, run: Run, view: ChartView, spec: ChartSpec, said: str) -> Card:
        picture = await self._files.draw(spec, about=f"chart/{run.id}")
        return Card(
            kind="notice",
            title=f"{USAGE_LABELS[view.used or 'usage']} of {run.id}",
            body=said,
            picture=picture,
            buttons=usage_buttons(view, gpus=bool(run.spec.gpus)),
            footer="" if picture else "The chart could not be drawn",
        )

    async def _rates(self, run: Run, paces: Sequence[Stretch], last_s: float | None) -> Used:
        """What the run itself logs of its speed, over the same time."""
        names = rate_names(await self._runs.metric_names(run.id))
        found = await self._runs.stretches(run.id, names) if names else {}
        if last_s is None or not paces:
            return found
        since = max(float(one.window.spans["ended"].max()) for one in paces) - last_s
        newest = {name: [part for one in every if (part := one.since(since))] for name, every in found.items()}
        return {name: every for name, every in newest.items() if every}


async def began_at(runs: Runs, run: Run) -> float | None:
    """When the run's first attempt began, on its host's clock as far as that is known; seconds since the epoch."""
    accepted = (attempt.accepted_at for attempt in await runs.attempts(run.id) if attempt.accepted_at)
    moment = next(accepted, run.started_at)
    return moment.timestamp() if moment else None


def _nothing(run: Run, view: UsageView) -> str:
    """Why there is no such chart."""
    if not run.attempt:
        return f"Run `{run.id}` is {state_words(run)} and has not run yet, so nothing was measured of it."
    if view == "throughput":
        return f"Run `{run.id}` has logged too little to tell how fast it goes: two rows of metrics are needed."
    if run.state in LIVE and run.attempt:
        return f"Nothing was measured of `{run.id}` yet; its host does so every few seconds while it runs."
    return (
        f"What run `{run.id}` used is not known: it never ran, or it ran before this was kept. "
        f"`chart {run.id} throughput` shows how fast it went."
    )


def _data(run: Run, spec: ChartSpec) -> dict[str, JsonValue]:
    """The newest values, by panel and line."""
    shown: dict[str, JsonValue] = {}
    for panel in spec.panels:
        last: dict[str, JsonValue] = {}
        for line in panel.series:
            values = [value for value in line.y if value == value]
            last[line.name] = f"{values[-1]:.4g}" if values else "none"
        shown[f"{panel.title} ({panel.unit})" if panel.unit else panel.title] = last
    return {"run": run.id, "last": shown}
