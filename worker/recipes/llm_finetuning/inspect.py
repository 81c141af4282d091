"""What this recipe says of conversations before an LLM is tuned on them."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.columns import find_column
from worker.recipes.common.job import Job
from worker.recipes.common.table import BadData, Table
from worker.recipes.language.examples import (
    Example,
    answer_column,
    examples_of,
    further_columns,
    left_out,
    prompt_column,
)
from worker.recipes.llm_finetuning.settings import tuning_settings, work

__all__ = [
    "READS_TEXT",
    "describe",
    "effort",
    "examples",
    "fits",
    "leaks",
    "problems",
    "reads",
    "source_of",
    "warnings",
]
READS_TEXT = True
HUB_TASK = "text-generation"


def suggest_target(table: Table, *, asked: bool) -> str | None:
    """The column with the answers, by its name or because it holds chats."""
    return answer_column(table, asked_for=asked)


def source_of(table: Table, target: str) -> str | None:
    """The column with the prompts."""
    return prompt_column(table, target)


def reads(table: Table, _target: str) -> list[str]:
    """Further columns that a conversation is made of."""
    return further_columns(table)


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """Columns that are named as such files name them."""
    return 4.0 * float(answer_column(table, asked_for=False) == target)


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on these rows."""
    try:
        examples_of(table, target, prompt_column(table, target))
    except BadData as error:
        return [str(error)]
    return []


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    missing = sum(not cell.strip() for cell in table.columns[target])
    about = "answers to learn to give"
    return {"column": target, "classes": [], "missing": missing, "imbalance": 0.0, "about": about}


def warnings(table: Table, target: str) -> list[str]:
    """What was read, in a sentence."""
    try:
        found = examples_of(table, target, prompt_column(table, target))
    except BadData as error:
        return [str(error)]
    empty = left_out(table, found)
    if found[0].worse:
        return [*empty, f"{len(found):,} preferences: two answers to a prompt, the better one first (for DPO)."]
    chars = sum(len(example.answer) for example in found) / len(found)
    return [*empty, f"{len(found):,} answers of {chars:,.0f} characters in the mean, in {table.rows:,} conversations."]


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """What stands in a prompt is meant to be read."""
    return []


def examples(table: Table, job: Job) -> list[Example]:
    """What the run learns from. Raises: BadData."""
    target = find_column(table, job.target)
    prompts = find_column(table, job.text_column, role="text") if job.text_column else prompt_column(table, target)
    return examples_of(table, target, prompts)


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    found = examples(table, job)
    return work(tuning_settings(job.settings, found), len(found)) / work(tuning_settings({}, found), len(found))
