"""The cards that people see, built from values. Pure: no clock, no database, no platform."""

from collections.abc import Sequence
from datetime import datetime

from agent.domain.approvals import ApprovalState
from agent.domain.content import Button, Card, Fact, Picture, Table, Tone
from agent.domain.datasets import DataReport
from agent.domain.events import MetricRow
from agent.domain.runs import LIVE, Run, RunSpec, RunState, Scorecard

MAX_COLUMNS_SHOWN = 12
LOG_LINES_SHOWN = 6
TONES: dict[RunState, Tone] = {
    RunState.SUCCEEDED: "good",
    RunState.FAILED: "bad",
    RunState.LOST: "bad",
    RunState.STOPPED: "warn",
    RunState.UNREACHABLE: "warn",
    RunState.PAUSED: "warn",
}
TASK_NAMES = {"tabular_classification": "tabular classification", "text_classification": "text classification"}


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{count} B"


def duration(seconds: float) -> str:
    """Seconds for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def number(value: float) -> str:
    """Four significant digits, without noise."""
    return f"{value:.4g}"


def metric_name(name: str) -> str:
    """A metric as people write it."""
    known = {"roc_auc": "ROC AUC", "macro_f1": "macro F1", "accuracy": "accuracy", "log_loss": "log loss"}
    return known.get(name, name.replace("_", " "))


def data_card(report: DataReport) -> Card:
    """What the audit found."""
    rows = [
        (
            column.name,
            column.kind,
            f"{column.missing:,}" if column.missing else "–",
            f"{column.unique:,}",
            f"{number(column.low)} … {number(column.high)}"
            if column.low is not None and column.high is not None
            else column.example[:24],
        )
        for column in report.columns[:MAX_COLUMNS_SHOWN]
    ]
    hidden = len(report.columns) - len(rows)
    lines = [f"• {text}" for text in report.problems]
    lines += [f"• {text}" for text in report.warnings]
    facts = [
        Fact(name="Rows", value=f"{report.rows:,}"),
        Fact(name="Columns", value=str(len(report.columns))),
        Fact(name="Duplicates", value=f"{report.duplicate_rows:,}"),
        Fact(name="Size", value=size(report.dataset.size_bytes)),
    ]
    if report.target is not None:
        classes = ", ".join(f"{label} {count:,}" for label, count in report.target.classes[:5])
        facts.append(Fact(name=f"Target {report.target.column}", value=classes))
    return Card(
        kind="data",
        title=f"Data: {report.dataset.name}",
        tone="bad" if report.problems else "warn" if report.warnings else "neutral",
        body="\n".join(lines),
        facts=tuple(facts),
        table=Table(columns=("column", "kind", "missing", "distinct", "values"), rows=tuple(rows)),
        footer=f"and {hidden} more columns" if hidden > 0 else "",
    )


def approval_card(spec: RunSpec, report: DataReport, *, plan: Sequence[str]) -> Card:
    """What will be done and what it costs, from the exact specification that is executed."""
    facts = [
        Fact(name="Task", value=TASK_NAMES[spec.task]),
        Fact(name="Data", value=f"{spec.dataset.name}, {report.rows:,} rows"),
        Fact(name="Target", value=spec.target),
        Fact(name="Host", value=f"{spec.host}, {spec.gpus} GPU" if spec.gpus else f"{spec.host}, CPU"),
        Fact(name="Cost", value=f"about {duration(spec.estimate_s)}, stops at {duration(spec.max_hours * 3600)}"),
        Fact(name="Test part", value=f"{spec.test_frac:.0%}, sealed, seed {spec.seed}"),
        Fact(name="Network", value=spec.network),
        Fact(name="Sandbox", value=sandbox_words(spec.sandbox)),
    ]
    said = {name: value for name, value in spec.settings.items() if value is not None}
    if said:
        facts.append(Fact(name="Settings", value=", ".join(f"{name} = {value}" for name, value in said.items())))
    if spec.drop_columns:
        facts.append(Fact(name="Left out", value=", ".join(spec.drop_columns)))
    body = "\n".join(f"{number_}. {step}" for number_, step in enumerate(plan, 1))
    if report.warnings:
        body += "\n\n" + "\n".join(f"• {warning}" for warning in report.warnings)
    return Card(kind="approval", title=f"Train a model for {spec.target}?", tone="busy", body=body, facts=tuple(facts))


def sandbox_words(tier: str) -> str:
    """The tier that the host published, with what it means."""
    return {"none": "none: own process, clean environment", "bwrap": "bubblewrap"}.get(tier, tier)


def decided_card(card: Card, state: ApprovalState, *, by: str, at: datetime) -> Card:
    """An approval card after its decision: no buttons, and who decided."""
    words = {
        ApprovalState.APPROVED: ("good", f"Approved by {by}"),
        ApprovalState.REJECTED: ("bad", f"Rejected by {by}"),
        ApprovalState.EXPIRED: ("warn", "Expired: nobody decided in time, nothing was done"),
    }
    tone, text = words.get(state, ("neutral", state.value))
    return card.model_copy(update={"tone": tone, "buttons": (), "footer": f"{text} · {at:%Y-%m-%d %H:%M} UTC"})


def state_words(run: Run) -> str:
    """A run's state as people say it."""
    return run.state.value.replace("_", " ")


def run_card(
    run: Run, rows: Sequence[MetricRow], log: Sequence[str], picture: Picture | None, *, now: datetime
) -> Card:
    """The one live card of a run."""
    facts = [Fact(name="State", value=state_words(run))]
    if run.step and run.total_steps:
        facts.append(Fact(name="Step", value=f"{run.step:,} of {run.total_steps:,}"))
    elif run.step:
        facts.append(Fact(name="Step", value=f"{run.step:,}"))
    if run.started_at is not None:
        ended = run.ended_at or now
        facts.append(Fact(name="Time", value=duration(max(0.0, (ended - run.started_at).total_seconds()))))
    facts += [Fact(name=name.replace("_", " "), value=number(value)) for name, value in _last_values(rows)]
    buttons: tuple[Button, ...] = ()
    if run.state in LIVE or run.state is RunState.QUEUED:
        buttons = (Button(action="stop", subject=run.id, label="Stop", style="danger"),)
    if run.attempt:
        buttons += (Button(action="logs", subject=run.id, label="Logs"),)
    progress = None
    if run.total_steps and run.state in LIVE:
        progress = min(1.0, run.step / run.total_steps)
    failed = run.state in {RunState.FAILED, RunState.LOST}
    shown_log = run.outcome.traceback if failed and run.outcome and run.outcome.traceback else tuple(log)
    return Card(
        kind="run",
        title=f"{run.id} · {run.spec.target} from {run.spec.dataset.name}",
        tone=TONES.get(run.state, "busy"),
        body=run.outcome.reason if run.outcome else "",
        facts=tuple(facts),
        progress=progress,
        log=shown_log[-LOG_LINES_SHOWN:] if not failed else shown_log[-15:],
        picture=picture,
        buttons=buttons,
        footer=f"{TASK_NAMES[run.spec.task]} on {run.spec.host}"
        + (f" · attempt {run.attempt}" if run.attempt > 1 else ""),
    )


def _last_values(rows: Sequence[MetricRow]) -> list[tuple[str, float]]:
    last: dict[str, float] = {}
    for row in rows[-50:]:
        last.update({name: value for name, value in row.values.items() if not name.startswith("baseline/")})
    return list(last.items())[:4]


def result_card(run: Run) -> Card:
    """What a finished run achieved, against its baselines, on the sealed test part."""
    outcome = run.outcome
    if outcome is None or outcome.scorecard is None:
        return Card(kind="result", title=f"{run.id} {state_words(run)}", tone=TONES.get(run.state, "neutral"))
    score = outcome.scorecard
    table = Table(
        columns=("model", metric_name(score.metric)),
        rows=(
            (f"{outcome.chosen or 'model'} (this run)", number(score.model.value)),
            *((f"baseline: {baseline.name}", number(baseline.value)) for baseline in score.baselines),
        ),
    )
    others = tuple(
        Fact(name=metric_name(name), value=number(value))
        for name, value in score.all_metrics.items()
        if name != score.metric
    )
    buttons = (Button(action="logs", subject=run.id, label="Logs"),)
    return Card(
        kind="result",
        title=f"Result of {run.id}: {metric_name(score.metric)} {number(score.model.value)}",
        tone="good" if score.beats_baseline else "warn",
        body=verdict(score, outcome.chosen),
        facts=(Fact(name="Test rows", value=f"{score.test_rows:,}"), *others),
        table=table,
        buttons=buttons,
        footer=f"Try it: predict with {run.id} and attach a csv with the same columns",
    )


def verdict(score: Scorecard, chosen: str) -> str:
    """Whether the model is worth having, in a sentence. `chosen` is the candidate that the recipe kept."""
    best = score.best_baseline
    metric = metric_name(score.metric)
    measured = f"measured once on {score.test_rows:,} sealed test rows"
    if score.beats_baseline:
        gain = number(abs(score.model.value - best.value))
        return (
            f"Better than the best baseline (**{best.name}**, {number(best.value)}) by **{gain}** {metric}, {measured}."
        )
    if chosen == best.name:
        return (
            f"The baseline **{best.name}** was kept as the model: nothing more complex beat it on the validation part. "
            f"{metric[0].upper()}{metric[1:]} {number(score.model.value)}, {measured}."
        )
    return (
        f"**Not better than the baseline {best.name}** ({number(best.value)} {metric}, {measured}): "
        "use the baseline, or give it more data."
    )
