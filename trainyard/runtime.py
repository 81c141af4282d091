"""What a training script imports to be seen and to be stopped: `TrainingRuntime`.

One file, standard library only, so that it travels inside a bundle and works where Trainyard is not installed.
It owns `meta.json`, `metrics.journal/`, `metrics.jsonl` and `checkpoints/` of a run's folder. It never breaks a
training: what cannot be written is said once on stderr and training goes on. torch is imported late, and so is
`trainyard.pictures`, which writes what a script shows beside its curves.

`log_metrics` packs a row into a memory-mapped journal: no system call, and the kernel owns the bytes once it returns,
so that SIGKILL loses nothing. `Converter` turns the journal into lines of `metrics.jsonl`, which is what people read.
It is run by the supervisor where there is one (`TRAINYARD_SUPERVISED=1`), else by a small process beside the training
(`python -I -S runtime.py FOLDER`) that ends after it, else at the end within the training itself.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import re
import select
import shutil
import signal
import stat
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

Status = Literal["running", "completed", "stopped", "failed"]
Save = Callable[[Path], None]

_TAIL_BYTES = 65536
_CHECKPOINT = r"step_(\d+)"  # patterns are compiled when they are wanted: every training waits for this import
_SEGMENT = r"\d{8}-[0-9a-f]{12}\.seg"

JOURNAL = "metrics.journal"
_MOST_BYTES = 4 << 20  # that are read of one segment: no row that a chart can show is that long
_SEGMENT_BYTES = 1 << 20  # reserved on disk at once: about 14,000 rows of 5 numbers
_MOST_SEGMENTS = 256  # a journal that nobody converts ends here
_MOST_LATE = 10_000  # rows kept in memory while the disk takes none
_MOST_PLANS = 512  # sets of names known at a time
_RETRY_S = 5.0
_CHUNK_BYTES = 256 * 1024
_FINISH_S = 10.0
_IDLE_S = (0.02, 0.25)  # pauses of the converting child, busy and idle

# A segment, all numbers native and 8 bytes wide. Head: magic, size, sealed (by the writer); then of the converter:
# bytes converted, and of a conversion under way its end and the size of metrics.jsonl before it. Then records, each
# with a mark (kind << 32 | size) that is 0 while nobody took the space, and has no kind until the rest of the record is
# there. It is set in one piece, as a copy of 8 aligned bytes is one store; a reader that saw half of it would see no
# kind or no size, and wait.
_MAGIC = 0x314A_4452_4159_5254
_HEAD_BYTES = 64
_HEAD = struct.Struct("QQQQQQ")
_DONE_AT, _DONE = 24, struct.Struct("QQQ")
_WORD = struct.Struct("Q")
_SEALED = 2  # as a word
# Kinds: (where its names are, step, seconds since the epoch, numbers…); names as JSON, or what was broken off: no row
# says that its names are there.
_ROW, _KEYS = 1, 2
_ROW_BYTES = 32
_SIZE = 0xFFFF_FFFF

# CPython with its global lock lets other threads and signals in only where functions are called and loops turn.
_ATOMIC = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
_now = time.time

_NUMBER = r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d*(?:[eE][+-]?\d+)?)\s*([^\W\d_]+(?:/[^\W\d_]+)?|%|x)"
_MULTIPLES = frozenset("kKMBGT")  # "3.2k" is not 3.2


class ResumeInfo(NamedTuple):
    """What an earlier attempt left behind. `checkpoint` is the newest whole one, `checkpoint_step` its step."""

    step: int
    status: str
    checkpoint: Path | None
    checkpoint_step: int


class TrainingRuntime:
    """A script's line to Trainyard. Without arguments it takes run and folder from the environment.

    Under torchrun the process with RANK 0 writes; the others only agree on when to stop.

    >>> rt = TrainingRuntime()
    >>> rt.start(model_id="my-model", config={"lr": 0.1}, total_steps=100)
    >>> rt.register_graceful_shutdown(model, dataloader)
    >>> rt.log_metrics(step=1, loss=0.7)
    >>> rt.finish()
    """

    def __init__(self, run_id: str | None = None, run_dir: str | Path | None = None) -> None:
        # Absolute, as a script may change its folder.
        self.run_dir = Path(run_dir or os.environ.get("TRAINYARD_RUN_DIR") or "").absolute()
        self.run_id = run_id or os.environ.get("TRAINYARD_RUN_ID") or self.run_dir.name
        self._ranks = _whole_of(os.environ.get("WORLD_SIZE"), 1)
        self._writes = self._ranks < 2 or _whole_of(os.environ.get("RANK"), 0) == 0
        self._warn = _Warnings()
        self._alone = os.environ.get("TRAINYARD_SUPERVISED") != "1"
        self._journal = _Journal(self.run_dir, self._warn, alone=self._alone)
        self._ended = weakref.finalize(self, self._journal.close)  # at the latest when the interpreter ends
        self._meta: dict[str, Any] = {}
        self._pid = os.getpid()
        self._step: Any = None  # of the newest row, None before the first
        self._listens_itself = False
        self._stop_asked = False
        self._polled = False
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
            "total_steps": _step_number(total_steps),
            "step": max(_whole(earlier.get("step")), self._last_step() or 0),
            "started_at": earlier.get("started_at") or time.time(),
            "pid": os.getpid(),
        }
        _dump_stacks_on_usr1()
        self._listens_itself = self._others_listen()
        if not self._writes:
            return
        self._journal.catch_up()
        self._write_meta()
        self._guarded("config.json", lambda: self._keep_config(config))
        self._guarded("checkpoints", self._remove_leftovers)

    def finish(self, status: Status = "completed") -> None:
        """Say how training ended, and complete metrics.jsonl.

        A run that says "stopped" is continued later. So a script that nobody asked to stop has "completed", and who has
        said "stopped" is not "completed" afterwards. Alone, where nobody continues it, it is believed.
        """
        if status == "stopped" and not self._may_be_asked():
            self._warn("stopped", 'finish("stopped"), but nobody asked this run to stop: it is "completed"')
            status = "completed"
        if status != "completed" or self._meta.get("status") != "stopped":
            self._meta["status"] = status
        self._write_meta()
        self._journal.close()

    # --- what people see

    def log_metrics(self, /, step: int, **values: Any) -> None:  # noqa: C901 - in one frame, see below
        """Keep one row of numbers; once this returns, no kill of the process loses it. About a microsecond.

        Accepts numpy and torch scalars, arrays of one element, Decimals, bools, NaN and infinities, and texts such as
        "1e-4", "85%" or "3.2 ms", of which the number is kept as it stands. Names are tidied. Anything else is left
        out with one warning per name. After a SIGTERM, a script that registered something to save and never reads
        `should_stop` is saved and ended here, between two steps.
        """
        # All of a usual row is done here, in one frame, by built-in types and with an index instead of an iterator: at
        # one call in some milliseconds each layer, each module and each kind of instruction more is a cold cache.
        journal = self._journal
        names, words, numbers, count, length, taken, void, whole, keys_at = journal.plan
        known = 0
        while known < count and names[known] in values:
            known += 1
        if known != count or len(values) != count:
            names, words, numbers, count, length, taken, void, whole, keys_at = journal.plan_for(tuple(values))
        now = _now()
        at = journal.at
        end = at + length
        if end <= journal.end and words is journal.words:
            words[at] = taken  # no call until the space is: see _Journal
            journal.at = end
            try:
                words[at + 1] = keys_at
                words[at + 2] = step
                numbers[at + 3] = now
                place = at + 4
                kept = 0
                while kept < count:
                    numbers[place + kept] = values[names[kept]]
                    kept += 1
            except BaseException as error:
                if words is journal.words:
                    words[at] = void
                if not isinstance(error, Exception) or not _by_value(error, values):
                    raise
            else:
                if words is journal.words:  # else it was sealed meanwhile, and is read without this row
                    words[at] = whole
                    self._step = step
                    if self._stop_asked:
                        self._stop_if_wanted()
                    return
        if self._writes and journal.append(step, values):
            self._step = step
        if self._stop_asked:  # under torchrun each process looks
            self._stop_if_wanted()

    def log(self, text: str) -> None:
        """Print one line, at once."""
        self._guarded("stdout", lambda: print(text, flush=True))  # noqa: T201 - printing is the effect

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

    def log_picture(self, name: str, picture: Mapping[str, Any], *, step: int | None = None) -> None:
        """Show a picture in the form of the files: `{"form": "table", "columns": […], "rows": […]}` and the like."""
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
        number = max(0, self._at()) if step is None else _step_number(step)
        if number is None or number < 0:
            self._warn("checkpoint step", f"no checkpoint saved: its step {_shown(step)} is no whole number from 0 on")
            return None
        final = self.run_dir / "checkpoints" / f"step_{number:08d}"
        try:
            self._save_aside(final, save)
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
        return sorted((folder / name for name in names if re.fullmatch(_CHECKPOINT, name)), key=_checkpoint_step)

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
            checkpoint_step=_checkpoint_step(newest) if newest else 0,
        )

    # --- inside

    def _show(self, name: str, form: str, given: tuple[Any, ...], about: Mapping[str, Any]) -> None:
        """Write `pictures/NAME.json`, or warn.

        `about` may hold `title` (else the name), `step` (else the newest one logged), `x_label` and `y_label`
        (`row_label` and `column_label` of a matrix), and `most`, the end of the axis of bars.
        """
        if not self._writes:
            return
        try:
            from trainyard import pictures

            more = dict(about)
            step = _step_number(more.pop("step", None))
            picture = pictures.made(form, given, more) if form else dict(*given)
            left_out = pictures.write(self.run_dir, name, picture, step=self._at() if step is None else step)
            if left_out:
                self._warn(f"left out of {name}", f"picture {name!r}: {left_out:,} of what was given did not fit")
        except Exception as error:  # noqa: BLE001 - code of others, and no picture is worth a training
            self._warn(f"picture {_shown(name)}", f"picture {_shown(name)} left out: {_shown(error, 300)}")

    def _on_term(self, signum: int, _frame: FrameType | None) -> None:
        self._stop_asked = True
        signal.signal(signum, signal.SIG_DFL)
        if os.getpid() != self._pid:  # a forked worker inherits the handler, not the checkpoint
            os.kill(os.getpid(), signum)

    def _stop_if_wanted(self) -> None:
        if self._save is None or self._polled:
            return
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

    def _save_aside(self, final: Path, save: Save) -> None:
        """Have `save` write a folder, have the disk take all of it, and only then give it its name.

        The lock says to `_remove_leftovers` that somebody writes; the kernel frees it with the process.
        """
        aside = _aside_of(final)
        file = -1
        try:
            aside.mkdir(parents=True)
            file = os.open(aside, os.O_RDONLY | os.O_DIRECTORY)
            _try_lock(file)
            save(aside)
            for place, _, names in os.walk(aside):
                for path in (Path(place), *(Path(place, name) for name in names)):
                    _sync(path)
            if final.exists():
                _discard(final)
            aside.rename(final)
            _sync(final.parent)
        except BaseException:  # Ctrl-C too leaves nothing behind
            shutil.rmtree(aside, ignore_errors=True)
            raise
        finally:
            if file >= 0:
                os.close(file)

    def _prune(self, newest: int, keep: int) -> None:
        """Remove the checkpoints of steps beyond the newest one, and all but `keep` of the others. Raises: OSError."""
        saved = self.checkpoints()
        kept = [path for path in saved if _checkpoint_step(path) <= newest][-keep:]
        for old in saved:
            if old not in kept:
                _discard(old)

    def _remove_leftovers(self) -> None:
        """Remove checkpoints whose writer was killed while it wrote or removed them. Raises: OSError."""
        for aside in (self.run_dir / "checkpoints").glob(".step_*"):
            file = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _try_lock(file):
                    shutil.rmtree(aside)
            finally:
                os.close(file)

    def _last_step(self) -> int | None:
        """The largest step of the journal and of the last whole line, None without any."""
        found = (last_step(self.run_dir / "metrics.jsonl"), *journal_steps(self.run_dir))
        return max((step for step in found if step is not None), default=None)

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


class _Warnings:
    """The only door for warnings: each subject once, on stderr."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, about: str, text: str) -> None:
        if about not in self._said:
            self._said.add(about)
            try:
                print(f"trainyard: {text}", file=sys.stderr)  # noqa: T201 - the effect
            except (OSError, ValueError):  # nobody reads stderr any more, and there is no other place to say it
                return

    def of(self, error: Exception, what: str) -> None:
        """A full disk or a forbidden folder is one subject, whatever could not be written."""
        number = error.errno if isinstance(error, OSError) else None
        self(f"errno {number}" if number else what, f"{what} cannot be written, training goes on: {error}")


# How rows of some names are written into the segment at hand: the names, the segment as integers (`words`) and as
# floats (`numbers`), how many numbers there are, how many words a row takes with its mark; the mark while it is written
# (`taken`), when it was broken off (`void`) and when it is `whole`; the byte at which the names are. A plain tuple
# unpacks fastest.
_Plan = tuple[tuple[str, ...], "memoryview[int]", "memoryview[float]", int, int, int, int, int, int]
_NOWHERE = memoryview(bytes(8))
_NO_PLAN: _Plan = ((), _NOWHERE.cast("q"), _NOWHERE.cast("d"), -1, 0, 0, 0, 0, 0)  # no row is like it


class _Row:
    """One row that is not packed at once.

    `written` is set in one piece with the mark. So a row that waits is written once, although Ctrl-C may end the
    writing of what waits at any moment, and a handler that logs or ends the run may do the same writing within it.
    """

    __slots__ = ("names", "now", "numbers", "step", "written")

    def __init__(self, names: tuple[str, ...], step: int, now: float, numbers: Sequence[float]) -> None:
        self.names, self.step, self.now, self.numbers = names, step, now, numbers
        self.written = False


class _Journal:
    """The writing side. A segment belongs to one process: it alone appends, and holds a lock on it while it lives.

    Writing a row touches no file. Its space is taken in one piece for signals and other threads (`_ATOMIC`): the
    segment is seen to be still the one at hand, the size is set as a mark without a kind, and the next one's place,
    with no call of a function in between. Then the numbers are set, and when all are there the kind, again in one piece
    with a look whether the segment is still at hand. So neither Ctrl-C nor a handler that logs or ends the run leaves a
    hole that a reader cannot step over, and no lock is taken, which would cost a quarter of a call. What is slower
    (other names, the next segment, texts, a full disk) is under the lock, and so is every row where an interpreter
    makes no such promise: there `end` stays 0.

    `at` and `end` count words of 8 bytes.
    """

    def __init__(self, run_dir: Path, warn: _Warnings, *, alone: bool) -> None:
        self._run_dir, self._folder, self._warn, self._alone = run_dir, run_dir / JOURNAL, warn, alone
        self._follower: _Follower | None = None
        self._lock = threading.RLock()
        self._late: deque[_Row] = deque(maxlen=_MOST_LATE)
        self._converting = False
        self._forget()
        _open_journals.add(self)

    def _forget(self) -> None:
        """Own no segment: at first and in a forked child."""
        self.at = self.end = 0
        self.plan = _NO_PLAN  # of the newest row: most are alike
        self.plans: dict[tuple[str, ...], _Plan] = {}
        self.words: memoryview[int] | None = None  # the segment as integers, and as floats
        self._numbers: memoryview[float] | None = None
        self._path = self._folder
        self._retry_at = 0.0

    def plan_for(self, names: tuple[str, ...]) -> _Plan:
        """How to write a row of other names than the newest one, and then those that are like it.

        `_NO_PLAN` for new names.
        """
        plan = self.plans.get(names, _NO_PLAN)
        if plan[1] is self.words:
            self.plan = plan
        return plan

    def append(self, step: Any, values: Mapping[str, Any]) -> bool:
        """Keep one row that was not packed at once; False for one that has no step.

        Raises nothing but what a value raises beyond Exception.
        """
        now = _now()
        number = _step_number(step)
        if number is None:
            self._warn("step", f"a row of metrics is left out: its step {_shown(step)} is not a whole number")
            return False
        names, numbers = [], []
        for name, value in values.items():
            found = _number(value)
            if found is None:
                self._warn(f"metric {name}", f"metric {name!r} left out: {_shown(value)} is not one number")
            else:
                names.append(name)
                numbers.append(found)
        if sum(len(name) + 24 for name in names) > _MOST_BYTES // 2:
            self._warn("row", f"a row of {len(names)} metrics is left out: it is too long")
            return False
        with self._lock:
            self._late.append(_Row(tuple(names), number, now, numbers))
            if time.monotonic() >= self._retry_at:
                self._store_late()
        return True

    def _store_late(self) -> None:
        """Write the rows that wait; those that no disk takes go on waiting. See `_Row`."""
        try:
            while True:
                if not self._late:  # looked at after the turn of the loop, which may let a handler empty it
                    return
                row = self._late[0]
                self._store(row)
                if self._late and self._late[0] is row:  # no call between the look and the removal
                    del self._late[0]
        except (OSError, ValueError) as error:  # ValueError: a file system that maps nothing
            self._retry_at = time.monotonic() + _RETRY_S
            self._warn.of(error, f"{JOURNAL} (metrics)")

    def _store(self, row: _Row) -> None:
        """Write a row wherever there is room, unless it is written. Raises: OSError."""
        while not row.written:
            plans = self.plans
            plan = plans.get(row.names) or self._planned(row.names)
            if plan is not None:
                count = len(row.numbers)
                record = struct.pack(f"qqd{count}d", plan[-1], row.step, row.now, *row.numbers)
                if self._put(_ROW, record, plan[1], row):
                    return
            if plans is self.plans:  # nobody else, a signal's handler say, began a segment meanwhile
                self._roll(row.names)

    def _planned(self, names: tuple[str, ...]) -> _Plan | None:
        """Write these names into the segment; None if there is none, or no room for them."""
        plans, words, numbers = self.plans, self.words, self._numbers
        if words is None or numbers is None:
            return None
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        text = json.dumps(_tidied(names)).encode()
        text += b" " * (-len(text) % 8)
        keys_at = self._put(_KEYS, text, words)
        if not keys_at:
            return None
        count = len(names)
        size = 8 * (4 + count)
        plan = names, words, numbers, count, 4 + count, size, _KEYS << 32 | size, _ROW << 32 | size, 8 * keys_at
        plans[names] = plan
        return plan

    def _put(self, kind: int, record: bytes, words: memoryview[int], row: _Row | None = None) -> int:
        """Write one record, of whole words, into this segment; its place.

        0 (the head is there) for no room, another segment or a row that is written. Of a row, say that it is written.
        """
        content = memoryview(record).cast("q")
        length, last = 1 + len(content), len(words)
        mark = kind << 32 | 8 * length
        at = self.at
        end = at + length
        where = slice(at + 1, end)  # before: to make one may start the collector, which calls methods of others
        if at != self.at or end > last or words is not self.words or (row is not None and row.written):
            return 0  # no call until the mark is set
        self.at = end
        words[where] = content
        words[at] = mark
        if row is not None:
            row.written = True
        return at

    def _roll(self, names: tuple[str, ...]) -> None:
        """Go on in a new segment that has room for these names and a row. Raises: OSError."""
        if self._alone and self.words is not None and not (self._follower and self._follower.lives()):
            self._convert()
        need = _HEAD_BYTES + 16 + len(json.dumps(_tidied(names))) + _ROW_BYTES + 8 * len(names)
        fresh, path = self._reserve(max(_SEGMENT_BYTES, -(-need // 4096) * 4096))
        words: memoryview[int] = fresh.cast("q")
        numbers: memoryview[float] = fresh.cast("d")
        end = len(words) if _ATOMIC else 0
        self._look()
        old, self.words, self._numbers, self._path = self.words, words, numbers, path
        self.at, self.end, self.plan, self.plans = _HEAD_BYTES // 8, end, _NO_PLAN, {}
        if old is not None:  # no call since
            old[_SEALED] = 1
        if self._alone and self._follower is None:
            self._follower = _Follower()
            self._follower.start(self._run_dir, self._warn)

    def _look(self) -> None:
        """Warn when the segment at hand is gone: until it is sealed nobody but the training's owner removes it."""
        try:
            if self.words is not None:
                self._path.stat()
        except FileNotFoundError:
            self._warn("removed", f"{JOURNAL} was removed while training runs: its newest metrics are lost")
        except OSError as error:
            self._warn.of(error, JOURNAL)

    def _reserve(self, size: int) -> tuple[memoryview, Path]:
        """A new segment and its place.

        All its blocks are on disk, so that a full disk is an error here and no SIGBUS later.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        names = segments(self._folder)
        if len(names) >= _MOST_SEGMENTS and self._alone:
            self._convert()
            names = segments(self._folder)
        if len(names) >= _MOST_SEGMENTS:
            raise OSError(errno.ENOSPC, f"{len(names)} segments wait and nobody converts them")
        mine = f"{os.urandom(6).hex()}.seg"
        aside = self._folder / f".{mine}"
        file = -1
        try:
            file = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            _try_lock(file)  # kept by the mapping, freed by the kernel when the process is gone
            _fill(file, size)
            fresh = memoryview(mmap.mmap(file, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)))
            fresh[: _HEAD.size] = _HEAD.pack(_MAGIC, size, 0, _HEAD_BYTES, 0, 0)
            names = segments(self._folder)  # again: a handler may have begun one meanwhile, whose rows come before
            number = int(names[-1][:8]) + 1 if names else 1
            path = aside.rename(self._folder / f"{number:08d}-{mine}")
        except BaseException:  # Ctrl-C too leaves nothing behind
            aside.unlink(missing_ok=True)
            raise
        finally:
            if file >= 0:
                os.close(file)
        return fresh, path

    def catch_up(self) -> None:
        """Alone: convert what an earlier attempt left."""
        if self._alone:
            self._convert()

    def close(self) -> None:
        """Seal what is written; alone, wait until metrics.jsonl is complete. A later `append` opens anew.

        Once more after Ctrl-C: it goes on where it was.
        """
        patience = time.monotonic() + _FINISH_S
        with self._lock:
            self._store_late()
            self._retry_at = 0.0
            self._look()
            words, self.words, self._numbers = self.words, None, None
            self.at, self.end, self.plan, self.plans = 0, 0, _NO_PLAN, {}
            if words is not None:  # no call since; not released either: who was interrupted may be about to write to it
                words[_SEALED] = 1
        follower = self._follower
        if follower is not None:
            follower.finish(patience)
        self._follower = None
        if self._alone:
            self._convert(patience, over=words is not None or follower is not None)

    def _convert(self, patience: float = 0.0, *, over: bool = False) -> None:
        """Convert here; while another process does so, wait until `patience` (of time.monotonic).

        `over`: nothing more is to come, and the folder goes if it is empty.
        """
        if self._converting:  # this is a handler within a conversion, which would wait for itself
            return
        self._converting = True
        try:
            converter = Converter(self._run_dir)
            converter.run()
            while converter.busy and time.monotonic() < patience:
                time.sleep(_IDLE_S[0])
                converter.run()
            if over:
                remove_empty(self._folder)
        except OSError as error:
            self._warn.of(error, "metrics.jsonl")
        finally:
            self._converting = False

    def after_fork(self) -> None:
        """In a forked child: leave the parent's segment alone. A child that logs gets its own."""
        if self._follower is not None:
            self._follower.abandon()
        self._follower = None
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self._late.clear()
        self._converting = False
        self._forget()


_open_journals: weakref.WeakSet[_Journal] = weakref.WeakSet()


def _after_fork() -> None:
    for journal in list(_open_journals):
        journal.after_fork()


os.register_at_fork(after_in_child=_after_fork)


# No child of the training, whose `os.wait` is for its own children: the interpreter that is started leaves it behind.
_LEAVE_BEHIND = "import os, sys; os.fork() or os.execv(sys.executable, [sys.executable, '-I', '-S', *sys.argv[1:]])"


class _Follower:
    """A small process that converts while training runs. It sees the end of this one as the end of its input.

    Its output, to which it writes nothing, ends with it.
    """

    def __init__(self) -> None:
        self._input, self._output = 0, -1

    def start(self, run_dir: Path, warn: _Warnings) -> None:
        """Interrupted, it may leave a process that nobody knows, which ends at once as its input does."""
        reading, writing = os.pipe()
        its_output, output = os.pipe()
        # not before the last method has ended, in which a handler may have called another one
        weakref.finalize(self, os.close, its_output).atexit = False
        argv = [sys.executable, "-I", "-S", "-c", _LEAVE_BEHIND, os.path.abspath(__file__), str(run_dir)]  # noqa: PTH100 - spawn takes text
        actions = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        started = False
        try:
            # a session of its own: Ctrl-C and a kill of the training's group must leave it time to drain
            pid = os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions, setsid=True)
            self._input, started = writing, True
            os.waitpid(pid, 0)
        except ChildProcessError:  # a handler of the script waited for it
            return
        except (OSError, NotImplementedError, ValueError, TypeError) as error:
            warn("follower", f"metrics.jsonl is written at the end only, no process could be started: {error}")
        finally:
            os.close(reading)
            os.close(output)
            if started:  # not before: while we hold the other end too, a handler that ends the run would wait in vain
                self._output = its_output
            else:  # else a handler may have ended it meanwhile, and closed that
                os.close(writing)

    def lives(self) -> bool:
        return self._output >= 0 and not self._ended(0.0)

    def finish(self, patience: float) -> None:
        """Let it drain and end, until `patience` (of time.monotonic)."""
        self.abandon()
        if self._output >= 0:
            self._ended(max(0.0, patience - time.monotonic()))

    def abandon(self) -> None:
        """Close our end of its input."""
        writing, self._input = self._input, 0
        if writing:
            os.close(writing)

    def _ended(self, within_s: float) -> bool:
        looking = select.poll()
        looking.register(self._output, 0)  # its end is told unasked
        return bool(looking.poll(1000 * within_s))


class Converter:
    """The reading side: makes lines of metrics.jsonl of what the journal holds, each row once.

    Before lines are appended, the segment's head says which rows they are and how long the file was; after a death in
    between, the next converter looks how many of them arrived and appends the rest. Called by the supervisor, which is
    outside of the training's walls: it maps nothing (a truncated file would be a SIGBUS), follows no links, and takes
    nothing that it reads for granted.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path, self._folder = run_dir / "metrics.jsonl", run_dir / JOURNAL
        self.busy = False  # another converter was at work at the last `run`

    def run(self, *, ended: bool = False) -> int:
        """Convert what is there; the number of rows. 0 too while another converter is at work.

        `ended`: no process that could still write is left. Raises: OSError, and the rows stay in the journal.
        """
        self.busy = False
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return 0
        count = 0
        try:
            self.busy = not _try_lock(folder)
            if self.busy:
                return 0
            for name in segments(folder):
                count += self._segment(folder, name, ended=ended)
            if ended:
                _remove_asides(folder)
        finally:
            os.close(folder)
        if ended:
            remove_empty(self._folder)
        return count

    def _segment(self, folder: int, name: str, *, ended: bool) -> int:
        file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            segment = _Segment(file)
            over = ended or segment.sealed or _try_lock(file)  # before the rows are read
            count = self._move(segment, file, over=over)
            if over:
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(file)
        return count

    def _move(self, segment: _Segment, file: int, *, over: bool) -> int:
        done, count = segment.done, 0
        while True:
            intended = segment.intended if segment.intended > done else 0
            text, rows, at = segment.read(done, intended or segment.size, over=over or bool(intended))
            if at == done:
                return count
            if rows:
                with _Lines(self._path) as lines:
                    size = segment.size_before if intended else lines.size
                    os.pwrite(file, _DONE.pack(done, at, size), _DONE_AT)
                    lines.append(_missing(lines.since(size), text) if intended else lines.closing + text)
            os.pwrite(file, _DONE.pack(at, 0, 0), _DONE_AT)
            done, segment.intended = at, 0
            count += rows


class _Segment:
    """One segment as read from a file that may hold anything."""

    def __init__(self, file: int) -> None:
        self._file = file
        found = os.fstat(file)
        head = os.pread(file, _HEAD_BYTES, 0)
        self.size = self.done = self.intended = self.size_before = 0
        self.sealed = False
        self._rows: dict[tuple[int, int], tuple[struct.Struct, list[str]]] = {}
        if stat.S_ISREG(found.st_mode) and len(head) == _HEAD_BYTES and _WORD.unpack_from(head)[0] == _MAGIC:
            _, size, sealed, self.done, self.intended, self.size_before = _HEAD.unpack_from(head)
            self.size, self.sealed = min(size, found.st_size, _MOST_BYTES), bool(sealed)
            self.intended = min(self.intended, self.size)

    def read(self, at: int, end: int, *, over: bool = False) -> tuple[bytes, int, int]:
        """Lines of the rows from byte `at` on, about `_CHUNK_BYTES` of journal; how many; where they end.

        `over`: nobody writes any more, and rows that are not whole now are stepped over.
        """
        data = os.pread(self._file, min(_CHUNK_BYTES, end - at), at) if at < end else b""
        if len(data) >= 8 and len(data) < (size := _WORD.unpack_from(data)[0] & _SIZE) <= end - at:
            data = os.pread(self._file, size, at)  # one record longer than a chunk
        text, moved = self._lines(data, over)
        # Within one read a processor copies in whatever order it likes, while the training writes: a mark may come
        # along without what was written before it (x86 `rep movsb`: seen at one read in 600 at the journal's end).
        # What is read after a mark was seen is whole.
        whole = os.pread(self._file, moved, at) if moved else b""
        if whole != data[:moved]:
            text, moved = self._lines(whole, over)
        joined = "".join(text)
        if ":nan" in joined or ":inf" in joined or ":-inf" in joined:  # no name of ours holds a colon
            for said, meant in ((":nan", ':"NaN"'), (":inf", ':"Infinity"'), (":-inf", ':"-Infinity"')):
                joined = joined.replace(said, meant)
        return joined.encode(), len(text), at + moved

    def _lines(self, data: bytes, over: bool) -> tuple[list[str], int]:
        """Lines of the rows whose marks are set, and how many bytes of `data` they and their names take."""
        text: list[str] = []
        moved = 0
        while moved + 16 <= len(data):
            mark = _WORD.unpack_from(data, moved)[0]
            kind, size = mark >> 32, mark & _SIZE
            if size < 16 or size % 8 or moved + size > len(data):
                break  # not there yet, or in the next chunk
            if kind == _ROW and size >= _ROW_BYTES:
                moved = self._line_up(data, moved, mark, text)
            elif kind == _KEYS or (over and not kind):
                moved += size
            else:
                break
        return text, moved

    def _line_up(self, data: bytes, at: int, mark: int, text: list[str]) -> int:
        """Append the lines of all rows alike from `at` on; where they end.

        How numbers are written follows from these rows alone: read again after a death, they must give the same bytes.
        """
        size, keys_at = mark & _SIZE, _WORD.unpack_from(data, at + 8)[0]
        layout, names = self._layout(keys_at, size)
        rows = (len(data) - at) // size
        alike: list[tuple[Any, ...]] = []
        for found in layout.iter_unpack(memoryview(data)[at : at + rows * size]):
            if found[0] != mark or found[1] != keys_at:
                break
            alike.append(found)
        template = _template(names, alike[len(alike) // 2])
        text.extend([template % found[2:] for found in alike])
        return at + len(alike) * size

    def _layout(self, keys_at: int, size: int) -> tuple[struct.Struct, list[str]]:
        known = self._rows.get((keys_at, size))
        if known is None:
            count = (size - _ROW_BYTES) // 8
            names = self._names(keys_at)
            names = names if len(names) == count else [f"unnamed_{number}" for number in range(count)]
            quoted = [json.dumps(name).replace("%", "%%") for name in names]
            known = self._rows[keys_at, size] = struct.Struct(f"QQqd{count}d"), quoted
        return known

    def _names(self, at: int) -> list[str]:
        head = os.pread(self._file, 8, at) if at < self.size else b""
        mark = _WORD.unpack(head)[0] if len(head) == 8 else 0
        size = mark & _SIZE
        if mark >> 32 != _KEYS or not 8 <= size <= self.size - at:
            return []
        try:
            found = json.loads(os.pread(self._file, size - 8, at + 8))
            return [str(name) for name in found] if isinstance(found, list) else []
        except (ValueError, RecursionError):
            return []


def _template(names: Sequence[str], like: Sequence[Any]) -> str:
    """How rows become lines, given one of them. Either spelling of a number is exact.

    `repr` is the shortest one, but takes longer than 17 digits do where it needs as many: most measured losses.
    """
    values = zip(names, like[4:], strict=True)
    spelled = ",".join(f"{name}:{'%r' if len(repr(value)) < 17 else '%.17g'}" for name, value in values)
    return '{"step":%d,"at":%.3f,"values":{' + spelled + "}}\n"


class _Lines:
    """metrics.jsonl, open to append."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        self._file = os.open(path, flags, 0o644)
        found = os.fstat(self._file)
        self.size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            os.close(self._file)
            raise OSError(errno.EINVAL, f"{path.name} is no plain file")

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def closing(self) -> bytes:
        """What ends a last line that somebody left torn."""
        torn = self.size > 0 and os.pread(self._file, 1, self.size - 1) != b"\n"
        return b"\n" if torn else b""

    def since(self, size: int) -> bytes:
        """What was appended when the file was `size` bytes long, as much of it as one conversion may be behind."""
        start = at = min(size, self.size)
        parts = []
        while at - start < _MOST_BYTES and (part := os.pread(self._file, _CHUNK_BYTES, at)):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def append(self, data: bytes) -> None:
        """Raises: OSError; some of `data` may be written then."""
        while data:
            data = data[os.write(self._file, data) :]


def _missing(tail: bytes, text: bytes) -> bytes:
    """What is still to be appended of `text` (whole lines) where `tail` was appended already.

    Lines of others may stand between. The last line of `tail` may be torn.
    """
    *whole, rest = tail.split(b"\n")
    wanted = text.splitlines(keepends=True)
    found = 0
    for line in whole:
        if found < len(wanted) and line + b"\n" == wanted[found]:
            found += 1
    left = b"".join(wanted[found:])
    if rest and left.startswith(rest):
        return left[len(rest) :]
    return b"\n" + left if rest and left else left


def last_step(path: Path) -> int | None:
    """The step of the last whole line of metrics.jsonl, None without one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # not there, or not to be read: no row of it is known
        return None
    try:
        found = os.fstat(file)
        at = max(0, found.st_size - _TAIL_BYTES)
        lines = os.pread(file, _TAIL_BYTES, at).splitlines() if stat.S_ISREG(found.st_mode) else []
    finally:
        os.close(file)
    return next((step for line in reversed(lines) if (step := _step_of(line)) is not None), None)


def journal_steps(run_dir: Path) -> list[int]:
    """The last steps in the journal of a run's folder that are not in metrics.jsonl yet, one a segment."""
    found: list[int] = []
    for name in segments(run_dir / JOURNAL):
        try:
            file = os.open(run_dir / JOURNAL / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # converted and removed meanwhile
            continue
        try:
            segment = _Segment(file)
            at = segment.done
            while (read := segment.read(at, segment.size, over=True))[2] != at:
                at = read[2]
                found += [step] if (step := _step_of(read[0].splitlines()[-1] if read[0] else b"")) is not None else []
        finally:
            os.close(file)
    return found


def segments(folder: int | Path) -> list[str]:
    """Names of the segments in a journal's folder, oldest first."""
    try:
        return sorted(name for name in os.listdir(folder) if re.fullmatch(_SEGMENT, name))  # noqa: PTH208 - an open folder
    except OSError:  # no folder, no segments
        return []


def remove_empty(folder: Path) -> None:
    """Remove the journal's folder if nothing is in it."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _remove_asides(folder: int) -> None:
    """Remove segments that were never finished; no writer is left."""
    for name in os.listdir(folder):
        if name.startswith("."):
            os.unlink(name, dir_fd=folder)


def _try_lock(file: int) -> bool:
    """Take the lock if it is free. True too where the file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _fill(file: int, size: int) -> None:
    """Reserve the blocks of a new file. Raises: OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.write(file, bytes(size))
        if os.fstat(file).st_size != size:
            raise OSError(errno.ENOSPC, "the disk took only part of a segment")


def _dump_stacks_on_usr1() -> None:
    import faulthandler

    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:  # somebody's own use of the signal goes first
        try:
            faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        except (OSError, RuntimeError, ValueError) as error:
            print(f"trainyard: SIGUSR1 will print no stacks: {error}", file=sys.stderr)  # noqa: T201


def _tidied(names: Sequence[str]) -> list[str]:
    """Names without what is awkward in charts and queries: `learning rate(group 1)` -> `learning_rate_group_1`."""
    found: dict[str, None] = {}
    for name in names:
        tidy = re.sub(r"[^a-zA-Z0-9_./-]+$", "", name)
        tidy = re.sub(r"[^a-zA-Z0-9_./-]+", "_", tidy) or "unnamed"
        number = 2
        while tidy in found:  # two names that differ only in such characters
            tidy, number = f"{tidy.removesuffix(f'_{number - 1}') if number > 2 else tidy}_{number}", number + 1
        found[tidy] = None
    return list(found)


def _by_value(error: Exception, values: Mapping[str, Any]) -> bool:
    """Whether a value that is no plain number raised this, and not a signal's handler while it was asked.

    Also one that warns, once in a process, where warnings are errors: a tensor that requires its gradient.
    """
    usual = (TypeError, ValueError, RuntimeError, Warning)
    return isinstance(error, usual) or None in map(_number, values.values())


def _number(value: Any) -> float | None:
    """One number, or None."""
    if isinstance(value, (str, bytes)):
        return _read_number(value if isinstance(value, str) else value.decode(errors="replace"))
    try:
        value = value.item() if hasattr(value, "item") else value
        return None if value is None else float(value)
    except Exception:  # noqa: BLE001 - code of others; whatever it raises, the value is no number
        return None


def _read_number(text: str) -> float | None:
    """The number in a text, with or without a unit, which is dropped: "3.2 ms" is 3.2, "85%" is 85."""
    try:
        return float(text)
    except ValueError:
        found = re.fullmatch(_NUMBER, text.strip())
    if found is None or found[2] in _MULTIPLES:
        return None
    try:
        return float(found[1].replace(",", ""))
    except ValueError:  # a unit alone
        return None


def _shown(value: Any, most: int = 60) -> str:
    """A value in a warning. Code of others too: an integer of many thousand digits has no text, for one."""
    try:
        return repr(str(value)[:most])
    except Exception:  # noqa: BLE001 - likewise
        return f"of type {type(value).__name__}"


def _step_number(step: Any) -> int | None:
    """A whole number that fits 64 bits, or None."""
    try:
        number = int(step)
    except Exception:  # noqa: BLE001 - likewise
        return None
    return number if -(2**63) <= number < 2**63 else None


def _step_of(line: bytes) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, RecursionError, KeyError, TypeError):  # torn, or no row
        return None


def _whole(value: Any) -> int:
    return _step_number(value) or 0


def _whole_of(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() else default


def _checkpoint_step(path: Path) -> int:
    found = re.fullmatch(_CHECKPOINT, path.name)
    return int(found[1]) if found else 0


def _aside_of(checkpoint: Path) -> Path:
    return checkpoint.with_name(f".{checkpoint.name}.{os.urandom(6).hex()}")


def _discard(checkpoint: Path) -> None:
    """Remove a checkpoint. Killed within, it leaves nothing that is taken for one. Raises: OSError."""
    shutil.rmtree(checkpoint.rename(_aside_of(checkpoint)), ignore_errors=True)


def _sync(path: Path) -> None:
    """Have the disk take a file, or the names in a folder. Raises: OSError."""
    if not stat.S_ISREG(path.lstat().st_mode) and not path.is_dir():
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that takes no folders
            raise
    finally:
        os.close(file)


def _write_aside(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _save_torch(folder: Path, parts: Mapping[str, Any]) -> None:
    import torch

    torch.save({name: part.state_dict() for name, part in parts.items()}, folder / "state.pt")


def follow(run_dir: Path) -> int:
    """Convert until standard input ends and nothing is left; the exit code, 1 when lines could not be written."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    converter, pause, failed = Converter(run_dir), _IDLE_S[0], False
    while True:
        ended = bool(select.select([0], [], [], pause)[0])  # before the look, so that what is written last is seen
        try:
            moved, failed = converter.run(), False
        except OSError:
            moved, failed = 0, True
        if ended and not moved and not converter.busy:  # another one may not see what was written last
            remove_empty(run_dir / JOURNAL)
            return int(failed)
        pause = _IDLE_S[0] if moved else min(2 * pause, _IDLE_S[1])


if __name__ == "__main__":
    sys.exit(follow(Path(sys.argv[1])))
