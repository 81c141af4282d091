"""Hosts and requests for tests of the fair queue, and a cluster whose time passes."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from agent.runs.queue.fair import Capacity, Holding, Limits, Request, plan

T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = 3600.0


def host(name: str, gpus: int, *, slots: int = 2, tier: str = "bwrap") -> Capacity:
    networks = ("none", "hub", "open") if tier == "bwrap" else ("none", "open")
    return Capacity(name, tuple(f"{name}-{n}" for n in range(gpus)), slots, tier, networks)  # type: ignore[arg-type]


def ask(run: str, user: str = "alice", *, age_s: float = 0.0, **more: object) -> Request:
    return Request(run, user, T0 - timedelta(seconds=age_s), **{"longest_s": HOUR, **more})  # type: ignore[arg-type]


@dataclass
class Cluster:
    """Time in steps of a minute: runs end at their own time, new ones are asked for, a plan is carried out."""

    hosts: list[Capacity]
    limits: Limits = field(default_factory=Limits)
    now: datetime = T0
    waiting: list[Request] = field(default_factory=list)
    running: dict[str, Holding] = field(default_factory=dict)
    takes_s: dict[str, float] = field(default_factory=dict)
    ends: dict[str, datetime] = field(default_factory=dict)
    started: dict[str, datetime] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    starts: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=lambda: defaultdict(list))

    def ask(self, run: str, user: str, *, takes_s: float, longest_s: float | None = None, **more: object) -> None:
        self.takes_s[run] = takes_s
        self.waiting.append(Request(run, user, self.now, longest_s or takes_s, **more))  # type: ignore[arg-type]

    def minute(self) -> None:
        self.now += timedelta(minutes=1)
        for run in [run for run, end in self.ends.items() if end <= self.now]:
            del self.running[run], self.ends[run]
        waiting = [replace(request, since=self._since(request)) for request in self.waiting]
        made = plan(
            waiting, list(self.running.values()), self.hosts, now=self.now, limits=self.limits, recent=self.used
        )
        asked = {request.run: request for request in self.waiting}
        busy = {uuid for holding in self.running.values() for uuid in holding.gpus}
        for placed in made.placements:
            request = asked[placed.run]
            assert not busy & set(placed.gpus)
            busy |= set(placed.gpus)
            limit = self.now + timedelta(seconds=request.longest_s)
            self.running[placed.run] = Holding(
                placed.run, request.user, placed.host, placed.gpus, limit, request.asked_at
            )
            self.ends[placed.run] = self.now + timedelta(seconds=self.takes_s[placed.run])
            self.started[placed.run] = self.now
            self.used[request.user] += self.takes_s[placed.run] * max(1, request.gpus)
            self.starts[request.user].append((request.asked_at, self.now))
        gone = {placed.run for placed in made.placements}
        self.waiting = [request for request in self.waiting if request.run not in gone]

    def _since(self, request: Request) -> datetime:
        older = [start for asked, start in self.starts[request.user] if asked <= request.asked_at]
        return max([request.asked_at, *older])
