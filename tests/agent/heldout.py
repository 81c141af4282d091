"""How well the planner without a model reads sentences whose author had not seen it.

Tables: the errors of the held-out sentences and of the blind tables were looked at while the planner was made, those of
`J` and `K` after it; of `T` to `Y` some wordings were learned. Those of `B`, `S` and `Z` were not looked at: only their
totals ever are, and whoever mends the planner by a single sentence of them leaves nothing to measure with. `J`, `K` and
`T` to `Z` are what a team types in a month of working days, by ten writers; `S` was written to be hard.

Each sentence is said in a small conversation (`*_contexts.json`) and followed through its look-ups; its last call
is judged. A run with changes may be planned as a copy of a run (`clone_run`) or as the thread's plan once more: those
who approve it see the same plan. `python -m tests.bench --only planner` shows the figures.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agent.domain.runs import RunState
from agent.ports import AttachedFile, ModelMessage, ModelReply, Role, RunNow, ToolCall, ToolSchema

HERE = Path(__file__).parent
LOOK_UPS = frozenset({"inspect_dataset", "fetch_data", "list_experiments"})  # a request may go on after their answer
ACTS = frozenset(
    {
        *("pause_run", "resume_run", "stop_run", "retry_run", "set_priority", "set_card", "prefer_model"),
        *("set_allowance", "set_budget", "new_session", "undo_turn", "compact_session"),
    }
)
PLANS = frozenset(
    {
        *("start_training", "start_script", "clone_run", "update_script", "serve_model", "kill_run"),
        *("evaluate_model", "predict_as_job", "forget_person"),
    }
)
MOST_STEPS = 5
FILE, TARGET, PLANNED = "churn.csv", "churned", {"learning_rate": 0.1, "rounds": 500}  # of the newest run
_SPACED = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
_KINDS = {"category": "category", "number": "number", "date": "datetime", "text": "text", "id": "identifier"}


class Planner(Protocol):
    """What is judged."""

    def stream(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> AsyncIterator[str | ModelReply]:
        """One reply."""
        ...


class Said(NamedTuple):
    """A sentence, where it is said, and the calls that are right; none: nothing may be done that changes anything."""

    id: str
    language: str
    words: str
    context: str
    right: tuple[tuple[str, dict[str, Any]], ...]


class Verdict(NamedTuple):
    """What was made of a sentence: the last call, or none; `kind` is right, asked, nothing, look, plan or act.

    The last three are wrong: a look changes nothing, a plan is shown to people first, an act is done at once.
    """

    said: Said
    tool: str
    arguments: dict[str, Any]
    kind: str


def sentences(table: str = "heldout") -> list[Said]:
    """The committed ones: `heldout`, or the blind ones of a table such as `A`."""
    file = HERE / ("heldout_sentences.jsonl" if table == "heldout" else "blind_sentences.jsonl")
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [
        Said(
            str(row["id"]),
            row["lang"],
            row["say"],
            row["context"],
            tuple((way["tool"], way["arguments"]) for way in (row, *row["accept"]) if way["tool"]),
        )
        for row in rows
        if row.get("table", table) == table
    ]


def contexts() -> dict[str, Any]:
    """Where they are said."""
    files = (HERE / f"{name}_contexts.json" for name in ("heldout", "blind"))
    return {
        name: place
        for file in files
        for name, place in json.loads(file.read_text(encoding="utf-8"))["contexts"].items()
    }


async def judged(planner: Planner, table: str = "heldout") -> list[Verdict]:
    """What a planner makes of each sentence of a table."""
    return await judged_of(planner, sentences(table))


async def judged_of(planner: Planner, said: Sequence[Said]) -> list[Verdict]:
    """What a planner makes of some sentences."""
    places = contexts()
    return [await _judged(planner, one, places) for one in said]


async def _judged(planner: Planner, said: Said, places: Mapping[str, Any]) -> Verdict:
    place = places[said.context]
    runs = place.get("runs", ())
    files = place.get("files", ()) if place.get("attached") or not runs else ()
    reports = [_report(file) for file in (*files, *(places["churn"]["files"] if runs else ()))]
    attached = tuple(AttachedFile(file["name"], 9, None if _may_run(file) else False) for file in files)
    serves = (RunNow("r-serves", RunState.RUNNING),) if place.get("serves") else ()
    now = (*serves, *(RunNow(run["id"], RunState(run["state"])) for run in runs))
    messages = [*_before(runs, places), ModelMessage(Role.USER, said.words, files=attached, runs=now)]
    call: ToolCall | None = None
    for _ in range(MOST_STEPS):
        (reply,) = [piece async for piece in planner.stream(messages, ())]
        assert isinstance(reply, ModelReply)
        if not reply.calls:
            break
        call = reply.calls[-1]
        wanted = {tool for tool, _ in said.right}
        if call.name not in LOOK_UPS or (call.name in wanted and call.name != "inspect_dataset"):
            break
        messages += [ModelMessage(Role.ASSISTANT, "", reply.calls), _answer(call, reports, runs)]
    arguments = json.loads(call.arguments) if call else {}
    ask = call is not None and call.name == "ask_user"
    if reports and call and call.name == "start_training":
        arguments = {"task": _of_file(reports, call)["suggested_task"]} | arguments
    kind = "asked" if ask and said.right else _kind(said, call.name if call else "", arguments, place)
    return Verdict(said, call.name if call else "", arguments, kind)


def _kind(said: Said, tool: str, arguments: Mapping[str, Any], place: Mapping[str, Any]) -> str:
    changes = "act" if tool in ACTS else "plan" if tool in PLANS else ""
    if not said.right:
        return changes or "right"
    runs = place.get("runs", ())
    for name, wanted in said.right:
        copies = name == "clone_run" and tool == "start_training" and arguments.get("target") == TARGET
        if copies:  # the plan before, with what is wanted otherwise and nothing else
            stays = {"file": FILE, "target": TARGET, "settings": PLANNED | wanted.get("settings", {})}
            changed = {key: value for key, value in wanted.items() if key not in {"settings", "run"}}
            task = {"task"} - wanted.keys()  # which the data suggest
            right = {key: value for key, value in arguments.items() if value is not None and key not in task} == (
                stays | changed
            )
        else:
            right = tool == name and all(_same(arguments.get(key), value, key, runs) for key, value in wanted.items())
        if right:
            return "right"
    return (changes or "look") if tool else "nothing"


def _same(given: Any, wanted: Any, key: str, runs: Sequence[Any]) -> bool:
    if key == "run" and given is None:
        return len(runs) == 1  # the only one of the thread
    if key == "file" and given is None:
        return bool(wanted == FILE)  # the newest one of the thread
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(given.get(name) == value for name, value in wanted.items())
    if key == "rows" and given:  # an empty cell is one that was not said
        given = [{name: cell for name, cell in row.items() if cell} for row in given]
    if key == "metrics":
        given, wanted = ([name.replace("/", " ") for name in names or ()] for names in (given, wanted))
    if key == "drop_columns" and given:
        given, wanted = sorted(given), sorted(wanted)
    if key == "runs":
        return not given or set(given) == set(wanted)  # the newest two of the thread
    return bool(given == wanted) or str(given) == str(wanted)  # amounts of a budget are words: 50, none, 2M


def _may_run(file: Mapping[str, Any]) -> bool:
    return "images" not in file and "task" not in file  # what was read as data is no program


def _of_file(reports: Sequence[dict[str, Any]], call: ToolCall) -> dict[str, Any]:
    """The report of the file that a call names, or of the newest one."""
    name = json.loads(call.arguments).get("file")
    return next((report for report in reports if report["dataset"]["name"] == name), reports[0])


def _answer(call: ToolCall, reports: Sequence[dict[str, Any]], runs: Sequence[Mapping[str, Any]]) -> ModelMessage:
    said: dict[str, Any] = {"error": "There is no file in this thread. Attach one."}
    if call.name == "inspect_dataset" and reports:
        said = _of_file(reports, call)
    elif call.name == "fetch_data":
        said = {"text": "I fetched it.", "file": "fetched.csv"}
    elif call.name == "list_experiments":
        said = {"text": "", "experiments": [{"run": run["id"]} for run in reversed(runs)]}
    return ModelMessage(Role.TOOL, json.dumps(said), call_id=call.id)


def _report(file: Mapping[str, Any]) -> dict[str, Any]:
    columns = [
        {"name": name, "kind": _KINDS[about.split(":")[0].split(",")[0].split()[0]], "values": _values(about)}
        for name, about in file.get(
            "columns", {"image": "text", "label": "category"} if "images" in file else {}
        ).items()
    ]
    texts = [column["name"] for column in columns if column["kind"] == "text"]
    categories = [column["name"] for column in columns if column["kind"] == "category"]
    return {
        "text": "1,000 rows.",
        "dataset": {"name": file["name"]},
        "columns": columns,
        "text_column": next(iter(texts), None),
        "suggested_task": file.get("task", "image_classification" if "images" in file else None),
        "suggested_target": next(reversed(categories), columns[-1]["name"] if columns else None),
        "spacing": _spacing(file.get("columns", {})),
        "problems": [],
    }


def _spacing(columns: Mapping[str, str]) -> str:
    """How far apart the rows are: “date, hourly”, or the unit that the column of dates is called by."""
    said = next((_SPACED[word] for word in _SPACED if word in str(columns)), "")
    return said or next((name for name, about in columns.items() if about == "date" and name in _SPACED.values()), "")


def _values(about: str) -> list[str]:
    """Those of a column of few: “category: basic, plus, pro”."""
    return about.split(": ", 1)[1].split(", ") if ": " in about else []


def _before(runs: Sequence[Mapping[str, Any]], places: Mapping[str, Any]) -> Iterator[ModelMessage]:
    """The conversation in which the runs of a context were started, the newest last."""
    file = places["churn"]["files"][0]
    for at, run in enumerate(reversed(runs)):
        settings = PLANNED | ({"learning_rate": 0.05} if run["id"] == "r-def456" else {})
        plan = {"file": FILE, "target": TARGET, "settings": settings}
        looks = ToolCall(f"l{at}", "inspect_dataset", "{}")
        starts = ToolCall(f"s{at}", "start_training", json.dumps(plan))
        yield ModelMessage(Role.USER, f"train a model that predicts `{TARGET}`", files=(AttachedFile(FILE, 9),))
        yield ModelMessage(Role.ASSISTANT, "I look at the data first.", (looks,))
        yield ModelMessage(Role.TOOL, json.dumps(_report(file)), call_id=looks.id)
        yield ModelMessage(Role.ASSISTANT, "", (starts,))
        told = {"approval": "approved", "run": run["id"], "text": f"Run `{run['id']}` was started."}
        yield ModelMessage(Role.TOOL, json.dumps(told), call_id=starts.id)
        yield ModelMessage(Role.ASSISTANT, f"Run `{run['id']}` was started.")


def words_of(sentence: str) -> str:
    """A sentence without its signs and names, by which it is found again in the planner's table."""
    named = re.sub(r"\{it\}|\{run\}|r-[0-9a-z]{6}", "run", sentence.lower())
    return " ".join(re.findall(r"\w+", named))
