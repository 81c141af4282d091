"""What the payloads share: the files that a training script writes, by hand. Part of every tiny bundle."""

import json
import pathlib
import time


def start(steps=3):
    pathlib.Path("meta.json").write_text(json.dumps({"model": "tiny", "total_steps": steps}))


def metric(step, **values):
    with pathlib.Path("metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "at": time.time(), "values": values}) + "\n")


def finish():
    pathlib.Path("predictions").mkdir(exist_ok=True)
    pathlib.Path("predictions/model.csv").write_text("row_id,label\n0,a\n")
    pathlib.Path("artifacts").mkdir(exist_ok=True)
    pathlib.Path("artifacts/model.txt").write_text("the model")
    pathlib.Path("artifacts/config.json").write_text(json.dumps({"kind": "the tiny one"}))


def seed():
    """What the run's settings say under `seed`, to tell payloads of one program apart."""
    return json.loads(pathlib.Path("config.json").read_text())["spec"]["seed"]


def wait_for(name, pause_s=0.02):
    while not pathlib.Path(name).exists():
        time.sleep(pause_s)
