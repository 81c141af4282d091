"""Fitted estimators of scikit-learn in files of skops, which hold no code; also copied beside a finished model.

Called by recipes that keep or apply one. It knows nothing of runs.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FOR_TORCH = "sklearn.externals.array_api_compat.torch"


def write_estimator(estimator: Any, file: Path) -> None:
    """Write it, compressed. Raises: OSError."""
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
