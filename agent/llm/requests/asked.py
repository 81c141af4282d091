"""The newest request of a conversation, and what was planned and looked at before it."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent.domain.sources import address_in
from agent.llm.intents import decide
from agent.llm.places import Place
from agent.llm.slots.changes import with_sums
from agent.llm.slots.courtesy import without_courtesy, written_out
from agent.llm.slots.files import file_in, file_named
from agent.llm.slots.idioms import with_amounts
from agent.llm.slots.limits import MACHINE
from agent.llm.slots.numbers import in_figures
from agent.llm.slots.runs import RUN_ID, by_id, by_rank, by_settings, by_state, runs_in
from agent.ports import ModelMessage, Role
from agent.tools.training.command_lines import settings_of

NEITHER, WITHOUT_IT = "something else", "go on without it"  # answers to questions of this planner
NOT_READ, WHICH_TARGET, OF_WHICH = "I did not understand ", "Which column should I predict?", "Which run do you mean?"
WHICH_FILE = "Which file should I learn from?"
LEFT_OPEN = (
    NOT_READ,
    WHICH_FILE,
    WHICH_TARGET,
    OF_WHICH,
)  # how questions begin whose answer belongs to the request
# The verb, where a column is called so too.
_PLAN_ONE = re.compile(r"\bplan(?= (?:an?|one|another|the same|it|this|that|me|us)\b)", re.IGNORECASE)
_ON_HOST = re.compile(rf"\b(?:on|auf|sur|en|from)\s+(?:the\s+)?(?:host\s+)?({MACHINE})\b", re.IGNORECASE)
_MOST_READ = 1_000  # characters of a request; some patterns take their time on long texts
_OF_A_MODEL = frozenset({"predict", "start_training", "clone_run"})
_PROGRAMS = frozenset({"start_script", "clone_run"})
_GOES_ON = frozenset({None, "train", "again", "clone_run", "predict", "yes", "no", "unclear", "later"})
_STARTS = frozenset({"start_training", "start_script"})


class Request(NamedTuple):
    """A request: its words, and the names of the files and of the programs among them that came with it."""

    words: str  # with figures, and with settings and the like in English
    said: str
    files: tuple[str, ...]
    programs: tuple[str, ...]
    answers: bool = False  # our question which of two readings was meant
    settled: bool = False  # whatever was not read of it is to be left out
    otherwise: str = ""  # the answer that says in other words what was not read; the rest of it is settled

    @property
    def to_read(self) -> str:
        """The words of which nothing may be dropped in silence."""
        return "" if self.settled else self.otherwise or self.words

    @property
    def file(self) -> str | None:
        """The one of its files that is named, or another one that it names, or the first of its own, of data rather."""
        first = sorted(self.files, key=self.programs.__contains__)
        return file_in(self.words, self.files) or file_named(self.words) or next(iter(first), None)


def newest(messages: Sequence[ModelMessage]) -> tuple[int, ModelMessage, str]:
    """Where the newest words of a person stand, and they; an answer to a question counts, as do the files before it.

    The answer to what was left open in a request is added to its words; what was not read is said in it once more,
    and it is given alone too.
    """
    questions = (call for said in messages for call in said.calls if call.name == "ask_user")
    asked = {call.id: str(as_object(call.arguments).get("question")) for call in questions}
    before = next((said.files for said in reversed(messages) if said.role is Role.USER), ())
    added: tuple[str, ...] = ()
    otherwise = ""
    for at in range(len(messages) - 1, -1, -1):
        said = messages[at]
        if said.role is Role.USER:
            return at, replace(said, text="; ".join((said.text, *added))), otherwise
        words = str(as_object(said.text).get("text", "")).partition(" answered: ")[2] if said.call_id in asked else ""
        question = asked.get(said.call_id or "", "")
        if words and words != NEITHER and question.startswith(LEFT_OPEN) and not _stands_alone(words, question):
            added = (words, *added)
            otherwise = otherwise or (words if question.startswith(NOT_READ) else "")
        elif words:
            return at, replace(said, text="; ".join((words, *added)), files=said.files or before), otherwise
    return -1, ModelMessage(Role.USER, ""), ""


def _stands_alone(answer: str, question: str) -> bool:
    """Whether the answer to a question is a request of its own, such as another question."""
    if len(answer.split()) < 3 or (question.startswith(OF_WHICH) and runs_in(answer)):
        return False
    return decide(answer, Place(has_runs=True)).intent not in _GOES_ON


_ON_THE_HUB = re.compile(  # “load imdb from hugging face”
    r"\b(?:load|fetch|get|take|grab|pull|download)\s+(?:the\s+)?(?!(?:data|it|this|that|them|weights?|models?|files?"
    r"|rows?|tokenizer|pretrained|one|something)\b)([\w-][\w.-]*(?:/[\w.-]+)?)\s+(?:(?:data ?set|data|corpus)\s+)?"
    r"(?:from|off)\s+(?:the\s+)?(?:hugging ?face|hf hub|hub)\b(?: hub\b)?",
    re.IGNORECASE,
)


def request_of(
    said: ModelMessage, messages: Sequence[ModelMessage], begun: int, otherwise: str = ""
) -> tuple[Request, str | None]:
    """A request without the address of its data, whose file counts as its own once it was fetched; the address.

    `otherwise` is the end of it that says in other words what was not read.
    """
    files = tuple(file.name for file in said.files)
    programs = tuple(file.name for file in said.files if file.is_program)
    text = said.text.removesuffix(f"; {WITHOUT_IT}")
    settled = text != said.text
    text = _ON_THE_HUB.sub(lambda found: f"hf:{found[1]}", text)
    address = address_in(text)
    otherwise = _read(otherwise, messages)
    if address is None:
        words = _shortened(text)
        answers = said.role is Role.TOOL
        return Request(_read(words, messages), words, files, programs, answers, settled, otherwise), None
    calls = {call.id for later in messages[begun:] for call in later.calls if call.name == "fetch_data"}
    found = (as_object(later.text) for later in messages[begun:] if later.call_id in calls)
    fetched = tuple(answer["file"] for answer in found if "file" in answer)
    words = _shortened(text.replace(address, " "))
    if address.startswith("/") and (host := _ON_HOST.search(words)):
        address = f"{host[1]}:{address}"  # “on gpu-1, under /data/houses.csv”
    files = (*fetched, *files)
    return Request(_read(words, messages), words, files, programs, False, settled, otherwise), address


def _shortened(asked: str) -> str:
    return without_courtesy(written_out(asked.strip()[:_MOST_READ]))


def _read(asked: str, messages: Sequence[ModelMessage]) -> str:
    """A request as the readers take it: with figures, runs by their ids, and what is added to a setting added."""
    columns = columns_of(messages)
    asked = _PLAN_ONE.sub("train", asked) if "plan" in columns else asked
    words = with_amounts(in_figures(asked, keep=columns), keep=columns)
    runs = started(messages)
    words = by_settings(words, {run: plan_of(messages, run).get("settings") or {} for run in runs})
    now = {run.id: run.state for run in next((said.runs for said in reversed(messages) if said.runs), ())}
    words = by_rank(by_id(by_state(words, now), _listed(messages) or runs), ranked(messages))
    return with_sums(words, plan_of(messages, next(iter(runs_in(words)), None)).get("settings") or {})


def _listed(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The runs in the order in which they were named last, before the newest words of a person; of several."""
    asked = [at for at, said in enumerate(messages) if said.role is Role.USER]
    for said in reversed(messages[asked[-2] + 1 : asked[-1]] if len(asked) > 1 else ()):
        named = tuple(dict.fromkeys(RUN_ID.findall(said.text)))
        if len(named) > 1:
            return named
    return ()


def ranked(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The runs by their result, the best first, where that was looked up since the newest words of a person."""
    answer = as_object(messages[-1].text) if messages and messages[-1].role is Role.TOOL else {}
    return tuple(str(one["run"]) for one in answer.get("experiments") or () if "run" in one)


def started(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The runs that were started in this conversation, the oldest first."""
    runs = (as_object(said.text).get("run") for said in messages if said.role is Role.TOOL and '"run"' in said.text)
    return tuple(dict.fromkeys(run for run in runs if isinstance(run, str)))


def columns_of(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The columns of the data that was looked at last."""
    return tuple(str(column["name"]) for column in report_of(messages).get("columns", ()) if "name" in column)


def report_of(messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """The report on the data that were looked at last; empty without one."""
    answers = (
        as_object(said.text) for said in reversed(messages) if said.role is Role.TOOL and '"columns"' in said.text
    )
    return next((answer for answer in answers if "columns" in answer and "dataset" in answer), {})


def offered(messages: Sequence[ModelMessage]) -> str | None:
    """The target that our last words before the request offered to train for."""
    asked = max((index for index, said in enumerate(messages) if said.role is Role.USER), default=0)
    ours = (said for said in reversed(messages[:asked]) if said.role is Role.ASSISTANT)
    return next((said.offers for said in ours), "") or None


def last_plan(messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """The arguments of the newest plan of this conversation; empty without one."""
    calls = (call for said in reversed(messages) for call in reversed(said.calls) if call.name == "start_training")
    plan = next((as_object(call.arguments) for call in calls), {})
    return {name: value for name, value in plan.items() if name != "instead"}


def plan_waits(messages: Sequence[ModelMessage]) -> bool:
    """Whether people have not decided about the newest plan."""
    answered = {said.call_id for said in messages if said.role is Role.TOOL}
    calls = (call for said in reversed(messages) for call in reversed(said.calls) if call.name == "start_training")
    return next((call.id not in answered for call in calls), False)


def plan_of(messages: Sequence[ModelMessage], run: str | None) -> dict[str, Any]:
    """The arguments of the plan that a run came from; of the newest plan, where none is named or it is not known."""
    answers = {said.call_id: as_object(said.text).get("run") for said in messages if said.role is Role.TOOL and run}
    calls = (call for said in reversed(messages) for call in said.calls if call.name == "start_training")
    of_run = (as_object(call.arguments) for call in calls if answers.get(call.id) == run)
    return (next(of_run, None) if run else None) or last_plan(messages)


def last_row(messages: Sequence[ModelMessage]) -> dict[str, str]:
    """The row that was predicted last, as far as it was said; empty where no prediction of one is the newest call."""
    calls = (call for said in reversed(messages) for call in reversed(said.calls) if call.name in _OF_A_MODEL)
    made = next(calls, None)
    rows: Sequence[dict[str, str]] = (
        as_object(made.arguments).get("rows") or [] if made and made.name == "predict" else []
    )
    return {name: cell for name, cell in rows[0].items() if cell} if len(rows) == 1 else {}


def program_settings(messages: Sequence[ModelMessage]) -> dict[str, Any]:
    """The numbers that the newest program of somebody's own was given, under the names of settings."""
    calls = [call for said in reversed(messages) for call in reversed(said.calls) if call.name in _PROGRAMS]
    given = [as_object(call.arguments) for call in calls]
    begun = next((number for number, call in enumerate(calls) if call.name == "start_script"), len(calls) - 1)
    found: dict[str, Any] = {}
    for one in reversed(given[: begun + 1]):  # a copy has what is not said of it
        found |= settings_of(one.get("arguments") or "") | (one.get("settings") or {})
    return found


def ran_program(messages: Sequence[ModelMessage]) -> bool:
    """Whether the newest plan of this conversation was a program of somebody's own."""
    plans = (call.name for said in reversed(messages) for call in reversed(said.calls) if call.name in _STARTS)
    return next(plans, "") == "start_script"


def as_object(text: str) -> dict[str, Any]:
    """What a model wrote as arguments; empty where that is not an object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
