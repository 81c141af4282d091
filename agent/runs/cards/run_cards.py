"""The cards of runs, built from values. Pure: no clock, no database, no platform.

Called by the live cards, the tools and the commands. Knows which buttons fit which state; whether a click is allowed is
decided again by the service.
"""

from collections.abc import Sequence
from datetime import datetime

from agent.cards import counted, duration, gpus_words, number, score_words, size
from agent.domain.content import Button, Card, Fact, Picture, Table, Tone
from agent.domain.events import MetricRow
from agent.domain.runs import LIVE, PRIORITIES, Attempt, Outcome, Run, RunSpec, RunState, Scorecard
from agent.domain.tasks import TASKS, Answer, candidate_label, metric_label
from agent.runs.cards.pace import seconds_left, steps_a_second

LOG_LINES_SHOWN = 6
MOST_FILES = 5  # of what a program left, by name
TRACEBACK_LINES_SHOWN = 15
_S = RunState
TONES: dict[RunState, Tone] = {
    _S.SUCCEEDED: "good",
    _S.FAILED: "bad",
    _S.LOST: "bad",
    _S.STOPPED: "warn",
    _S.UNREACHABLE: "warn",
    _S.PAUSED: "warn",
}
# What can be done in each state, most likely first.
ACTIONS: dict[RunState, tuple[str, ...]] = {
    _S.QUEUED: ("sooner", "later", "stop"),
    _S.STARTING: ("pause", "stop"),
    _S.RUNNING: ("pause", "stop"),
    _S.PAUSING: ("stop",),
    _S.PAUSED: ("resume", "stop"),
    _S.STOPPING: ("kill",),
    _S.UNREACHABLE: ("stop",),
    _S.LOST: ("retry", "clone"),
    _S.STOPPED: ("retry", "clone"),
    _S.FAILED: ("retry", "clone"),
    _S.SUCCEEDED: ("serve", "clone"),
}
MOVES = {"sooner": 1, "later": -1}  # in the queue
BUTTONS: dict[str, Button] = {
    "pause": Button(action="pause", subject="-", label="Pause"),
    "resume": Button(action="resume", subject="-", label="Resume", style="primary"),
    "retry": Button(action="retry", subject="-", label="Retry", style="primary"),
    "stop": Button(action="stop", subject="-", label="Stop", style="danger"),
    "kill": Button(action="kill", subject="-", label="Kill", style="danger"),
    "serve": Button(action="serve", subject="-", label="Serve"),
    "clone": Button(action="clone", subject="-", label="Clone"),
    "logs": Button(action="logs", subject="-", label="Logs"),
}


def state_words(run: Run) -> str:
    """A run's state as people say it."""
    return run.state.value.replace("_", " ")


def state_text(run: Run, *, why: bool = True) -> str:
    """A run's state in a sentence; `why`: with the reason."""
    ended = {
        _S.SUCCEEDED: "has succeeded",
        _S.FAILED: "has failed",
        _S.STOPPED: "was stopped",
        _S.LOST: "is lost",
        _S.QUEUED: "waits in the queue",
        _S.UNREACHABLE: "may go on, but its host does not answer",
    }
    text = f"Run `{run.id}` {ended.get(run.state, f'is {state_words(run)}')}"
    if run.step and run.total_steps:
        text += f", step {run.step:,} of {run.total_steps:,}"
    text += "."
    reason = run.note if run.state in {_S.QUEUED, _S.PAUSED, *LIVE} else run.outcome.reason if run.outcome else ""
    if reason and why:
        text += f" {reason}"
    if run.used_s and run.ended_at:
        text += f" It took {duration(run.used_s)}."
    return text


def run_buttons(run: Run) -> tuple[Button, ...]:
    """The buttons that fit its state; the log where there can be one."""
    names = ACTIONS[run.state] + (("logs",) if run.attempt else ())
    return tuple(button for name in names if (button := _button(run, name)) is not None)


def _button(run: Run, name: str) -> Button | None:
    """One for this run; None where it would change nothing."""
    if name == "serve" and (run.spec.script is not None or run.outcome is None or run.outcome.artifact is None):
        return None  # there is no model of a recipe
    if name in {"serve", "clone"} and run.spec.model is not None:
        return None  # it trained none
    if name not in MOVES:
        return BUTTONS[name].model_copy(update={"subject": run.id})
    level = {place: word for word, place in PRIORITIES.items()}.get(run.priority + MOVES[name])
    return Button(action="priority", subject=f"{run.id}.{level}", label=name.capitalize()) if level else None


def run_card(
    run: Run,
    rows: Sequence[MetricRow],
    log: Sequence[str],
    picture: Picture | None,
    *,
    now: datetime,
    attempts: Sequence[Attempt] = (),
    ways: Sequence[Button] = (),
) -> Card:
    """Where a run stands. `rows` are its newest metrics, `log` its newest lines.

    The newest of `attempts` says where it is, if there is one; `ways` lead to its other pictures.
    """
    failed = run.state in {_S.FAILED, _S.LOST}
    traceback = run.outcome.traceback if failed and run.outcome else ()
    reason = run.outcome.reason if run.outcome and run.state not in {_S.QUEUED, *LIVE} else run.note
    host = attempts[-1].host if attempts else run.spec.host
    progress = None
    if run.total_steps and run.state in LIVE | {_S.PAUSED}:
        progress = min(1.0, run.step / run.total_steps)
    return Card(
        kind="run",
        title=f"{run.id} · {run.spec.title}",
        tone=TONES.get(run.state, "busy"),
        body=reason,
        facts=(*_time_facts(run, rows, attempts, now), *_metric_facts(rows), *_usage_facts(run)),
        progress=progress,
        log=traceback[-TRACEBACK_LINES_SHOWN:] if traceback else tuple(log)[-LOG_LINES_SHOWN:],
        picture=picture,
        buttons=(*run_buttons(run), *ways),
        footer=f"{run.spec.kind} on {host}, {gpus_words(run.spec.gpus)}"
        + (f" · attempt {run.attempt}" if run.attempt > 1 else ""),
    )


def _time_facts(run: Run, rows: Sequence[MetricRow], attempts: Sequence[Attempt], now: datetime) -> list[Fact]:
    facts, learns = [Fact(name="State", value=state_words(run))], run.spec.serving is None
    if learns and (run.step or run.total_steps):
        facts.append(Fact(name="Step", value=f"{run.step:,}" + (f" of {run.total_steps:,}" if run.total_steps else "")))
    if trained_s := _trained_s(run, attempts, now):
        facts.append(Fact(name="Time", value=duration(trained_s)))
    if run.state not in LIVE:
        return facts
    left_s, pace = seconds_left(run, rows), steps_a_second(rows)
    if left_s is not None:
        facts.append(Fact(name="Left", value=f"about {duration(left_s)}"))
    if pace is not None and learns:
        facts.append(Fact(name="Speed", value=pace_words(pace)))
    return facts


def _trained_s(run: Run, attempts: Sequence[Attempt], now: datetime) -> float:
    """For how long it has trained: its ended attempts, and the one that goes on; waiting is no part of it."""
    attempt = attempts[-1] if attempts else None
    if attempt is None or attempt.outcome is not None or run.state not in LIVE or run.started_at is None:
        return run.used_s
    return run.used_s + max(0.0, (now - (attempt.dispatched_at or attempt.sent_at)).total_seconds())


def pace_words(pace: float) -> str:
    """Steps a second; seconds a step where that is the readable number."""
    return f"{number(pace)} steps/s" if pace >= 0.1 else f"{number(1 / pace)} s/step"


def _metric_facts(rows: Sequence[MetricRow]) -> list[Fact]:
    last: dict[str, float] = {}
    for row in rows[-50:]:
        last.update({name: value for name, value in row.values.items() if not name.startswith("baseline/")})
    return [Fact(name=name.replace("_", " "), value=number(value)) for name, value in list(last.items())[:4]]


def _usage_facts(run: Run) -> list[Fact]:
    """What it uses now; nothing where it does not run."""
    used = run.usage if run.state in LIVE else None
    if used is None:
        return []
    facts = [Fact(name="CPU", value=f"{used.cpus:.1f} cores, {size(used.memory_bytes)}")]
    if len(used.gpus) == 1:
        facts.append(Fact(name="GPU", value=f"{used.gpus[0].busy:.0%} busy, {size(used.gpus[0].memory_bytes)}"))
    elif used.gpus:
        each = " · ".join(f"{gpu.busy:.0%} {size(gpu.memory_bytes)}" for gpu in used.gpus)
        facts.append(Fact(name=f"{len(used.gpus)} GPUs", value=each))
    return facts


def result_card(
    run: Run,
    picture: Picture | None = None,
    ways: Sequence[Button] = (),
    *,
    rows: Sequence[MetricRow] = (),
    earlier: int = 0,
) -> Card:
    """What a finished run achieved, against its baselines, on the sealed test part; `ways` lead to its pictures.

    `rows` are its newest metrics: all that there is to say of a program that left nothing to measure. `earlier` is how
    many runs were measured on the same sealed rows before.
    """
    outcome = run.outcome
    if outcome is None or outcome.scorecard is None:
        return _unmeasured_card(run, rows, ways)
    score = outcome.scorecard
    sure = (_interval(score.interval),) if score.interval else ()
    others = tuple(
        Fact(name=metric_label(name), value=score_words(value))
        for name, value in score.all_metrics.items()
        if name != score.metric
    )
    said = verdict(score, outcome.chosen) if run.spec.model is None else _measured_again(run.spec, score)
    return Card(
        kind="result",
        title=f"Result of {run.id}: {metric_label(score.metric)} {score_words(score.model.value)}",
        tone="good" if score.beats_baseline else "warn",
        body=" ".join((said, *outcome.notes)),
        facts=(*sure, *others, *found_facts(outcome), *_uses(earlier)),
        table=_scores(score, outcome.chosen),
        picture=picture,
        buttons=(*(ways or _ways(run)), *run_buttons(run)),
        footer=_try_it(run),
    )


def _scores(score: Scorecard, chosen: str) -> Table:
    """The metric that decides, of the candidate that was `chosen` and of all others."""
    found = [
        (f"{candidate_label(chosen or 'model')} (this run)", score.model.value),
        *((f"{candidate_label(other.name)} (not kept)", other.value) for other in score.not_kept),
        *(
            (f"baseline: {candidate_label(other.name)}", other.value)
            for other in score.baselines
            if other.name != chosen
        ),
    ]
    rows = tuple((name, score_words(value)) for name, value in found)
    return Table(columns=("model", metric_label(score.metric)), rows=rows)


def _try_it(run: Run) -> str:
    """How to use the model."""
    if run.spec.model is not None:
        return f"download {run.id} hands over what it predicted for each row"
    task = TASKS.get(run.spec.task or "")
    if task and task.answer is Answer.SERIES:
        return f"Try it: predict 12 with {run.id}"
    if task and (task.needs_text or task.answer in {Answer.TEXT, Answer.SPANS}):
        return f"Try it: predict “a text of yours” with {run.id}, or attach a file of texts"
    what = (
        "an image or a zip of images"
        if task and task.data == "images"
        else "a csv with the same columns, or describe a row"
    )
    return f"Try it: predict with {run.id} and attach {what}"


def _unmeasured_card(run: Run, rows: Sequence[MetricRow], ways: Sequence[Button]) -> Card:
    """The end of a program that left no predictions: its own numbers, said to be its own."""
    if run.spec.model is not None:
        return _predicted_card(run, ways)
    name, own = run.spec.entry, run.spec.script is not None
    left = "" if own else "It left no `predictions/model.csv`, so nothing was measured on the sealed test rows. "
    return Card(
        kind="result",
        title=f"{run.id} {state_words(run)}",
        tone=TONES.get(run.state, "neutral"),
        body=f"`{name}` ended without an error. {left}{_kept(run)}",
        facts=tuple(_metric_facts(rows)),
        buttons=(*ways, *run_buttons(run)),
        footer=f"Numbers as reported by {name}" if rows else "",
    )


def _kept(run: Run) -> str:
    """What a program left, and how to get it."""
    artifact = run.outcome.artifact if run.outcome else None
    if artifact is None:
        return "It left nothing in `artifacts/`, and beside itself nothing or more than 2 GiB."
    named = ", ".join(f"`{name}`" for name in artifact.files[:MOST_FILES])
    more = len(artifact.files) - MOST_FILES
    return f"It left {named}{f' and {more:,} more' if more > 0 else ''}; `download {run.id}` hands over all of it."


def _predicted_card(run: Run, ways: Sequence[Button]) -> Card:
    """The end of a prediction of a whole file."""
    rows = f"{counted(run.step, 'row')} {'was' if run.step == 1 else 'were'}"
    return Card(
        kind="result",
        title=f"{run.id}: predictions for {run.spec.data_words}",
        tone=TONES.get(run.state, "neutral"),
        body=f"{rows} predicted with the {run.spec.subject}; `predictions.csv` has all of them.",
        buttons=(*ways, *run_buttons(run)),
        footer=f"download {run.id} hands the file over again",
    )


def _measured_again(spec: RunSpec, score: Scorecard) -> str:
    """What an evaluation alone found, beside a constant answer and what the training had measured."""
    best, metric = score.best_baseline, metric_label(score.metric)
    rows = f"{counted(score.test_rows, 'row')} of `{spec.data_words}`"
    constant = f"the best constant answer (**{candidate_label(best.name)}**, {score_words(best.value)})"
    if score.within_chance:
        said = f"**Not distinguishable from {constant}**: the difference lies between {_signed(score.gain)}, on {rows}."
    elif score.beats_baseline:
        gain = score_words(abs(score.model.value - best.value))
        said = f"Better than {constant} by **{gain}** {metric}, on {rows}."
    else:
        said = f"**Not better than {constant}**, on {rows}."
    return f"{said} When it was trained it had {spec.model.measured}." if spec.model and spec.model.measured else said


def _ways(run: Run) -> tuple[Button, ...]:
    """To the pictures of its result, where there are some."""
    if run.outcome is None or not run.outcome.results:
        return ()
    return (Button(action="results", subject=run.id, label="Results"),)


def _interval(interval: tuple[float, float]) -> Fact:
    low, high = interval
    return Fact(name="95 % interval", value=f"{score_words(low)} to {score_words(high)}")


def _uses(earlier: int) -> tuple[Fact, ...]:
    """How often the sealed rows have been used: who looks often enough finds a lucky best one."""
    if not earlier:
        return ()
    before = "1 run was" if earlier == 1 else f"{earlier:,} runs were"
    return (Fact(name="Sealed rows", value=f"{before} measured on them before; the best of many is partly luck"),)


def found_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """The settings that a search chose."""
    said = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in outcome.found.items())
    return (Fact(name="Settings found", value=said),) if said else ()


def _signed(interval: tuple[float, float] | None) -> str:
    low, high = interval or (0.0, 0.0)
    return " and ".join(f"{'-' if value < 0 else '+'}{score_words(abs(value))}" for value in (low, high))


def verdict(score: Scorecard, chosen: str) -> str:
    """Whether the model is worth having, in a sentence. `chosen` is the candidate that the recipe kept."""
    best = score.best_baseline
    name = candidate_label(best.name)
    metric = metric_label(score.metric)
    measured = f"measured once on {counted(score.test_rows, 'sealed test row')}"
    if score.within_chance and chosen != best.name:
        return (
            f"**Not distinguishable from the baseline {name}** ({score_words(best.value)} {metric}): on other "
            f"rows like these the difference lies between {_signed(score.gain)}, {measured}. Take the simpler one."
        )
    if score.beats_baseline:
        gain = score_words(abs(score.model.value - best.value))
        beaten = f"(**{name}**, {score_words(best.value)})"
        sure = f" (95 %: between {_signed(score.gain)})" if score.gain else ""
        return f"Better than the best baseline {beaten} by **{gain}** {metric}{sure}, {measured}."
    if chosen == best.name:
        return (
            f"The baseline **{name}** was kept as the model: nothing more complex beat it on the validation part. "
            f"{metric[0].upper()}{metric[1:]} {score_words(score.model.value)}, {measured}."
        )
    return (
        f"**Not better than the baseline {name}** ({score_words(best.value)} {metric}, {measured}): "
        "use the baseline, or give it more data."
    )
