"""The fair queue: what holds for every plan, over random clusters."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from agent.runs.queue.fair import Capacity, Holding, Placement, Plan, Request, plan
from agent.runs.queue.places import TIERS
from tests.agent.clusters import T0, host

_coin: st.SearchStrategy[bool] = st.booleans()
_users = st.sampled_from(["alice", "bob", "carol"])
_hosts = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.integers(0, 3),
        st.sampled_from(["bwrap", "landlock", "none"]),
        st.sampled_from([None, (), ("A",), ("A", "B")]),
    ),
    max_size=4,
).map(
    lambda rows: [
        replace(host(f"h{n}", gpus, slots=slots, tier=tier), secrets=secrets)
        for n, (gpus, slots, tier, secrets) in enumerate(rows)
    ]
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Request], list[Holding], list[Capacity]]:
    hosts = draw(_hosts)
    running: list[Holding] = []
    for capacity in hosts:
        free = list(capacity.gpus)
        while draw(_coin) and free:
            count = draw(st.integers(1, len(free)))
            gpus, free = tuple(free[:count]), free[count:]
            ends = draw(st.none() | st.integers(-60, 7200).map(lambda s: T0 + timedelta(seconds=s)))
            running.append(Holding(f"r{len(running)}", draw(_users), capacity.host, gpus, ends))
        for _ in range(draw(st.integers(0, capacity.slots))):
            running.append(Holding(f"r{len(running)}", draw(_users), capacity.host))
    waiting = [
        Request(
            run=f"w{number}",
            user=draw(_users),
            asked_at=T0 - timedelta(seconds=draw(st.integers(0, 4 * 3600))),
            longest_s=draw(st.sampled_from([60.0, 1800.0, 36_000.0])),
            priority=draw(st.integers(-1, 1)),
            gpus=draw(st.sampled_from([0, 1, 1, 2, 4, 8])),
            host=draw(st.sampled_from(["", "h0", "h1", "away"])),
            must=draw(st.booleans()),
            tier=draw(st.sampled_from(["bwrap", "none"])),
            network=draw(st.sampled_from(["none", "hub", "open"])),
            secrets=draw(st.sampled_from([(), (), ("A",), ("B", "A")])),
            not_before=draw(st.none() | st.integers(-60, 60).map(lambda s: T0 + timedelta(seconds=s))),
        )
        for number in range(draw(st.integers(0, 12)))
    ]
    waiting = [request if request.host else replace(request, must=False) for request in waiting]
    return waiting, running, hosts


def allowed(request: Request, capacity: Capacity) -> bool:
    strong = TIERS[capacity.tier] >= TIERS[request.tier] and request.network in capacity.networks
    known = capacity.secrets is None or set(request.secrets) <= set(capacity.secrets)
    return strong and known and (not request.must or request.host == capacity.host)


@dataclass
class Free:
    gpus: dict[str, set[str]]
    slots: dict[str, int]


def free_after(running: Sequence[Holding], hosts: Sequence[Capacity], made: Plan) -> Free:
    free = Free({h.host: set(h.gpus) for h in hosts}, {h.host: h.slots for h in hosts})
    taken: Sequence[Holding | Placement] = [*running, *made.placements]
    for holding in taken:
        free.gpus[holding.host] -= set(holding.gpus)
        free.slots[holding.host] -= not holding.gpus
    return free


@given(clusters())
def test_no_gpu_twice_and_only_where_it_was_approved(
    cluster: tuple[list[Request], list[Holding], list[Capacity]],
) -> None:
    waiting, running, hosts = cluster
    made = plan(waiting, running, hosts, now=T0)
    asked = {request.run: request for request in waiting}
    there = {capacity.host: capacity for capacity in hosts}
    used = [uuid for holding in running for uuid in holding.gpus]
    for placed in made.placements:
        request = asked[placed.run]
        assert len(placed.gpus) == request.gpus
        assert set(placed.gpus) <= set(there[placed.host].gpus)
        assert allowed(request, there[placed.host])
        assert request.not_before is None or request.not_before <= T0
        used += placed.gpus
    assert len(used) == len(set(used))
    assert all(left >= 0 for left in free_after(running, hosts, made).slots.values())
    assert len({placed.run for placed in made.placements}) == len(made.placements)


@given(clusters(), st.randoms())
def test_positions_and_reasons_cover_those_who_wait_and_the_order_of_arguments_means_nothing(
    cluster: tuple[list[Request], list[Holding], list[Capacity]], dice: random.Random
) -> None:
    waiting, running, hosts = cluster
    made = plan(waiting, running, hosts, now=T0)
    left = {request.run for request in waiting} - {placed.run for placed in made.placements}
    assert set(made.positions) == set(made.why) == left
    assert sorted(made.positions.values()) == list(range(1, len(left) + 1))
    assert all(why.endswith(".") and why[0].isupper() for why in made.why.values())
    for rows in (waiting, running, hosts):
        dice.shuffle(rows)
    assert plan(waiting, running, hosts, now=T0) == made


@given(clusters())
def test_what_fits_is_placed_unless_it_is_kept_for_a_gang(
    cluster: tuple[list[Request], list[Holding], list[Capacity]],
) -> None:
    waiting, running, hosts = cluster
    made = plan(waiting, running, hosts, now=T0)
    free = free_after(running, hosts, made)
    gang = any("is kept for it" in why for why in made.why.values())
    for request in waiting:
        if request.run not in made.why or (request.not_before or T0) > T0:
            continue
        for capacity in hosts:
            thread = len(free.gpus[capacity.host]) >= request.gpus if request.gpus else free.slots[capacity.host] > 0
            if allowed(request, capacity) and thread:
                assert request.gpus, f"{request} does not start though a slot is free"
                assert gang, f"{request} does not start though {capacity.host} is free and nobody waits for it"
                assert request.longest_s > 0


@given(clusters())
def test_priority_goes_first(cluster: tuple[list[Request], list[Holding], list[Capacity]]) -> None:
    """Of two that differ in priority only, the lower one never starts without the higher one."""
    waiting, running, hosts = cluster
    pairs = [
        (
            replace(request, run=f"{request.run}-low", priority=0),
            replace(request, run=f"{request.run}-high", priority=1),
        )
        for request in waiting
    ]
    made = plan([one for pair in pairs for one in pair], running, hosts, now=T0)
    started = {placed.run for placed in made.placements}
    for low, high in pairs:
        assert low.run not in started or high.run in started
