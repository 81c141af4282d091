"""Budgets: how much money, tokens and GPU-hours people may use. Pure."""

import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from agent.domain.errors import BadRequest
from agent.domain.inbound import Person, Thread
from agent.domain.value import Value

_MENTION = re.compile(r"<@!?([\w-]+)(?:\|[^>]*)?>", re.ASCII)
_ID = re.compile(r"(?=.*\d)[A-Z\d]{6,}", re.ASCII)  # as platforms make them
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}


class Scope(StrEnum):
    """Whose use a budget counts: of a calendar month (UTC), and of a thread for as long as it is there."""

    PERSON = "person"
    CHANNEL = "channel"
    THREAD = "thread"
    EVERYWHERE = "everywhere"


class Unit(StrEnum):
    """What is counted: US dollars of language models and priced runs, tokens of language models, hours of GPUs."""

    USD = "usd"
    TOKENS = "tokens"
    GPU_HOURS = "gpu_hours"


EACH = "*"  # the key of a budget that every person has for themselves


class Budget(Value):
    """The most of one unit in one scope. `key` is the person's, the channel's or the session's."""

    scope: Scope
    key: str
    unit: Unit
    amount: float
    by: str = ""  # the key of who set it
    at: datetime


class RunHours(Value):
    """Hours of runs, and their US dollars where a price is set: `gpu` counts each GPU, `cpu` the runs without one."""

    gpu: float = 0.0
    cpu: float = 0.0
    usd: float = 0.0

    def __add__(self, other: "RunHours") -> "RunHours":
        """Both together."""
        return RunHours(gpu=self.gpu + other.gpu, cpu=self.cpu + other.cpu, usd=self.usd + other.usd)


class Used(Value):
    """What language models and runs used. `set_aside` is what runs that are not over may still use.

    `unpriced` is how many calls of language models have no known price, `unpriced_runs` how many runs; the dollars have
    nothing of them.
    """

    models_usd: float = 0.0
    unpriced: int = 0
    unpriced_runs: int = 0
    tokens: float = 0.0
    runs: RunHours = RunHours()
    set_aside: RunHours = RunHours()

    @property
    def usd(self) -> float:
        """All money, with what is set aside."""
        return self.models_usd + self.runs.usd + self.set_aside.usd

    @property
    def gpu_hours(self) -> float:
        """All hours of GPUs, with those that are set aside."""
        return self.runs.gpu + self.set_aside.gpu

    def of(self, unit: Unit) -> float:
        """The amount of one unit."""
        return {Unit.USD: self.usd, Unit.TOKENS: self.tokens}.get(unit, self.gpu_hours)


class Standing(Value):
    """A budget, and what was used of it; one of money does not count `unpriced` calls and runs."""

    budget: Budget
    used: float
    unpriced: int = 0
    unpriced_runs: int = 0

    @property
    def left(self) -> float:
        """What may still be used."""
        return max(0.0, self.budget.amount - self.used)

    @property
    def name(self) -> str:
        """Whose it is, in words."""
        return NAMES[self.budget.scope]

    @property
    def used_words(self) -> str:
        """`this channel $12.40 of $50.00 this month`."""
        return f"{self.name} {shown(self.budget.unit, self.used, bare=True)} of {self._most}"

    @property
    def left_words(self) -> str:
        """`this channel $37.60 left of $50.00 this month`."""
        return f"{self.name} {shown(self.budget.unit, self.left, bare=True)} left of {self._most}"

    @property
    def _most(self) -> str:
        month = "" if self.budget.scope is Scope.THREAD else " this month"
        return f"{shown(self.budget.unit, self.budget.amount)}{month}"


NAMES = {
    Scope.PERSON: "you",
    Scope.CHANNEL: "this channel",
    Scope.THREAD: "this thread",
    Scope.EVERYWHERE: "everybody",
}
TITLES = {
    Scope.PERSON: "You, this month",
    Scope.CHANNEL: "This channel, this month",
    Scope.THREAD: "This thread",
    Scope.EVERYWHERE: "Everybody, this month",
}


def keys_of(person: str, thread: Thread, session_id: str) -> dict[Scope, str]:
    """The key of each scope; `person` is a `Person.key`."""
    return {
        Scope.PERSON: person,
        Scope.CHANNEL: thread.channel_key,
        Scope.THREAD: session_id,
        Scope.EVERYWHERE: "",
    }


def holder_of(text: str, asking: Person, spoke: Iterable[Person]) -> str:
    """The key of a person: named by a mention, an id or a whole key, or by the name of one of those who `spoke`.

    Raises:
        BadRequest: that is nobody, or several.
    """
    plain = text.strip("`")
    if plain.count("/") == 2:
        return plain
    plain = mention[1] if (mention := _MENTION.fullmatch(plain)) else plain.lstrip("@")
    known = (asking, *spoke)
    named = {one.key for one in known if one.id == plain} or {
        one.key for one in known if one.name.casefold() == plain.casefold()
    }
    if len(named) > 1:
        ids = ", ".join(f"`{key.rpartition('/')[2]}`" for key in sorted(named))
        raise BadRequest(f"Several people here are called `{plain[:40]}`. Write the id of one: {ids}.")
    if not named and not mention and not _ID.fullmatch(plain):
        raise BadRequest(
            f"I know nobody here as `{plain[:40]}`. Mention them (`who=@…`), or write their id: `who=U012AB`."
        )
    return named.pop() if named else f"{asking.platform}/{asking.tenant}/{plain}"


def shown(unit: Unit, amount: float, *, bare: bool = False) -> str:
    """An amount for people; `bare` leaves the unit out where money does not need it."""
    if unit is Unit.USD:
        return f"${amount:,.2f}"
    text = f"{amount:,.0f}" if unit is Unit.TOKENS else f"{amount:,.1f}".removesuffix(".0")
    return text if bare else f"{text} {'tokens' if unit is Unit.TOKENS else 'GPU-hours'}"


def amount_of(text: str) -> float | None:
    """`50`, `$50`, `2M`, `500k`; None for `none`, which takes a budget away.

    Raises:
        BadRequest: it is no amount.
    """
    plain = text.strip().lower().lstrip("$").replace(",", "")
    if plain == "none":
        return None
    factor = _FACTORS.get(plain[-1:], 1.0) if plain[-1:].isalpha() else 1.0
    try:
        amount = float(plain.rstrip("km")) * factor
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e15:
        raise BadRequest(f"`{text[:40]}` is no amount. Write a number such as 50, 500k or 2M, or none for no budget.")
    return amount
