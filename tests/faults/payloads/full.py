"""Fills its disk, then goes on as if nothing had happened."""

import pathlib
import time

from worker.recipes.prelude import finish, metric, start

start(200)
with pathlib.Path("ballast").open("wb", buffering=0) as file:
    try:
        while True:
            file.write(b"\0" * 65536)
    except OSError as error:
        print("full:", error, flush=True)
for step in range(1, 200):
    metric(step, loss=1.0)
    time.sleep(0.05)
finish()
