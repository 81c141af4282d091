"""What a finished model is read from: `model.json`, and estimators of scikit-learn in files of skops, without code.

Called by recipes that keep or apply one, and copied beside a finished model. It knows nothing of runs.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

_FOR_TORCH = "sklearn.externals.array_api_compat.torch"


Model = TypeVar("Model")


def loading(model: Callable[[Path, dict[str, Any]], Model]) -> Callable[[Path], Model]:
    """The `load` of a recipe's `predict`: it makes the model that training left in a folder, as `model.json` says."""

    def load(folder: Path) -> Model:
        return model(folder, json.loads((folder / "model.json").read_text(encoding="utf-8")))

    return load


def write_estimator(estimator: Any, file: Path) -> None:
    """Write it, compressed. Raises: OSError.

    A vocabulary gets plain numbers: skops makes a file of each number of numpy, 20 times slower.
    """
    for _, step in getattr(estimator, "steps", ()):
        if hasattr(step, "vocabulary_"):
            step.vocabulary_ = {word: int(place) for word, place in step.vocabulary_.items()}
    _skops().dump(estimator, file, compression=zipfile.ZIP_DEFLATED)


def read_estimator(file: Path, *, trusted: Sequence[str] = ()) -> Any:
    """The estimator in a file; `trusted` are the types beyond those that skops knows."""
    return _skops().load(file, trusted=list(trusted))


def _skops() -> Any:
    """skops without torch: it imports each module of scikit-learn, and one of them takes a second to load torch."""
    loaded = _FOR_TORCH in sys.modules
    sys.modules.setdefault(_FOR_TORCH, None)  # type: ignore[arg-type]  # as if it were not there
    try:
        from skops import io
    finally:
        if not loaded:
            del sys.modules[_FOR_TORCH]
    return io
