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
