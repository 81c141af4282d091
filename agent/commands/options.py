"""The options of commands: what each is, how it is written and read. Knows no command and no platform."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id


class Kind(StrEnum):
    """What an option's value is."""

    RUN = "run"
    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    YES_NO = "yes_no"
    FLAG = "flag"  # its name alone says it
    LIST = "list"  # texts with commas between them
    PAIRS = "pairs"  # every `key=value` that no other option takes
    ROW = "row"  # the same, as one row of texts
    REST = "rest"  # every word that no other option takes, as a command line


class Completes(StrEnum):
    """What can be proposed for a value while somebody types it."""

    RUNS = "runs"
    METRICS = "metrics"
    PICTURES = "pictures"
    FILES = "files"
    HOSTS = "hosts"
    HELP = "help"
    MODELS = "models"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command.

    `written` is how a value stands in words, with `{}` for it: `{}` alone is a value by its place, `name={}` the usual
    form. `argument` is the tool's name for it. `many` values may stand one after the other; `counts` is the fewest and
    the most of them, where any are given. `fits` says which words may be its value by their place, `also` are other
    spellings of `choices`, and `shown` is its value in usage lines.
    """

    name: str
    does: str
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    completes: Completes | None = None
    written: str = ""
    argument: str = ""
    many: bool = False
    counts: tuple[int, int] | None = None
    needed: bool = False
    fits: Callable[[str], bool] | None = None
    also: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""

    @property
    def form(self) -> str:
        """How it is written, `{}` standing for its value."""
        if self.written:
            return self.written
        if self.kind is Kind.FLAG:
            return self.name
        return "{}" if self.kind in {Kind.PAIRS, Kind.ROW, Kind.REST} else f"{self.name}={{}}"

    @property
    def by_place(self) -> bool:
        """Whether a word alone can be its value."""
        return self.form == "{}" and self.kind not in {Kind.PAIRS, Kind.ROW, Kind.REST}

    @property
    def takes_words(self) -> bool:
        """Whether its value may be of several words; after a run there may stand what else a command takes."""
        return self.many or self.kind in {Kind.RUN, Kind.PAIRS, Kind.ROW, Kind.REST}

    @property
    def target(self) -> str:
        """The argument of the tool that it sets."""
        return self.argument or self.name

    @property
    def usage(self) -> str:
        """How it is written, with an example of its value."""
        value = self.shown or "|".join(self.choices) or (self.name if self.by_place else "…")
        return self.form.format(f"{value} …" if self.many else value)

    def written_as(self, value: str, split: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        """The words that say this value, such as `last=500`."""
        values = split(value) if self.takes_words else (value,)
        return tuple(part.replace("{}", one) for one in values for part in self.form.split())

    def is_named(self, key: str) -> bool:
        """Whether `key=…` is this option."""
        return key in {self.name, self.target} and self.kind not in {Kind.PAIRS, Kind.ROW}

    def may_be(self, word: str) -> bool:
        """Whether a word may stand in its place."""
        if self.kind is Kind.RUN:
            return is_run_id(word.lower())
        if self.kind is Kind.WHOLE:
            return bool(_VERSION.fullmatch(word))
        if self.choices:
            return word.lower() in {*self.choices, *self.also}
        return self.fits(word) if self.fits else True

    def value(self, text: str) -> Any:
        """What a text means as its value; None where it says that nothing is meant. Raises `BadRequest`."""
        if text.lower() == "default" and not self.choices:
            return None
        match self.kind:
            case Kind.RUN if is_run_id(text.lower()):
                return text.lower()
            case Kind.WHOLE if found := _VERSION.fullmatch(text):
                return int(found.group(1))
            case Kind.NUMBER if _NUMBER.fullmatch(text):
                return int(text) if text.lstrip("-").isdecimal() else float(text)
            case Kind.YES_NO | Kind.FLAG if text.lower() in _YES_NO:
                return _YES_NO[text.lower()]
            case Kind.LIST:
                return [part for part in text.split(",") if part]
            case Kind.TEXT if not self.choices:
                return text
            case Kind.TEXT if self.may_be(text):
                return self.also.get(text.lower(), text.lower())
        if self.kind is Kind.RUN:
            raise BadRequest(f"`{text[:60]}` is not a run id. Run ids look like `r-abc123`; `runs` lists them.")
        raise BadRequest(f"`{text[:60]}` is no `{self.name}`: {self.expects}.")

    @property
    def expects(self) -> str:
        """What its value has to be, in words."""
        return alternatives(self.choices) if self.choices else _EXPECTS.get(self.kind, self.does)


def alternatives(words: tuple[str, ...]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def any_value(text: str) -> Any:
    """A value that no option describes: a number, yes or no, JSON, or a text; None for `default`."""
    known = {"default": None, "yes": True, "no": False, "none": "none"}
    if text.lower() in known:
        return known[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise BadRequest(f"`{text[:20]}…` is nested too deeply to be a value.") from None


_VERSION = re.compile(r"[vV]?(\d{1,9})", re.ASCII)
_NUMBER = re.compile(r"-?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_YES_NO = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_EXPECTS = {
    Kind.WHOLE: "a whole number, such as 2",
    Kind.NUMBER: "a number, such as 2 or 0.5",
    Kind.YES_NO: "yes or no",
    Kind.FLAG: "yes or no",
}
