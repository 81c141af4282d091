"""Says on standard error how far the measuring is."""

import sys
import time

_began = time.monotonic()


def say(text: str) -> None:
    """One line with the seconds since the start."""
    print(f"[{time.monotonic() - _began:5.0f} s] {text}", file=sys.stderr, flush=True)
