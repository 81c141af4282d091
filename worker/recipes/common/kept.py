"""Fitted baselines that outlast an attempt, so that a resumed one does not fit them again.

They lie in `checkpoints/baselines/`, as skops files with the key of what they were fitted on. Called by both recipes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from worker.recipes.common.estimators import read_estimator, write_estimator
from worker.recipes.common.job import Job, write_json


def kept(job: Job, name: str, key: str, fit: Callable[[], Any], *, trusted: Sequence[str] = ()) -> Any:
    """The estimator `name` that an earlier attempt kept under `key`, else what `fit` makes. Raises: what `fit` raises.

    `trusted` are the types beyond those that skops knows. A disk that takes no copy breaks nothing.
    """
    folder = job.run_dir / "checkpoints" / "baselines"
    file, about = folder / f"{name}.skops", folder / f"{name}.json"
    if about.exists() and file.exists() and json.loads(about.read_text(encoding="utf-8")).get("key") == key:
        return read_estimator(file, trusted=trusted)
    estimator = fit()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        about.unlink(missing_ok=True)  # the new file is known only once it is whole
        write_estimator(estimator, file)
        write_json(about, {"key": key})
    except OSError as error:
        print(f"trainyard: the baseline {name} is not kept for a later attempt: {error}", file=sys.stderr)
    return estimator
