"""Logs a step every 50 ms until a file says that it may finish; goes on where an earlier attempt stood."""

import json
import pathlib
import time

from worker.recipes.prelude import finish, metric, start

start(100_000)
folder = pathlib.Path("checkpoints")
folder.mkdir(exist_ok=True)
saved = folder / "step.json"
step = json.loads(saved.read_text())["step"] if saved.exists() else 0
while not pathlib.Path("go-on").exists():
    step += 1
    metric(step, loss=1.0)
    aside = folder / ".step"
    aside.write_text(json.dumps({"step": step}))
    aside.rename(saved)
    time.sleep(0.05)
finish()
