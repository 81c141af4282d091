"""Each task type on real data, as a person has it: a sentence, a plan, a pause in the middle, a score, predictions.

`make test-builds` runs them and prints a row of `BENCHMARKS.md` for each. The data are those of
`examples/task_data.py`; a score has to reach what is known of them. Where that is a mean over folds, the recipe alone
trains on further splits, and their mean has to. Further data of a task type, which may train within a second, are not
paused.
"""

import statistics
import time
from pathlib import Path

import pytest

from agent.domain.runs import ENDED, Run, RunState, Scorecard
from agent.domain.tasks import TASKS, metric_label
from examples.task_data import EXAMPLES, FURTHER, Example
from tests.person import Person
from tests.recipes.folders import make_run

pytestmark = [pytest.mark.builds, pytest.mark.timeout(900)]
BUILDS = {task: (task, example) for task, example in EXAMPLES.items()} | FURTHER


@pytest.mark.parametrize("build", list(BUILDS))
async def test_from_a_sentence_to_a_measured_model(build: str, person: Person, tmp_path: Path) -> None:
    await built(build, person, tmp_path, pause=build in EXAMPLES)


async def built(build: str, person: Person, tmp_path: Path, *, pause: bool) -> None:
    """Train it as a person does, judge the score, and ask the model; `pause`: paused and resumed in the middle."""
    task, example = BUILDS[build]
    file = example.write(tmp_path)
    await person.says(example.request.replace(" @", f" {example.lasts} @").format(file=file))
    await person.card("approval")
    begun = time.monotonic()
    await person.says("approve")
    paused = await _paused_and_resumed(person) if pause else None
    run = await person.until(lambda run: run.state in ENDED)
    assert run.state is RunState.SUCCEEDED, run.outcome
    await person.card("result")
    seconds = time.monotonic() - begun
    assert run.spec.task == task
    there = sum(len(host.gpus) for host in await person.app.engines.hosts())
    assert run.spec.gpus == int(TASKS[task].uses_gpu and there > 0)
    outcome = run.outcome
    assert outcome is not None
    assert outcome.scorecard is not None
    assert paused is None or run.step > paused.step, "nothing was left to train after the pause"
    print("\n" + _row(run, file, outcome.scorecard, paused, seconds))
    await person.says(example.then.format(file=file))
    await person.card("data", "Predictions")
    reached = _over_splits(example, run, file, tmp_path) if example.splits > 1 else outcome.scorecard.model.value
    _judge(example, task, outcome.scorecard, reached)


async def _paused_and_resumed(person: Person) -> Run:
    """The run as it was paused, after its first steps."""
    run = await person.until(lambda run: run.state in ENDED or (run.state is RunState.RUNNING and run.step > 0))
    await person.says(f"pause {run.id}")
    run = await person.until(lambda run: run.state in ENDED or run.state is RunState.PAUSED)
    assert run.state is RunState.PAUSED, f"it was over before it could be paused: {run.outcome}"
    await person.says(f"resume {run.id}")
    return run


def _over_splits(example: Example, run: Run, file: Path, folder: Path) -> float:
    """The mean score of the recipe on splits by further seeds."""
    text, spec = file.read_text(encoding="utf-8"), run.spec
    runs = [
        make_run(folder / f"split {seed}", text, spec.target or "", recipe=spec.recipe, settings={}, seed=seed)
        for seed in range(1, example.splits + 1)
    ]
    return statistics.mean(one.all_steps_here()["model"]["value"] for one in runs)


def _judge(example: Example, task: str, score: Scorecard, reached: float) -> None:
    """At least the reference, and no worse than the baselines, or by no more than chance explains."""
    assert score.metric in {metric.name for metric in TASKS[task].metrics}
    sign = 1 if score.higher_is_better else -1
    best = score.best_baseline.value
    ahead = sign * score.model.value >= sign * best or score.within_chance
    assert ahead, (score.model.value, best)
    if example.reference is not None:
        assert sign * reached >= sign * example.reference, (reached, example.reference)
    for name, known in example.also.items():
        assert score.all_metrics[name] >= known, (name, score.all_metrics[name], known)


def _row(run: Run, file: Path, score: Scorecard, paused: Run | None, seconds: float) -> str:
    interval = f"{score.interval[0]:.3f} to {score.interval[1]:.3f}" if score.interval else "–"
    best = score.best_baseline
    cells = (
        run.spec.kind,
        f"{file.name}, {score.test_rows:,} sealed",
        metric_label(score.metric),
        f"{score.model.value:.3f} ({run.outcome.chosen if run.outcome else '–'})",
        interval,
        f"{best.value:.3f} {best.name}",
        f"at step {paused.step:,} of {run.step:,}" if paused else "–",
        f"{seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"
