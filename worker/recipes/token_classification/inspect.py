"""What this recipe says of tagged sentences before it is trained on them."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.job import Job
from worker.recipes.common.table import BadData, Table
from worker.recipes.spans.reading import Tagged, about, tagged, tags_column
from worker.recipes.spans.reading import problems as problems_of
from worker.recipes.texts import encoder, loop

READS_TEXT = False
WHOLE = True  # rows belong together, so none is left out
_RARE = 10


def suggest_target(table: Table, *, asked: bool) -> str | None:
    """The column of tags or spans."""
    return tags_column(table, asked=asked)


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """Tags for tokens; then it suits better than any other recipe."""
    return 4.0 * float(tags_column(table, asked=False) == target)


def reads(table: Table, target: str) -> list[str]:
    """The columns with tokens, sentences or texts."""
    found = _tagged(table, target)
    return [name for key, name in found.form.items() if key != "kind"] if found else []


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this target."""
    try:
        return problems_of(tagged(table, target))
    except BadData as error:
        return [str(error)]


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    found = _tagged(table, target)
    return {"column": target, "classes": [], "missing": 0, "about": about(found) if found else "no tags of tokens"}


def warnings(table: Table, target: str) -> list[str]:
    """What people should read before they train on this target."""
    found = _tagged(table, target)
    if found is None:
        return []
    rare = [f"“{label}” ({count})" for label, count in found.labels().most_common()[::-1] if count < _RARE]
    few = [f"Labels with fewer than {_RARE} spans, hard to learn and to measure: {', '.join(rare[:8])}."]
    return [*found.said, *(few if rare else [])]


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """Only the words are learned from."""
    return []


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    settings = encoder.encoder_settings(job.settings)
    count = len(tagged(table, job.target, job.text_column).sentences)
    return loop.work(settings, count) / loop.work(encoder.encoder_settings({}), count)


def _tagged(table: Table, target: str) -> Tagged | None:
    try:
        return tagged(table, target)
    except BadData:
        return None
