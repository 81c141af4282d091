"""Trains for about a second and succeeds."""

import time

from worker.recipes.prelude import finish, metric, start

start(20)
for step in range(1, 21):
    metric(step, loss=1 / step)
    time.sleep(0.05)
print("trained")
finish()
