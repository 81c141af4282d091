"""Slow but alive: a first step that reads for long, usual steps of a second, then an evaluation of several of them."""

import pathlib
import time

from worker.recipes.prelude import finish, metric, start

start(6)
source = pathlib.Path("big.bin")
source.write_bytes(b"\0" * 1_000_000)
for _ in range(60):  # six seconds without a word, but of reading
    source.read_bytes()
    time.sleep(0.1)
for step in range(1, 6):
    metric(step, loss=1 / step)
    time.sleep(1.0)
end = time.monotonic() + 4.0
while time.monotonic() < end:  # the evaluation: no word, no byte, only work
    sum(range(20_000))
metric(6, loss=0.1)
finish()
