"""What a run used and how fast it went, in sentences. Pure; goes with the charts of `agent.runs.charts.usage`."""

from collections.abc import Sequence

import numpy as np

from agent.cards import number
from agent.domain.charts import ChartSpec
from agent.domain.runs import Run
from agent.runs.charts.usage import UsageView, Used
from agent.series.usage import CPUS, MEMORY, gpu_name, gpu_of
from agent.series.window import Stretch

_GIB, _MIB = 2.0**30, 2.0**20


def usage_words(run: Run, used: Used, view: UsageView) -> str:
    """Means over the time that is shown, the newest values, the most memory."""
    gpus = sorted({found[0] for name in used if used[name] and (found := gpu_of(name))})
    said = []
    for gpu in gpus:
        busy, memory = (used.get(gpu_name(gpu, fact), ()) for fact in ("busy", "memory"))
        total = _highest(used.get(gpu_name(gpu, "total"), ()))
        has = f", of {_bytes(total)}" if np.isfinite(total) else ""
        said.append(
            f"GPU {gpu} was busy {_mean(busy):.0%} of the time, {_newest(busy):.0%} at last; its memory held "
            f"{_bytes(_newest(memory))} at last and {_bytes(_highest(memory))} at most{has}."
        )
    if not gpus:
        said.append("It has no GPU." if not run.spec.gpus else "Nothing was measured of its GPUs.")
    if view == "usage" or not gpus:
        cpus, memory = used.get(CPUS, ()), used.get(MEMORY, ())
        said.append(
            f"It used {_mean(cpus):.1f} processors on average, {_newest(cpus):.1f} at last, and "
            f"{_bytes(_newest(memory))} of memory at last, {_bytes(_highest(memory))} at most."
        )
    return f"`{run.id}`: " + " ".join(said)


def pace_words(run: Run, paces: Sequence[Stretch], spec: ChartSpec) -> str:
    """The newest rate, the slowest and the fastest of what is drawn."""
    panel = spec.panels[0]
    rates = np.asarray(panel.series[0].y, dtype=np.float64)
    seen = rates[np.isfinite(rates)]
    if not len(seen):
        return f"`{run.id}`: nothing tells how fast it goes."
    text = f"`{run.id}`: {number(float(seen[-1]))} {panel.unit or panel.title} at last, {number(float(seen.min()))} to "
    text += f"{number(float(seen.max()))} over the time that is shown."
    return text + (f" In {len(paces)} attempts; what lies between them is left out." if len(paces) > 1 else "")


def _bytes(count: float) -> str:
    if not np.isfinite(count):
        return "an unknown amount"
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.0f} MiB"


def _mean(stretches: Sequence[Stretch]) -> float:
    every = [one.window.spans[one.window.spans["count"] > 0] for one in stretches]
    counts = sum(float(spans["count"].sum()) for spans in every)
    return sum(float((spans["mean"] * spans["count"]).sum()) for spans in every) / counts if counts else np.nan


def _newest(stretches: Sequence[Stretch]) -> float:
    every = [one.window.spans[one.window.spans["count"] > 0] for one in stretches]
    return float(every[-1]["mean"][-1]) if every and len(every[-1]) else np.nan


def _highest(stretches: Sequence[Stretch]) -> float:
    return max((float(one.window.spans["high"].max()) for one in stretches), default=np.nan)
