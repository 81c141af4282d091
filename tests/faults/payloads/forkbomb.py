"""Forks as fast as it may, up to a bound that keeps this machine alive, and leaves a daemon of its own behind."""

import os
import time

from worker.recipes.prelude import metric, start

start()
metric(1, loss=1.0)
if os.fork() == 0:  # a daemon: its own session, no parent of ours
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(600)
    os._exit(0)
for _ in range(150):
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except OSError:
        break
metric(2, loss=1.0)
print("forked", flush=True)
os._exit(7)
