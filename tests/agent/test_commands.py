"""What words mean as a command, with `/train` before them and bare."""

import json
from typing import Any

import pytest

from agent.commands.calls import call_in, command_answer
from agent.commands.command import Command
from agent.commands.help import help_content
from agent.commands.options import Kind, Option
from agent.commands.registry import COMMANDS, GROUPS, command_of, meant
from agent.commands.typed import words_of
from agent.commands.words import joined, split
from agent.domain.errors import BadRequest
from agent.domain.policy import Effect
from agent.ports import AttachedFile, ModelMessage, Role, ToolCall
from agent.tools.dispatch import Dispatcher
from tests.agent.conftest import Harness

A, B = "r-abc123", "r-def456"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("status", {}),
        (f"status {A.upper()}", {"run": A}),
        ("hosts", {}),
        ("cluster info", {}),
        (f"logs {A}", {"run": A}),
        (f"logs {A} older", {"run": A, "older": True}),
        (f"logs {A} level=error", {"run": A, "level": "error"}),
        (f"logs {A} cuda out of memory", {"run": A, "search": "cuda out of memory"}),
        ("logs errors", {"level": "error"}),
        (f"logs {A} level=warning loss older", {"run": A, "level": "warning", "search": "loss", "older": True}),
        (f"metrics {A} csv", {"run": A, "csv": True}),
        ("metrics csv", {"csv": True}),
        (f"metrics {A} usage parquet", {"run": A, "usage": True, "parquet": True}),
        (f"script {A} v2", {"run": A, "version": 2}),
        (f"script {A}", {"run": A}),
        (f"compare {A} {B}", {"runs": [A, B]}),
        (f"compare {A}, and {B}", {"runs": [A, B]}),
        ("compare", {}),
        (f"history {A}", {"run": A}),
        (f"priority {A} high", {"run": A, "priority": "high"}),
        ("priority low", {"priority": "low"}),
        (f"priority {A} +1", {"run": A, "priority": "high"}),
        (f"priority {A} 0", {"run": A, "priority": "normal"}),
        (f"clone {A}", {"run": A}),
        (f"clone {A} lr=1e-4, rounds=200", {"run": A, "settings": {"lr": 1e-4, "rounds": 200}}),
        (f"clone {A} hours=2 gpus=1 seed=3", {"run": A, "max_hours": 2, "gpus": 1, "seed": 3}),
        (f"clone {A} network=none retries=no", {"run": A, "network": "none", "auto_resume": False}),
        (f"clone {A} model=bert/base depth=default", {"run": A, "settings": {"model": "bert/base", "depth": None}}),
        (f"clone {A} target=2024", {"run": A, "target": "2024"}),
        ("clone seed=1", {"seed": 1}),
        (f"update {A}", {"run": A}),
        (f"update_script {A}", {"run": A}),
        (f"priority {A}.low", {"run": A, "priority": "low"}),  # of a button
        (f"logs {A}.a.51.bG9zcw", {"run": A, "search": "loss", "before": 51}),
        (f"logs {A.upper()} Loss", {"run": A, "search": "Loss"}),
        ("start", {}),
        ("train visited_doctor", {"target": "visited_doctor"}),
        (
            "start target=2024 file=a.csv lr=0.1 hours=2 priority=high",
            {"target": "2024", "file": "a.csv", "max_hours": 2, "priority": "high", "settings": {"lr": 0.1}},
        ),
        ("predict", {}),
        (f"predict {A}", {"run": A}),
        (f"predict {A} age=30, health=good", {"run": A, "rows": [{"age": "30", "health": "good"}]}),
    ],
)
def test_what_follows_a_command(text: str, arguments: dict[str, Any]) -> None:
    head, *rest = text.split()
    command = command_of(head)
    assert command is not None
    assert command.arguments(rest) == arguments


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('clone r-abc123 args="--lr 0.1 --name big" hours=2', ("clone", A, "args=--lr 0.1 --name big", "hours=2")),
        ("logs “out of memory”", ("logs", "out of memory")),
        ("logs don't stop, it's fine", ("logs", "don't", "stop,", "it's", "fine")),
        ("start train.py --name 'a b'", ("start", "train.py", "--name", "a b")),
        (r"logs \d+ C:\runs a\ b", ("logs", r"\d+", r"C:\runs", "a b")),
        ('logs 5" disk', ("logs", '5"', "disk")),
        ("status\u00a0\n r-abc123", ("status", A)),
    ],
)
def test_words_are_read_as_a_shell_reads_them(text: str, words: tuple[str, ...]) -> None:
    assert split(text) == words
    assert split(joined(words)) == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"priority {A} soon", "`soon` is no `level`, how soon: high, normal or low."),
        (
            f"priority {A}",
            f"`priority` needs `level`, how soon: high, normal or low. For example: `priority {A} high`.",
        ),
        (f"clone {A} network=web", "`web` is no `network`: none, hub or open."),
        (f"clone {A} hours=two", "`two` is no `hours`: a number, such as 2 or 0.5."),
        (f"clone {A} gpus=1.5", "`1.5` is no `gpus`: a whole number, such as 2."),
        (f"clone {A} retries=often", "`often` is no `retries`: yes or no."),
        (f"clone {A} hours=2 hours=3", "`clone` takes one `hours`; `3` is a second one."),
        (f"clone {A} target=", "`target=` has no value: `target` is another column to predict."),
        (
            f"clone {A} faster",
            "Write changes as `key=value`, such as `lr=0.1 seed=3 hours=2`; `help clone` names those",
        ),
        ('clone args="--lr', "a quote is not closed."),
        (f"metrics {A} excel", "`metrics` takes no `excel`. It takes `run`, `usage`, `csv` or `parquet`."),
        (f"status {A} {B}", f"`status` takes one `run`; `{B}` is a second one."),
        ("stop it", "`it` is not a run id. Run ids look like `r-abc123`; `runs` lists them."),
        (f"compare {A}", f"`compare` takes two to five runs. For example: `compare {A} {B}`."),
        ("queue jump", "`queue` takes no `jump`. It takes nothing more."),
        ("start task=vision", "`vision` is no `task`: tabular_classification, "),
        (f"start {A}", "there are `retry` and `clone`."),
        ("control restart", "There is no command `control restart`."),
    ],
)
def test_an_error_names_the_option_and_what_it_takes(text: str, said: str) -> None:
    def read() -> None:
        command, rest = meant(split(text))
        command.arguments(rest)

    with pytest.raises(BadRequest) as refused:
        read()
    assert said in refused.value.text


SAMPLES = {
    Kind.RUN: A, Kind.WHOLE: "2", Kind.NUMBER: "0.5", Kind.YES_NO: "no", Kind.FLAG: "yes", Kind.LIST: "a,b",
    Kind.PAIRS: "lr=0.1", Kind.ROW: "age=3", Kind.REST: "--lr 0.1",
}  # fmt: skip
TEXTS = {"last": "2h", "steps": "1-9", "epochs": "2-4", "vs": B, "picture": "confusion", "about": "chart"}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (one, option)
        for command in COMMANDS.values()
        for one in (command, command.other)
        if one
        for option in one.options
    ],
    ids=lambda part: part.tool if isinstance(part, Command) else part.name,
)
def test_every_option_can_be_said_in_words(command: Command, option: Option) -> None:
    value = option.choices[0] if option.choices else TEXTS.get(option.name, SAMPLES.get(option.kind, "word"))
    value = "train.py" if option.fits else f"{A} {B}" if option.counts else value
    words = option.written_as(value, split)
    needed = [one.choices[0] for one in command.options if one.needed and one is not option]
    said = command.arguments([*words, *needed])
    assert said.keys() > {one.target for one in command.options if one.needed and one is not option}
    assert command.arguments(split(joined([*words, *needed]))) == said


def test_the_name_of_a_group_may_stand_before_a_command() -> None:
    assert meant(("look", "chart", A)) == (COMMANDS["chart"], (A,))
    assert meant(("control", "priority", "high"))[0] is COMMANDS["priority"]
    assert words_of("/train change clone seed=1") == ("change", "clone", "seed=1")


def test_help_shows_everything_or_a_group_or_one_command_in_full() -> None:
    def body(*about: str) -> str:
        card = help_content(*about).card
        assert card is not None
        return card.body

    assert "`chart [run]" in body("look")
    assert "`pause" not in body("look")
    chart = body("chart")
    assert "`last=500|2h|3epochs`: only the newest part" in chart
    assert "For example: `chart r-abc123 loss last=500 log vs r-def456`" in chart
    assert "Also called `plot`, `curves`." in chart
    assert "`network=none|hub|open`" in body("train")
    assert "It takes nothing more." in body("queue")
    with pytest.raises(BadRequest, match="`help` lists them"):
        help_content("dancing")


@pytest.mark.parametrize("around", ["`{}`", "<{}>", "{},", "{}.", "`{}`:", "{};"])
def test_an_id_may_stand_in_what_people_write_around_it(around: str) -> None:
    said = around.format(A)
    for text, arguments in (
        (f"status {said}", {"run": A}),
        (f"logs {said} loss", {"run": A, "search": "loss"}),
        (f"logs {said} file", {"run": A, "file": True}),
        (f"clone {said} lr=0.1", {"run": A, "settings": {"lr": 0.1}}),
        (f"compare {said} {B}", {"runs": [A, B]}),
        (f"priority {said} high", {"run": A, "priority": "high"}),
    ):
        head, *rest = text.split()
        command = command_of(head)
        assert command is not None
        assert command.arguments(rest) == arguments
    for head in ("status", "stop", "chart", "results", "predict"):
        assert words_of(f"{head} {said}") == (head, said)
        command = command_of(head)
        assert command is not None
        assert command.arguments([said])["run"] == A


@pytest.mark.parametrize(
    "text",
    [
        "status now please",
        "stop ../../etc/passwd",
        f"stop {A} {B}",
        "stop r-abc12",
        "logs r-../..",
        f"priority {A}",
        f"priority {A} soon",
        f"compare {A}",
        f"compare {A} all",
        f"clone {A} faster",
        f"clone {A} =3",
        f"script {A} 1 2",
        "queue jump",
        "metrics table",
        f"logs {A}.a.99999999999999999999999",
        f"logs {A}.a.{'9' * 5000}",
        f"script {A} {'9' * 5000}",
        f"clone {A} lr={'[' * 3000}",
        "start the training",
        f"predict {A} it",
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(text: str) -> None:
    head, *rest = text.split()
    command = command_of(head)
    assert command is not None
    with pytest.raises(BadRequest) as refused:
        command.arguments(rest)
    assert refused.value.text.endswith((".", "`."))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pause", ("pause",)),
        (f"Pause {A}", ("pause", A)),
        (f"compare {A} {B}", ("compare", A, B)),
        (f"clone {A} lr=0.1", ("clone", A, "lr=0.1")),
        (f"logs {A}.e.123", ("logs", f"{A}.e.123")),
        (f"priority {A} high", ("priority", A, "high")),
        ("cluster info", ("cluster", "info")),
        (f"metrics {A} usage", ("metrics", A, "usage")),
        ("metrics usage csv", ("metrics", "usage", "csv")),
        (f"metrics {A} parquet", ("metrics", A, "parquet")),
        (f"results {A} reported digit-mistakes", ("results", A, "reported", "digit-mistakes")),  # what a card says
        (f"results {A} told digit-mistakes", ("results", A, "told", "digit-mistakes")),  # what old cards say
        (f"results {A} please", None),
        (f"logs {A}.a.51.bG9zcw", ("logs", f"{A}.a.51.bG9zcw")),
        (f"priority {A}.low", ("priority", f"{A}.low")),
        ("start target=churn", ("start", "target=churn")),
        ("start churn file=a.csv rounds=50", ("start", "churn", "file=a.csv", "rounds=50")),
        ("start train.py --lr 0.1 gpus=1", ("start", "train.py", "--lr", "0.1", "gpus=1")),
        ("start the training", None),
        ("start churn", None),
        ("start again lr=0.1", None),
        ("start churn with lr=0.1", None),
        ("start train.py with lr=0.1 please", None),
        *((words, None) for words in ("start", "train", "predict", f"start {A}", "train info", "predict churn")),
        (f"predict {A}", ("predict", A)),
        ("/train start", ("start",)),
        ("/train logs everything about it", ("logs", "everything", "about", "it")),
        ("pause the run", None),
        ("stop wasting my time", None),
        (f"logs {A} of the first night", None),
        ("clone it with a smaller learning rate", None),
        ("cluster these customers", None),
        ("compare the last two runs", None),
        ("kill all humans", None),
        ("queue jump", None),
        ("script kiddies", None),
    ],
)
def test_bare_words_are_a_command_only_where_they_can_mean_nothing_else(
    text: str, words: tuple[str, ...] | None
) -> None:
    assert words_of(text) == words


async def test_every_command_has_a_tool_and_a_line_of_help(harness: Harness) -> None:
    async with harness.open() as brain:
        dispatcher: Dispatcher = brain.dispatcher
        tools = set(dispatcher._tools)
        card = help_content().card
        assert card is not None
        for command in COMMANDS.values():
            assert command.tool in tools
            assert f"`{command.name}" in card.body
            assert command.group in GROUPS
        controlled = {command.tool for command in COMMANDS.values() if command.group != "look"}
        controlled |= {"start_script", "resume_session", "set_budget"}  # other forms of a command
        controlled |= {"fetch_data"}  # said in words, in the thread that the data are for

        assert controlled == tools - {tool for tool in tools if dispatcher.effect(tool) is Effect.READ}
        assert len(card.body) < 4_000


async def test_only_what_people_approve_becomes_a_call_of_a_turn(harness: Harness) -> None:
    async with harness.open() as brain:
        dispatcher: Dispatcher = brain.dispatcher

        def made_of(text: str, *files: str) -> ToolCall | None:
            asked = ModelMessage(Role.USER, text, files=tuple(AttachedFile(name, 12) for name in files))
            return call_in(asked, "t-1", dispatcher)

        call = made_of(f"/train clone {A} seed=3")
        assert call is not None
        assert (call.id, call.name, json.loads(call.arguments)) == ("command-t-1", "clone_run", {"run": A, "seed": 3})
        call = made_of(f"update {A}", "new train.py")
        assert call is not None
        assert json.loads(call.arguments) == {"run": A, "file": "new train.py"}
        call = made_of("/train start churn", "new.csv")
        assert call is not None
        assert (call.name, json.loads(call.arguments)) == ("start_training", {"target": "churn", "file": "new.csv"})
        for text in (f"pause {A}", "status", "clone it please", "train a model", "", "\n"):
            assert made_of(text) is None
    assert command_answer('{"text": "Done it."}') == "Done it."
    assert command_answer('{"error": "No."}') == "No."


def test_a_quoted_line_of_a_program_is_a_text_and_no_row() -> None:
    assert words_of("predict “x = max(1, len(name))  # why”") is None
    assert words_of("predict age=30 “blood pressure=high”") == ("predict", "age=30", "blood pressure=high")
