"""What a measurement says: a row of the table, its ratio, whether its goal holds, and how it is shown and stored."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison; smaller is better. `ratio` says how many times better we are than the peer."""

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    goal: str
    holds: bool


def compared(name: str, *, ours: float, peer: float, peer_name: str, unit: str, at_least: float) -> Row:
    """A row whose goal is a ratio: `at_least` 0.5 means that we may take twice the peer's time."""
    ratio = peer / ours
    return Row(name, ours, peer, peer_name, unit, ratio, f"ratio ≥ {at_least:.2f}", ratio >= at_least)


def limited(name: str, *, ours: float, peer: float, peer_name: str, unit: str, at_most: float) -> Row:
    """A row whose goal is a value of our own; the ratio to the peer is shown, not judged."""
    return Row(name, ours, peer, peer_name, unit, peer / ours, f"≤ {at_most:g} {unit}", ours <= at_most)


def within(name: str, *, ours: float, peer: float, peer_name: str, unit: str, more: float) -> Row:
    """A row whose goal is how much `more` than the peer we may take, in its unit."""
    return Row(name, ours, peer, peer_name, unit, peer / ours, f"≤ {more:g} {unit} more", ours - peer <= more)


def alone(name: str, *, ours: float, unit: str, at_most: float) -> Row:
    """A row without a peer: its goal is a value of our own, which stands in the peer's place."""
    ratio = at_most / ours if ours else 1.0
    return Row(name, ours, at_most, "the limit", unit, ratio, f"≤ {at_most:g} {unit}", ours <= at_most)


def median(values: Sequence[float]) -> float:
    """The middle of several rounds."""
    return statistics.median(values)


def write(rows: Sequence[Row], path: Path) -> None:
    """Store the rows as JSON."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the rows as a table."""
    table = Table(title="Trainyard against its peers (ratio: how many times better we are)")
    for head in ("what", "ours", "peer", "unit", "ratio", "goal", "holds"):
        table.add_column(head, justify="right" if head in {"ours", "peer", "ratio"} else "left")
    for row in rows:
        peer = f"{row.peer:.2f} ({row.peer_name})"
        holds = "[green]yes[/]" if row.holds else "[red]no[/]"
        table.add_row(row.name, f"{row.ours:.2f}", peer, row.unit, f"{row.ratio:.2f}", row.goal, holds)
    console.print(table)
