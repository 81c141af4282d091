"""Rows: trainings interrupted at random steps and resumed that differ, in any bit, from ones that nobody interrupted.

The trainings are those of `tests/recipes/test_resume.py` (plain torch with dropout, momentum, a schedule and
augmentation; transformers' Trainer, told by SIGTERM) and a LightGBM booster with sampled rows and columns. Compared are
weights or trees, the optimizer's state, and every logged loss. The steps are drawn anew each time; where one differs it
is said. A process a kind: `python -m tests.bench.resume KIND` prints a JSON list of the steps that went wrong.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.processes import REPO
from tests.bench.progress import say
from tests.bench.rows import Row, alone

TIMES = 5
LIMIT_S = 300
KINDS = {"torch": "plain torch", "trainer": "the Trainer", "lightgbm": "LightGBM"}


def measure() -> Sequence[Row]:
    """`TIMES` interruptions a kind."""
    rows = []
    for kind, name in KINDS.items():
        argv = [sys.executable, "-m", "tests.bench.resume", kind]
        done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"resuming with {name} ended with {done.returncode}:\n{done.stderr}")
        steps, wrong = json.loads(done.stdout.splitlines()[-1])
        say(f"resume: {name}, interrupted at steps {steps}: {wrong or 'none'} differ")
        what = f"resumed trainings that differ, {name}"
        rows.append(alone(what, ours=len(wrong), unit=f"of {TIMES}", at_most=0))
    return rows


def _torch(folder: Path, stop_at: int) -> Any:
    """The end of the training, None when it was stopped."""
    from tests.recipes.test_resume import Stopped, torch_training

    with contextlib.suppress(Stopped):
        return torch_training(folder, stop_at=stop_at, shuffled_by=None)
    return None


def _trainer(folder: Path, stop_at: int) -> Any:
    from tests.recipes.test_resume import trainer_for
    from trainyard import TrainingRuntime
    from trainyard.adapters import last_checkpoint

    runtime = TrainingRuntime("r", folder)
    trainer = trainer_for(folder, runtime, stop_at=stop_at)
    trainer.train(resume_from_checkpoint=last_checkpoint(runtime))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    reached = trainer.state.global_step
    return None if reached == stop_at else [trainer.model.state_dict(), trainer.optimizer.state_dict()["state"]]


def _lightgbm(folder: Path, stop_at: int) -> Any:
    import lightgbm
    import numpy as np

    from trainyard import TrainingRuntime
    from trainyard.adapters import LightGBMCallback, resume_booster, sampled_anew

    dice = np.random.default_rng(1)
    x = dice.normal(size=(400, 6))
    y = (x[:, 0] + 0.3 * dice.normal(size=400) > 0).astype(int)
    sampled = {"feature_fraction": 0.6, "bagging_fraction": 0.7, "bagging_freq": 1, "seed": 3}
    exact = {"deterministic": True, "num_threads": 1, "verbosity": -1}
    params = {"objective": "binary", "metric": ["binary_logloss"], **sampled, **exact}
    runtime = TrainingRuntime("r", folder)
    saved = resume_booster(runtime)
    watch = LightGBMCallback(runtime, saved=saved, every=7)

    class Stopped(Exception):
        """Raised in the middle, as nothing is saved at that round in most cases."""

    def stop(env: Any) -> None:
        if env.iteration + 1 == stop_at:
            raise Stopped

    full = lightgbm.Dataset(x[100:], label=y[100:], free_raw_data=False)
    held = lightgbm.Dataset(x[:100], label=y[:100], reference=full)
    with contextlib.suppress(Stopped):
        booster = lightgbm.train(
            params, full, num_boost_round=60 - saved.rounds, init_model=saved.file, valid_sets=[held],
            valid_names=["valid"], callbacks=[sampled_anew(3, bagging_fraction=0.7), watch, stop],
        )  # fmt: skip
        runtime.finish()
        return booster.model_to_string().partition("\nTree=0\n")[2].partition("\nend of trees")[0]
    runtime.finish("stopped")
    return None


TRAININGS: dict[str, tuple[Callable[[Path, int], Any], int]] = {
    "torch": (_torch, 29), "trainer": (_trainer, 16), "lightgbm": (_lightgbm, 59),
}  # fmt: skip


def losses(folder: Path) -> dict[int, object]:
    """The losses at each step. The Trainer's last row is about its last attempt alone, its speed and mean loss."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    told = [(row["step"], row["values"]) for row in rows if "train_runtime" not in row["values"]]
    return {step: {name: value for name, value in values.items() if "loss" in name} for step, values in told}


def main() -> None:
    """Interrupt and resume one kind of training."""
    from tests.recipes.test_resume import equal

    train, last = TRAININGS[sys.argv[1]]
    os.environ.pop("TRAINYARD_RUN_DIR", None)
    out = os.dup(1)
    os.dup2(2, 1)
    steps, wrong = sorted(random.sample(range(1, last + 1), TIMES)), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = train(folder / "whole", 0)
        for step in steps:
            cut = folder / f"cut-{step}"
            if train(cut, step) is not None:
                raise RuntimeError(f"the training was not interrupted at step {step}")
            resumed = train(cut, 0)
            same = len(whole) == len(resumed) and _equal(equal, whole, resumed)
            if not same or losses(cut) != losses(folder / "whole"):
                wrong.append(step)
    os.write(out, (json.dumps([steps, wrong]) + "\n").encode())


def _equal(equal: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return all(equal(*pair) for pair in zip(one, other, strict=True))
    return equal(one, other)


if __name__ == "__main__":
    main()
