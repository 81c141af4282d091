"""The fair queue: who goes next, where, on which GPUs, and why the others wait. Pure: no clock, no database.

Order: users under their cap before users over it, then priority class (one more for each half hour of waiting), then
who uses least by weight (GPUs; slots for runs without one), then who used least lately, then age. What fits is placed,
so idle capacity is used, but for what is kept for a gang (`agent.runs.queue.places`). Before all of that comes one
request: the one that was neglected longest, once that is longer than `Limits.patience`. So every request gets a place
or a reservation within a bounded time, however many requests of higher priority come. Called by
`agent.runs.life.service`, which stores the placements. Users who all want more than there is get turns: equally many
GPUs at a time, then run by run.
"""

import heapq
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain

from agent.cards import counted
from agent.domain.orders import HostInfo
from agent.runs.queue.places import Capacity, Floor, Holding, Placement, Request

__all__ = ["Capacity", "Holding", "Limits", "Placement", "Plan", "Request", "capacity_of", "plan", "queue_full"]

FOREIGN_BYTES = 500 * 2**20  # a GPU on which processes not ours hold more is left to them
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps per user, and how fast waiting raises a class. `weights` by user, 1.0 where nothing is said.

    `patience` is how long a request may be neglected before it goes ahead of everybody, if nobody waits longer.
    """

    running_per_user: int = 2
    queued_per_user: int = 10
    aging: timedelta = timedelta(minutes=30)
    patience: timedelta = timedelta(minutes=60)
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start now, in order. `why` and `positions` (1 is next) are for the runs that still wait."""

    placements: tuple[Placement, ...]
    why: dict[str, str]
    positions: dict[str, int]


def capacity_of(info: HostInfo) -> Capacity | None:
    """What a host offers by its own word; None while it takes no orders (its pool hangs, or its disk is almost full).

    GPUs that are sick, or on which processes not ours hold more than `FOREIGN_BYTES`, are left out.
    """
    if info.shut:
        return None
    usable = tuple(gpu.uuid for gpu in info.gpus if not gpu.sick and gpu.foreign_bytes <= FOREIGN_BYTES)
    return Capacity(info.host, usable, info.slots, info.sandbox, info.networks, info.secrets, info.engine)


def queue_full(user: str, waiting: Sequence[Request], *, limits: Limits | None = None) -> str:
    """Why this user may not put another run into the queue; empty while there is room."""
    most = (limits or Limits()).queued_per_user
    mine = sum(request.user == user for request in waiting)
    if mine < most:
        return ""
    waits = counted(mine, "run")
    return f"You have {waits} waiting, and {most} is the most. Stop one of them, or wait until one has started."


def plan(
    waiting: Sequence[Request],
    running: Sequence[Holding],
    hosts: Sequence[Capacity],
    *,
    now: datetime,
    limits: Limits | None = None,
    recent: Mapping[str, float] | None = None,
    shut: Mapping[str, str] | None = None,
) -> Plan:
    """Place what can start now. `shut` says of other connected hosts why they take no runs.

    `recent` is what each user used lately, in GPU-seconds (or any unit, the same for all), which breaks ties between
    users who use equally much now; without it age does. The same arguments give the same plan, in whatever order.
    """
    limits, recent = limits or Limits(), recent or {}
    floor = Floor(running, hosts, now, shut or {})
    due = [request for request in waiting if request.not_before is None or request.not_before <= now]
    order = _Order(due, running, now=now, limits=limits, recent=recent)
    placed: list[tuple[Request, Placement]] = []
    left: list[Request] = []
    first = _neglected(due, order, floor, now - limits.patience)
    for request in chain(first, (request for request in order if request not in first)):
        placement = floor.place(request)
        if placement is None:
            left.append(request)
            floor.reserve(request)
        else:
            placed.append((request, placement))
            order.charge(request)
    users = {request.user for request in due}
    why = {request.run: floor.why(request, capped=order.capped(request) and len(users) > 1) for request in left}
    queue = _Order(left, running, now=now, limits=limits, recent=recent)
    for request, _ in placed:
        queue.charge(request)
    ranked: list[Request] = [request for request in first if request in left]
    for request in queue:  # as if each one ahead had started, so that the positions alternate between users
        queue.charge(request)
        if request not in first:
            ranked.append(request)
    held = [(request.not_before, request) for request in waiting if request.not_before and request.not_before > now]
    held.sort(key=lambda pair: (pair[0], pair[1].run))
    why |= {request.run: f"It is tried again at {at:%H:%M:%S} UTC." for at, request in held}
    ranked += [request for _, request in held]
    positions = {request.run: number for number, request in enumerate(ranked, start=1)}
    return Plan(tuple(placement for _, placement in placed), why, positions)


def _neglected(due: Sequence[Request], order: "_Order", floor: Floor, before: datetime) -> tuple[Request, ...]:
    """The one neglected for the longest time, since a moment before `before`, that some host could take."""
    since = [(max(request.asked_at, request.since or request.asked_at), request) for request in due]
    waiting = [(moment, request) for moment, request in since if moment <= before]
    waiting.sort(key=lambda pair: (pair[0], -pair[1].priority, pair[1].asked_at, pair[1].run))
    for _, request in waiting:
        if not order.capped(request) and floor.could_take(request):
            return (request,)
    return ()


_Key = tuple[bool, int, float, float, datetime, str]


class _Order:
    """Hands out requests, fairest first; what is charged to a user moves the rest of that user's back.

    A heap of queues: requests of one user, kind and priority differ in age only. Charging only ever makes keys larger,
    so a key that is out of date is noticed when it comes up.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        running: Sequence[Holding],
        *,
        now: datetime,
        limits: Limits,
        recent: Mapping[str, float],
    ) -> None:
        self._now, self._limits, self._recent = now, limits, recent
        self._using: dict[tuple[str, bool], float] = defaultdict(float)
        self._asked: dict[str, list[datetime]] = defaultdict(list)  # of the user's runs that have their place
        self._served: dict[tuple[str, bool], datetime] = {}
        for holding in running:
            self._using[holding.user, bool(holding.gpus)] += max(1, len(holding.gpus))
            insort(self._asked[holding.user], holding.asked_at or _LONG_AGO)
        queues: dict[tuple[str, bool, int], list[Request]] = defaultdict(list)
        for request in sorted(requests, key=lambda request: (request.asked_at, request.run), reverse=True):
            queues[request.user, request.gpus > 0, request.priority].append(request)
        self._heap = [(self._key(queue[-1]), queue) for queue in queues.values()]
        heapq.heapify(self._heap)

    def __iter__(self) -> Iterator[Request]:
        while self._heap:
            key, queue = self._heap[0]
            current = self._key(queue[-1])
            if current > key:
                heapq.heapreplace(self._heap, (current, queue))
                continue
            request = queue.pop()
            if queue:
                heapq.heapreplace(self._heap, (self._key(queue[-1]), queue))
            else:
                heapq.heappop(self._heap)
            yield request

    def charge(self, request: Request) -> None:
        """Charge a request that has its place to its user, whose later requests move back in the order."""
        kind = request.user, request.gpus > 0
        self._using[kind] += max(1, request.gpus)
        self._served[kind] = min(request.asked_at, self._served.get(kind, request.asked_at))
        insort(self._asked[request.user], request.asked_at)

    def capped(self, request: Request) -> bool:
        """Whether its user has enough runs going that were asked for before it; younger ones have overtaken it."""
        return bisect_right(self._asked[request.user], request.asked_at) >= self._limits.running_per_user

    def _key(self, request: Request) -> _Key:
        kind = request.user, request.gpus > 0
        weight = self._limits.weights.get(request.user, 1.0)
        share, lately = self._using[kind] / weight, self._recent.get(request.user, 0.0) / weight
        return self.capped(request), -self._class(request), share, lately, request.asked_at, request.run

    def _class(self, request: Request) -> int:
        served = self._served.get((request.user, request.gpus > 0))
        if served is not None and served <= request.asked_at:
            return request.priority  # an older run of the same user has just got its place
        waited = self._now - max(request.asked_at, request.since or request.asked_at)
        return request.priority + max(timedelta(), waited) // self._limits.aging
