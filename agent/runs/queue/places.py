"""The hosts while a queue is planned: what fits where, what is kept for whom, and why something has no place.

Pure. Knows no users and no order: `agent.runs.queue.fair` brings the requests, fairest first. The first gang that does
not fit gets a reservation on the host where it can begin earliest; what would still run then may not take the GPUs that
it needs (EASY backfill: D. Lifka, "The ANL/IBM SP scheduling system", 1995). Times are limits, never estimates: a
reservation cannot be delayed by a run that takes longer than estimated.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta

from agent.domain.runs import DEFAULT_ENGINE, Network

TIERS = {"none": 0, "landlock": 1, "bwrap": 2}
_NAMED = 4  # runs in a sentence
_OVERDUE_S = 60.0  # how long a run that is past its limit may still take to end


@dataclass(frozen=True, slots=True)
class Request:
    """A run that waits. `asked_at` is when it began to wait (a resumed run: when it was resumed).

    `since` is from when waiting raises its class: the later of `asked_at` and the last start of a run that the same
    user had asked for before this one, because waiting for one's own runs is no neglect (None: `asked_at`).
    `longest_s` is the time that its approval still covers; `host` where it would like to go, and `must` that it can go
    nowhere else (its checkpoints are there). `tier` is the weakest sandbox that was approved.
    """

    run: str
    user: str
    asked_at: datetime
    longest_s: float
    priority: int = 0
    gpus: int = 0
    host: str = ""
    must: bool = False
    tier: str = "none"
    network: Network = "none"
    secrets: tuple[str, ...] = ()
    not_before: datetime | None = None
    since: datetime | None = None
    engine: str = DEFAULT_ENGINE


@dataclass(frozen=True, slots=True)
class Holding:
    """A run that has its place: the GPUs by uuid (none: it takes a slot), and when it has ended at the latest.

    `asked_at` is its request's; None counts as long ago.
    """

    run: str
    user: str
    host: str
    gpus: tuple[str, ...] = ()
    ends_at: datetime | None = None
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """A host that takes orders. `gpus` are those that may be used at all, whether or not they are free now."""

    host: str
    gpus: tuple[str, ...] = ()
    slots: int = 0
    tier: str = "none"
    networks: tuple[Network, ...] = ("none", "open")
    secrets: tuple[str, ...] | None = None  # None: nobody knows
    engine: str = DEFAULT_ENGINE


@dataclass(frozen=True, slots=True)
class Placement:
    """Start `run` on `host` with these GPUs."""

    run: str
    host: str
    gpus: tuple[str, ...] = ()


@dataclass(slots=True)
class _Host:
    """One host while a plan is made: free GPUs in its own order, free slots, and when its busy GPUs come free."""

    capacity: Capacity
    free: list[str]
    slots: int
    ends: list[datetime]


@dataclass(slots=True)
class _Reservation:
    """From `at` (None: nobody knows when) `host` is kept for `request`; `spare` GPUs may be taken beyond that."""

    request: Request
    host: str
    at: datetime | None
    spare: int


class Floor:
    """The hosts while a plan is made."""

    def __init__(
        self, running: Sequence[Holding], hosts: Sequence[Capacity], now: datetime, shut: Mapping[str, str]
    ) -> None:
        self._now, self._running, self._shut = now, running, shut
        self._reserved: _Reservation | None = None
        self._full: set[tuple[object, ...]] = set()
        self._fitting: dict[tuple[object, ...], list[_Host]] = {}
        self._hosts = {
            capacity.host: _Host(capacity, [], capacity.slots, [])
            for capacity in sorted(hosts, key=lambda capacity: capacity.host)
        }
        taken: dict[str, datetime] = {}
        for holding in running:
            end = holding.ends_at or datetime.max.replace(tzinfo=now.tzinfo)
            taken |= dict.fromkeys(holding.gpus, max(end, now + timedelta(seconds=_OVERDUE_S)))
            if not holding.gpus and holding.host in self._hosts:
                self._hosts[holding.host].slots -= 1
        for host in self._hosts.values():
            host.free = [uuid for uuid in host.capacity.gpus if uuid not in taken]
            host.ends = [taken[uuid] for uuid in host.capacity.gpus if uuid in taken]

    def place(self, request: Request) -> Placement | None:
        """Take a place for it, if there is one now."""
        long = self._outlasts(request)
        signature = (*_where(request), long)
        if signature in self._full:
            return None
        host = self._best(request, long=long)
        if host is None:
            self._full.add(signature)
            return None
        if not request.gpus:
            host.slots -= 1
            return Placement(request.run, host.capacity.host)
        if long and self._reserved is not None and self._reserved.host == host.capacity.host:
            self._reserved.spare -= request.gpus
        gpus, host.free = tuple(host.free[: request.gpus]), host.free[request.gpus :]
        host.ends += [self._now + timedelta(seconds=request.longest_s)] * request.gpus
        return Placement(request.run, host.capacity.host, gpus)

    def reserve(self, request: Request) -> None:
        """Keep a place for a gang, if it is the first that does not fit and there is a host that it fits on."""
        if request.gpus < 2 or self._reserved is not None:
            return
        best: tuple[tuple[datetime, bool, str], _Host] | None = None
        for host in self._fits(request):
            missing = request.gpus - len(host.free)
            if missing > len(host.ends):
                continue
            at = sorted(host.ends)[missing - 1] if missing > 0 else self._now
            rank = (at, host.capacity.host != request.host, host.capacity.host)
            if best is None or rank < best[0]:
                best = rank, host
        if best is None:
            return
        (at, _, name), host = best
        known = at.year < MAXYEAR
        then_free = len(host.free) + sum(end <= at for end in host.ends)
        self._reserved = _Reservation(request, name, at if known else None, then_free - request.gpus if known else 0)

    def could_take(self, request: Request) -> bool:
        """Whether there is a host on which it could run, were it empty."""
        return bool(self._fits(request))

    def _outlasts(self, request: Request) -> bool:
        """Whether it would still run when the reservation begins."""
        if self._reserved is None or not request.gpus:
            return False
        at = self._reserved.at
        return at is None or self._now + timedelta(seconds=request.longest_s) > at

    def _best(self, request: Request, *, long: bool) -> _Host | None:
        """The host that the request prefers; else the one where the fewest GPUs (or the most slots) stay free."""
        wanted, best, best_rank = request.gpus, None, math.inf
        reserved = self._reserved
        for host in self._fits(request):
            free = len(host.free) if wanted else host.slots
            if free < max(1, wanted):
                continue
            rank: float = free if wanted else -free
            if reserved is not None and wanted and host.capacity.host == reserved.host:
                if long and reserved.spare < wanted:
                    continue
                rank += 10**6  # rather where nobody waits
            if host.capacity.host == request.host:
                return host
            if rank < best_rank:
                best, best_rank = host, rank
        return best

    def _fits(self, request: Request) -> list[_Host]:
        """The hosts on which it could run, were they empty; by name."""
        signature = _where(request)
        if signature not in self._fitting:
            self._fitting[signature] = [
                host
                for host in self._hosts.values()
                if _allows(host.capacity, request) and _offers(host.capacity, request)
            ]
        return self._fitting[signature]

    def why(self, request: Request, *, capped: bool) -> str:
        """Why it was not placed, in a sentence."""
        shut = "; ".join(f"{host}: {reason}" for host, reason in sorted(self._shut.items()))
        if not self._hosts:
            return f"No connected host takes runs now ({shut})." if shut else "No host is connected that takes runs."
        if not any(host.capacity.engine == request.engine for host in self._hosts.values()):
            return f"No host of the engine {request.engine} is connected that takes runs."
        if request.must and request.host not in self._hosts:
            reason = self._shut.get(request.host)
            does_not = f"takes no runs now: {reason}" if reason else "does not take runs now"
            return f"It waits for host {request.host}, which has its checkpoint and {does_not}."
        if not self._fits(request):
            return self._never(request)
        reserved = self._reserved
        if reserved is not None and reserved.request is request:
            free = len(self._hosts[reserved.host].free)
            until = f", by {reserved.at:%Y-%m-%d %H:%M} UTC at the latest" if reserved.at is not None else ""
            return (
                f"It needs {request.gpus} free GPUs on one host. Host {reserved.host} is kept for it, where {free} "
                f"{'is' if free == 1 else 'are'} free now{until}."
            )
        if reserved is not None and self._kept_from(request, reserved):
            return (
                f"The free GPUs on host {reserved.host} are kept for a run that needs {reserved.request.gpus} and "
                f"is ahead; this one might still run when they are needed."
            )
        if capped:
            return "Its owner has as many runs going as one may have while others wait; it starts after one of them."
        return self._busy(request) + (f" {shut}." if shut else "")

    def _kept_from(self, request: Request, reserved: _Reservation) -> bool:
        return self._outlasts(request) and any(
            host.capacity.host == reserved.host and len(host.free) >= request.gpus for host in self._fits(request)
        )

    def _never(self, request: Request) -> str:
        allowing = [host.capacity for host in self._hosts.values() if _allows(host.capacity, request)]
        if allowing and request.gpus:
            most = max(len(capacity.gpus) for capacity in allowing)
            count = "1 GPU" if request.gpus == 1 else f"{request.gpus} GPUs"
            sound = "in order and not used by others"
            return f"It needs {count} on one host, but no host that it may use has more than {most} {sound}."
        where = f"Host {request.host}, where it has to run," if request.must else "None of the connected hosts"
        verb = "does not offer" if request.must else "offers"
        named = f", and the secrets {', '.join(request.secrets)}" if request.secrets else ""
        return f"{where} {verb} what was approved: sandbox {request.tier} and network {request.network}{named}."

    def _busy(self, request: Request) -> str:
        fitting = self._fits(request)
        where = f" on host {request.host}" if request.must else ""
        if not request.gpus:
            slots = sum(host.capacity.slots for host in fitting)
            by = self._own(request, fitting)
            return f"{_all(slots, 'slot')} for runs without a GPU{where} {_is(slots)} in use{by}."
        free = max(len(host.free) for host in fitting)
        if request.gpus == 1 or not free:
            gpus = sum(len(host.capacity.gpus) for host in fitting)
            return f"{_all(gpus, 'GPU')} that it may use{where} {_is(gpus)} in use{self._own(request, fitting)}."
        return f"It needs {request.gpus} free GPUs on one host{where}; now the most is {free}."

    def _own(self, request: Request, fitting: Sequence[_Host]) -> str:
        """Whose they are, where all are of who asks."""
        names = {host.capacity.host for host in fitting}
        of_kind = [one for one in self._running if one.host in names and bool(one.gpus) == bool(request.gpus)]
        if not of_kind or any(one.user != request.user for one in of_kind):
            return ""
        runs = sorted(one.run for one in of_kind)
        return f" by your own {'run' if len(runs) == 1 else 'runs'} {', '.join(runs[:_NAMED])}"


def _all(count: int, noun: str) -> str:
    return f"All {count} {noun}s" if count != 1 else f"The one {noun}"


def _is(count: int) -> str:
    return "are" if count != 1 else "is"


def _where(request: Request) -> tuple[object, ...]:
    """Everything that `_allows` and `_offers` look at; requests with an equal key get the same answer."""
    where = request.host if request.must else ""
    return request.engine, request.gpus, request.tier, request.network, request.secrets, where


def _allows(capacity: Capacity, request: Request) -> bool:
    """Whether the host keeps to what was approved."""
    if request.engine != capacity.engine or (request.must and request.host != capacity.host):
        return False
    if capacity.secrets is not None and not set(request.secrets) <= set(capacity.secrets):
        return False
    return TIERS.get(capacity.tier, 0) >= TIERS.get(request.tier, 0) and request.network in capacity.networks


def _offers(capacity: Capacity, request: Request) -> bool:
    return len(capacity.gpus) >= request.gpus if request.gpus else capacity.slots > 0
