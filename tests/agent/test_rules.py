"""The monitor's rules: each speaks when it should, and none on curves that are noisy and fine."""

import math
import random
import time
from collections.abc import Callable, Iterable

import pytest

from agent.domain.datasets import DatasetRef
from agent.domain.events import MetricRow
from agent.domain.runs import ExitClass, GpuUsage, Outcome, Run, RunSpec, RunState, Usage
from agent.runs.monitoring.findings import AFTER, Finding, Kind, duration, part_of, sign_of
from agent.runs.monitoring.rules import RunRules
from agent.runs.monitoring.series import Series
from tests.fakes import START

FEW = range(6)  # in the quick suite; `make test-faults` has many


def few_or(many: int) -> pytest.MarkDecorator:
    """One test over a few seeds and one over many."""
    return pytest.mark.parametrize(
        "seeds", [FEW, pytest.param(range(many), marks=pytest.mark.faults)], ids=["few", "many"]
    )


def run_at(step: int = 0, *, total: int | None = None, state: RunState = RunState.RUNNING, **more: object) -> Run:
    spec = RunSpec(
        task="tabular_classification",
        recipe="tabular_classification",
        dataset=DatasetRef(sha256="a" * 64, name="a.csv", size_bytes=1),
        target="y",
        host="h",
        bundle_sha256="b" * 64,
    )
    return Run(
        id="r-aaaaaa", session_id="s", requester="slack/T1/U-alice", state=state, spec=spec, attempt=1, step=step,
        total_steps=total, created_at=START, **more,
    )  # fmt: skip


def feed(rules: RunRules, rows: Iterable[MetricRow], *, total: int | None = None, each: int = 7) -> list[Finding]:
    """Everything that is found on the way, looked at every few rows as the monitor does."""
    found: dict[Kind, Finding] = {}
    for row in rows:
        rules.add([row], now_s=float(row.step))
        if row.step % each == 0:
            for finding in rules.judge(run_at(row.step, total=total), now_s=float(row.step)):
                found.setdefault(finding.kind, finding)
    return list(found.values())


def rows(steps: int, **curves: Callable[[int], float]) -> Iterable[MetricRow]:
    for step in range(1, steps + 1):
        yield MetricRow(step=step, at=1000.0 + step, values={name: curve(step) for name, curve in curves.items()})


def with_valid(
    steps: int, every: int, train: Callable[[int], float], valid: Callable[[int], float]
) -> Iterable[MetricRow]:
    for step in range(1, steps + 1):
        values = {"train_loss": train(step)} | ({"valid_loss": valid(step)} if step % every == 0 else {})
        yield MetricRow(step=step, at=1000.0 + step, values=values)


def noisy(seed: int, spread: float, curve: Callable[[int], float]) -> Callable[[int], float]:
    dice = random.Random(seed)
    return lambda n: curve(n) + dice.gauss(0, spread)


# --- No false alarms ---------------------------------------------------------------------------------------------


def fine_curves(dice: random.Random) -> dict[str, Iterable[MetricRow]]:
    """Runs that are well: losses that still fall, under noise that hides it from the eye."""
    noise, spike, steps = dice.choice([0.01, 0.05, 0.2]), dice.random() * 0.02, 2000

    def around(level: float) -> float:
        jump = dice.random() < spike
        return max(1e-6, level * (1 + dice.gauss(0, noise)) * (dice.uniform(2, 4) if jump else 1))

    return {
        "power law": rows(steps, loss=lambda n: around(0.5 + 3 * n**-0.35)),
        "slow line": rows(steps, loss=lambda n: around(3 - n / steps)),
        "exponential": rows(steps, loss=lambda n: around(0.2 + 2 * math.exp(-n / 700))),
        "staircase": rows(steps, loss=lambda n: around(2.0 / (1 + n // 250))),
        "warm-up": rows(steps, loss=lambda n: around((2 + n / 40) if n < 40 else 3 * (n / 40) ** -0.3)),
        "held-out alike": with_valid(
            steps, 50, lambda n: around(0.4 + 3 * n**-0.4), lambda n: around(0.5 + 3 * n**-0.4)
        ),
        "held-out flat after a while": with_valid(
            steps, 100, lambda n: around(0.3 + 3 * n**-0.4), lambda n: around(max(0.8, 3 * n**-0.4))
        ),
        "only noise": rows(300, loss=lambda _n: around(1.0)),
    }


@pytest.mark.parametrize("name", sorted(fine_curves(random.Random(0))))
@few_or(60)
def test_fine_runs_hear_nothing(name: str, seeds: range) -> None:
    alarms = []
    for seed in seeds:
        found = feed(RunRules(), fine_curves(random.Random(seed))[name], total=2000, each=29)
        alarms += [(seed, finding.kind, finding.text) for finding in found]
    assert len(alarms) <= len(seeds) // 60, alarms  # runs with some 70 looks each


# --- Each rule where it should speak -----------------------------------------------------------------------------


def kinds(found: Iterable[Finding]) -> set[Kind]:
    return {finding.kind for finding in found}


@few_or(20)
def test_a_plateau_is_seen(seeds: range) -> None:
    seen = 0
    for seed in seeds:
        found = feed(
            RunRules(),
            rows(4000, loss=noisy(seed, 0.02, lambda n: 0.5 + 2 * math.exp(-n / 100))),
            total=10_000,
        )
        seen += Kind.PLATEAU in kinds(found)
        assert kinds(found) <= {Kind.PLATEAU}
    assert seen >= len(seeds) - len(seeds) // 20


def test_a_plateau_near_the_end_is_no_news() -> None:
    found = feed(RunRules(), rows(1000, loss=lambda n: 0.5 + 2 * math.exp(-n / 300)), total=1000)
    assert Kind.PLATEAU not in kinds(found)


@few_or(20)
def test_overfitting_is_seen_with_its_best_step(seeds: range) -> None:
    seen = 0
    for seed in seeds:
        found = feed(
            RunRules(),
            with_valid(
                3000,
                100,
                noisy(seed, 0.05, lambda n: 2 * math.exp(-n / 800)),
                noisy(seed, 0.02, lambda n: 0.6 + ((n - 1000) / 1500) ** 2 * 0.5),
            ),
        )
        for finding in found:
            if finding.kind is Kind.OVERFITTING:
                seen += 1
                assert "Held-out loss was best at step" in finding.text
                assert "training loss went on" in finding.text
    assert seen >= len(seeds) - len(seeds) // 20


def test_overfitting_of_a_score_that_should_rise() -> None:
    curves = (
        MetricRow(
            step=n,
            at=float(n),
            values={"train/accuracy": min(1.0, 0.5 + n / 2000), "eval/accuracy": 0.8 - abs(n - 400) / 4000},
        )
        for n in range(1, 1000, 20)
    )
    assert kinds(feed(RunRules(), curves, each=1)) == {Kind.OVERFITTING}


@few_or(20)
def test_divergence_is_seen_soon_and_a_single_spike_is_not(seeds: range) -> None:
    for seed in seeds:
        dice = random.Random(seed)

        def curve(n: int, d: random.Random = dice) -> float:
            level = 2 * math.exp(-n / 200) + 0.3
            return level * (1 + d.gauss(0, 0.05)) if n < 600 else level + (n - 600) * 0.02

        rules = RunRules()
        assert feed(rules, rows(600, loss=curve)) == []
        later = (row for row in rows(800, loss=curve) if row.step > 600)
        assert Kind.DIVERGENCE in kinds(feed(rules, later))
    rules = RunRules()
    assert feed(rules, rows(600, loss=lambda n: 50.0 if n == 300 else 2 * math.exp(-n / 200) + 0.3)) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number(bad: float) -> None:
    (finding,) = feed(RunRules(), rows(30, train_loss=lambda n: bad if n > 20 else 1 / n), each=1)
    assert finding.kind is Kind.NON_FINITE
    assert finding.text == "train_loss was NaN or infinite in 2 of the last 22 rows, last at step 22."


def test_one_infinite_gradient_norm_of_a_scaler_is_no_news() -> None:
    fine = rows(200, loss=lambda n: 1 / n, grad_norm=lambda n: math.inf if n < 4 else 1.0)
    assert Kind.NON_FINITE not in kinds(feed(RunRules(), fine))


def test_a_stall_counts_from_usual_steps_and_pauses_and_not_while_it_works() -> None:
    rules = RunRules()
    rules.add(list(rows(50, loss=lambda n: 1 / n)), now_s=0.0)
    run = run_at(50)
    assert rules.judge(run, now_s=290.0) == []
    (finding,) = rules.judge(run, now_s=310.0)
    assert finding.kind is Kind.STALL
    assert finding.text.startswith("No new step for 5 min; one usually takes 1 s")
    rules.used(Usage(cpus=1.0, memory_bytes=1), now_s=310.0)
    assert rules.judge(run, now_s=310.0) == []
    assert kinds(rules.judge(run, now_s=1000.0)) == {Kind.STALL}
    rules.add([MetricRow(step=51, at=2000.0, values={"loss": 0.1})], now_s=1000.0)  # a pause of 950 s: it evaluates
    assert rules.judge(run, now_s=1000.0 + 2 * 950) == []
    rules.new_attempt()
    assert rules.judge(run, now_s=9999.0) == []
    assert rules.judge(run_at(50, state=RunState.UNREACHABLE), now_s=99_999.0) == []


def busy(share: float, *, cpus: float = 1.0, held: int = 10) -> Usage:
    return Usage(cpus=cpus, memory_bytes=1, gpus=(GpuUsage(uuid="GPU-a", busy=share, memory_bytes=held),))


def test_an_idle_gpu_is_named_after_five_minutes_and_one_busy_moment_clears_it() -> None:
    rules = RunRules()
    rules.add(list(rows(50, loss=lambda n: 2 - n / 50)), now_s=0.0)
    for second in range(0, 300, 10):
        rules.used(busy(0.02), now_s=float(second))
        rules.add([MetricRow(step=60 + second, at=2000.0 + second, values={"loss": 0.9})], now_s=float(second))
        assert rules.judge(run_at(50), now_s=float(second)) == []
    rules.used(busy(0.04), now_s=300.0)
    (finding,) = rules.judge(run_at(50), now_s=300.0)
    assert finding.kind is Kind.GPU_IDLE
    assert "2% busy over the last 5 min, never above 4%, while it used 1.0 processors" in finding.text
    assert "data loader" in finding.suggestion
    rules.used(busy(0.9), now_s=310.0)
    assert rules.judge(run_at(50), now_s=310.0) == []


def test_an_attempt_hears_nothing_of_the_curves_before_its_own_first_row() -> None:
    rules = RunRules()
    assert feed(rules, rows(300, loss=lambda n: 3 - n / 100 if n < 150 else 1.5 + (n - 150) / 50))
    rules.new_attempt()
    assert rules.judge(run_at(300), now_s=301.0) == []
    rules.add([MetricRow(step=301, at=2000.0, values={"loss": 4.5})], now_s=400.0)
    assert Kind.DIVERGENCE in {finding.kind for finding in rules.judge(run_at(301), now_s=400.0)}


def test_unused_memory_of_a_gpu_is_only_worth_knowing() -> None:
    rules = RunRules()
    for second in (0.0, 700.0):
        rules.used(busy(0.9, held=10), now_s=second)
    (finding,) = rules.judge(run_at(50), now_s=700.0, gpu_bytes={"GPU-a": 100})
    assert (finding.kind, finding.severity) == (Kind.GPU_MEMORY, "info")
    assert rules.judge(run_at(50), now_s=700.0) == []


@pytest.mark.parametrize("exit_class", list(ExitClass))
def test_a_crash_is_named_by_its_class(exit_class: ExitClass) -> None:
    outcome = Outcome(state=RunState.FAILED, exit_class=exit_class, reason="Why it was.")
    (finding,) = RunRules().judge(run_at(1200, state=RunState.FAILED, outcome=outcome), now_s=0.0)
    assert finding.text == f"It failed at step 1,200 ({exit_class.value.replace('_', ' ')}). Why it was."
    assert finding.suggestion == AFTER[exit_class]


def test_a_run_that_people_ended_is_left_in_peace() -> None:
    outcome = Outcome(state=RunState.STOPPED, reason="Stopped on request.")
    assert RunRules().judge(run_at(5, state=RunState.STOPPED, outcome=outcome), now_s=0.0) == []


# --- Series ------------------------------------------------------------------------------------------------------


def test_a_series_is_bounded_and_keeps_its_means() -> None:
    series = Series()
    for n in range(100_000):
        series.add(n, float(n))
    assert len(series.buckets) <= 512
    assert sum(bucket.count for bucket in series.buckets) == series.total == 100_000
    whole = series.mean_of(0, 1)
    assert whole.count == 100_000
    assert whole.value == pytest.approx(49_999.5)
    assert series.mean_of(0.9, 1).value == pytest.approx(95_000, rel=0.01)
    assert series.newest == 99_999.0


def test_a_resumed_run_undoes_what_stood_from_there_on() -> None:
    series = Series()
    for n in range(100):
        series.add(n, 1.0)
    for n in range(50, 60):
        series.add(n, 5.0)
    assert (series.total, series.buckets[-1].last) == (60, 59)
    assert series.between(50, 59).value == 5.0
    assert series.noise < 0.5


def test_noise_is_told_from_a_trend() -> None:
    dice, series = random.Random(3), Series()
    for n in range(5000):
        series.add(n, n / 100 + dice.gauss(0, 2.0))
    assert series.noise == pytest.approx(2.0, rel=0.1)


def test_names() -> None:
    assert [part_of(name) for name in ("loss", "train/loss", "eval_f1", "Val_Loss", "grad_norm")] == [
        (True, "loss"), (True, "loss"), (False, "f1"), (False, "loss"), (True, "grad_norm"),
    ]  # fmt: skip
    assert [sign_of(name) for name in ("loss", "roc_auc", "macro_f1", "rmse", "speed")] == [1, -1, -1, 1, 0]
    assert [duration(s) for s in (0.25, 45.0, 600.0, 9000.0)] == ["0.25 s", "45 s", "10 min", "2.5 h"]


def test_many_runs_cost_little() -> None:
    """A hundred runs at ten rows a second are a thousand rows a second: they may take a part of it only."""
    watched = [RunRules() for _ in range(20)]
    data = list(rows(500, loss=lambda n: 1 / n, accuracy=lambda n: n / 1000, lr=lambda _n: 0.1))
    began = time.process_time()
    for rules in watched:
        rules.add(data, now_s=0.0)
        rules.judge(run_at(500), now_s=1.0)
    assert (time.process_time() - began) / (20 * 500) < 0.001
