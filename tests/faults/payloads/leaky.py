"""Prints everything that it can find of other people's secrets: its environment and its parents'."""

import os
import pathlib

from worker.recipes.prelude import finish, metric, start

start()
metric(1, loss=1.0)
print(dict(os.environ))
for name in ("self", "1", str(os.getppid())):
    try:
        print(pathlib.Path(f"/proc/{name}/environ").read_bytes())
    except OSError as error:
        print(error)
finish()
