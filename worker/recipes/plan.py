"""Whether a planned run can work, and how much there is to do in it; asked before people are asked.

Calls the very checks of the split and of the recipes, so that a plan is refused with the sentence with which its run
would fail. Called by the audit.
"""

from __future__ import annotations

import math
from typing import Any

from worker.recipes import boosting, encoder
from worker.recipes.columns import require_words
from worker.recipes.features import choose_features
from worker.recipes.job import Job, read_settings
from worker.recipes.loop import total_steps
from worker.recipes.prepare import usable
from worker.recipes.table import Table

_NAMED_MODEL = 18.0  # how much more a step of a usual pretrained encoder (6 layers of 768) takes than the small one's


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of the same run with the recipe's own settings.

    Raises: BadData, BadSettings where its steps would.
    """
    table, target, text = usable(table, job)
    if job.recipe == "text_classification" and text is not None:
        settings = encoder.encoder_settings(job.settings)
        require_words(table.columns[text], text)
        usual = read_settings({}, encoder.SETTINGS)
        return _encoder_work(settings, table.rows) / _encoder_work(usual, table.rows)
    settings = read_settings(job.settings, boosting.SETTINGS)
    choose_features(table, target)
    usual = read_settings({}, boosting.SETTINGS)
    return _boosting_work(settings) / _boosting_work(usual)


def _boosting_work(settings: dict[str, Any]) -> float:
    """Rounds, each as deep as a balanced tree with so many leaves."""
    return float(settings["rounds"] * math.log2(settings["num_leaves"]))


def _encoder_work(settings: dict[str, Any], rows: int) -> float:
    """Texts that pass through the layers; a text is as long as it is, whatever it may be cut to."""
    size = _NAMED_MODEL if settings["model"] else settings["layers"] * settings["hidden_size"] / 256
    return float(total_steps(settings, rows) * settings["batch_size"] * size)
