"""What runs inside a chart worker. Imported by the parent too, so matplotlib is loaded inside the functions only."""

import ctypes
import os
import signal
import sys

from agent.domain.charts import ChartSpec, Panel, Series
from agent.domain.pictures import PictureSpec

_PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h


def prepare(parent_pid: int) -> None:
    """Outlive a Ctrl+C that is meant for the parent, but not the parent itself.

    The parent may die before the kernel is told to watch it; then this process has another parent already.
    Elsewhere than on Linux a killed parent is noticed when its pipe closes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)


def warm() -> None:
    """Load the libraries and fill their caches with throw-away charts of both themes."""
    series = Series("warm", (0.0, 1.0, 2.0), (3.0, 1.0, 2.0))
    panel = Panel("0123456789", (series,), "unit", better="lower")
    draw(ChartSpec("warm", (panel,), theme="light"))
    draw(ChartSpec("warm", (panel,), theme="dark"))


def draw(spec: ChartSpec | PictureSpec) -> bytes:
    """`charts_render.render.render`, loaded at the first call."""
    from charts_render.render import render  # noqa: PLC0415  # the parent must not load matplotlib

    return render(spec)


def describe(spec: ChartSpec | PictureSpec) -> str:
    """`charts_render.alt_text.describe`, loaded at the first call: it lays the chart out as it is drawn."""
    from charts_render import alt_text  # noqa: PLC0415  # likewise

    return alt_text.describe(spec)
