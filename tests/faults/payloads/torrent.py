"""Prints in the way that its seed says: one endless line, as fast as it can, or bytes that are no text."""

import os
import sys
import time

from worker.recipes.prelude import finish, metric, seed, start

start()
metric(1, loss=1.0)
out = sys.stdout.buffer
if seed() == 1:  # one line of 1 GB
    for _ in range(1024):
        out.write(b"x" * 1_000_000)
    out.write(b"\n")
elif seed() == 2:  # 100 MB/s for some seconds, if anybody reads that fast
    block = b"".join(b"line %d of a torrent that nobody reads\n" % n for n in range(25_000))
    end = time.monotonic() + 4
    while time.monotonic() < end:
        out.write(block)
else:
    for _ in range(50):
        out.write(os.urandom(4096) + b"\x00\xff\xfe\n")
out.flush()
print("\nthe end", flush=True)
metric(2, loss=0.5)
finish()
