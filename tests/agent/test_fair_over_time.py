"""The fair queue: what must never happen while time passes, in simulated clusters."""

import random
from collections import Counter
from datetime import timedelta

from agent.runs.queue.fair import Limits
from tests.agent.clusters import HOUR, T0, Cluster, host


def test_a_gang_of_four_with_three_free_starts_under_an_endless_stream_of_small_runs() -> None:
    """Row 43 of the fault matrix."""
    for seed in range(8):
        dice = random.Random(seed)
        cluster = Cluster([host("h", 4)])
        cluster.ask("first", "dave", takes_s=90 * 60, longest_s=2 * HOUR, gpus=1)
        cluster.minute()
        cluster.ask("gang", "alice", takes_s=HOUR, gpus=4)
        for minute in range(12 * 60):
            for n in range(2):  # more than three GPUs can take, each minute, always from somebody new
                takes_s = dice.choice([120.0, 600.0, 3000.0])
                cluster.ask(
                    f"s{minute}-{n}",
                    f"user{minute}-{n}",
                    takes_s=takes_s,
                    longest_s=takes_s * 2,
                    gpus=1,
                    priority=dice.choice([-1, 0, 1]),
                )
            cluster.minute()
            if "gang" in cluster.started:
                break
        waited = cluster.started["gang"] - T0
        # After an hour its place is kept; what has begun by then ends within 1.7 h, the longest limit there is.
        assert waited <= timedelta(hours=2.75), f"{seed}: {waited}"


def test_a_gang_of_the_lowest_class_waits_no_longer_for_a_stream_of_the_highest() -> None:
    for seed in range(3):
        dice = random.Random(seed)
        cluster = Cluster([host("h", 4)])
        cluster.ask("gang", "alice", takes_s=HOUR, gpus=4, priority=-1)
        for minute in range(6 * 60):
            for n in range(3):
                takes_s = dice.choice([600.0, 1800.0])
                cluster.ask(
                    f"s{minute}-{n}", f"user{minute}-{n}", takes_s=takes_s, gpus=dice.choice([1, 2]), priority=1
                )
            cluster.minute()
            if "gang" in cluster.started:
                break
        waited = cluster.started["gang"] - T0
        assert waited <= timedelta(hours=1.6), f"{seed}: {waited}"


def test_a_gang_is_not_starved_by_small_runs_of_its_own_user() -> None:
    cluster = Cluster([host("h", 4)])
    cluster.ask("first", "alice", takes_s=HOUR, gpus=1)
    cluster.minute()
    cluster.ask("gang", "alice", takes_s=HOUR, gpus=4)
    for minute in range(10 * 60):
        cluster.ask(f"a{minute}", "alice", takes_s=900.0, gpus=1, priority=1)
        cluster.ask(f"b{minute}", f"bob{minute}", takes_s=900.0, gpus=1)
        cluster.minute()
        if "gang" in cluster.started:
            break
    assert cluster.started["gang"] - T0 < timedelta(hours=4)


def test_nobody_waits_for_ever_in_a_random_crowd() -> None:
    for seed in range(4):
        dice = random.Random(seed)
        cluster = Cluster([host("h1", 4, slots=1), host("h2", 2, slots=1, tier="landlock")])
        for minute in range(6 * 60):
            if dice.random() < 0.12:
                takes_s = dice.choice([300.0, 1800.0, 3600.0])
                cluster.ask(
                    f"r{minute}",
                    f"u{dice.randrange(5)}",
                    takes_s=takes_s,
                    longest_s=takes_s * dice.choice([1, 3]),
                    gpus=dice.choice([0, 1, 1, 2, 4]),
                    priority=dice.choice([-1, 0, 1]),
                    tier=dice.choice(["bwrap", "none"]),
                )
            cluster.minute()
        asked = len(cluster.waiting) + len(cluster.started)
        for _ in range(48 * 60):
            if not cluster.waiting:
                break
            cluster.minute()
        assert not cluster.waiting
        assert len(cluster.started) == asked > 20


def test_equal_users_get_equal_shares_over_time() -> None:
    """Three users with long queues, one of whom asked for everything first."""
    for gpus, hours in ((1, 24), (4, 9)):
        cluster = Cluster([host("h", gpus)])
        for n in range(gpus * hours):
            cluster.ask(f"a{n:02}", "alice", takes_s=HOUR, gpus=1)
        for _ in range(10):
            cluster.minute()
        for n in range(gpus * hours):
            cluster.ask(f"b{n:02}", "bob", takes_s=HOUR, gpus=1)
            cluster.ask(f"c{n:02}", "carol", takes_s=HOUR, gpus=1)
        for _ in range(hours * 60):
            cluster.minute()
        shares = dict(cluster.used)
        fair = sum(shares.values()) / 3
        assert all(abs(share - fair) <= 3 * HOUR for share in shares.values()), shares


def test_caps_hold_while_others_wait() -> None:
    cluster = Cluster([host("h", 6)], limits=Limits(running_per_user=2))
    for n in range(8):
        cluster.ask(f"a{n}", "alice", takes_s=HOUR, gpus=1)
        for user in ("bob", "carol"):
            cluster.ask(f"{user}{n}", user, takes_s=HOUR, gpus=1)
    for _ in range(120):
        cluster.minute()
        going = Counter(holding.user for holding in cluster.running.values())
        if len({request.user for request in cluster.waiting}) == 3:
            assert max(going.values()) == 2
    assert len(cluster.started) >= 12
