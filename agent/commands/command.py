"""A command with its options, and the one parser that reads words as its arguments."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agent.commands.options import Kind, Option, alternatives, any_value
from agent.commands.words import is_open, plain_ids, split
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id

Reader = Callable[[Sequence[str]], dict[str, Any]]
_MOST_KEYED = 4  # options in a usage line that are written as `name=value`


@dataclass(frozen=True, slots=True)
class Command:
    """A word that people type; `tool` carries it out.

    `everyday` ones stand at the top where a platform sorts commands into groups. `fillers` are words that say nothing.
    `reads` takes the words of a command that has a small language of its own (the words of a chart), in which every
    option can be said too. `no_run` says what to do with the run that somebody names and it does not take. Where
    `switch` fits one of the words, the words are those of the command `other`.
    """

    name: str
    tool: str
    does: str
    group: str = "look"
    options: tuple[Option, ...] = ()
    example: str = ""
    everyday: bool = False
    fillers: frozenset[str] = frozenset()
    reads: Reader | None = None
    no_run: str = ""
    switch: Callable[[str], bool] | None = None
    other: "Command | None" = None

    @property
    def usage(self) -> str:
        """What may follow its name; where much may be set, only that it may."""
        keyed = [option for option in self.options if option.form.startswith(f"{option.name}=")]
        hidden = keyed if len(keyed) > _MOST_KEYED else []
        shown = [option for option in self.options if option not in hidden and option.kind is not Kind.PAIRS]
        parts = [option.usage if option.needed else f"[{option.usage}]" for option in shown]
        return " ".join((*parts, "[key=value …]") if hidden else parts)

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Its options and those of `other`, each name once."""
        own = {option.name for option in self.options}
        more = self.other.options if self.other else ()
        return (*self.options, *(option for option in more if option.name not in own))

    def meant(self, words: Sequence[str]) -> "Command":
        """Itself, or the command that these words are of."""
        if self.other is None or self.switch is None:
            return self
        plain = (word.strip("`,").removeprefix("file=") for word in words)
        return self.other if any("=" not in word.partition("?")[0] and self.switch(word) for word in plain) else self

    def arguments(self, words: Sequence[str]) -> dict[str, Any]:
        """What the tool is called with. Raises `BadRequest` where the words cannot be read."""
        words, command = plain_ids(words), self.meant(words)
        return command.reads(words) if command.reads else _Reading(command).of(words)


class _Reading:
    """One reading of words as the options of a command."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._found: dict[str, Any] = {}
        self._said: set[str] = set()  # options with a value
        self._rest: list[str] = []

    def of(self, words: Sequence[str]) -> dict[str, Any]:
        """The arguments of the tool. Raises `BadRequest`, naming the option and what it takes."""
        if len(words) == 1 and is_run_id(words[0].partition(".")[0].lower()):
            words = words[0].split(".")  # of a button, which joins values by dots
        for word in words:
            if is_open(word):
                raise BadRequest(f"I cannot read `{' '.join(words)[:100]}`: a quote is not closed.")
            if word.lower().strip(",") not in self._command.fillers:
                self._read(word)
        if self._rest:
            self._found[self._option(Kind.REST).target] = shlex.join(self._rest)
        for option in self._command.options:
            self._check(option)
        return self._found

    def _check(self, option: Option) -> None:
        """That it was given where it has to be, and as often as it may be. Raises `BadRequest`."""
        name, such = self._command.name, f" For example: `{self._command.example}`." if self._command.example else ""
        if option.needed and option.name not in self._said:
            raise BadRequest(f"`{name}` needs `{option.name}`, {option.does}: {option.expects}.{such}")
        if option.counts and option.name in self._said:
            least, most = option.counts
            if not least <= len(self._found[option.target]) <= most:
                raise BadRequest(f"`{name}` takes {option.does}.{such}")

    def _read(self, word: str) -> None:
        key, equals, value = word.partition("=")
        plain = word.strip("`,")
        named = next((option for option in self._command.options if equals and option.is_named(key.lower())), None)
        if named is not None and not value:
            raise BadRequest(f"`{word[:60]}` has no value: `{named.name}` is {named.does}.")
        if named is not None:
            self._set(named, value if named.kind is Kind.REST else value.rstrip(","))
        elif (option := self._by_place(plain, equals=bool(equals))) is not None:
            self._set(option, "yes" if option.kind is Kind.FLAG else plain)
        else:
            self._gather(word, key, value)

    def _by_place(self, word: str, *, equals: bool) -> Option | None:
        """The option that a word alone says: a flag, or the first that it may be a value of."""
        for option in self._command.options:
            if option.kind is Kind.FLAG and word.lower() == option.name:
                return option
            is_free = option.by_place and (option.many or option.name not in self._said)
            if is_free and option.may_be(word) and (option.kind is Kind.RUN or not (equals or _looks_like_a_run(word))):
                return option
        return None

    def _gather(self, word: str, key: str, value: str) -> None:
        """A word that is no option by its name or its place."""
        for option in self._command.options:
            if option.kind is Kind.REST:
                self._rest.append(word)
                return
            prefix = option.form.removesuffix("{}")
            if option.kind is Kind.ROW and "=" in word and key:
                self._found.setdefault(option.target, [{}])[0][key] = value.rstrip(",")
                return
            if option.kind is Kind.PAIRS and value and key.lower().startswith(prefix) and key != prefix:
                pairs = self._found.setdefault(option.target, {})
                pairs |= {key[len(prefix) :]: value} if prefix else {key.lower(): any_value(value.rstrip(","))}
                return
        self._refuse(word)

    def _set(self, option: Option, text: str) -> None:
        if option.kind is Kind.REST:
            self._rest += split(text)
            return
        if option.name in self._said and not option.many:
            raise BadRequest(f"`{self._command.name}` takes one `{option.name}`; `{text[:60]}` is a second one.")
        value = option.value(text)
        self._said.add(option.name)
        if option.many:
            self._found.setdefault(option.target, []).append(value)
        elif value is not None:
            self._found[option.target] = value

    def _option(self, kind: Kind) -> Option:
        return next(option for option in self._command.options if option.kind is kind)

    def _refuse(self, word: str) -> NoReturn:
        """Say what there is to say instead. Raises `BadRequest`."""
        options = self._command.options
        if _looks_like_a_run(word) and self._command.no_run:
            raise BadRequest(self._command.no_run.format(word[:60]))
        places = [option for option in options if option.by_place and option.name not in self._said]
        run = next((option for option in options if option.kind is Kind.RUN), None)
        if run is not None and (_looks_like_a_run(word) or (places == [run] and len(options) == 1)):
            if run.name in self._said and not run.many:
                raise BadRequest(f"`{self._command.name}` takes one `run`; `{word[:60]}` is a second one.")
            run.value(word)  # raises
        needed = next((option for option in places if option.needed and option.choices), None)
        if needed is not None:
            raise BadRequest(f"`{word[:60]}` is no `{needed.name}`, {needed.does}: {needed.expects}.")
        if any(option.kind is Kind.PAIRS for option in options):
            raise BadRequest(
                f"`{word[:60]}` is not a change. Write changes as `key=value`, such as `lr=0.1 seed=3 hours=2`; "
                f"`help {self._command.name}` names those that there are."
            )
        takes = alternatives(tuple(_shown(option) for option in options)) if options else "nothing more"
        raise BadRequest(f"`{self._command.name}` takes no `{word[:60]}`. It takes {takes}.")


def _looks_like_a_run(word: str) -> bool:
    return word.lower().startswith("r-")


def _shown(option: Option) -> str:
    """`level` (error, warning or all), as an error names it."""
    name = "key=value" if option.kind in {Kind.PAIRS, Kind.ROW} else option.name
    return f"`{name}` ({option.expects})" if option.choices else f"`{name}`"
