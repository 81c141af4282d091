"""How numbers are written for people, and the cards of data and approvals. Pure: no clock, database or platform.

Cards of runs are in `agent.runs.cards.run_cards`, those of hosts and the queue in `agent.runs.cards.host_cards`.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from html import escape

from agent.domain.approvals import INSTEAD, ApprovalState
from agent.domain.content import Card, Fact, Table
from agent.domain.datasets import ColumnReport, DataReport, TargetReport
from agent.domain.orders import HostInfo, Limits
from agent.domain.runs import DEFAULT_ENGINE, PRIORITIES, RunSpec
from agent.domain.walls import gaps_of

MAX_COLUMNS_SHOWN = 12
CLASSES_SHOWN = 5
EXAMPLE_CHARS, VALUES_CHARS = 24, 29
FACT_CHARS, TABLE_CHARS, TABLE_ROWS = 500, 2_000, 40  # what every platform shows uncut


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
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
    """Four significant digits, without noise; a large number in full."""
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e12 else f"{value:.4g}"


def score_words(value: float) -> str:
    """A measured number as it stands beside others: four decimals below ten, two below a thousand."""
    if value != 0 and not 0.001 <= abs(value) < 1000:
        return number(value)
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def usd(amount: float) -> str:
    """Money for people: cents, and two digits of what is less."""
    if amount == 0 or amount >= 0.995:
        return f"${amount:,.2f}"
    return f"${float(f'{amount:.2g}'):.6f}".rstrip("0") if amount < 0.1 else f"${amount:.2f}"


def counted(count: int, noun: str) -> str:
    """`1 line`, `2,000 lines`, `3 boxes`."""
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x")) else "s"
    return f"{count:,} {noun}{ending}"


def data_card(report: DataReport) -> Card:
    """What the audit found."""
    rows = [
        (
            column.name,
            column.kind,
            f"{column.missing:,}",
            f"{column.unique:,}",
            _content(column),
        )
        for column in report.columns[:MAX_COLUMNS_SHOWN]
    ]
    hidden = len(report.columns) - len(rows)
    leaks = [f"“{leak.column}” gives the target away: {leak.why}. A training leaves it out." for leak in report.leaks]
    lines = [f"- {text}" for text in (*report.problems, *leaks, *report.warnings)]
    facts = [
        Fact(name="Rows", value=f"{report.rows:,}"),
        Fact(name="Columns", value=str(len(report.columns))),
        Fact(name="Duplicates", value=f"{report.duplicate_rows:,}"),
        Fact(name="Size", value=size(report.dataset.size_bytes)),
    ]
    if report.dataset.origin is not None:
        facts.append(Fact(name="From", value=report.dataset.origin.shown))
    if report.target is not None:
        facts.append(Fact(name="Target", value=f"{report.target.column}: {_values(report.target)}"))
    return Card(
        kind="data",
        title=f"Data: {report.dataset.name}",
        tone="bad" if report.problems else "warn" if lines else "neutral",
        body="\n".join(lines),
        facts=tuple(facts),
        table=Table(columns=("column", "kind", "missing", "distinct", "values"), rows=tuple(rows)),
        footer=f"and {counted(hidden, 'more column')}" if hidden > 0 else "",
    )


def _content(column: ColumnReport) -> str:
    """What a column holds: from where to where, its few values, or one of many."""
    if column.low is not None and column.high is not None:
        return f"{number(column.low)} … {number(column.high)}"
    listed = ", ".join(value.strip() for value in column.values)
    if 0 < len(listed) <= VALUES_CHARS:
        return listed
    text = column.example.strip()
    return f"e.g. {text if len(text) <= EXAMPLE_CHARS else text[: EXAMPLE_CHARS - 1] + '…'}" if text else "–"


def _values(target: TargetReport) -> str:
    """`2,950 × 0, 50 × 1 (1.7 %)`: how often each, and the share of the rarest; of a quantity its range."""
    if target.spread is not None:
        low, middle, high = map(number, target.spread)
        return f"from {low} to {high}, median {middle}"
    if target.about:
        return target.about
    shown, total = target.classes[:CLASSES_SHOWN], sum(count for _, count in target.classes)
    words = ", ".join(f"{count:,} × {label}" for label, count in shown)
    if len(target.classes) > len(shown):
        return f"{words} and {counted(len(target.classes) - len(shown), 'more class')}"
    return f"{words} ({shown[-1][1] / total:.1%})".replace("%", " %") if len(shown) > 1 else words


NETWORKS: dict[str, str] = {
    "none": "none: it reaches nothing",
    "hub": "model hubs only, through an allowlist",
    "open": "open: it reaches everything",
}
RETRIED = "tried again by itself after a lost host, a hang or a GPU fault"


def at_host(card: Card, host: HostInfo) -> Card:
    """An approval card that also says where the host takes no runs now."""
    if not host.shut:
        return card
    text = f"**{host.host} takes no runs now**: {host.shut}. The run waits until it does."
    return card.model_copy(update={"body": f"{card.body}\n\n{text}".strip()})


def approval_card(
    spec: RunSpec,
    report: DataReport,
    *,
    plan: Sequence[str],
    priority: int = 0,
    warnings: Sequence[str] = (),
    limits: Limits | None = None,
) -> Card:
    """What will be done and what it costs, from the exact specification that is executed.

    `warnings` are those about the data that no card beside it has shown; `limits` are those of the host.
    """
    facts = [
        Fact(name="Task", value=spec.kind),
        Fact(name="Data", value=f"{spec.data_words}, {counted(report.rows, 'row')}"),
        *([Fact(name="Target", value=spec.target)] if spec.target else []),
        *spec_facts(spec, priority=priority, limits=limits),
    ]
    body = "\n".join(f"{number_}. {step}" for number_, step in enumerate(plan, 1))
    if warnings:
        body += "\n\n" + "\n".join(f"- {warning}" for warning in warnings)
    if len(warnings) < len(report.warnings):
        body += f"\n\n{counted(len(report.warnings) - len(warnings), 'warning')} about the data: see its card above."
    if gaps := gaps_words(spec.sandbox):
        body += "\n\n" + gaps
    return Card(kind="approval", title=f"Train a model for {spec.subject}?", tone="busy", body=body, facts=tuple(facts))


def spec_facts(spec: RunSpec, *, priority: int = 0, limits: Limits | None = None) -> list[Fact]:
    """What people have to know before they approve: place, walls, what it may reach, what a fault means."""
    facts = [
        *([Fact(name="Engine", value=spec.engine)] if spec.engine != DEFAULT_ENGINE else []),
        Fact(name="Host", value=f"{spec.host}, {gpus_words(spec.gpus)}"),
        *([] if spec.script or spec.model else _chance_facts(spec)),
        Fact(name="Network", value=network_words(spec)),
        Fact(name="Sandbox", value=sandbox_words(spec.sandbox)),
        Fact(name="If it fails", value=RETRIED if spec.auto_resume else "it is left to you"),
    ]
    if limits and (words := limits_words(limits)):
        facts.append(Fact(name="Limits", value=words))
    if spec.secrets:
        facts.append(Fact(name="Secrets", value=", ".join(spec.secrets)))
    if priority:
        facts.append(Fact(name="Priority", value=priority_words(priority)))
    said = {name: value for name, value in spec.settings.items() if value is not None}
    if said:
        facts.append(Fact(name="Settings", value=", ".join(f"{name} = {value}" for name, value in said.items())))
    if spec.drop_columns:
        facts.append(Fact(name="Left out", value=", ".join(spec.drop_columns)))
    return facts


def _chance_facts(spec: RunSpec) -> list[Fact]:
    """What a recipe's run is measured on, and the seed of what it does by chance."""
    return [Fact(name="Test part", value=f"{spec.test_words}, sealed"), Fact(name="Seed", value=str(spec.seed))]


def limits_words(limits: Limits) -> str:
    """What a run may take of its host, empty for no limits."""
    parts = (
        (limits.memory_bytes, f"{size(limits.memory_bytes)} memory"),
        (limits.disk_bytes, f"{size(limits.disk_bytes)} disk"),
        (limits.processes, f"{limits.processes:,} processes"),
        (limits.files, f"{limits.files:,} open files"),
    )
    return ", ".join(words for amount, words in parts if amount)


def shows_all(card: Card) -> bool:
    """Whether every platform shows its facts and its table uncut; `&` and `<` are counted as they are written."""
    rows = card.table.rows if card.table else ()
    return (
        all(len(escape(fact.value, quote=False)) <= FACT_CHARS for fact in card.facts)
        and len(rows) <= TABLE_ROWS
        and sum(len(cell) for row in rows for cell in row) <= TABLE_CHARS
    )


def gaps_words(tier: str) -> str:
    """What a sandbox does not keep in, as a list for an approval card; empty where it keeps in everything."""
    gaps = gaps_of(tier)
    return "\n".join(("**What this sandbox does not stop**", *(f"- {gap}" for gap in gaps))) if gaps else ""


def cost_words(spec: RunSpec) -> str:
    """How long a run is expected to take, when it is stopped, and what that is charged."""
    most = f"stops at {duration(spec.max_hours * 3600)}"
    if spec.price_usd is not None:
        most += f", ${spec.price_usd * Decimal(str(spec.max_hours)):,.2f} at most (${spec.price_usd:,.2f} an hour)"
    return f"about {duration(spec.estimate_s)}, {most}" if spec.estimate_s else most


def gpus_words(count: int) -> str:
    """How many GPUs, in words."""
    return counted(count, "GPU") if count else "CPU"


def priority_words(priority: int) -> str:
    """A priority by its name."""
    return next((name for name, value in PRIORITIES.items() if value == priority), str(priority))


def network_words(spec: RunSpec) -> str:
    """What a run may reach, and where nothing keeps it to that, so."""
    if spec.sandbox == "none" and spec.network != "open":
        return f"{spec.network} was asked for, but without a sandbox it reaches everything"
    return NETWORKS[spec.network]


def sandbox_words(tier: str) -> str:
    """The tier that the host published, with what it means."""
    known = {"none": "none: own process, clean environment", "bwrap": "bubblewrap", "landlock": "Landlock and seccomp"}
    return known.get(tier, tier)


def decided_card(card: Card, state: ApprovalState, *, by: str, at: datetime, reason: str = "") -> Card:
    """An approval card after its decision: no buttons, who decided, and why it was rejected."""
    replaced = reason.endswith(INSTEAD)
    words = {
        ApprovalState.APPROVED: ("good", f"Approved by {by}"),
        ApprovalState.REJECTED: (
            "neutral" if replaced else "bad",
            f"{'Replaced' if replaced else 'Rejected'} by {by}{f': {reason}' if reason else ''}",
        ),
        ApprovalState.EXPIRED: ("warn", "Expired: nobody decided in time, nothing was done"),
    }
    tone, text = words.get(state, ("neutral", state.value))
    return card.model_copy(update={"tone": tone, "buttons": (), "footer": f"{text} · {at:%Y-%m-%d %H:%M} UTC"})
