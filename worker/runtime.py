"""What a training script imports to be seen and to be stopped: `TrainingRuntime`.

One file, standard library only, so that it travels inside a bundle and works where Trainyard is not installed.
It owns `meta.json`, `metrics.jsonl` and `checkpoints/` of a run's folder. It never breaks a training: what cannot be
written is said once on stderr and training goes on. Optional libraries (torch, transformers) are imported late.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

Status = Literal["running", "completed", "stopped", "failed"]
Save = Callable[[Path], None]

_META_EVERY_S = 1.0
_TAIL_BYTES = 65536
_CHECKPOINT = re.compile(r"step_(\d+)")


@dataclass(frozen=True, slots=True)
class ResumeInfo:
    """What an earlier attempt left behind. `checkpoint` is the newest whole one, `checkpoint_step` its step."""

    step: int
    status: str
    checkpoint: Path | None
    checkpoint_step: int


class TrainingRuntime:
    """A script's line to Trainyard. Without arguments it takes run and folder from the environment.

    >>> rt = TrainingRuntime()
    >>> rt.start(model_id="my-model", config={"lr": 0.1}, total_steps=100)
    >>> rt.register_graceful_shutdown(model, dataloader)
    >>> rt.log_metrics(step=1, loss=0.7)
    >>> rt.finish()
    """

    def __init__(self, run_id: str | None = None, run_dir: str | Path | None = None) -> None:
        self.run_dir = Path(run_dir or os.environ.get("TRAINYARD_RUN_DIR") or Path.cwd())
        self.run_id = run_id or os.environ.get("TRAINYARD_RUN_ID") or self.run_dir.name
        self._journal = _Journal(self.run_dir / "metrics.jsonl")
        self._meta: dict[str, Any] = {}
        self._meta_at = 0.0
        self._said: set[str] = set()
        self._stop_asked = False
        self._polled = False
        self._save: Save | None = None

    # --- life of a run

    def start(self, model_id: str, config: Mapping[str, Any] | None = None, total_steps: int | None = None) -> None:
        """Say that training runs. Keeps the step, the start time and the metrics of an earlier attempt."""
        earlier = self._read_meta()
        self._meta = {
            "run_id": self.run_id,
            "status": "running",
            "model": model_id,
            "total_steps": total_steps,
            "step": _whole(earlier.get("step")),
            "started_at": earlier.get("started_at") or time.time(),
            "pid": os.getpid(),
        }
        self._write_meta()
        kept = self.run_dir / "config.json"
        if config and not kept.exists():
            self._guarded("config.json", lambda: _write_aside(kept, json.dumps(dict(config), default=str)))

    def finish(self, status: Status = "completed") -> None:
        """Say how training ended, and close the metrics."""
        self._meta["status"] = status
        self._write_meta()
        self._journal.close()

    # --- what people see

    def log_metrics(self, step: int, **values: Any) -> None:
        """Append one row of numbers. Accepts numpy and torch scalars, bools, NaN and infinities; names are tidied.

        Anything else is left out with one warning per name. After a SIGTERM, a script that registered something to
        save and never reads `should_stop` is saved and ended here, between two steps.
        """
        row = self._numbers(values)
        line = json.dumps({"step": int(step), "at": round(time.time(), 3), "values": row}, separators=(",", ":"))
        self._guarded("metrics.jsonl", lambda: self._journal.append(line.encode() + b"\n"))
        self._meta["step"] = max(int(step), _whole(self._meta.get("step")))
        if time.monotonic() - self._meta_at > _META_EVERY_S:
            self._write_meta()
        if self._stop_asked and self._save is not None and not self._polled:
            self.save_checkpoint(step=int(step))
            self.finish("stopped")
            raise SystemExit(0)

    def log(self, text: str) -> None:
        """Print one line, at once."""
        self._guarded("stdout", lambda: print(text, flush=True))  # noqa: T201 - printing is the effect

    # --- stopping and resuming

    @property
    def should_stop(self) -> bool:
        """Whether somebody asked this run to end. A loop that reads this ends itself after saving."""
        self._polled = True
        return self._stop_asked

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
        """Write `checkpoints/step_<n>/` aside, rename it, and keep the newest `keep`. None when it failed."""
        save = save or self._save
        if save is None:
            self._warn("checkpoint", "nothing to save: register_graceful_shutdown got neither a model nor save=")
            return None
        number = _whole(self._meta.get("step")) if step is None else step
        final = self.run_dir / "checkpoints" / f"step_{number:08d}"
        aside = final.with_name(f".{final.name}.{os.getpid()}")
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            save(aside)
            if final.exists():
                shutil.rmtree(final)
            aside.rename(final)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            shutil.rmtree(aside, ignore_errors=True)
            print(f"trainyard: checkpoint at step {number} not saved: {error}", file=sys.stderr)  # noqa: T201
            return None
        for old in self._checkpoints()[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
        self._write_meta()
        return final

    def get_resume_info(self) -> ResumeInfo | None:
        """What an earlier attempt in this folder reached, or None if there was none."""
        meta, last = self._read_meta(), self._journal.last_step()
        saved = self._checkpoints()
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

    def _on_term(self, signum: int, _frame: FrameType | None) -> None:
        self._stop_asked = True
        signal.signal(signum, signal.SIG_DFL)

    def _checkpoints(self) -> list[Path]:
        folder = self.run_dir / "checkpoints"
        found = [path for path in folder.glob("step_*") if _CHECKPOINT.fullmatch(path.name)] if folder.is_dir() else []
        return sorted(found, key=_checkpoint_step)

    def _numbers(self, values: Mapping[str, Any]) -> dict[str, float | int | str]:
        row: dict[str, float | int | str] = {}
        for name, value in values.items():
            number = _scalar(value)
            if number is None:
                self._warn(f"metric {name}", f"metric {name!r} left out: {str(value)[:60]!r} is not one number")
            else:
                row[re.sub(r"[^a-zA-Z0-9_./-]+", "_", name)] = number
        return row

    def _read_meta(self) -> dict[str, Any]:
        try:
            found = json.loads((self.run_dir / "meta.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._warn("meta.json", f"meta.json cannot be read: {error}")
            return {}
        return found if isinstance(found, dict) else {}

    def _write_meta(self) -> None:
        self._meta_at = time.monotonic()
        self._guarded("meta.json", lambda: _write_aside(self.run_dir / "meta.json", json.dumps(self._meta)))

    def _guarded(self, what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except (OSError, ValueError) as error:  # ValueError: a closed stdout
            self._warn(what, f"{what} cannot be written, training goes on: {error}")

    def _warn(self, about: str, text: str) -> None:
        if about not in self._said:
            self._said.add(about)
            print(f"trainyard: {text}", file=sys.stderr)  # noqa: T201 - the only door for warnings


class _Journal:
    """All file access of metrics: one line, one write. A line torn by a full disk or a kill is closed off first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._torn = False
        self._lock = threading.Lock()

    def append(self, line: bytes) -> None:
        with self._lock:
            file = self._open() if self._fd is None else self._fd
            data = b"\n" + line if self._torn else line
            self._torn = os.write(file, data) != len(data)
            if self._torn:
                raise OSError(errno.ENOSPC, "the disk took only part of a line")

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def last_step(self) -> int | None:
        """The step of the last whole line, None without one."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        for line in reversed(lines):
            try:
                return int(json.loads(line)["step"])
            except (ValueError, KeyError, TypeError):  # torn line: look further up
                continue
        return None

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        info = os.fstat(file)
        self._torn = stat.S_ISREG(info.st_mode) and info.st_size > 0 and os.pread(file, 1, info.st_size - 1) != b"\n"
        return file


def trainer_callback(runtime: TrainingRuntime, *, model_id: str = "transformers") -> Any:
    """A `transformers.TrainerCallback` that starts, logs, stops and finishes through `runtime`."""
    from transformers import TrainerCallback

    class TrainyardCallback(TrainerCallback):  # type: ignore[misc]  # the parent ships no types
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del control
            runtime.register_graceful_shutdown(kwargs.get("model"), optimizer=kwargs.get("optimizer"))
            runtime.start(model_id=model_id, config=args.to_dict(), total_steps=int(state.max_steps))

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            del args, control, kwargs
            numbers = {name: value for name, value in (logs or {}).items() if _scalar(value) is not None}
            if numbers:
                runtime.log_metrics(step=int(state.global_step), **numbers)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, kwargs
            if runtime.should_stop:
                control.should_save = True
                control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            del args, state, control, kwargs
            runtime.finish("stopped" if runtime.should_stop else "completed")

    return TrainyardCallback()


def _scalar(value: Any) -> float | int | str | None:
    """One JSON number, or "NaN", "Infinity", "-Infinity"; None when `value` is not one number."""
    if not isinstance(value, (bool, int, float)) and not isinstance(value, (str, bytes)):
        value = _unwrapped(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if not isinstance(value, float):
        return None
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def _unwrapped(value: Any) -> Any:
    """The Python number inside a numpy or torch scalar or a Decimal; None if there is none."""
    try:
        return value.item() if hasattr(value, "item") else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _checkpoint_step(path: Path) -> int:
    found = _CHECKPOINT.fullmatch(path.name)
    return int(found[1]) if found else 0


def _write_aside(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _save_torch(folder: Path, parts: Mapping[str, Any]) -> None:
    import torch

    torch.save({name: part.state_dict() for name, part in parts.items()}, folder / "state.pt")
