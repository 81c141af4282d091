"""The commands: one registry for `/train …`, `!train …`, `@bot status`, and the help text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agent.domain.content import Card, Content, Table
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id, new_ulid
from agent.ports import ToolCall
from agent.tools.dispatch import Dispatcher, NeedsApproval
from agent.tools.tool import Caller


@dataclass(frozen=True, slots=True)
class Command:
    """A word that people type; `tool` carries it out, `takes_run` says that a run id may follow."""

    name: str
    tool: str
    does: str
    takes_run: bool = True


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("status", "run_status", "where a run stands, or its result"),
        Command("runs", "list_runs", "the runs of this thread", takes_run=False),
        Command("stop", "stop_run", "stop a run; it saves a checkpoint first"),
        Command("logs", "run_logs", "the last lines of a run's log"),
        Command("metrics", "run_metrics", "a run's metrics as a table"),
        Command("hosts", "list_hosts", "the connected GPU hosts", takes_run=False),
    )
}
DECISIONS = {"approve": True, "yes": True, "reject": False, "no": False}
POLITE = frozenset({"please", "thanks", "thank", "you", "it", "this", "that", "do", "go", "ahead"})
EXAMPLES = (
    "train a model that predicts `visited_doctor` from the attached csv",
    "predict on the attached csv with r-abc123",
    "how is it going?",
)


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
    if head in COMMANDS and (not rest or (len(rest) == 1 and is_run_id(rest[0].lower()))):
        return (head, *rest)
    if head in DECISIONS:
        return _decision(head, rest)
    return None


def _decision(head: str, rest: Sequence[str]) -> tuple[str, ...] | None:
    """`approve`, `approve a-…`, `yes please`; None where more is said than a decision."""
    if len(rest) == 1 and rest[0].lower().startswith("a-"):
        return (head, *rest)
    return (head,) if all(word.lower().strip("?!.,") in POLITE for word in rest) else None


def may_be_talk(words: Sequence[str]) -> bool:
    """Whether a decision can also be the answer to something that was asked in words."""
    return len(words) == 1 and words[0] in {"yes", "no"}


def is_decision(words: Sequence[str]) -> bool:
    """Whether these words answer an approval."""
    return bool(words) and words[0].lower() in DECISIONS


async def carry_out(words: Sequence[str], caller: Caller, dispatcher: Dispatcher) -> Content:
    """What a command answers.

    Raises:
        AppError: it cannot be done; the text says why.
    """
    name = words[0].lower() if words else "help"
    if name == "help":
        return help_content()
    command = COMMANDS.get(name)
    if command is None:
        known = ", ".join(f"`{known}`" for known in (*COMMANDS, "approve", "reject", "help"))
        raise BadRequest(f"There is no command `{name}`. Commands: {known}.")
    call = ToolCall(new_ulid(), command.tool, json.dumps(_arguments(command, words[1:])))
    result = await dispatcher.call(caller, call)
    if isinstance(result, NeedsApproval):
        raise BadRequest(f"`{name}` has to be asked for in words, so that people can approve it.")
    return Content(text="" if result.card else result.text, card=result.card)


def _arguments(command: Command, rest: Sequence[str]) -> dict[str, str]:
    if not rest:
        return {}
    run_id = rest[0].lower()
    if not command.takes_run or len(rest) > 1:
        raise BadRequest(f"`{command.name}` takes {'one run id' if command.takes_run else 'nothing more'}.")
    if not is_run_id(run_id):
        raise BadRequest(f"`{rest[0]}` is not a run id. Run ids look like `r-abc123`; `runs` lists them.")
    return {"run": run_id}


def help_content() -> Content:
    """What the bot understands."""
    rows = [(f"{name}{' [run]' if command.takes_run else ''}", command.does) for name, command in COMMANDS.items()]
    rows += [("approve, reject", "answer the open question (or use its buttons)"), ("help", "this text")]
    asks = "\n".join(f"• {example}" for example in EXAMPLES)
    return Content(
        card=Card(
            kind="notice",
            title="What I can do",
            body=f"Say it in your own words, in a thread with me:\n{asks}\n\n"
            "Or as a command: `/train status`, `!train status`, or just `status` to me.",
            table=Table(columns=("command", "what it does"), rows=tuple(rows)),
        )
    )
