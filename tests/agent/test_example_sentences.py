"""The sentence of each example is understood without a model, as the plan of its task type."""

import json
from typing import Any, NamedTuple

import pytest

from agent.domain.tasks import TASKS
from agent.ports import AttachedFile, ModelMessage, Role
from examples.task_data import EXAMPLES
from tests.agent.planner_talk import answered, called, reply


class _Audit(NamedTuple):
    """What the audit of an example's file says, and the plan that it comes to."""

    name: str
    columns: dict[str, str]
    plan: dict[str, Any]
    text: str | None = None
    suggests: str | None = None
    type: str | None = None


def _with(task: str, target: str | None = None, **settings: Any) -> dict[str, Any]:
    said = {"task": task, "target": target, "settings": settings}
    return {key: value for key, value in said.items() if value}


_IMAGES = {"image": "image", "label": "number"}
_TEXTS = {"text": "text", "summary": "text"}
_CHATS = {"prompt": "text", "completion": "category"}
AUDITS = {
    "tabular_classification": _Audit("t.csv", {"mean radius": "number", "tumour": "category"}, {"target": "tumour"}),
    "tabular_regression": _Audit("d.csv", {"sex": "number", "progression": "number"}, {"target": "progression"}),
    "text_classification": _Audit(
        "d.csv",
        {"text": "text", "library": "category"},
        _with("text_classification", "library") | {"text_column": "text"},
        "text",
        "library",
    ),
    "token_classification": _Audit(
        "c.jsonl", {"text": "text", "spans": "text"}, _with("token_classification", "spans"), "text", "spans"
    ),
    "image_classification": _Audit(
        "digits.zip", _IMAGES, {"target": "label"}, suggests="label", type="image_classification"
    ),
    "image_regression": _Audit("turned.zip", {"image": "image", "angle": "number"}, {"target": "angle"}),
    "object_detection": _Audit(
        "b.zip", {"image": "image", "boxes": "text"}, _with("object_detection", "boxes"), suggests="boxes"
    ),
    "time_series_forecasting": _Audit(
        "co2.csv",
        {"date": "datetime", "co2": "number"},
        _with("time_series_forecasting", "co2", horizon=24),
        suggests="co2",
    ),
    "clustering": _Audit("w.csv", {"alcohol": "number", "grower": "category"}, _with("clustering", labels="grower")),
    "text_generation": _Audit(
        "s.jsonl", {"file": "identifier", "text": "text"}, _with("text_generation", "text", epochs=4), None, "text"
    ),
    "llm_finetuning": _Audit(
        "p.jsonl",
        _CHATS,
        _with("llm_finetuning", "completion", epochs=2, max_length=128),
        "prompt",
        "completion",
    ),
    "summarization": _Audit(
        "d.csv", _TEXTS, _with("summarization", "summary", epochs=1) | {"text_column": "text"}, "text", "summary"
    ),
    "translation": _Audit(
        "n.csv",
        {"english": "text", "french": "text"},
        _with("translation", "french", epochs=15) | {"text_column": "english"},
        "english",
        "french",
    ),
}


@pytest.mark.parametrize("task", TASKS)
async def test_the_sentence_of_each_example_is_a_plan_of_its_task(task: str) -> None:
    audit = AUDITS[task]
    words = EXAMPLES[task].request.replace(" @{file}", "")
    asked = ModelMessage(Role.USER, words, files=(AttachedFile(audit.name, 9, program=False),))
    (look,) = (await reply(asked)).calls
    assert look.name == "inspect_dataset"
    if not TASKS[task].asks_for_target:
        assert json.loads(look.arguments)["task"] == task
    report = {
        "text": "100 rows.",
        "dataset": {"name": audit.name},
        "columns": [{"name": column, "kind": kind} for column, kind in audit.columns.items()],
        "text_column": audit.text,
        "suggested_task": audit.type,
        "suggested_target": audit.suggests,
        "problems": [],
    }
    (plan,) = (await reply(asked, called("inspect_dataset"), answered(report))).calls
    assert plan.name == "start_training"
    assert json.loads(plan.arguments) == {"file": audit.name, **audit.plan}
