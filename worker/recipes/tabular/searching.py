"""How one trial of a search goes on a table: LightGBM with the drawn settings, on one or several splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from worker.recipes.common.search import Attempt, Report
from worker.recipes.tabular.study import Places, Study


def attempt_on(study: Study, parts: Sequence[tuple[Places, Places]]) -> Attempt:
    """A trial on rows to fit on and rows held out: the mean of the decisive metric over `parts`."""
    problem = study.problem

    def attempt(settings: dict[str, Any], report: Report) -> float:
        here = replace(study, settings=settings)
        losses: list[float] = []
        values: list[float] = []
        going = True

        def go_on(rounds: int, loss: float) -> bool:
            nonlocal going
            mean = float(np.mean([*losses, loss]))
            going = report(len(losses) * settings["rounds"] + rounds, mean if problem.lower else -mean)
            return going

        for fit, held in parts:
            booster, loss = here.tried(fit, held, go_on)
            losses.append(loss)
            values.append(here.score(booster, held)[problem.metric])
            if not going:
                break
        return float(np.mean(values))

    return attempt
