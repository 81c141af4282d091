"""Scores as live metrics: their names, and the lines of what there is to beat."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard import TrainingRuntime

_CURVES = {"log_loss": "loss", "roc_auc": "auc"}  # as LightGBM calls them


def curves(scores: Mapping[str, float], *, part: str) -> dict[str, float]:
    """Scores under the names that live metrics have, e.g. `valid_loss`."""
    return {f"{part}_{_CURVES.get(name, name)}": value for name, value in scores.items()}


def log_baseline(runtime: TrainingRuntime, name: str, scores: Mapping[str, float], *, step: int = 0) -> None:
    """Tell the charts what there is to beat: metrics `baseline/<name>/<metric>`."""
    found = {f"baseline/{name}/{metric}": value for metric, value in curves(scores, part="valid").items()}
    runtime.log_metrics(step=step, **found)


def worded(value: float, *, sign: bool = False) -> str:
    """A score for people: four decimals below ten, two below ten thousand, none beyond; a `sign` also before gains."""
    decimals = 4 if abs(value) < 10 else 2 if abs(value) < 10_000 else 0
    return f"{value:{'+' if sign else ''},.{decimals}f}"
