"""Conversations with the offline planner, made by hand."""

import json
from collections.abc import Sequence
from typing import Any

from agent.brain import Brain
from agent.domain.content import Card
from agent.llm.offline import OfflinePlanner
from agent.ports import AttachedFile, ModelMessage, ModelReply, Role, ToolCall
from tests.agent.conftest import Harness
from tests.fakes import said

REPORT = {
    "text": "1,000 rows.",
    "dataset": {"name": "visits.csv"},
    "columns": [{"name": name} for name in ("age", "health", "visited_doctor")],
    "suggested_target": "visited_doctor",
    "problems": [],
}


async def reply(*messages: ModelMessage) -> ModelReply:
    (answer,) = [piece async for piece in OfflinePlanner().stream(messages, ())]
    assert isinstance(answer, ModelReply)
    return answer


def user(text: str, *files: str) -> ModelMessage:
    return ModelMessage(Role.USER, text, files=tuple(AttachedFile(name, 9) for name in files))


def called(name: str, call_id: str = "c1", **arguments: Any) -> ModelMessage:
    return ModelMessage(Role.ASSISTANT, "", (ToolCall(call_id, name, json.dumps(arguments)),))


def answered(answer: dict[str, Any], call_id: str = "c1") -> ModelMessage:
    return ModelMessage(Role.TOOL, json.dumps(answer), call_id=call_id)


def planned(**arguments: Any) -> Sequence[ModelMessage]:
    """A conversation in which one plan was made and rejected."""
    return (
        user("train a model that predicts `visited_doctor`", "visits.csv"),
        called("inspect_dataset"),
        answered(REPORT),
        called("start_training", "c2", file="visits.csv", target="visited_doctor", **arguments),
        answered({"approval": "rejected"}, "c2"),
        ModelMessage(Role.ASSISTANT, "All right, nothing was started."),
    )


TEXTS = REPORT | {
    "dataset": {"name": "docstrings.csv"},
    "columns": [{"name": "text"}, {"name": "library"}],
    "suggested_target": "library",
}


async def after_a_look(words: str, report: dict[str, Any]) -> ModelReply:
    """What follows the audit of the file that came with a request."""
    name = report["dataset"]["name"]
    return await reply(user(words, name), called("inspect_dataset"), answered(report))


def started(run: str, call_id: str) -> Sequence[ModelMessage]:
    """A conversation in which a run was started."""
    return (
        user("train a model that predicts `health`", "visits.csv"),
        called("start_training", call_id, file="visits.csv", target="health"),
        answered({"approval": "approved", "run": run, "text": ""}, call_id),
    )


SALES: dict[str, Any] = {
    "text": "",
    "dataset": {"name": "sales.csv"},
    "columns": [
        {"name": "day", "kind": "datetime"},
        {"name": "units", "kind": "number"},
        {"name": "shop", "kind": "category"},
    ],
    "suggested_target": "shop",
    "suggested_task": "time_series_forecasting",
}


async def after_a_run(words: str, report: dict[str, Any], **plan: Any) -> ModelReply:
    """What is made of words where a run was started on data with this report."""
    plans = ("inspect_dataset", {"file": "sales.csv"}), ("start_training", {"file": "sales.csv", **plan})
    said = [user("train on this", "sales.csv")]
    for number, ((name, arguments), found) in enumerate(zip(plans, (report, {"run": "r-abc123"}), strict=True)):
        said += [called(name, f"c{number}", **arguments), answered(found, f"c{number}")]
    return await reply(*said, user(words))


async def question(harness: Harness, brain: Brain, words: str) -> Card:
    """The card that asks which of two readings is meant."""
    await brain.router.accept(said(words))
    await harness.until(lambda: any(c.card and "A question" in c.card.title for c in harness.adapter.shown))
    await brain.router.idle()
    return next(c.card for c in harness.adapter.shown if c.card and "A question" in c.card.title)
