"""What is remembered of what language models cost, and of budgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.domain.budgets import Budget, Scope, Unit, Used
from agent.stores.conversations import Turn


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One answer of a language model, and what it cost; `usd` is None where nobody knows the price.

    The `turn` of what a command asks has no id, and no session outside of a thread.
    """

    turn: Turn
    model: str
    tokens_in: int
    tokens_out: int
    usd: float | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of language models used. `usd` is the sum of the known prices; `unpriced` calls have none."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
        )


class ModelUsage(Protocol):
    """What language models cost: one row a call, by turn, session, person and channel.

    The sums of a month are those with `since=agent.clock.month_began(now)`; filters that are left out hold for all.
    """

    async def add(self, call: ModelCall) -> None:
        """Store it; its session, person and channel are those of its turn."""

    async def spent(
        self, *, session_id: str = "", person: str = "", channel: str = "", since: datetime | None = None
    ) -> Spent:
        """The sum. `person` is a `Person.key`, `channel` a `Thread.channel_key`."""

    async def by_model(
        self, *, session_id: str = "", person: str = "", channel: str = "", since: datetime | None = None
    ) -> Mapping[str, Spent]:
        """The same by the model's name, the one with most tokens first."""


class Budgets(Protocol):
    """Budgets, and what was used of them."""

    async def all(self) -> Sequence[Budget]:
        """Every budget."""

    async def set(self, new: Budget) -> None:
        """Store it in place of the one before."""

    async def remove(self, scope: Scope, key: str, unit: Unit) -> None:
        """Take it away."""

    async def used(self, scope: Scope, key: str, since: datetime | None) -> Used:
        """What language models and runs used since then, with what is approved for runs that are not over."""
