"""The planner at the end of the chain: rules instead of a language model, and honest about it.

Stateless: it reads the conversation as a model would and answers with text or tool calls. It understands the everyday
requests (train, predict, status, runs, stop, logs, metrics, hosts, help) and says so when it does not understand.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent.domain.ids import new_ulid
from agent.llm.phrases import FILE, REFUSED, RUN_ID, intent_of, quoted_target, settings_in, target_in
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema

NAME = "offline planner"
UNDERSTANDS = (
    "• **train**: attach a csv and say what to predict, e.g. “train a model that predicts `churn`”\n"
    "• **predict**: attach a csv with the same columns and say “predict on this”\n"
    "• **status**, **runs**, **logs**, **metrics**, **stop**, **hosts**, **help**"
)
_TEXT_MODEL = re.compile(r"\b(text|bert|transformer|encoder)\b", re.IGNORECASE)


class OfflinePlanner:
    """A `Model` without a model."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """One reply, at once."""
        del tools  # it knows the tools by name
        asked = next((said.text for said in reversed(messages) if said.role == "user"), "")
        yield _after_tool(asked, messages) if messages[-1].role == "tool" else _to_request(asked)


def _say(text: str) -> ModelReply:
    return ModelReply(text, (), NAME)


def _call(name: str, text: str = "", **arguments: Any) -> ModelReply:
    said = {key: value for key, value in arguments.items() if value not in (None, {}, ())}
    return ModelReply(text, (ToolCall(f"call-{new_ulid()}", name, json.dumps(said)),), NAME)


def _to_request(asked: str) -> ModelReply:
    refused = REFUSED.search(asked)
    if refused:
        return _say(refused.group(1))
    file, run = FILE.search(asked), RUN_ID.search(asked.lower())
    name, run_id = file.group(1) if file else None, run.group(0) if run else None
    match intent_of(asked):
        case "help":
            return _say(f"I am Trainyard. I have no language model now and go by rules. I understand:\n{UNDERSTANDS}")
        case "train":
            return _call("inspect_dataset", "I look at the data first.", file=name, target=quoted_target(asked))
        case "predict":
            return _call("predict", run=run_id, file=name)
        case "inspect_dataset":
            return _call("inspect_dataset", file=name)
        case "run_status" | "run_logs" | "run_metrics" | "stop_run" as tool:
            return _call(tool, run=run_id)
        case "list_runs" | "list_hosts" as tool:
            return _call(tool)
        case _:
            return _say(f"I did not understand that: I have no language model and go by rules. I know:\n{UNDERSTANDS}")


def _after_tool(asked: str, messages: Sequence[ModelMessage]) -> ModelReply:
    answer = json.loads(messages[-1].text)
    if "error" in answer:
        return _say(answer["error"])
    tool = _tool_of(messages)
    if tool == "inspect_dataset":
        return _plan(asked, answer) if intent_of(asked) == "train" else _say(_what_next(answer))
    if tool == "start_training" and "approval" in answer:
        return _say("All right, nothing was started. Tell me what to change, and I ask again.")
    return _say(answer.get("text") or "Done.")


def _tool_of(messages: Sequence[ModelMessage]) -> str:
    """The tool whose answer is the last message."""
    calls = (call for said in reversed(messages) for call in said.calls)
    return next((call.name for call in calls if call.id == messages[-1].call_id), "")


def _plan(asked: str, report: dict[str, Any]) -> ModelReply:
    names = [column["name"] for column in report["columns"]]
    target, sure = target_in(asked, names)
    target = target or report.get("suggested_target")
    if target is None:
        return _say(f"Which column should I predict? The columns: {', '.join(f'`{name}`' for name in names)}.")
    settings = settings_in(asked)
    seed = settings.pop("seed", None)
    wants_text = report.get("text_column") and _TEXT_MODEL.search(asked)
    return _call(
        "start_training",
        "" if sure else f"You did not name the target, so I take `{target}`.",
        file=report["dataset"]["name"],
        target=target,
        task="text_classification" if wants_text else None,
        settings=settings,
        seed=int(seed) if seed is not None else None,
    )


def _what_next(report: dict[str, Any]) -> str:
    text = str(report["text"])
    if report.get("problems"):
        return text
    suggested = report.get("suggested_target")
    if suggested:
        return f"{text} Shall I train a model for `{suggested}`? Say “train a model that predicts `{suggested}`”."
    return f"{text} Say which column I should predict."
