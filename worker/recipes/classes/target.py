"""What is said of a target column that holds classes: its problems, its report, what people should read first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from worker.recipes.common.columns import is_quantity, missing_problems, values_of
from worker.recipes.common.split import repetition
from worker.recipes.common.table import Table

_MOST_CLASSES = 200
_IMBALANCE = 10.0
_FEW = 10


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    counts = values_of(table, target)
    return {
        "column": target,
        "classes": [[label, count] for label, count in counts.most_common(_MOST_CLASSES)],
        "missing": table.rows - counts.total(),
        "imbalance": round(max(counts.values()) / min(counts.values()), 3) if counts else 0.0,
    }


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this target."""
    counts = values_of(table, target)
    found = missing_problems(table, target)
    if len(counts) == 1:
        found.append(f"The target “{target}” is always “{next(iter(counts))}”; there is nothing to tell apart.")
    if is_quantity(counts):
        found.append(
            f"The target “{target}” has {len(counts)} different numbers in {counts.total()} rows: that is a quantity, "
            "not a class. Ask for a regression, or group it into classes first."
        )
    elif len(counts) > _MOST_CLASSES:
        found.append(f"The target “{target}” has {len(counts)} classes; at most {_MOST_CLASSES} are possible.")
    elif len(counts) > 1:
        found.extend(_lonely(target, counts))
    return found


def warnings(table: Table, target: str) -> list[str]:
    """Sentences that people should read before they train on this target."""
    report, found = describe(table, target), []
    classes: Sequence[Any] = report["classes"]
    if len(classes) > 1 and report["imbalance"] >= _IMBALANCE:
        most, least = classes[0], classes[-1]
        found.append(
            f"The classes are uneven: “{most[0]}” has {most[1]} rows, “{least[0]}” {least[1]} "
            f"(1 in {report['imbalance']:.0f}). Accuracy alone would flatter a model that never says “{least[0]}”; "
            "with class_weight=balanced each class counts as much as every other."
        )
    few = [f"“{label}” ({count})" for label, count in classes if 1 < count < _FEW]
    if few and len(classes) <= 50:
        found.append(f"Classes with fewer than {_FEW} rows, hard to learn and to measure: {', '.join(few[:8])}.")
    return found + _alike(target, [str(label) for label, _ in classes]) + repetition(table, target)


def _alike(target: str, labels: Sequence[str]) -> list[str]:
    """The sentence on classes that differ in their capitals alone."""
    written: dict[str, list[str]] = {}
    for label in labels:
        written.setdefault(label.lower(), []).append(f"“{label}”")
    same = [" and ".join(ways) for ways in written.values() if len(ways) > 1]
    if not same:
        return []
    return [f"Classes of “{target}” that differ in capitals alone: {', '.join(same[:5])}. Write each in one way."]


def _lonely(target: str, counts: Counter[str]) -> list[str]:
    lonely = [label for label, count in counts.items() if count == 1]
    if not lonely:
        return []
    some = ", ".join(f"“{label[:40]}”" for label in lonely[:5]) + (" and more" if len(lonely) > 5 else "")
    return [
        f"{len(lonely)} class{'es' if len(lonely) > 1 else ''} of “{target}” {'have' if len(lonely) > 1 else 'has'} "
        f"only one row ({some}). A class needs two or more: one to learn from, one to measure on. "
        "Add rows, merge classes, or remove them."
    ]
