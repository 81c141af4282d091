"""The help: everything by groups, one group, or one command in full. Made of the declarations of the commands."""

from agent.commands.command import Command
from agent.commands.options import Option
from agent.commands.registry import ALIASES, COMMANDS, GROUPS, command_of
from agent.domain.content import Card, Content
from agent.domain.errors import BadRequest

EXAMPLES = (
    "train a model that predicts `visited_doctor` from the attached csv",
    "predict on the attached csv with r-abc123",
    "run the attached train.py on 2 gpus for 4 hours",
    "train r-abc123 again with learning rate 0.1",
    "why did it fail?",
)
_ANSWER = (
    "- `approve`, `reject` `[a-…]`: the open question (or use its buttons)\n"
    "- `approve [a-…] with epochs=3 lr=0.01`: change the plan first; it asks again with the new one\n"
    "- `reject [a-…] because …`: with a reason, which is passed on\n"
    "- `help [command]`: this, or one command in full"
)
_HOW = "`/train status`, `!train status` or just `status` to me. Without a run id, the run of this thread."


def help_content(*about: str) -> Content:
    """What the bot understands, or what a group or a command is for. Raises `BadRequest` for what is neither."""
    name = about[-1].lower().strip("`") if about else ""
    if not name:
        return _card("What I can do", _everything())
    if name in GROUPS:
        shown = next(
            (command.name for command in COMMANDS.values() if command.group == name and command.example), "chart"
        )
        return _card(GROUPS[name], f"{_lines(name)}\n\n`help {shown}` shows one of them in full.")
    command = command_of(name)
    if command is None:
        raise BadRequest(
            f"There is no command `{name[:60]}`. `help` lists them; `help look`, `help control` and `help change` "
            "show a group."
        )
    return _card(f"{command.name}: {command.does}", _in_full(command))


def _card(title: str, body: str) -> Content:
    return Content(card=Card(kind="notice", title=title, body=body))


def _everything() -> str:
    asks = "\n".join(f"- {example}" for example in EXAMPLES)
    parts = [f"Say it in your own words, in a thread with me:\n{asks}"]
    parts += [f"**{title}**\n{_lines(group)}" for group, title in GROUPS.items()]
    return "\n\n".join((*parts, _HOW))


def _lines(group: str) -> str:
    if group == "answer":
        return _ANSWER
    return "\n".join(_line(command) for command in COMMANDS.values() if command.group == group)


def _line(command: Command) -> str:
    usage = f" {command.usage}" if command.usage else ""
    return f"- `{command.name}{usage}`: {command.does}"


def _in_full(command: Command) -> str:
    options = [f"- `{option.usage}`: {_described(option)}" for option in command.all_options]
    parts = ["\n".join(options) or "It takes nothing more."]
    if command.example:
        parts.append(f"For example: `{command.example}`")
    if also := [alias for alias, name in ALIASES.items() if name == command.name]:
        parts.append(f"Also called {', '.join(f'`{alias}`' for alias in also)}.")
    return "\n\n".join(parts)


def _described(option: Option) -> str:
    return f"{option.does}: {option.expects}" if option.choices and option.shown else option.does
