"""What a request is about, where that also depends on what was said and done before it."""

import re
from collections.abc import Sequence

from agent.llm.intents import Decision, Place, decide
from agent.llm.requests.asked import Request, columns_of, last_plan, offered, ran_program
from agent.llm.slots.runs import runs_in
from agent.llm.slots.settings import WRITING, text_in
from agent.ports import ModelMessage
from agent.tools.targets import names_a_target, values_in

_TO_TRAIN = re.compile(r"(?!\bpredict)\b\w*(?:train|build|fit|learn|model|classif|forecast)", re.IGNORECASE)
_TRAIN_WORD = re.compile(r"\b(?:re-?)?train\b", re.IGNORECASE)


def wanted(asked: Request, messages: Sequence[ModelMessage]) -> str | None:
    return decided(asked, messages).intent


def decided(asked: Request, messages: Sequence[ModelMessage]) -> Decision:
    """What a request is about, where it also depends on what was said and done before."""
    text = text_in(asked.words)
    words = asked.words.replace(text, "") if text else asked.words  # a model's text is no request
    has_runs = bool(last_plan(messages) or runs_in(words)) or ran_program(messages)
    decided = decide(words, Place(bool(asked.files), has_runs, columns_of(messages)))
    intent = _in_context(decided.intent, asked, messages)
    return decided if intent == decided.intent else Decision(intent)


def _in_context(intent: str | None, asked: Request, messages: Sequence[ModelMessage]) -> str | None:
    if intent in (None, "inspect_dataset", "predict", "train") and WRITING.search(asked.words):
        return "train" if asked.files else "predict"
    if intent == "again" and runs_in(asked.words):
        return "clone_run"
    if intent == "again" and not (last_plan(messages) or ran_program(messages)):
        return "train" if asked.files or _TRAIN_WORD.search(asked.words) else None
    if intent == "yes" and offered(messages) is None:
        return None
    before = last_plan(messages).get("target")
    if intent == "train" and not asked.files and before and not _TO_TRAIN.search(asked.words):
        return "predict" if values_in(asked.words, columns_of(messages)) else "train"
    if intent == "train" and asked.files and before and not _TO_TRAIN.search(asked.words):
        return "train" if names_a_target(asked.words, but=before) else "predict"
    if intent == "predict" and asked.files and not runs_in(asked.words) and names_a_target(asked.words, but=before):
        return "train"  # no model here predicts that, and a file with a column to learn came with it
    return intent
