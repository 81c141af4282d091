"""What can be seen in a run's numbers without a model: crash, NaN, divergence, plateau, overfitting, stall, idle GPUs.

Pure: rows, usage and the clock come from outside, findings go out. One `RunRules` watches one run, in bounded memory
and a few microseconds a row. A rule reports only what noise alone would hardly cause (three standard errors or
more); what is merely worth knowing has the severity "info". Called by `agent.runs.monitoring.monitor`, which decides
what is said.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from agent.cards import counted
from agent.domain.events import MetricRow
from agent.domain.runs import Run, RunState, Usage
from agent.runs.monitoring.findings import AFTER, Finding, Kind, Thresholds, duration, number, part_of, sign_of
from agent.runs.monitoring.series import Series

_BASELINE = "baseline/"


class RunRules:
    """Watches one run."""

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """It begins without any row."""
        self._t = thresholds or Thresholds()
        self._train: dict[str, Series] = {}
        self._held_out: dict[str, Series] = {}
        self._bad_losses: deque[bool] = deque(maxlen=50)
        self._bad_name, self._bad_step = "", 0
        self._times: deque[float] = deque(maxlen=200)
        self._gap_s = 0.0
        self._row_at: float | None = None
        self._moved_s: float | None = None
        self._busy: deque[tuple[float, float]] = deque()
        self._memory: dict[str, int] = {}
        self._used_from_s: float | None = None
        self._usage: Usage | None = None

    def add(self, rows: Sequence[MetricRow], *, now_s: float) -> None:
        """Rows in their order. `now_s` is our own clock, seconds that never run back."""
        if rows:
            self._moved_s = now_s
        for row in rows:
            if self._row_at is not None and row.at > self._row_at:
                self._times.append(row.at - self._row_at)
                self._gap_s = max(self._gap_s, row.at - self._row_at)
            self._row_at = row.at
            self._look_at_losses(row)
            for name, value in row.values.items():
                if math.isfinite(value) and not name.startswith(_BASELINE):
                    trains, metric = part_of(name)
                    where = self._train if trains else self._held_out
                    where.setdefault(metric, Series()).add(row.step, value)

    def _look_at_losses(self, row: MetricRow) -> None:
        losses = {name: value for name, value in row.values.items() if part_of(name)[0] and "loss" in name.lower()}
        if not losses:
            return
        bad = [name for name, value in losses.items() if not math.isfinite(value)]
        self._bad_losses.append(bool(bad))
        if bad:
            self._bad_name, self._bad_step = bad[0], row.step

    def used(self, usage: Usage | None, *, now_s: float) -> None:
        """Take in what the attempt uses now."""
        self._usage = usage
        if usage is None or not usage.gpus:
            self._busy.clear()
            self._used_from_s = None
            return
        self._used_from_s = now_s if self._used_from_s is None else self._used_from_s
        self._busy.append((now_s, max(gpu.busy for gpu in usage.gpus)))
        while self._busy and now_s - self._busy[0][0] > 2 * self._t.idle_s:
            self._busy.popleft()
        for gpu in usage.gpus:
            self._memory[gpu.uuid] = max(self._memory.get(gpu.uuid, 0), gpu.memory_bytes)

    def new_attempt(self) -> None:
        """Begin with a new attempt: pauses and GPU use of the one before do not count."""
        self._row_at = self._moved_s = self._used_from_s = self._usage = None
        self._busy.clear()
        self._memory.clear()
        self._bad_losses.clear()

    def judge(self, run: Run, *, now_s: float, gpu_bytes: Mapping[str, int] | None = None) -> list[Finding]:
        """The findings as of now, the worst first. `gpu_bytes` are the sizes of GPUs by uuid, where they are known."""
        if run.state is RunState.FAILED:
            found = self._crash(run)
            return [found] if found else []
        if run.state is not RunState.RUNNING:
            return []
        curves = (self._non_finite, self._divergence, self._overfitting, lambda: self._plateau(run))
        rules: tuple[Callable[[], Finding | None], ...] = (
            *(curves if self._moved_s is not None else ()),  # without a row of this attempt they are of the one before
            lambda: self._stall(now_s),
            lambda: self._gpu_idle(now_s),
            lambda: self._gpu_memory(now_s, gpu_bytes or {}),
        )
        return [finding for rule in rules if (finding := rule()) is not None]

    def _crash(self, run: Run) -> Finding | None:
        outcome = run.outcome
        if outcome is None or outcome.exit_class is None or outcome.refused:
            return None
        at = f" at step {run.step:,}" if run.step else " before its first step"
        text = f"It failed{at} ({outcome.exit_class.value.replace('_', ' ')}). {outcome.reason}".strip()
        return Finding(Kind.CRASH, "bad", text, AFTER[outcome.exit_class])

    def _non_finite(self) -> Finding | None:
        bad = list(self._bad_losses)
        if bad[-2:] != [True, True] and sum(bad) < 3:
            return None
        text = (
            f"{self._bad_name} was NaN or infinite in {sum(bad)} of the last {len(bad)} rows, last at step "
            f"{self._bad_step:,}."
        )
        suggestion = "A lower learning rate, clipped gradients or bf16 instead of fp16 may help."
        return Finding(Kind.NON_FINITE, "bad", text, suggestion)

    def _divergence(self) -> Finding | None:
        """The loss has lost more than half of what it had gained, or stands well above where it began."""
        for metric, series in self._train.items():
            if "loss" not in metric or series.total < 40:
                continue
            width = max(0.1, 10 / series.total)
            now, begin = series.mean_of(1 - width, 1), series.mean_of(0, width)
            if not (now.count and begin.count):
                continue
            best = min(series.mean_of(at, at + width).value for at in _tenths(1 - width))
            gained, size = begin.value - best, abs(best)
            rise = max(self._t.diverged_gain * gained, 0.2 * size) if gained > 0.2 * size else size
            # The best of ten windows is low by chance alone, and losses spike: hence six errors and not two.
            if now.value - best - rise > 6 * math.hypot(now.error, begin.error):
                text = (
                    f"{metric} has climbed to {number(now.value)} after {number(best)}; it began at "
                    f"{number(begin.value)} (means of {now.count} rows)."
                )
                return Finding(
                    Kind.DIVERGENCE,
                    "bad",
                    text,
                    "A lower learning rate, a longer warm-up or clipped gradients may help.",
                )
        return None

    def _overfitting(self) -> Finding | None:
        for metric, held_out in self._held_out.items():
            sign = sign_of(metric)
            train = self._train.get(metric)
            if not sign or train is None or held_out.total < self._t.overfit_points:
                continue
            points = held_out.buckets
            means = [sum(sign * b.mean for b in points[i : i + 3]) / 3 for i in range(len(points) - 2)]
            best = min(range(len(means)), key=means.__getitem__)
            if best > len(means) - 5:
                continue
            error = held_out.noise / math.sqrt(3 * points[0].count)
            worse, gained = means[-1] - means[best], max(means[0] - means[best], 0.0)
            then = train.between(points[best].first, points[best + 2].last)
            now = train.between(points[-3].first, points[-1].last)
            still_learns = sign * (then.value - now.value) > 3 * math.hypot(then.error, now.error)
            if (
                worse > 4 * math.sqrt(2) * error
                and worse > self._t.overfit_loss * gained
                and worse > 0
                and still_learns
            ):
                text = (
                    f"Held-out {metric} was best at step {points[best + 1].last:,} ({number(sign * means[best])}) "
                    f"and is {number(sign * means[-1])} at step {points[-1].last:,}, while training {metric} went on "
                    f"from {number(then.value)} to {number(now.value)}."
                )
                suggestion = (
                    "It memorises: stop here and keep the checkpoint of the best step, or use fewer epochs, dropout, "
                    "weight decay or more data."
                )
                return Finding(Kind.OVERFITTING, "warn", text, suggestion)
        return None

    def _plateau(self, run: Run) -> Finding | None:
        """Over the last part of its points the metric has gained next to nothing, and noise does not hide a gain."""
        if run.total_steps and run.step > self._t.plateau_progress * run.total_steps:
            return None
        named = self._deciding()
        if named is None or named[1].total < self._t.plateau_points:
            return None
        metric, series, sign = named
        share = self._t.plateau_share
        begin = series.mean_of(0, max(0.05, 3 / series.total))
        before, after = series.mean_of(1 - share, 1 - 0.6 * share), series.mean_of(1 - 0.4 * share, 1)
        if not (begin.count and before.count and after.count):
            return None
        gained = sign * begin.value - min(sign * before.value, sign * after.value)
        at_most = sign * (before.value - after.value) + 3 * math.hypot(before.error, after.error)
        if gained <= 3 * math.hypot(begin.error, after.error) or at_most >= self._t.plateau_gain * gained:
            return None
        points = series.buckets
        first = next(b.first for b in points if b.first >= (1 - share) * points[-1].last)
        left = f", with {counted(run.total_steps - run.step, 'step')} to go" if run.total_steps else ""
        text = (
            f"{metric} has not improved since step {first:,}: {number(before.value)} then, {number(after.value)} now "
            f"(it began at {number(begin.value)}){left}."
        )
        return Finding(
            Kind.PLATEAU, "warn", text, "Stop here and keep the result, or lower the learning rate and go on."
        )

    def _deciding(self) -> tuple[str, Series, int] | None:
        """The metric that says whether it learns: a held-out loss, else a training loss, else a held-out score."""
        for where, word in ((self._held_out, "held-out "), (self._train, "training ")):
            for metric, series in where.items():
                if "loss" in metric and series.total >= self._t.plateau_points:
                    return f"{word}{metric}".capitalize(), series, 1
        for metric, series in self._held_out.items():
            if sign_of(metric) and series.total >= self._t.plateau_points:
                return f"Held-out {metric}", series, sign_of(metric)
        return None

    def _stall(self, now_s: float) -> Finding | None:
        if self._moved_s is None or len(self._times) < 5:
            return None
        quiet_s, usual_s = now_s - self._moved_s, median(self._times)
        limit_s = max(self._t.stall_s, self._t.stall_steps * usual_s, self._t.stall_gaps * self._gap_s)
        works = self._usage is not None and (
            self._usage.cpus > 0.2 or any(gpu.busy > self._t.idle_busy for gpu in self._usage.gpus)
        )
        if quiet_s <= limit_s * (3 if works else 1):
            return None
        text = (
            f"No new step for {duration(quiet_s)}; one usually takes {duration(usual_s)}, and the longest pause was "
            f"{duration(self._gap_s)}."
        )
        if self._usage is not None:
            text += f" It uses {self._usage.cpus:.1f} processors"
            text += f" and {max(gpu.busy for gpu in self._usage.gpus):.0%} of its GPU." if self._usage.gpus else "."
        return Finding(Kind.STALL, "warn", text, "Look at its log: it may wait for data, a lock or another process.")

    def _gpu_idle(self, now_s: float) -> Finding | None:
        recent = [busy for at, busy in self._busy if now_s - at <= self._t.idle_s]
        if (
            len(recent) < self._t.idle_samples
            or self._used_from_s is None
            or now_s - self._used_from_s < self._t.idle_s
            or max(recent) >= self._t.idle_busy
            or not self._times
        ):
            return None
        cpus = self._usage.cpus if self._usage else 0.0
        text = (
            f"Its GPU was {sum(recent) / len(recent):.0%} busy over the last {duration(self._t.idle_s)}, never above "
            f"{max(recent):.0%}, while it used {cpus:.1f} processors."
        )
        suggestion = (
            "One process prepares the data and the GPU waits: more data loader workers may help."
            if 0.7 <= cpus <= 1.5
            else "Check that the model and its batches are on the GPU; a run that needs none can run without."
        )
        return Finding(Kind.GPU_IDLE, "warn", text, suggestion)

    def _gpu_memory(self, now_s: float, gpu_bytes: Mapping[str, int]) -> Finding | None:
        if self._used_from_s is None or now_s - self._used_from_s < self._t.memory_s:
            return None
        shares = [used / gpu_bytes[uuid] for uuid, used in self._memory.items() if gpu_bytes.get(uuid)]
        if not shares or max(shares) >= self._t.memory_used:
            return None
        text = f"It has used {max(shares):.0%} of its GPU's memory at most."
        return Finding(Kind.GPU_MEMORY, "info", text, "A larger batch would fit.")


def _tenths(end: float) -> Sequence[float]:
    return [end * tenth / 10 for tenth in range(10)]
