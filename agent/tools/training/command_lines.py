"""Command lines of people's own programs: read, and given other options. Pure."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

from pydantic import JsonValue

from agent.domain.errors import BadRequest
from agent.domain.runs import Script

_NAMED = re.compile(r"""["'](--?[A-Za-z][\w-]*)["']""")
_MOST_NAMED = 12
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_OPTION = re.compile(r"--?[A-Za-z]")  # no negative number
SHORT_NAMES = {  # what people call settings; a changed one must replace the original's, not stand beside it
    "lr": "learning_rate",
    "epoch": "epochs",
    "round": "rounds",
    "batch": "batch_size",
    "steps": "max_steps",
    "patience": "early_stopping_patience",
}


def arguments_of(line: str) -> tuple[str, ...]:
    """The words of a command line. Raises `BadRequest` where a quote is not closed."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise BadRequest(f"I cannot read the arguments `{line[:100]}`: {error}.") from None


def options_in(program: str) -> frozenset[str]:
    """The options that the text of a program names, as `--lr` in `add_argument("--lr")`."""
    return frozenset(_NAMED.findall(program))


def with_settings(before: Script, settings: Mapping[str, JsonValue], program: str = "") -> tuple[str, ...]:
    """Its command line with settings as the options that it has: `learning_rate` is `--learning-rate`, `--lr` or alike.

    An option stands in the command line, or in the text of the program. Raises `BadRequest`: it has no such option.
    """
    line, had = before.arguments, {name for name, _ in _by_option(before.arguments)}
    known = options_in(program)
    for name, value in settings.items():
        whole = SHORT_NAMES.get(name, name)
        names = dict.fromkeys((name, whole, *(short for short, long in SHORT_NAMES.items() if long == whole)))
        spelled = [word for one in names for word in (one, one.replace("_", "-"))]
        options = [option for word in spelled for option in (f"--{word}", f"-{word}")]
        option = next((option for has in (had, known) for option in options if option in has), None)
        if option is None:
            raise BadRequest(
                f"`{before.name}` is somebody's own program, and has no option for `{name}`"
                f"{_those(had | known)}. Give it its command line as it is, such as “run {before.name} --lr 0.1”, or "
                "change the program."
            )
        line = with_options(line, (option, str(value)))
    return line


def _those(options: Collection[str]) -> str:
    named = ", ".join(f"`{option}`" for option in sorted(options)[:_MOST_NAMED])
    return f"; its options are {named}{' and more' if len(options) > _MOST_NAMED else ''}" if named else ""


def with_options(before: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """A command line with other options: those of the same name are replaced, what is not named stays.

    What begins with no option, or with `--` alone, is a whole line; nothing is an empty one.
    """
    if not given or not _OPTION.match(given[0]):
        return tuple(given[1:] if given and given[0] == "--" else given)
    new: dict[str, list[str]] = {}
    for name, words in _by_option(given):
        new.setdefault(name, []).extend(words)
    named = frozenset(new)
    line = [new.pop(name, []) if name in named else words for name, words in _by_option(before)]
    return tuple(word for words in (*line, *new.values()) for word in words)


def settings_of(line: str) -> dict[str, int | float]:
    """The numbers that a command line gives, under the names of settings: `--lr 0.1` is `learning_rate`."""
    found: dict[str, int | float] = {}
    for option, words in _by_option(line.split()):
        name = option.lstrip("-").replace("-", "_")
        value = " ".join(words).removeprefix(option).lstrip("= ")
        if option and _NUMBER.fullmatch(value):
            found[SHORT_NAMES.get(name, name)] = int(value) if value.isdecimal() else float(value)
    return found


def _by_option(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The options of a command line by name, each with its values; what stands before the first has no name."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if _OPTION.match(word) or not found:
            found.append((word.partition("=")[0] if _OPTION.match(word) else "", []))
        found[-1][1].append(word)
    return found
