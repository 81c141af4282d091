"""Slow but alive: a long first step, then a long evaluation, with work that only the kernel sees."""

import time

from worker.recipes.prelude import finish, metric, start

start(3)


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(20_000))


compute(6)
metric(1, loss=1.0)
metric(2, loss=0.9)
compute(6)
metric(3, loss=0.8)
finish()
