"""The planner at the end of the chain: rules instead of a language model, and honest about it.

Stateless: it reads the conversation as a model would and answers with text or tool calls. It understands the everyday
requests (train, predict, status, runs, stop, logs, metrics, hosts, help) and says so when it does not understand.
"""

import difflib
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent.domain.ids import new_ulid
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema

NAME = "offline planner"
UNDERSTANDS = (
    "• **train**: attach a csv and say what to predict, e.g. “train a model that predicts `churn`”\n"
    "• **predict**: attach a csv with the same columns and say “predict on this”\n"
    "• **status**, **runs**, **logs**, **metrics**, **stop**, **hosts**, **help**"
)
_RUN_ID = re.compile(r"\br-[0-9a-z]{6}\b")
_FILE = re.compile(r"^\[file: (.+), \d+ bytes\]$", re.MULTILINE)
_REFUSED = re.compile(r"^\[file refused: (.+)\]$", re.MULTILINE)
_NOTE = re.compile(r"^\[file[^\n]*\]$", re.MULTILINE)
_QUOTED = re.compile(r"[`\"“']([\w .\-/]{1,80})[`\"”']")
_NAMED = re.compile(r"\b(?:target|column|label)\s*(?:column\s*)?(?:is|=|:|named|called)?\s*([A-Za-z_][\w.\-]*)", re.IGNORECASE)
_VERB = re.compile(r"\b(?:predicts?|predicting|classif(?:y|ies)|forecast|tells?|guess(?:es)?)\b(.*)", re.IGNORECASE | re.DOTALL)
_SETTING = re.compile(
    r"\b(learning[ _]rate|lr|epochs?|rounds?|batch[ _]size|seed|num[ _]leaves|max[ _]steps)\b\s*(?:of|=|:|is|to)?\s*"
    r"([0-9]*\.?[0-9]+(?:e-?\d+)?)",
    re.IGNORECASE,
)
_SETTING_NAMES = {"lr": "learning_rate", "epoch": "epochs", "round": "rounds"}
_STOP_WORDS = frozenset(
    ["a", "an", "the", "of", "in", "on", "for", "from", "to", "and", "or", "is", "are", "be", "will", "would", "by", "with", "this", "that", "these", "those", "who", "what", "which", "whether", "if", "csv", "file", "data", "dataset", "model", "column", "attached", "please", "new", "can", "you", "me", "my", "our", "train", "predict"]
)
_INTENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("help", re.compile(r"^\s*(help|hi|hello|hey|what can you do|who are you)\b", re.IGNORECASE)),
    ("stop_run", re.compile(r"\b(stop|cancel|abort|kill)\b", re.IGNORECASE)),
    ("run_logs", re.compile(r"\b(logs?|output)\b", re.IGNORECASE)),
    ("list_runs", re.compile(r"\b(runs|list|history)\b", re.IGNORECASE)),
    ("list_hosts", re.compile(r"\b(hosts?|gpus?|cluster|machines?)\b", re.IGNORECASE)),
    ("train", re.compile(r"\b(train|fine-?tune|build|learn|fit)\b|\bmodel\b.*\b(predict|classif|tell)", re.IGNORECASE | re.DOTALL)),
    ("predict", re.compile(r"\b(predict(ions?)?|score|apply|try)\b", re.IGNORECASE)),
    ("run_metrics", re.compile(r"\b(metrics?|loss|accuracy|numbers|curves?|chart)\b", re.IGNORECASE)),
    ("run_status", re.compile(r"\b(status|progress|going|done|finished|ready|how far|result)\b", re.IGNORECASE)),
    ("train", re.compile(r"\b(classif|forecast|model)\w*\b", re.IGNORECASE)),
    ("inspect_dataset", re.compile(r"\b(look|inspect|audit|check|describe|what is in)\b", re.IGNORECASE)),
)


class OfflinePlanner:
    """A `Model` without a model."""

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """One reply, at once."""
        del tools  # it knows the tools by name
        asked = next((said.text for said in reversed(messages) if said.role == "user"), "")
        last = messages[-1]
        yield _after_tool(asked, messages) if last.role == "tool" else _to_request(asked)


def _say(text: str) -> ModelReply:
    return ModelReply(text, (), NAME)


def _call(name: str, text: str = "", **arguments: Any) -> ModelReply:
    said = {key: value for key, value in arguments.items() if value not in (None, {}, ())}
    return ModelReply(text, (ToolCall(f"call-{new_ulid()}", name, json.dumps(said)),), NAME)


def intent_of(asked: str) -> str | None:
    """What a request is about, by its words; a file without words means: look at it."""
    words = _NOTE.sub("", asked).strip()
    if not words:
        return "inspect_dataset" if _FILE.search(asked) else None
    for intent, pattern in _INTENTS:
        if pattern.search(words):
            return intent
    return "inspect_dataset" if _FILE.search(asked) else None


def _to_request(asked: str) -> ModelReply:
    refused = _REFUSED.search(asked)
    if refused:
        return _say(refused.group(1))
    file, run = _FILE.search(asked), _RUN_ID.search(asked.lower())
    name, run_id = file.group(1) if file else None, run.group(0) if run else None
    match intent_of(asked):
        case "help":
            return _say(
                f"I am Trainyard, without a language model right now: I go by rules. I understand:\n{UNDERSTANDS}"
            )
        case "train":
            return _call("inspect_dataset", "I look at the data first.", file=name, target=_quoted_target(asked))
        case "predict":
            return _call("predict", run=run_id, file=name)
        case "inspect_dataset":
            return _call("inspect_dataset", file=name)
        case "run_status" | "run_logs" | "run_metrics" | "stop_run" as tool:
            return _call(tool, run=run_id)
        case "list_runs" | "list_hosts" as tool:
            return _call(tool)
        case _:
            return _say(
                f"I did not understand that: I am working by rules, without a language model. I understand:\n{UNDERSTANDS}"
            )


def _after_tool(asked: str, messages: Sequence[ModelMessage]) -> ModelReply:
    answer = json.loads(messages[-1].text)
    tool = next(
        (call.name for said in reversed(messages) for call in said.calls if call.id == messages[-1].call_id), ""
    )
    if "error" in answer:
        return _say(answer["error"])
    if tool == "inspect_dataset" and intent_of(asked) == "train":
        return _plan(asked, answer)
    if tool == "inspect_dataset":
        return _say(_what_next(answer))
    if tool == "start_training" and "approval" in answer:
        return _say("All right, nothing was started. Tell me what to change, and I ask again.")
    return _say(answer.get("text") or "Done.")


def _plan(asked: str, report: dict[str, Any]) -> ModelReply:
    names = [column["name"] for column in report["columns"]]
    target, sure = target_in(asked, names)
    target = target or report.get("suggested_target")
    if target is None:
        return _say(f"Which column should I predict? The columns: {', '.join(f'`{name}`' for name in names)}.")
    note = "" if sure else f"You did not name the target, so I take `{target}`."
    settings = settings_in(asked)
    seed = settings.pop("seed", None)
    task = "text_classification" if re.search(r"\b(text|bert|transformer|encoder)\b", asked, re.IGNORECASE) else None
    return _call(
        "start_training",
        note,
        file=report["dataset"]["name"],
        target=target,
        task=task if report.get("text_column") else None,
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


def _quoted_target(asked: str) -> str | None:
    """A column that the person named beyond doubt: quoted, or after the word target or column."""
    words = _NOTE.sub("", asked)
    quoted = _QUOTED.search(words)
    if quoted:
        return quoted.group(1)
    named = _NAMED.search(words)
    return named.group(1) if named and named.group(1).lower() not in _STOP_WORDS else None


def target_in(asked: str, names: Sequence[str]) -> tuple[str | None, bool]:
    """The column that a request wants predicted, and whether the person named it."""
    said = _quoted_target(asked)
    if said is not None:
        return next((name for name in names if name.lower() == said.lower()), said), True
    words = _NOTE.sub("", asked)
    verb = _VERB.search(words)
    spoken = _tokens(verb.group(1) if verb else words)
    best, score = None, 0.0
    for name in names:
        parts = _tokens(name.replace("_", " "))
        close = sum(1 for part in parts if difflib.get_close_matches(part, spoken, 1, 0.8))
        share = close / len(parts) if parts else 0.0
        if share > score:
            best, score = name, share
    return (best, True) if score >= 0.99 else (best if score >= 0.5 else None, False)


def _tokens(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _STOP_WORDS]


def settings_in(asked: str) -> dict[str, float | int]:
    """Hyperparameters that the person stated, under the recipes' names."""
    found: dict[str, float | int] = {}
    for name, value in _SETTING.findall(_NOTE.sub("", asked)):
        key = name.lower().replace(" ", "_")
        number = float(value)
        found[_SETTING_NAMES.get(key, key)] = int(number) if number.is_integer() and "." not in value else number
    return found
