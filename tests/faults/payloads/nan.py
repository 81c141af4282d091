"""A loss that is no number any more; ends by itself only after a long time."""

import time

from worker.recipes.prelude import finish, metric, start

start(1000)
metric(1, loss=1.0)
for step in range(2, 400):
    metric(step, loss=float("nan"))
    time.sleep(0.1)
finish()
