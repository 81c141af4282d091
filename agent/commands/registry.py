"""Which commands there are, in which groups, with which options. The help and every platform read them from here."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.commands.command import Command
from agent.commands.options import Completes, Kind, Option
from agent.commands.words import is_session_address
from agent.domain.budgets import Scope
from agent.domain.datasets import may_be_program
from agent.domain.errors import BadRequest
from agent.domain.models import EFFORTS
from agent.domain.runs import PRIORITIES
from agent.domain.tasks import TASKS
from agent.tools.cards.card_views import card_arguments
from agent.tools.charts.chart_words import RESULT_WORDS, arguments_of
from agent.tools.runs.log_views import view_in, view_of
from agent.tools.runs.resulting import results_arguments

GROUPS = {
    "look": "Look",
    "control": "Control",
    "change": "Change (people approve first)",
    "session": "This conversation",
    "answer": "Answer",
}
_VIEWS = ("gpu", "usage", "throughput", *dict.fromkeys(RESULT_WORDS.values()))


def _logs(rest: Sequence[str]) -> dict[str, Any]:
    """`[run] [words] [level=error] [older]`, `[run] file`; the run may be a page's subject from a button."""
    view = view_of(rest[0]) or view_of(rest[0].lower()) if rest else None  # what a button carries keeps its case
    if rest and view is None and rest[0].lower().startswith("r-"):
        _RUN.value(rest[0])
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


def _address(rest: Sequence[str]) -> dict[str, Any]:
    """One word, as it is: links hold signs of our own."""
    if len(rest) != 1:
        raise BadRequest("`resume` takes one run, or the id of one conversation or a link to its thread.")
    return {"address": rest[0]}


_SOON = tuple(sorted(PRIORITIES, key=PRIORITIES.__getitem__, reverse=True))
_RUN = Option("run", "which run; unsaid, the newest here", Kind.RUN, completes=Completes.RUNS, written="{}")
_METRICS = Option(
    "metric", "names or parts of names", completes=Completes.METRICS, written="{}", argument="metrics", many=True
)
_LOG = Option("log", "logarithmic scale", Kind.FLAG)
_SMOOTH = Option("smooth", "weight of a moving average", Kind.NUMBER, shown="0.9")
_VERSUS = Option("vs", "a run to lay over", completes=Completes.RUNS, written="vs {}", shown="run|previous|yesterday")
_LEVEL = Option(
    "level",
    "how soon",
    choices=_SOON,
    written="{}",
    argument="priority",
    needed=True,
    also={"+1": "high", "1": "high", "0": "normal", "-1": "low"},
)
_PLACE = (
    Option("hours", "hours at most", Kind.NUMBER, argument="max_hours", shown="2"),
    Option("gpus", "how many GPUs", Kind.WHOLE, shown="1"),
    Option("network", "what it may reach", choices=("none", "hub", "open")),
    Option("host", "a host", completes=Completes.HOSTS),
    Option("engine", "where runs are executed"),
    Option("priority", "how soon", choices=_SOON),
    Option("retries", "try again by itself after faults", Kind.YES_NO, argument="auto_resume", shown="yes|no"),
)
_WHERE = tuple(option for option in _PLACE if option.name in {"hours", "gpus", "host", "engine"})  # of a finished model
_LEARNING = (
    Option("seed", "of what is drawn by chance", Kind.WHOLE, shown="7"),
    Option("test_frac", "share of the test part", Kind.NUMBER, shown="0.2"),
)
_SPLIT = Option("split", "column to split by, or random", argument="split_by", shown="patient_id|random")
_SETTINGS = Option("settings", "such as lr=0.1 trials=20", Kind.PAIRS, shown="key=value …")
_DATA_FILE = Option("file", "an attached file; unsaid, the newest one", completes=Completes.FILES)
_BESIDE = (
    Option("data", "files that a program reads", Kind.LIST, completes=Completes.FILES, shown="a.csv,b.csv"),
    Option("requirements", "a requirements.txt", completes=Completes.FILES),
)
_SECRETS = Option("secrets", "names of the host's secrets", Kind.LIST, shown="HF_TOKEN")
_ENVIRONMENT = Option(
    "env",
    "environment of a program, such as A=1 B=2",
    Kind.PAIRS,
    written="env.{}",
    argument="environment",
    shown="A=1",
)
_START_SCRIPT = Command(
    "start",
    "start_script",
    "run a program of your own",
    options=(
        Option(
            "file",
            "an attached file; unsaid, the newest one",
            completes=Completes.FILES,
            written="{}",
            fits=may_be_program,
        ),
        Option("entry", "the program within a zip"),
        *_BESIDE,
        *_PLACE,
        _SECRETS,
        _ENVIRONMENT,
        Option("args", "the command line of a program", Kind.REST, argument="arguments", shown="--its-arguments"),
    ),
)


def _is_scope(word: str) -> bool:
    return word.lower() in set(Scope)


def _on_run(name: str, tool: str, does: str, group: str = "look", *, everyday: bool = False) -> Command:
    """A command that takes a run and nothing else."""
    return Command(name, tool, does, group, (_RUN,), everyday=everyday)


COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        _on_run("status", "run_status", "where a run stands, or its result", everyday=True),
        Command("runs", "list_runs", "the runs of this thread", everyday=True, fillers=frozenset({"info"})),
        Command(
            "logs",
            "run_logs",
            "its log, by words, level and page, or as a file",
            options=(
                _RUN,
                Option("search", "words to look for", written="{}", many=True, shown="words"),
                Option("level", "only these lines", choices=("error", "warning", "all")),
                Option("older", "the page before", Kind.FLAG),
                Option("file", "the whole log as a file", Kind.FLAG),
            ),
            example="logs r-abc123 out of memory level=error",
            everyday=True,
            reads=_logs,
        ),
        Command(
            "metrics",
            "run_metrics",
            "its metrics as a table, or as a file",
            options=(
                _RUN,
                Option("usage", "GPU, processors, memory", Kind.FLAG),
                Option("csv", "as a csv file", Kind.FLAG),
                Option("parquet", "as a Parquet file", Kind.FLAG),
            ),
            everyday=True,
        ),
        Command(
            "chart",
            "run_chart",
            "its curves, its result or what it used, as a picture",
            options=(
                _RUN,
                _METRICS,
                Option("view", "instead of curves", choices=_VIEWS, written="{}", shown="gpu|usage|throughput|roc|…"),
                Option("last", "only the newest part: steps, a time, epochs", shown="500|2h|3epochs"),
                Option("steps", "only these steps", shown="500-1000"),
                Option("epochs", "only these epochs", shown="2-4"),
                _LOG,
                _SMOOTH,
                Option("axis", "time or epochs instead of steps", choices=("time", "epoch"), written="{}"),
                Option("all", "every metric, as small multiples", Kind.FLAG),
                _VERSUS,
            ),
            example="chart r-abc123 loss last=500 log vs r-def456",
            everyday=True,
            reads=arguments_of,
        ),
        Command(
            "results",
            "run_results",
            "pictures of its result, or that its training logged",
            options=(
                _RUN,
                Option(
                    "picture",
                    "which one",
                    completes=Completes.PICTURES,
                    written="{}",
                    shown="confusion|roc|importance|mistakes|pictures|NAME",
                ),
            ),
            example="results r-abc123 confusion",
            everyday=True,
            reads=results_arguments,
        ),
        _on_run("checkpoints", "run_checkpoints", "its checkpoints"),
        _on_run("attempts", "run_attempts", "where it ran, and why each attempt ended"),
        Command(
            "script",
            "run_script",
            "its train.py, or an earlier version",
            options=(_RUN, Option("version", "an earlier one, such as 1", Kind.WHOLE, written="{}")),
        ),
        Command(
            "compare",
            "compare_runs",
            "two to five runs side by side",
            options=(
                Option(
                    "run",
                    "two to five runs",
                    Kind.RUN,
                    completes=Completes.RUNS,
                    written="{}",
                    argument="runs",
                    many=True,
                    counts=(2, 5),
                ),
            ),
            example="compare r-abc123 r-def456",
            fillers=frozenset({"and", "with"}),
        ),
        Command(
            "experiments",
            "list_experiments",
            "best so far, and what it cost",
            options=(
                Option("all", "the runs of all threads", Kind.FLAG, argument="everywhere"),
                Option("tree", "which came from which", Kind.FLAG),
            ),
        ),
        Command("queue", "list_queue", "who waits for a place, and why", fillers=frozenset({"info"})),
        Command("cluster", "list_hosts", "hosts, GPUs and who has them", fillers=frozenset({"info"})),
        Command(
            "predict",
            "predict",
            "what its model says of your newest csv, or of one row",
            options=(
                _RUN,
                Option("horizon", "steps ahead, of a forecast", Kind.WHOLE, shown="12"),
                Option("text", "one text, for a model that reads texts", shown="“…”"),
                Option("row", "such as age=30 health=good", Kind.ROW, argument="rows", shown="column=value …"),
            ),
            example="predict r-abc123 age=30 health=good",
            everyday=True,
        ),
        _on_run("download", "download_artifact", "its model, or what it predicted, as a file"),
        _on_run("token", "serving_token", "tell you the token of a model that is kept up"),
        Command("models", "list_models", "the language models, their prices, and which answers here"),
        Command(
            "audit",
            "show_audit",
            "who asked, decided and did what in this channel",
            options=(
                Option("verify", "check that the log was not changed", Kind.FLAG, argument="verify_chain"),
                Option("csv", "every entry as a file", Kind.FLAG),
            ),
            example="audit verify",
        ),
        Command("cost", "show_cost", "money of language models and runs, tokens and GPU-hours, here and this month"),
        Command(
            "budget",
            "show_budget",
            "what was used and is left here; admins set budgets: `budget channel usd=50`",
            options=(),
            example="budget channel usd=50 gpu_hours=100",
            switch=_is_scope,
            other=Command(
                "budget",
                "set_budget",
                "set a budget",
                options=(
                    Option("scope", "whose", choices=tuple(Scope), written="{}", needed=True),
                    Option("who", "a mention, an id or a name", shown="@bob"),
                    Option("usd", "dollars a month, or none", shown="50"),
                    Option("tokens", "tokens a month, or none", shown="2M"),
                    Option("gpu_hours", "GPU-hours a month, or none", shown="100"),
                ),
                example="budget channel usd=50 gpu_hours=100",
            ),
        ),
        _on_run("pause", "pause_run", "save a checkpoint and free the GPUs", "control", everyday=True),
        Command(
            "resume",
            "resume_run",
            "go on from the checkpoint",
            "control",
            (_RUN,),
            everyday=True,
            switch=is_session_address,
            other=Command(
                "resume",
                "resume_session",
                "go on with another conversation",
                options=(Option("address", "a conversation's id, or a link to its thread", written="{}", needed=True),),
                reads=_address,
            ),
        ),
        _on_run(
            "stop",
            "stop_run",
            "end it, with a checkpoint; asks unless you name a run of yours",
            "control",
            everyday=True,
        ),
        _on_run("kill", "kill_run", "end it at once, without one; asks first", "control"),
        _on_run("retry", "retry_run", "try a failed or stopped run again", "control"),
        Command(
            "card",
            "set_card",
            "what its card draws, for all; alone it asks you",
            "control",
            options=(
                _RUN,
                _METRICS,
                Option("all", "every metric, as small multiples", Kind.FLAG),
                _LOG,
                _SMOOTH,
                Option("zoom", "only the newest quarter", Kind.FLAG),
                _VERSUS,
            ),
            example="card r-abc123 loss log vs r-def456",
            reads=card_arguments,
        ),
        Command(
            "priority",
            "set_priority",
            "its place in the queue",
            "control",
            options=(_RUN, _LEVEL),
            example="priority r-abc123 high",
        ),
        Command(
            "model",
            "prefer_model",
            "which language model answers in this thread; alone: which does",
            "control",
            options=(Option("model", "a configured one, or `usual`", completes=Completes.MODELS, written="{}"),),
            example="model claude-sonnet-4-5",
        ),
        Command(
            "effort",
            "prefer_model",
            "how hard it thinks in this thread",
            "control",
            options=(Option("effort", "how hard", choices=(*EFFORTS, "usual"), written="{}", needed=True),),
        ),
        Command(
            "start",
            "start_training",
            "train on your newest csv, or run your own program",
            "change",
            options=(
                Option(
                    "target",
                    "the column to predict, or a program of yours",
                    written="{}",
                    shown="target | train.py --its-arguments",
                ),
                _DATA_FILE,
                Option("task", "the task type", choices=tuple(TASKS)),
                Option("text_column", "the column with the text"),
                *_PLACE,
                *_LEARNING,
                _SPLIT,
                _SETTINGS,
            ),
            example="start churn hours=2 lr=0.1",
            everyday=True,
            no_run="`start` makes a run of its own. For `{}` once more there are `retry` and `clone`.",
            switch=may_be_program,
            other=_START_SCRIPT,
        ),
        Command(
            "clone",
            "clone_run",
            "the same run with changes",
            "change",
            options=(
                _RUN,
                Option("target", "another column to predict"),
                Option("file", "another data file", completes=Completes.FILES),
                *_BESIDE,
                *_PLACE,
                _SECRETS,
                _ENVIRONMENT,
                *_LEARNING,
                Option("args", "another command line of a program", argument="arguments"),
                Option("repack", "the recipe as it is now", Kind.YES_NO, shown="yes"),
                _SETTINGS,
            ),
            example="clone r-abc123 lr=0.1 seed=3 hours=2",
        ),
        Command(
            "serve",
            "serve_model",
            "keep its model up on a host, over HTTP; `stop` ends it",
            "change",
            options=(_RUN, *_WHERE),
            example="serve r-abc123 hours=8",
        ),
        Command(
            "evaluate",
            "evaluate_model",
            "measure its model on your newest csv, which has the answers",
            "change",
            options=(_RUN, _DATA_FILE, *_WHERE),
            example="evaluate r-abc123 file=october.csv",
        ),
        Command(
            "batch",
            "predict_as_job",
            "predict every row of a large file, as a job",
            "change",
            options=(_RUN, _DATA_FILE, *_WHERE),
            example="batch r-abc123 file=customers.csv hours=2",
        ),
        Command(
            "update",
            "update_script",
            "a new script: attach train.py",
            "change",
            options=(_RUN, Option("file", "an attached file; unsaid, the newest one", completes=Completes.FILES)),
        ),
        Command(
            "auto",
            "set_allowance",
            "what starts in this thread without asking, up to how many dollars",
            "control",
            options=(
                Option("usd", "dollars in all", Kind.NUMBER, shown="5"),
                Option("off", "ask about everything again", Kind.FLAG),
            ),
            example="auto usd=5",
        ),
        Command("new", "new_session", "a fresh start; what was said is kept", "session"),
        Command("compact", "compact_session", "summarise what was said", "session"),
        Command("undo", "undo_turn", "forget the last turn, and say what stays done", "session"),
        Command("export", "export_session", "all that was said, as files", "session"),
        Command(
            "forget",
            "forget_person",
            "delete what you said; asks first",
            "session",
            (Option("me", "your own words", Kind.FLAG),),
            example="forget me",
        ),
    )
}
HELP = Command(
    "help",
    "",
    "what I can do, or one command in full",
    "answer",
    options=(Option("about", "a command, or a group of them", completes=Completes.HELP, written="{}"),),
    everyday=True,
)
ALIASES = {
    "delete-my-data": "forget",
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


def command_of(word: str) -> Command | None:
    """The command that a word names."""
    name = word.lower()
    return COMMANDS.get(ALIASES.get(name, name))


def meant(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that words begin with, and what follows; the name of its group may stand before it.

    Raises:
        BadRequest: there is no such command.
    """
    if len(words) > 1 and words[0].lower() in GROUPS and (found := command_of(words[1])):
        return found, words[2:]
    if words and (found := command_of(words[0])):
        return found, words[1:]
    known = ", ".join(f"`{known}`" for known in (*COMMANDS, "approve", "reject", "help"))
    raise BadRequest(f"There is no command `{' '.join(words)[:60]}`. Commands: {known}.")
