"""What every step of a run shares: the job from `config.json`, the settings, `error.json`, predictions, small files.

A step returns normally or raises BadData (the data's fault), BadSettings (the request's fault) or Diverged; `step`
turns each into `error.json` and exit code 65.
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from worker.recipes.common.table import BadData

UNUSABLE = 65
NOT_KEPT = ".not_kept"  # ends the name of predictions of a candidate that is no baseline and was not kept
_OF_A_SEARCH = ("trials", "minutes")
_SEARCHING = "those of tables with a target, of texts with classes, of images with classes or numbers, and of tokens"


class BadSettings(Exception):
    """The request cannot be carried out as asked; the message is a sentence for people."""


class Diverged(Exception):
    """Training went astray; the message says at which step and what to try."""


_KIND = {BadData: "bad_data", BadSettings: "user_error", Diverged: "diverged"}


@dataclass(frozen=True)
class Job:
    """One run as its script sees it. Paths are below `run_dir`."""

    run: str
    run_dir: Path
    data: str
    recipe: str
    target: str
    text_column: str | None
    drop_columns: tuple[str, ...]
    settings: Mapping[str, Any]
    seed: int
    test_frac: float
    dataset_name: str
    dataset_sha256: str
    split: Mapping[str, str] = field(default_factory=dict)
    kind: str = "recipe"

    @property
    def all_is_test(self) -> bool:
        """Whether nothing is trained: every row is for the measurement of a finished model."""
        return self.kind == "evaluation"

    @property
    def artifacts(self) -> Path:
        return self.run_dir / "artifacts"


@dataclass(frozen=True)
class Setting:
    """A hyperparameter that a recipe knows: its default, its range or the words that it takes, and its other names."""

    default: Any
    low: float | None = None
    high: float | None = None
    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def takes(self) -> str:
        """What it may be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if not isinstance(self.default, int | float):
            return "a text"
        if isinstance(self.default, bool):
            return "true or false"
        low, high = self.low or 0.0, self.high
        span = f"from {_plain(low)} to {_plain(high)}" if high is not None else f"of {_plain(low)} or more"
        return f"{'a whole number' if isinstance(self.default, int) else 'a number'} {span}"


def read_job(run_dir: Path) -> Job:
    """The job from `config.json`."""
    return job_of(json.loads((run_dir / "config.json").read_text(encoding="utf-8")), run_dir)


def job_of(config: Mapping[str, Any], run_dir: Path) -> Job:
    """The job that a configuration describes."""
    spec = config["spec"]
    dataset = spec.get("dataset") or {}
    return Job(
        run=str(config.get("run", run_dir.name)),
        run_dir=run_dir,
        data=str(config.get("data", "data/source.csv")),
        recipe=str(spec["recipe"]),
        target=str(spec.get("target") or ""),
        text_column=spec.get("text_column"),
        drop_columns=tuple(spec.get("drop_columns") or ()),
        settings=spec.get("settings") or {},
        seed=int(spec.get("seed", 7)),
        test_frac=float(spec.get("test_frac", 0.2)),
        split=spec.get("split") or {},
        kind=str(spec.get("job", "recipe")),
        dataset_name=str(dataset.get("name", "data.csv")),
        dataset_sha256=str(dataset.get("sha256", "")),
    )


def read_settings(given: Mapping[str, Any], known: Mapping[str, Setting]) -> dict[str, Any]:
    """The value of each known setting; None and unsaid mean the default.

    Raises: BadSettings for an unknown name or a value that does not fit.
    """
    names = {alias: name for name, setting in known.items() for alias in (name, *setting.also)}
    found = {name: setting.default for name, setting in known.items()}
    for said, value in given.items():
        if said not in names:
            if said in _OF_A_SEARCH:
                raise BadSettings(f"This recipe searches no settings, so it takes no {said}; {_SEARCHING} do.")
            close = difflib.get_close_matches(said.lower(), names, n=1)
            meant = names[close[0]] if close else ""
            guess = f" Did you mean “{meant}”, which takes {known[meant].takes}?" if meant else ""
            raise BadSettings(f"There is no setting “{said}”.{guess} The settings are: {', '.join(known)}.")
        if value is not None:
            found[names[said]] = _fitting(said, value, known[names[said]])
    return found


def _fitting(name: str, value: Any, setting: Setting) -> Any:
    """`value` in the type of the setting's default. A text such as "0.1" may stand for a number."""
    default = setting.default
    refusal = BadSettings(f"The setting {name} takes {setting.takes}, not {value!r}.")
    if setting.choices:
        value = value.lower() if isinstance(value, str) else value
        if value not in setting.choices:
            raise refusal
    if isinstance(default, bool) or default is None or isinstance(default, str):
        if not isinstance(value, bool if isinstance(default, bool) else str):
            raise refusal
        return value
    whole = isinstance(default, int)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise refusal from None
    low, high = setting.low or 0.0, setting.high
    fits = number >= low and (high is None or number <= high) and (not whole or number.is_integer())
    if isinstance(value, bool) or not fits:
        raise refusal
    return int(number) if whole else number


def _plain(bound: float) -> str:
    return f"{bound:,.0f}" if float(bound).is_integer() and bound < 1e9 else f"{bound:g}"


def step(run_dir: Path, act: Callable[[], object]) -> int:
    """Run one step; the exit code. A refusal is written to `error.json` and to stderr."""
    try:
        act()
    except (BadData, BadSettings, Diverged) as error:
        write_json(run_dir / "error.json", {"kind": _KIND[type(error)], "text": str(error)})
        print(str(error), file=sys.stderr)
        return UNUSABLE
    return 0


def leave(code: int) -> NoReturn:
    """End this process at once: taking large libraries down in order takes longer than some steps run."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def write_json(path: Path, value: object) -> None:
    """Write aside and rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")  # under torchrun all processes may refuse at once
    aside.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(path)


def write_environment(job: Job, packages: Sequence[str]) -> None:
    """Write `artifacts/environment.json` and `artifacts/requirements.txt` with the versions in use."""
    versions = {name: metadata.version(name) for name in packages}
    write_json(
        job.artifacts / "environment.json",
        {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": versions,
            "seed": job.seed,
            "dataset": {"name": job.dataset_name, "sha256": job.dataset_sha256},
            "run": job.run,
        },
    )
    pins = "".join(f"{name}=={version}\n" for name, version in versions.items())
    (job.artifacts / "requirements.txt").write_text(pins, encoding="utf-8")


def copy_predictor(job: Job, modules: Sequence[str]) -> None:
    """Put `predict.py` and what it imports beside the model, so that the folder predicts without Trainyard.

    `modules` are what the recipe's own `predict` imports, as `package.module`. There, all lie in one folder.
    """
    recipes = Path(__file__).parents[1]
    copied = {
        name.rpartition(".")[2]: name
        for name in (
            "common.predict",
            "common.annotations",
            "common.estimators",
            "common.formats",
            "common.images",
            "common.margins",
            "common.numerals",
            "common.table",
            "common.token_files",
            *modules,
        )
    }
    for target, name in {**copied, "model": f"{job.recipe}.predict"}.items():
        source = (recipes / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        flat = re.sub(r"from worker\.recipes\.\w+\.(\w+) import", r"from \1 import", source)
        (job.artifacts / f"{target}.py").write_text(flat, encoding="utf-8")


def usable_cpus() -> int:
    """Cores that this process may use, at least one."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
