"""The commands: one registry for `/train …`, `!train …`, `@bot status`, the buttons, and the help text.

A command is another way to call a tool: the dispatcher applies the same rules to it as to a model's call. What people
must approve first is called within a turn (`call_in`), so that its question is asked and answered like any other.
"""

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.domain.content import Card, Content
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id, new_ulid
from agent.domain.policy import Effect
from agent.domain.runs import PRIORITIES
from agent.ports import ModelMessage, ToolCall
from agent.tools.cards.card_views import CARD_WORDS, card_arguments
from agent.tools.charts.chart_views import view_of as chart_view_of
from agent.tools.charts.chart_words import RESULT_WORDS, SMOOTH_WORDS, USAGE_WORDS, arguments_of
from agent.tools.dispatch import Dispatcher, NeedsApproval
from agent.tools.runs.log_views import view_in, view_of
from agent.tools.runs.resulting import results_arguments
from agent.tools.tool import Caller
from agent.tools.training.programs import REQUIREMENTS, is_program

Parser = Callable[[str, Sequence[str]], dict[str, Any]]
AROUND_IDS = "`,.<>;:"  # what people write around an id: it stands in backticks in what the bot writes
MOST_COMPARED = 5


def _run_id(word: str) -> str:
    if not is_run_id(word.lower()):
        raise BadRequest(f"`{word[:60]}` is not a run id. Run ids look like `r-abc123`; `runs` lists them.")
    return word.lower()


def _plain_ids(words: Sequence[str]) -> tuple[str, ...]:
    """The words, run ids without what is written around them."""
    plain = ((word, word.strip(AROUND_IDS)) for word in words)
    return tuple(bare if is_run_id(bare.lower()) else word for word, bare in plain)


def _nothing(name: str, rest: Sequence[str]) -> dict[str, Any]:
    if [word.lower() for word in rest] not in ([], ["info"]):
        raise BadRequest(f"`{name}` takes nothing more.")
    return {}


def _one_run(name: str, rest: Sequence[str]) -> dict[str, Any]:
    if len(rest) > 1:
        raise BadRequest(f"`{name}` takes one run id.")
    return {"run": _run_id(rest[0])} if rest else {}


def _logs(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    """`[run] [words] [level=error] [older]`, `[run] file`; the run may be a page's subject from a button."""
    view = view_of(rest[0]) or view_of(rest[0].lower()) if rest else None  # what a button carries keeps its case
    if rest and view is None and rest[0].lower().startswith("r-"):
        _run_id(rest[0])
    words = rest[1:] if view is not None else rest
    if [word.lower() for word in words] == ["file"]:
        return ({"run": view.run} if view else {}) | {"file": True}
    older = bool(words) and words[-1].lower() == "older"
    asked = view_in(words[:-1] if older else words)
    found = {
        "run": view.run if view else None,
        "level": asked.level or (view.level if view else None),
        "search": asked.search or (view.search if view else "") or None,
        "before": view.before if view else None,
        "older": older or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _metrics(name: str, rest: Sequence[str]) -> dict[str, Any]:
    forms = {word.lower() for word in rest} & {"csv", "parquet", "usage"}
    found = _one_run(name, [word for word in rest if word.lower() not in forms])
    return found | dict.fromkeys(forms, True)


def _chart(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    return arguments_of(rest)


def _card(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    return card_arguments(rest)


def _results(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    return results_arguments(rest)


def _priority(name: str, rest: Sequence[str]) -> dict[str, Any]:
    """`[run] high`; from a button both are one subject."""
    *runs, level = rest[0].split(".") if len(rest) == 1 else rest or ("",)
    level = {"+1": "high", "1": "high", "0": "normal", "-1": "low"}.get(level, level)
    if level.lower() not in PRIORITIES:
        raise BadRequest("Say which run and how soon: `priority r-abc123 high` (or normal, or low).")
    return _one_run(name, runs) | {"priority": level.lower()}


def _compare(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    runs = [_run_id(word.strip(",")) for word in rest if word.lower() not in {"and", "with"}]
    if len(runs) == 1 or len(runs) > MOST_COMPARED:
        raise BadRequest(f"`compare` takes two to {MOST_COMPARED} run ids, such as `compare r-abc123 r-def456`.")
    return {"runs": runs} if runs else {}


def _experiments(name: str, rest: Sequence[str]) -> dict[str, Any]:
    said = {word.lower() for word in rest}
    if not said <= {"all", "tree"}:
        raise BadRequest(f"`{name}` takes `all`, for the runs of all threads, and `tree`, for which came from which.")
    return ({"everywhere": True} if "all" in said else {}) | ({"tree": True} if "tree" in said else {})


def _script(name: str, rest: Sequence[str]) -> dict[str, Any]:
    versions = [word.lower().removeprefix("v") for word in rest if _VERSION.fullmatch(word)]
    found = _one_run(name, [word for word in rest if not _VERSION.fullmatch(word)])
    if len(versions) > 1:
        raise BadRequest("`script` takes one version, such as `script r-abc123 1`.")
    return found | ({"version": int(versions[0])} if versions else {})


_VERSION = re.compile(r"[vV]?\d{1,9}", re.ASCII)
_KEYS = {"hours": "max_hours", "retries": "auto_resume", "args": "arguments"}
_SPEC = frozenset(
    {"target", "seed", "test_frac", "max_hours", "gpus", "network", "host", "engine", "auto_resume", "priority"}
)
_CLONE_SPEC = _SPEC | {"repack", "arguments"}
_START_SPEC = _SPEC | {"file", "task", "text_column"}
_SCRIPT_TEXTS = frozenset({"entry", "network", "host", "engine", "priority", "requirements"})
_SCRIPT_SPEC = _SCRIPT_TEXTS | {"max_hours", "gpus", "auto_resume"}
_SCRIPT_LISTS = frozenset({"data", "secrets"})


def _clone(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    """`[run] key=value …`: what decides about a run by its own name, everything else is a hyperparameter."""
    rest = _quoted(rest)
    if rest and "=" not in rest[0]:
        return {"run": _run_id(rest[0])} | _changes(rest[1:], _CLONE_SPEC)
    return _changes(rest, _CLONE_SPEC)


def _quoted(words: Sequence[str]) -> Sequence[str]:
    """Words in which a quoted value, such as `args="--lr 0.1"`, is one."""
    if not any('"' in word for word in words):
        return words
    try:
        return shlex.split(" ".join(words))
    except ValueError as error:
        raise BadRequest(f"I cannot read `{' '.join(words)[:100]}`: {error}.") from None


def _start(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    """`[target] key=value …`, as for a clone; the newest data of the thread where no file is named."""
    if rest and is_run_id(rest[0].lower()):
        raise BadRequest(f"`start` makes a run of its own. For `{rest[0]}` once more there are `retry` and `clone`.")
    program = next((word for word in rest if is_program(word.strip("`,").removeprefix("file="))), None)
    if program is not None:
        name = program.strip("`,").removeprefix("file=")
        return {"file": name} | _script_changes([word for word in rest if word != program])
    if rest and "=" not in rest[0]:
        return {"target": rest[0].strip("`,")} | _changes(rest[1:], _START_SPEC)
    return _changes(rest, _START_SPEC)


def _script_changes(words: Sequence[str]) -> dict[str, Any]:
    """What decides about a run of a program by its own name; every other word is an argument of the program.

    Raises:
        BadRequest: a quote is not closed, or `env` names no value.
    """
    found: dict[str, Any] = {}
    environment: dict[str, str] = {}
    arguments: list[str] = []
    try:
        parts = shlex.split(" ".join(words))
    except ValueError as error:
        raise BadRequest(f"I cannot read `{' '.join(words)[:100]}`: {error}.") from None
    for word in parts:
        key, equals, value = word.partition("=")
        key = _KEYS.get(key.lower(), key.lower())
        if equals and key in _SCRIPT_SPEC:
            found[key] = str(value) if key in _SCRIPT_TEXTS else _value(value)
        elif equals and key in _SCRIPT_LISTS:
            found[key] = [part for part in value.split(",") if part]
        elif equals and key.startswith("env."):
            environment[word.partition("=")[0][4:]] = value
        else:
            arguments.append(word)
    if arguments:
        found["arguments"] = shlex.join(arguments)
    return found | ({"environment": environment} if environment else {})


def _changes(words: Sequence[str], spec: Collection[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.rstrip(",").partition("=")
        if not equals or not key or not value:
            raise BadRequest(
                f"`{word}` is not a change. Write changes as `key=value`, such as `lr=0.1 seed=3 hours=2`."
            )
        key = _KEYS.get(key.lower(), key.lower())
        (found if key in spec else settings)[key] = _value(value)
    for key in _TEXTS & set(found):
        found[key] = str(found[key])
    return found | ({"settings": settings} if settings else {})


_TEXTS = frozenset({"arguments", "target", "network", "host", "engine", "priority", "file", "task", "text_column"})


def _predict(_name: str, rest: Sequence[str]) -> dict[str, Any]:
    """`[run] [column=value …]`: one row that is given here, or the newest data of the thread."""
    named = bool(rest) and "=" not in rest[0]
    row = {}
    for word in rest[named:]:
        column, equals, value = word.rstrip(",").partition("=")
        if not equals or not column:
            raise BadRequest(f"`{word}` is no value. Attach a csv, or write one row as `age=30 health=good`.")
        row[column] = value
    return ({"run": _run_id(rest[0])} if named else {}) | ({"rows": [row]} if row else {})


def _value(text: str) -> Any:
    known = {"default": None, "yes": True, "no": False, "none": "none"}
    if text.lower() in known:
        return known[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise BadRequest(f"`{text[:20]}…` is nested too deeply to be a value.") from None


def _update(name: str, rest: Sequence[str]) -> dict[str, Any]:
    return _one_run(name, rest)


@dataclass(frozen=True, slots=True)
class Command:
    """A word that people type; `tool` carries it out, `parse` reads what follows, `usage` shows that."""

    name: str
    tool: str
    does: str
    group: str = "look"
    usage: str = "[run]"
    parse: Parser = _one_run

    def arguments(self, rest: Sequence[str]) -> dict[str, Any]:
        """What the tool is called with. Raises `BadRequest` where the words cannot be read."""
        return self.parse(self.name, _plain_ids(rest))

    def tool_for(self, arguments: Mapping[str, Any]) -> str:
        """The tool that carries it out: `start` with a program runs that program."""
        return "start_script" if self.name == "start" and is_program(str(arguments.get("file", ""))) else self.tool


_ROW = "[run] [column=value …]"
GROUPS = {"look": "Look", "control": "Control a run", "change": "Change (people approve first)", "answer": "Answer"}
COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command("status", "run_status", "where a run stands, or its result"),
        Command("runs", "list_runs", "the runs of this thread", usage="", parse=_nothing),
        Command(
            "logs",
            "run_logs",
            "its log, by words, level and page, or as a file",
            usage="[run] [words] [level=error] [older|file]",
            parse=_logs,
        ),
        Command(
            "metrics",
            "run_metrics",
            "its metrics as a table, or as a file",
            usage="[run] [usage] [csv|parquet]",
            parse=_metrics,
        ),
        Command(
            "chart",
            "run_chart",
            "its curves: metrics, steps, scale, against other runs; gpu, usage, throughput",
            usage="[run] [metric …|gpu|usage|throughput] [last=500|last=2h] [steps=1-90] [epochs=2-4] [log] "
            "[smooth=0.9] [time|epoch] [vs run]",
            parse=_chart,
        ),
        Command(
            "results",
            "run_results",
            "pictures of its result, or that its training logged",
            usage="[run] [confusion|roc|pr|classes|calibration|importance|lengths|mistakes|pictures|NAME]",
            parse=_results,
        ),
        Command("checkpoints", "run_checkpoints", "its checkpoints"),
        Command("attempts", "run_attempts", "where it ran, and why each attempt ended"),
        Command("script", "run_script", "its train.py, or an earlier version", usage="[run] [version]", parse=_script),
        Command("compare", "compare_runs", "two to five runs side by side", usage="<run> <run> …", parse=_compare),
        Command(
            "experiments", "list_experiments", "best so far, and what it cost", usage="[all] [tree]", parse=_experiments
        ),
        Command("queue", "list_queue", "who waits for a place, and why", usage="", parse=_nothing),
        Command("cluster", "list_hosts", "hosts, GPUs and who has them", usage="", parse=_nothing),
        Command("predict", "predict", "what its model says of your newest csv, or of one row", "look", _ROW, _predict),
        Command("pause", "pause_run", "save a checkpoint and free the GPUs", "control"),
        Command("resume", "resume_run", "go on from the checkpoint", "control"),
        Command("stop", "stop_run", "end it, with a checkpoint; asks unless you name a run of yours", "control"),
        Command("kill", "kill_run", "end it at once, without one; asks first", "control"),
        Command("retry", "retry_run", "try a failed or stopped run again", "control"),
        Command(
            "card",
            "set_card",
            "what its card draws, for all; alone it asks you",
            "control",
            "[run] [metric …|all] [log] [smooth=0.9] [zoom] [vs run]",
            _card,
        ),
        Command("priority", "set_priority", "its place in the queue", "control", "<run> high|normal|low", _priority),
        Command(
            "start",
            "start_training",
            "train on your newest csv, or run your own program",
            "change",
            "[target | train.py --its-arguments] [file=…] [key=value …]",
            _start,
        ),
        Command("clone", "clone_run", "the same run with changes", "change", "[run] key=value …", _clone),
        Command("update", "update_script", "a new script: attach train.py", "change", "[run]", _update),
    )
}
ALIASES = {
    "train": "start",
    "update_script": "update",
    "hosts": "cluster",
    "history": "attempts",
    "log": "logs",
    "plot": "chart",
    "curves": "chart",
    "result": "results",
    "leaderboard": "experiments",
    "prioritise": "priority",
    "prioritize": "priority",
}
DECISIONS = {"approve": True, "yes": True, "reject": False, "no": False}
CHART_WORDS = frozenset({"log", "time", "epoch", "all", "vs", "previous", "yesterday"})
TOLD_WORDS = frozenset({"pictures", "told", "residuals", "forecast", "clusters", "samples", "detections"})
POLITE = frozenset({"please", "thanks", "thank", "you", "it", "this", "that", "do", "go", "ahead"})
_TOLD = frozenset(
    {"is", "isn't", "are", "was", "has", "looks", "shows", "says", "does", "doesn't", "why", "what", "how"}
)
_ENOUGH = re.compile(
    r"(?:(?:please|ok(?:ay)?|no)\W+)*(?:stop|cancel|halt|abort|(?:be )?quiet|shut up|hush|(?:that['’]?s )?enough)"
    r"(?:\W+(?:it|this|that|talking|answering|writing|there|here|now|please|thanks|thank you))*\W*",
    re.IGNORECASE,
)
EXAMPLES = (
    "train a model that predicts `visited_doctor` from the attached csv",
    "predict on the attached csv with r-abc123",
    "run the attached train.py on 2 gpus for 4 hours",
    "train r-abc123 again with learning rate 0.1",
    "why did it fail?",
)


def command_of(word: str) -> Command | None:
    """The command that a word names."""
    name = word.lower()
    return COMMANDS.get(ALIASES.get(name, name))


def words_of(text: str) -> tuple[str, ...] | None:
    """The command in a text: after `/train` or `!train`, or a bare command that can mean nothing else."""
    words = tuple(text.split())
    if words and words[0].lower() in {"/train", "!train"}:
        return words[1:]
    if not words:
        return None
    head, rest = words[0].lower().strip("?!.,"), words[1:]
    if head == "help" and not rest:
        return ("help",)
    command = command_of(head)
    if command is not None and _bare(command, rest):
        return (head, *rest)
    if head in DECISIONS:
        return _decision(head, rest)
    return None


def _bare(command: Command, rest: Sequence[str]) -> bool:
    """Whether words without `/train` before them can only be this command: ids, changes and its own few words."""
    try:
        rest = _plain_ids(_quoted(rest))
    except BadRequest:
        return False
    own = {"csv", "info", "older", "errors", "warnings", *PRIORITIES} if rest else set()
    own |= {"usage", "parquet"} if command.name == "metrics" else set()
    own |= {"file"} if command.name == "logs" else set()
    own |= {"loss", "accuracy", *CHART_WORDS, *SMOOTH_WORDS, *USAGE_WORDS} if command.name == "chart" else set()
    own |= {"all", "tree"} if command.name == "experiments" else set()
    own |= {"loss", "accuracy", *CARD_WORDS} if command.name == "card" else set()
    own |= {*RESULT_WORDS, "matrix", "curve"} if command.name in {"chart", "results"} else set()
    own |= TOLD_WORDS if command.name == "results" else set()
    own |= _named_picture(rest) if command.name == "results" else set()
    if command.name == "card" and (not rest or rest[-1].endswith("?") or not _TOLD.isdisjoint(map(str.lower, rest))):
        return False  # a word of people too
    if command.name in {"start", "predict"} and not any("=" in word or is_run_id(word.lower()) for word in rest):
        return False  # what people say to a model that has proposed something
    of_card = command.name == "card" and is_run_id(rest[0].lower().partition(".")[0])
    for word in rest:
        plain = word.lower().strip(",")
        of_script, of_chart = command.name == "script", command.name == "chart"
        known = (
            of_card
            or view_of(word.strip(","))
            or view_of(plain)
            or "=" in plain
            or plain in own
            or (command.name in {"results", "priority"} and is_run_id(plain.partition(".")[0]))
            or (of_script and plain.isdecimal())
        )
        if not (known or (of_chart and ("_" in plain or chart_view_of(plain)))):
            return False
    try:
        command.parse(command.name, rest)
    except BadRequest:
        return False
    return True


def _named_picture(rest: Sequence[str]) -> set[str]:
    """The word that can only be the name of a picture: `r-abc123 NAME`, `r-abc123 told NAME`."""
    said = [word.lower() for word in rest]
    if len(said) > 1 and is_run_id(said[0]) and said[1:-1] in ([], ["told"]) and said[-1] not in POLITE:
        return {said[-1]}
    return set()


def _decision(head: str, rest: Sequence[str]) -> tuple[str, ...] | None:
    """`approve`, `approve a-…`, `yes please`; None where more is said than a decision."""
    if len(rest) == 1 and rest[0].lower().startswith("a-"):
        return (head, *rest)
    return (head,) if all(word.lower().strip("?!.,") in POLITE for word in rest) else None


def may_be_talk(words: Sequence[str]) -> bool:
    """Whether a decision can also be the answer to something that was asked in words."""
    return len(words) == 1 and words[0] in {"yes", "no"}


def ends_answer(text: str) -> bool:
    """Whether these words, with nothing else, end an answer that is being given: `stop`, `cancel`, `stop talking`."""
    return bool(_ENOUGH.fullmatch(text.strip()))


def is_decision(words: Sequence[str]) -> bool:
    """Whether these words answer an approval."""
    return bool(words) and words[0].lower() in DECISIONS


def asks_people(words: Sequence[str], dispatcher: Dispatcher) -> bool:
    """Whether a command is one that people always approve first. Raises `BadRequest` where it cannot be read."""
    command = command_of(words[0]) if words else None
    if command is None or dispatcher.effect(command.tool) not in {Effect.SPEND, Effect.DESTROY}:
        return False
    command.arguments(words[1:])
    return True


def command_call_id(turn_id: str) -> str:
    """The id of the call that a turn's request makes as a command."""
    return f"command-{turn_id}"


def call_in(asked: ModelMessage, turn_id: str, dispatcher: Dispatcher) -> ToolCall | None:
    """The call that a turn's request makes as a command, without a model; None where it is for the model.

    It is made of what is stored, so that a turn that was cut off makes the same call again. A file that came with it is
    the one that is meant.

    Raises:
        BadRequest: the command cannot be read.
    """
    files = [file.name for file in asked.files]
    words = words_of(asked.text)
    command = command_of(words[0]) if words else None
    if not words or command is None or not dispatcher.asks(command.tool):
        return None
    rest = words[1:]
    if command.name == "start" and not any(is_program(word) for word in rest):
        rest = (*[name for name in files if is_program(name)][:1], *rest)
    arguments = command.arguments(rest)
    if command.tool_for(arguments) == "start_script":
        beside = [name for name in files if name != arguments["file"]]
        arguments.setdefault("data", [name for name in beside if name != REQUIREMENTS])
        if REQUIREMENTS in beside:
            arguments.setdefault("requirements", REQUIREMENTS)
    elif command.name in {"update", "start"} and files:
        arguments.setdefault("file", files[0])
    return ToolCall(command_call_id(turn_id), command.tool_for(arguments), json.dumps(arguments))


def command_answer(answer: str) -> str:
    """What people are told of the answer to a command's call."""
    told: dict[str, Any] = json.loads(answer)
    return str(told.get("error") or told.get("text") or "Done.")


async def carry_out(words: Sequence[str], caller: Caller, dispatcher: Dispatcher) -> Content | None:
    """What a command answers; None where people have to be asked about it, in a turn.

    Raises:
        AppError: it cannot be done; the text says why.
    """
    name = words[0].lower() if words else "help"
    if name == "help":
        return help_content()
    command = command_of(name)
    if command is None:
        known = ", ".join(f"`{known}`" for known in (*COMMANDS, "approve", "reject", "help"))
        raise BadRequest(f"There is no command `{name}`. Commands: {known}.")
    arguments = command.arguments(words[1:])
    call = ToolCall(new_ulid(), command.tool_for(arguments), json.dumps(arguments))
    result = await dispatcher.call(caller, call)
    if isinstance(result, NeedsApproval):
        return None
    return Content(text="" if result.card else result.text, card=result.card, files=result.files)


def help_content() -> Content:
    """What the bot understands, by what it is for."""
    asks = "\n".join(f"- {example}" for example in EXAMPLES)
    parts = [f"Say it in your own words, in a thread with me:\n{asks}"]
    for group, title in GROUPS.items():
        lines = [_help_line(command) for command in COMMANDS.values() if command.group == group]
        if group == "answer":
            lines = ["- `approve`, `reject`: the open question (or use its buttons)", "- `help`: this text"]
        parts.append(f"**{title}**\n" + "\n".join(lines))
    parts.append("`/train status`, `!train status` or just `status` to me. Without a run id, the run of this thread.")
    return Content(card=Card(kind="notice", title="What I can do", body="\n\n".join(parts)))


def _help_line(command: Command) -> str:
    usage = f" {command.usage}" if command.usage else ""
    return f"- `{command.name}{usage}`: {command.does}"
