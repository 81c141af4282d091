"""Ties `TrainingRuntime` to what people train with: plain PyTorch, the Trainer of transformers, LightGBM.

Part of a bundle. Owns what a checkpoint of each holds; the folders of checkpoints are the runtime's. Knows no recipe.
torch, numpy, transformers and lightgbm are imported when they are used.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainyard import TrainingRuntime

STATE = "state.pt"
TRAINER_STATE = "trainer_state.json"
BOOSTER = "lightgbm.txt"
BOOSTER_STATE = "lightgbm.json"


class OtherTraining(Exception):
    """A checkpoint belongs to other settings, other data or another model; the message is a sentence for people."""


class Broken(Exception):
    """A checkpoint that cannot be read; the message is a sentence for people."""

    def __init__(self, folder: Path, why: Exception) -> None:
        super().__init__(f"The checkpoint {folder.name} cannot be read ({str(why) or type(why).__name__}).")


def _newest_first(runtime: TrainingRuntime, name: str) -> list[Path]:
    """The checkpoints that hold a file of this name."""
    return [folder for folder in reversed(runtime.checkpoints()) if (folder / name).exists()]


class TorchState:
    """All that a PyTorch training is made of, saved and loaded so that it goes on as if it had never been interrupted.

    The parts (`model`, `optimizer`, `scheduler`, `scaler`, anything with `state_dict`), the random states of Python,
    numpy, torch and CUDA, those of `generators`, and the position in the data. On a CPU the weights after a resume
    equal those of an uninterrupted training bit for bit; on a GPU as far as its kernels are deterministic.

    >>> state = TorchState(model=model, optimizer=optimizer, scheduler=scheduler)
    >>> state.resume(rt)
    >>> for epoch in state.epochs(3):
    ...     for batch in state.batches(loader):
    ...         train(batch)
    ...         rt.log_metrics(step=state.step, loss=loss)
    ...         if rt.should_stop:
    ...             rt.save_checkpoint(state.save, step=state.step)
    ...             rt.finish("stopped")
    ...             sys.exit(0)
    """

    def __init__(
        self, *, generators: Mapping[str, Any] | None = None, key: str = "", extra: Any = None, **parts: Any
    ) -> None:
        """`generators` are torch or numpy generators that the data is drawn with, beyond those of a loader.

        `key` says what training this is: a checkpoint with another one is refused. `extra` is kept with the
        checkpoint: tensors, numbers, texts, and lists and dicts of them. A part that is None is left out.
        """
        self.step = 0
        self.epoch = 0
        self.batch = 0  # of this epoch, how many are trained
        self.key, self.extra = key, extra
        self._parts = {name: part for name, part in parts.items() if part is not None}
        self._generators = dict(generators or {})
        self._epoch_random: dict[str, Any] | None = None
        self._loaded_random: dict[str, Any] | None = None

    def save(self, folder: Path) -> None:
        """Write `state.pt`. To be called after the optimizer's step on a batch, not within it."""
        import torch

        state = {
            "key": self.key,
            "position": [self.step, self.epoch, self.batch],
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "random": self._random(),
            "epoch_random": self._epoch_random,
            "extra": self.extra,
        }
        torch.save(state, folder / STATE)

    def load(self, folder: Path, *, map_location: Any = None) -> None:
        """Put everything back. Raises: OtherTraining, Broken, FileNotFoundError."""
        state = _read_state(folder / STATE, map_location)
        if state["key"] != self.key:
            raise OtherTraining(f"The checkpoint {folder.name} belongs to other settings or data.")
        if state["parts"].keys() != self._parts.keys():
            kept, wanted = ", ".join(sorted(state["parts"])), ", ".join(sorted(self._parts))
            raise OtherTraining(f"The checkpoint {folder.name} holds {kept}; this training has {wanted}.")
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        self.step, self.epoch, self.batch = state["position"]
        self.extra = state["extra"]
        self._epoch_random, self._loaded_random = state["epoch_random"], state["random"]
        self._put_random(state["random"])

    def resume(self, runtime: TrainingRuntime, *, map_location: Any = None) -> bool:
        """Load the newest checkpoint of the run's folder that can be read; whether there was one that fits."""
        for folder in _newest_first(runtime, STATE):
            try:
                self.load(folder, map_location=map_location)
            except Broken as error:
                runtime.log(f"{error} Looking for an older one.")
                continue
            except OtherTraining as error:
                runtime.log(f"{error} Starting from the beginning.")
                return False
            runtime.log(f"Going on from the checkpoint at step {self.step}.")
            return True
        return False

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left of `count`."""
        while self.epoch < count:
            yield self.epoch
            self.epoch, self.batch = self.epoch + 1, 0
            self._epoch_random = None

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches that are left of this epoch, counting them as `batch` and `step`.

        After a resume the batches already trained are drawn again and thrown away, from the random state that the
        epoch began with, so that shuffling and augmentation go on as they would have.
        """
        samplers: list[Any] = [getattr(loader, name, None) for name in ("sampler", "batch_sampler")]
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)
        self._know(loader)
        skip, after = self.batch, self._loaded_random
        self._loaded_random = None
        if skip and self._epoch_random is not None:
            self._put_random(self._epoch_random)
        else:
            self._epoch_random = self._random()
        drawn = iter(loader)
        for _ in range(skip):
            next(drawn)
        if skip and after is not None:
            self._put_random(after)
        for batch in drawn:
            self.batch += 1
            self.step += 1
            yield batch

    def _know(self, loader: Any) -> None:
        """The generators that a DataLoader and its samplers draw from."""
        owners = {"loader": loader}
        owners |= {name: getattr(loader, name, None) for name in ("sampler", "batch_sampler")}
        for name, owner in owners.items():
            generator = getattr(owner, "generator", None)
            if generator is not None:
                self._generators.setdefault(f"of the {name}", generator)
        if self._loaded_random is not None:
            self._put_random(self._loaded_random)

    def _random(self) -> dict[str, Any]:
        import torch

        version, words, gauss = random.getstate()
        found: dict[str, Any] = {
            "python": [version, list(words), gauss],
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "generators": {name: _state_of(generator) for name, generator in self._generators.items()},
        }
        if "numpy" in sys.modules:
            kind, keys, *rest = sys.modules["numpy"].random.get_state()
            found["numpy"] = [kind, keys.tolist(), *rest]
        return found

    def _put_random(self, state: Mapping[str, Any]) -> None:
        import torch

        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        torch.set_rng_state(state["torch"].cpu())
        if state["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all([part.cpu() for part in state["cuda"]])
        if "numpy" in state:
            import numpy as np

            kind, keys, *rest = state["numpy"]
            np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
        for name, kept in state["generators"].items():
            if name in self._generators:
                _put_state(self._generators[name], kept)


def _read_state(path: Path, map_location: Any) -> Any:
    """Raises: Broken, where the file is at fault, and not this host, which lacks a GPU, say."""
    import torch

    try:
        return torch.load(path, map_location=map_location, weights_only=True)  # data, never code
    except Exception as error:
        if path.exists() and not _is_whole_zip(path):
            raise Broken(path.parent, error) from error
        raise


def _is_whole_zip(path: Path) -> bool:
    """Whether all sums of a file of `torch.save` are right."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except (OSError, EOFError, zipfile.BadZipFile):
        return False


def _state_of(generator: Any) -> Any:
    """Of a torch generator a tensor, of a numpy one its JSON (its numbers have 128 bits)."""
    if hasattr(generator, "bit_generator"):
        return json.dumps(generator.bit_generator.state)
    return generator.get_state()


def _put_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = json.loads(state)
    else:
        generator.set_state(state.cpu())


def trainer_callback(runtime: TrainingRuntime, *, model_id: str = "transformers", begins_and_ends: bool = True) -> Any:
    """A `transformers.TrainerCallback` that starts, logs, stops and finishes through `runtime`.

    With `begins_and_ends` off, who calls the Trainer starts and finishes the runtime. Each checkpoint of the Trainer
    also becomes one of the run (hard links, no second copy), so that the next attempt continues bit for bit with
    `trainer.train(resume_from_checkpoint=last_checkpoint(runtime))`.
    """
    reporting = _reporting_callback(runtime)
    if not begins_and_ends:
        return reporting()

    class TrainyardCallback(reporting):  # type: ignore[misc,valid-type]  # made at run time
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del control, kwargs
            runtime.register_graceful_shutdown()  # the Trainer saves more than a runtime could
            runtime.start(model_id=model_id, config=args.to_dict(), total_steps=int(state.max_steps))

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, control, kwargs
            runtime.finish("stopped" if runtime.should_stop else "completed")

    return TrainyardCallback()


def _reporting_callback(runtime: TrainingRuntime) -> Any:
    """The class of a callback that logs, saves and stops."""
    from transformers import TrainerCallback
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    class ReportingCallback(TrainerCallback):  # type: ignore[misc]  # the parent ships no types
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            del args, control, kwargs
            if logs and state.is_world_process_zero:
                runtime.log_metrics(int(state.global_step), **{name: logs[name] for name in logs if name != "step"})

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, kwargs
            if runtime.should_stop:
                control.should_save = True
                control.should_training_stop = True

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del control, kwargs
            saved = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            _wait_for_all(args)  # each process writes its own random state
            if state.is_world_process_zero and saved.is_dir():
                runtime.save_checkpoint(lambda folder: _link_tree(saved, folder), step=int(state.global_step))

    return ReportingCallback


def last_checkpoint(runtime: TrainingRuntime) -> str | None:
    """What to give to `trainer.train(resume_from_checkpoint=…)`: the Trainer's newest whole checkpoint of this run."""
    for folder in _newest_first(runtime, TRAINER_STATE):
        try:
            _look_into(folder)
        except Broken as error:
            runtime.log(f"{error} Looking for an older one.")
        else:
            return str(folder)
    return None


def _look_into(folder: Path) -> None:
    """Raises: Broken, where a file of the Trainer was cut off."""
    from safetensors import SafetensorError, safe_open

    try:
        for path in folder.rglob("*.json"):
            json.loads(path.read_bytes())
        for path in (*folder.rglob("*.pt"), *folder.rglob("*.pth")):
            zipfile.ZipFile(path).close()
        for path in folder.rglob("*.safetensors"):
            with safe_open(path, framework="numpy"):
                pass
    except (OSError, ValueError, zipfile.BadZipFile, SafetensorError) as error:
        raise Broken(folder, error) from error


def _wait_for_all(args: Any) -> None:
    if args.world_size > 1:
        import torch

        torch.distributed.barrier()


def _link_tree(source: Path, target: Path) -> None:
    """The same files under another name; copies where links are not possible."""
    shutil.copytree(source, target, copy_function=_link, dirs_exist_ok=True)


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target


class LightGBMCallback:
    """Logs each round as `<part>_<metric>`, saves the booster every `every` rounds, and ends the training when asked.

    The first metric of the last part of `valid_sets` is what `best_round` is judged by (a loss: lower is better);
    `patience` rounds without a better one end the training, 0 never does. Rounds count on after a resume:

    >>> saved = resume_booster(rt, key="…")
    >>> watch = LightGBMCallback(rt, saved=saved)
    >>> lightgbm.train(…, num_boost_round=rounds - saved.rounds, init_model=saved.file, callbacks=[watch])
    """

    def __init__(
        self, runtime: TrainingRuntime, *, saved: SavedBooster | None = None, key: str = "", every: int = 50,
        patience: int = 0, judged: str = "valid_loss", name: Callable[[str, str], str] | None = None,
    ) -> None:  # fmt: skip
        self._runtime, self._every, self._patience = runtime, every, patience
        self._judged, self._name, self._key = judged, name or metric_name, key
        self.best_round = saved.best_round if saved else 0
        self.best_loss = saved.best_loss if saved else float("inf")
        self.stopped = False

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        done = env.iteration + 1
        row = {self._name(part, metric): value for part, metric, value, *_ in env.evaluation_result_list}
        self._runtime.log_metrics(done, **row)
        loss = row.get(self._judged)
        if loss is None or loss < self.best_loss:
            self.best_loss, self.best_round = loss if loss is not None else self.best_loss, done
        self.stopped = self._runtime.should_stop
        if self.stopped or done % self._every == 0:
            self.save(env.model, done)
        if self.stopped:
            self._runtime.log(f"Asked to stop: ending after round {done}, the best so far is round {self.best_round}.")
        if self.stopped or self.has_lost_patience(done):
            raise EarlyStopException(self.best_round - 1, env.evaluation_result_list)

    def has_lost_patience(self, done: int) -> bool:
        """Whether more rounds after `done` pay no more."""
        return bool(self._patience) and done - self.best_round >= self._patience

    def save(self, booster: Any, rounds: int) -> None:
        """A checkpoint of all `rounds`."""
        about = {"key": self._key, "rounds": rounds, "best_round": self.best_round, "best_loss": self.best_loss}

        def write(folder: Path) -> None:
            booster.save_model(str(folder / BOOSTER), num_iteration=rounds)
            (folder / BOOSTER_STATE).write_text(json.dumps(about), encoding="utf-8")

        self._runtime.save_checkpoint(write, step=rounds)


def sampled_anew(seed: int, *, bagging_fraction: float = 1.0) -> Callable[[Any], None]:
    """A LightGBM callback that draws the columns and rows of each round from `seed` and the round's number alone.

    LightGBM draws them from generators that a saved booster does not hold, so that a resumed one would see others than
    an uninterrupted one. With this callback both grow the same trees, bit for bit. `bagging_fraction` is that of the
    parameters (with `bagging_freq` 1).
    """

    def draw(env: Any) -> None:
        changed = {"feature_fraction_seed": (seed + env.iteration) % 2**31}
        if bagging_fraction < 1.0:
            # LightGBM takes a new bagging seed only together with another fraction than the one before. These two
            # differ from the parameters' own and from each other, by too little for another number of rows.
            other = min(1.0, bagging_fraction * (1 + 1e-9 * (1 + env.iteration % 2)))
            changed |= {"bagging_seed": (seed + 7919 + env.iteration) % 2**31, "bagging_fraction": other}
        env.model.reset_parameter(changed)

    draw.before_iteration = True  # type: ignore[attr-defined]  # how LightGBM tells the two kinds of callbacks apart
    return draw


class SavedBooster:
    """A booster of an earlier attempt: `file` for `init_model` (None without one) and how many `rounds` it has."""

    def __init__(self, file: str | None, about: Mapping[str, Any]) -> None:
        self.file = file
        self.rounds = int(about.get("rounds", 0))
        self.best_round = int(about.get("best_round", 0))
        self.best_loss = float(about.get("best_loss", "inf"))


def resume_booster(runtime: TrainingRuntime, *, key: str = "") -> SavedBooster:
    """The newest saved booster of this run that can be read, if its key is the same; an empty one else."""
    for folder in _newest_first(runtime, BOOSTER_STATE):
        try:
            about = _read_about(folder)
        except Broken as error:
            runtime.log(f"{error} Looking for an older one.")
            continue
        if about["key"] != key:
            runtime.log("The checkpoint belongs to other settings or data: starting from the beginning.")
            break
        runtime.log(f"Going on from the checkpoint at round {about['rounds']}.")
        return SavedBooster(str(folder / BOOSTER), about)
    return SavedBooster(None, {})


def _read_about(folder: Path) -> Any:
    """What is known of a saved booster. Raises: Broken."""
    try:
        about = json.loads((folder / BOOSTER_STATE).read_bytes())
        json.loads(
            (folder / BOOSTER).read_bytes().rpartition(b"\npandas_categorical:")[2]
        )  # its end, unless it was cut
    except (OSError, ValueError) as error:
        raise Broken(folder, error) from error
    return about


def metric_name(part: str, metric: str) -> str:
    """`valid` and `binary_logloss` -> `valid_loss`; the shares of errors become `valid_error`."""
    if metric.endswith("_error"):
        return f"{part}_error"
    return f"{part}_{'loss' if metric.endswith('logloss') else metric}"
