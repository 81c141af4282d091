"""What a training script imports to be seen and to be stopped: `TrainingRuntime`.

Standard library only, so that it travels inside a bundle and works where nothing else is installed. It owns
`meta.json`, `metrics.jsonl` and `checkpoints/` of a run's folder. It never breaks a training: what cannot be written is
said once on stderr and training goes on. torch is imported late, and so is `trainyard.pictures`, which writes what a
script shows beside its curves.

A row of metrics is one line of `metrics.jsonl`, written by one `os.write` to a file opened to append
(`trainyard.metrics`): it is there when the call returns, whatever kills the process afterwards, and a supervisor or a
person reads it at once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

from trainyard.checkpoints import CHECKPOINT, checkpoint_step, discard, remove_leftovers, save_aside
from trainyard.metrics import MetricsFile, Warnings, last_step, shown, step_number

Status = Literal["running", "completed", "stopped", "failed"]
Save = Callable[[Path], None]


class ResumeInfo(NamedTuple):
    """What an earlier attempt left behind. `checkpoint` is the newest whole one, `checkpoint_step` its step."""

    step: int
    status: str
    checkpoint: Path | None
    checkpoint_step: int


class TrainingRuntime:
    """A script's line to Trainyard. Without arguments it takes run and folder from the environment.

    One argument is a folder where it names one (it has a separator, or is there), else the run's id.
    Under torchrun the process with RANK 0 writes; the others only agree on when to stop.

    >>> rt = TrainingRuntime()
    >>> rt.start(model_id="my-model", config={"lr": 0.1}, total_steps=100)
    >>> rt.register_graceful_shutdown(model, dataloader)
    >>> rt.log_metrics(step=1, loss=0.7)
    >>> rt.finish()
    """

    def __init__(self, run_id: str | Path | None = None, run_dir: str | Path | None = None) -> None:
        if run_id is not None and run_dir is None and _names_folder(run_id):
            run_id, run_dir = None, run_id
        # Absolute, as a script may change its folder.
        self.run_dir = Path(run_dir or os.environ.get("TRAINYARD_RUN_DIR") or "").absolute()
        self.run_id = str(run_id or os.environ.get("TRAINYARD_RUN_ID") or self.run_dir.name)
        self._ranks = _whole_of(os.environ.get("WORLD_SIZE"), 1)
        self._writes = self._ranks < 2 or _whole_of(os.environ.get("RANK"), 0) == 0
        self._warn = Warnings()
        self._alone = os.environ.get("TRAINYARD_SUPERVISED") != "2"
        self._metrics = MetricsFile(self.run_dir / "metrics.jsonl", self._warn)
        weakref.finalize(self, self._metrics.close)  # rows that wait go out when the interpreter ends, at the latest
        self._meta: dict[str, Any] = {}
        self._pid = os.getpid()
        self._step: int | None = None  # of the newest row, None before the first
        self._listens_itself = False
        self._stop_asked = False
        self._polled = False
        self._first_row: tuple[int | None] | None = None  # the step that this process's first row was given
        self._second_step = False
        self._save: Save | None = None

    # --- life of a run

    def start(self, model_id: str, config: Mapping[str, Any] | None = None, total_steps: int | None = None) -> None:
        """Say that training runs. Keeps the step, the start time and the metrics of an earlier attempt.

        From here on SIGUSR1 prints where each thread stands.
        """
        earlier = self._read_meta()
        self._meta = {
            "run_id": self.run_id,
            "status": "running",
            "model": model_id,
            "total_steps": step_number(total_steps),
            "step": max(_whole(earlier.get("step")), self._last_step() or 0),
            "started_at": earlier.get("started_at") or time.time(),
            "pid": os.getpid(),
        }
        _dump_stacks_on_usr1()
        self._listens_itself = self._others_listen()
        if not self._writes:
            return
        self._write_meta()
        self._guarded("config.json", lambda: self._keep_config(config))
        self._guarded("checkpoints", lambda: remove_leftovers(self.run_dir / "checkpoints"))

    def finish(self, status: Status = "completed") -> None:
        """Say how training ended.

        A run that says "stopped" is continued later. So a script that nobody asked to stop has "completed", and who has
        said "stopped" is not "completed" afterwards. Alone, where nobody continues it, it is believed.
        """
        if status == "stopped" and not self._may_be_asked():
            self._warn("stopped", 'finish("stopped"), but nobody asked this run to stop: it is "completed"')
            status = "completed"
        if status != "completed" or self._meta.get("status") != "stopped":
            self._meta["status"] = status
        self._write_meta()
        self._guarded("metrics.jsonl", self._metrics.close)

    # --- what people see

    def log_metrics(self, /, step: int | None = None, **values: Any) -> None:
        """Keep one row of numbers; once this returns, no kill of the process loses it. Some microseconds.

        Without `step` it is one more than that of the newest row.

        Accepts numpy and torch scalars, arrays of one element, Decimals, bools, NaN and infinities, and texts such as
        "1e-4", "85%" or "3.2 ms", of which the number is kept as it stands. Names are tidied. Anything else is left
        out with one warning per name. After a SIGTERM, a script that registered something to save and never reads
        `should_stop` is saved and ended here, between two steps.
        """
        if self._writes:
            self._append_row(step, values)
        if self._first_row is None:
            self._first_row = (step,)
        elif step is None or (step,) != self._first_row:
            self._second_step = True
        if self._stop_asked:  # under torchrun each process looks
            self._stop_if_wanted()

    def log(self, text: str | Mapping[str, Any], step: int | None = None) -> None:
        """Print one line, at once. A mapping of numbers is kept as `log_metrics` does: other trackers have it so."""
        if isinstance(text, Mapping):
            values = {str(name): value for name, value in text.items()}
            return self.log_metrics(**({"step": step} if step is not None else {}) | values)
        return self._guarded("stdout", lambda: print(text, flush=True))  # noqa: T201 - printing is the effect

    # --- pictures: one file a name, shown in the chat while training runs; a later one replaces it. See `_show`.

    def log_table(
        self,
        name: str,
        columns: Sequence[Any],
        rows: Sequence[Sequence[Any]],
        *,
        marks: Sequence[str] = (),
        **about: Any,
    ) -> None:
        """Show rows of text, such as what a model wrote; `marks` may tell each row `good` or `bad`."""
        self._show(name, "table", (columns, rows, marks), about)

    def log_scatter(
        self, name: str, x: Any, y: Any, *, groups: Any = None, names: Any = None, guide: str = "", **about: Any
    ) -> None:
        """Show points: residuals (`guide="zero"`), predicted over true values (`guide="rising"`), a map of clusters.

        `groups` has the name of each point's group, `names` a label of each point, empty for none.
        """
        self._show(name, "scatter", (x, y, groups, names), {"guide": guide, **about})

    def log_lines(self, name: str, lines: Mapping[str, Any], *, since: float | None = None, **about: Any) -> None:
        """Show lines by name, each `y` or `{"x": …, "y": …, "low": …, "high": …}`; NaN is a gap.

        `low` and `high` are shaded as what is likely; `since` marks where a forecast begins.
        """
        self._show(name, "lines", (lines,), {"since": since, **about})

    def log_bars(
        self, name: str, names: Sequence[Any], values: Any, *, errors: Any = None, unit: str = "", **about: Any
    ) -> None:
        """Show bars from zero: one value a name, or `{"precision": […], "recall": […]}`; `errors` likewise."""
        self._show(name, "bars", (names, values, errors), {"unit": unit, **about})

    def log_histogram(self, name: str, values: Any, *, bins: int = 30, unit: str = "", **about: Any) -> None:
        """Show how often values occur: single values, such as lengths of texts, or several groups of them by name."""
        self._show(name, "histogram", (values, bins), {"unit": unit, **about})

    def log_matrix(
        self, name: str, counts: Any, *, rows: Sequence[Any], columns: Sequence[Any] | None = None, **about: Any
    ) -> None:
        """Show a confusion matrix: `counts[true][predicted]`, with the names of both (`rows` alone for the same)."""
        self._show(name, "matrix", (counts, rows, columns), about)

    def log_images(
        self, name: str, images: Any, *, captions: Any = None, right: Any = None, boxes: Any = None, **about: Any
    ) -> None:
        """Show up to twelve images: arrays, tensors, Pillow's, or PNG and JPEG as bytes or paths.

        uint8 is taken as it stands, shares of 1 are shades, else the lowest value is black and the highest white.
        `right` says of each image whether the model was right. `boxes` has a list for each image, of
        `(left, top, right, bottom)` in its pixels or `{"box": (…), "name": "cat", "score": 0.9, "truth": False}`.
        """
        self._show(name, "images", (images, captions, right, boxes), about)

    def log_texts(
        self, name: str, texts: Any, *, spans: Any = None, captions: Any = None, right: Any = None, **about: Any
    ) -> None:
        """Show up to twelve texts with marked spans, such as entities that a model found.

        `spans` has a list for each text, of `(start, end, name)` in its characters or
        `{"span": (start, end), "name": "place", "truth": True}`, where `truth` is what is there and not what was found.
        """
        self._show(name, "texts", (texts, spans, captions, right), about)

    def log_picture(self, name: str, picture: Mapping[str, Any], *, step: int | None = None) -> None:
        """Show a picture as the files have it: `{"kind": "table", "columns": […], "rows": […]}` and the like."""
        self._show(name, "", (picture,), {"step": step})

    # --- stopping and resuming

    @property
    def should_stop(self) -> bool:
        """Whether somebody asked this run to end. A loop that reads this ends itself after saving.

        Under torchrun, once torch.distributed is initialised, every process must read it at the same steps: they
        answer alike, so that none waits for another for ever.
        """
        self._polled = True
        return self._agreed() if self._ranks > 1 else self._stop_asked

    def register_graceful_shutdown(
        self, model: Any = None, dataloader: Any = None, optimizer: Any = None, save: Save | None = None
    ) -> None:
        """Turn SIGTERM into `should_stop`. `save(folder)` writes the checkpoint; without it, torch state is saved.

        A second SIGTERM ends the process at once.
        """
        given = {"model": model, "dataloader": dataloader, "optimizer": optimizer}
        parts = {name: part for name, part in given.items() if hasattr(part, "state_dict")}
        self._save = save or ((lambda folder: _save_torch(folder, parts)) if parts else None)
        try:
            signal.signal(signal.SIGTERM, self._on_term)
        except ValueError as error:  # only the main thread may do this
            self._warn("SIGTERM", f"cannot listen for SIGTERM: {error}")

    def save_checkpoint(self, save: Save | None = None, *, step: int | None = None, keep: int = 2) -> Path | None:
        """Write `checkpoints/step_<n>/` aside, rename it, and keep the newest `keep`. None when it failed.

        Without `step` it is that of the newest row. Checkpoints of higher steps are of a history that was trained anew
        since, and go. Under torchrun only RANK 0 saves: what needs every process (a sharded state) is to be gathered
        before.
        """
        if not self._writes:
            return None
        save = save or self._save
        if save is None:
            self._warn("checkpoint", "nothing to save: register_graceful_shutdown got neither a model nor save=")
            return None
        number = max(0, self._at()) if step is None else step_number(step)
        if number is None or number < 0:
            self._warn("checkpoint step", f"no checkpoint saved: its step {shown(step)} is no whole number from 0 on")
            return None
        final = self.run_dir / "checkpoints" / f"step_{number:08d}"
        try:
            save_aside(final, save)
        except Exception as error:
            if not (isinstance(error, (OSError, RuntimeError)) or type(error).__name__ == "SafetensorError"):
                raise  # a mistake in `save`; torch and safetensors (with its own class) report a full disk like this
            print(f"trainyard: checkpoint at step {number} not saved: {error}", file=sys.stderr)  # noqa: T201
            return None
        self._guarded("checkpoints", lambda: self._prune(number, keep))
        self._write_meta()
        return final

    def checkpoints(self) -> list[Path]:
        """The whole checkpoints of this run by step, the newest last."""
        folder = self.run_dir / "checkpoints"
        try:
            names = os.listdir(folder)  # noqa: PTH208 - names are looked at first
        except FileNotFoundError:
            return []
        except OSError as error:
            self._warn("checkpoints", f"checkpoints cannot be read: {error}")
            return []
        return sorted((folder / name for name in names if re.fullmatch(CHECKPOINT, name)), key=checkpoint_step)

    def get_resume_info(self) -> ResumeInfo | None:
        """What an earlier attempt in this folder reached, or None if there was none."""
        meta, last = self._read_meta(), self._last_step()
        saved = self.checkpoints()
        if not meta and last is None and not saved:
            return None
        newest = saved[-1] if saved else None
        return ResumeInfo(
            step=max(_whole(meta.get("step")), last or 0),
            status=str(meta.get("status", "unknown")),
            checkpoint=newest,
            checkpoint_step=checkpoint_step(newest) if newest else 0,
        )

    # --- inside

    def _append_row(self, step: Any, values: dict[str, Any]) -> None:
        number = self._next_step() if step is None else step_number(step)
        if number is None:
            self._warn("step", f"a row of metrics is left out: its step {shown(step)} is not a whole number")
        elif self._metrics.append(number, values):
            self._step = number

    def _next_step(self) -> int:
        known = self._meta or self._step is not None
        return (self._at() if known else self._last_step() or 0) + 1

    def _show(self, name: str, kind: str, given: tuple[Any, ...], about: Mapping[str, Any]) -> None:
        """Write `pictures/NAME.json`, or warn.

        `about` may hold `title` (else the name), `step` (else the newest one logged), `x_label` and `y_label`
        (`row_label` and `column_label` of a matrix), and `most`, the end of the axis of bars.
        """
        if not self._writes:
            return
        try:
            from trainyard import pictures

            more = dict(about)
            step = step_number(more.pop("step", None))
            picture = pictures.made(kind, given, more) if kind else dict(*given)
            left_out = pictures.write(self.run_dir, name, picture, step=self._at() if step is None else step)
            if left_out:
                self._warn(f"left out of {name}", f"picture {name!r}: {left_out:,} of what was given did not fit")
        except Exception as error:  # noqa: BLE001 - code of others, and no picture is worth a training
            self._warn(f"picture {shown(name)}", f"picture {shown(name)} left out: {shown(error, 300)}")

    def _on_term(self, signum: int, _frame: FrameType | None) -> None:
        self._stop_asked = True
        signal.signal(signum, signal.SIG_DFL)
        if os.getpid() != self._pid:  # a forked worker inherits the handler, not the checkpoint
            os.kill(os.getpid(), signum)

    def _stop_if_wanted(self) -> None:
        if self._save is None or self._polled:
            return
        if self._ranks > 1 and not self._second_step:
            return  # it may read `should_stop` after this row, and the others would wait for it
        if os.getpid() != self._pid or threading.current_thread() is not threading.main_thread():
            return  # the exit would end a thread or a worker, not the training
        self.save_checkpoint()
        self.finish("stopped")
        raise SystemExit(0)

    def _agreed(self) -> bool:
        """What any of the processes was told. Without torch.distributed each knows only its own."""
        group = getattr(sys.modules.get("torch"), "distributed", None)
        if group is None or not group.is_available() or not group.is_initialized():
            return self._stop_asked
        torch: Any = sys.modules["torch"]
        try:
            device = "cpu" if "gloo" in group.get_backend() else torch.device("cuda", torch.cuda.current_device())
            asked = torch.tensor([int(self._stop_asked)], device=device)
            group.all_reduce(asked, op=group.ReduceOp.MAX)
            agreed = bool(asked.item())
        except RuntimeError as error:  # a peer is gone: nothing is left to agree on
            self._warn("should_stop", f"the processes could not agree on stopping: {error}")
            return self._stop_asked
        if agreed:  # never back to False: a SIGTERM that came meanwhile counts at the next step, for all
            self._stop_asked = True
        return agreed

    def _others_listen(self) -> bool:
        """Whether the script has a handler of its own for SIGTERM."""
        listener = signal.getsignal(signal.SIGTERM)
        return callable(listener) and listener != self._on_term

    def _may_be_asked(self) -> bool:
        """Whether somebody asked this run to stop, or might have: a script that listens by itself knows better."""
        return self._stop_asked or self._alone or self._listens_itself or self._others_listen()

    def _at(self) -> int:
        """The step of the newest row; before the first one, of what earlier attempts reached."""
        return _whole(self._meta.get("step") if self._step is None else self._step)

    def _reached(self) -> int:
        return max(_whole(self._meta.get("step")), _whole(self._step))

    def _keep_config(self, config: Mapping[str, Any] | None) -> None:
        kept = self.run_dir / "config.json"
        if config and not kept.exists():
            _write_aside(kept, json.dumps(dict(config), default=str))

    def _prune(self, newest: int, keep: int) -> None:
        """Remove the checkpoints of steps beyond the newest one, and all but `keep` of the others. Raises: OSError."""
        saved = self.checkpoints()
        kept = [path for path in saved if checkpoint_step(path) <= newest][-keep:]
        for old in saved:
            if old not in kept:
                discard(old)

    def _last_step(self) -> int | None:
        """The step of the last whole line, None without any."""
        return last_step(self.run_dir / "metrics.jsonl")

    def _read_meta(self) -> dict[str, Any]:
        try:
            found = json.loads((self.run_dir / "meta.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self._warn("meta.json", f"meta.json cannot be read: {error}")
            return {}
        return found if isinstance(found, dict) else {}

    def _write_meta(self) -> None:
        if self._writes:
            self._meta["step"] = self._reached()
            self._guarded(
                "meta.json", lambda: _write_aside(self.run_dir / "meta.json", json.dumps(self._meta, default=str))
            )

    def _guarded(self, what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - a closed stdout, or code of others: what is to be written as text
            self._warn.of(error, what)


def _dump_stacks_on_usr1() -> None:
    import faulthandler

    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:  # somebody's own use of the signal goes first
        try:
            faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        except (OSError, RuntimeError, ValueError) as error:
            print(f"trainyard: SIGUSR1 will print no stacks: {error}", file=sys.stderr)  # noqa: T201


def _whole(value: Any) -> int:
    return step_number(value) or 0


def _names_folder(text: str | Path) -> bool:
    """Whether this is meant as a path, not as a run's id."""
    return isinstance(text, Path) or os.sep in text or os.path.isdir(text)  # noqa: PTH112 - of any text


def _whole_of(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() else default


def _write_aside(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _save_torch(folder: Path, parts: Mapping[str, Any]) -> None:
    import torch

    torch.save({name: part.state_dict() for name, part in parts.items()}, folder / "state.pt")
