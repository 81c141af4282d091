"""What a host measured of a run as rows of series, and the names of those. Pure.

A row is one heartbeat. Its place is a moment, not a step: usage goes on before the first step, between steps and while
steps are trained anew, so a later attempt never takes an earlier one's place, and any stretch of time can be read by
itself. The run's step at that moment is one of the values. Called by `agent.storage.run_events`; drawn by
`agent.runs.charts.usage`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from agent.domain.events import MetricRow
from agent.domain.runs import Usage
from agent.series.slices import MetricTable, Slice

PLACES_A_SECOND: Final = 1000  # the place of a row is its moment in whole milliseconds since the epoch
STEP: Final = "step"
CPUS: Final = "cpus"  # 1.0 is one whole core
MEMORY: Final = "memory"  # bytes
DISK: Final = "disk"  # bytes that the run's folder takes
_GPU: Final = re.compile(r"gpu(\d+)_(busy|memory|total)")
GPU_FACTS: Final = ("busy", "memory", "total")  # a share from 0 to 1, bytes in use, bytes that the card has


def place_of(moment: float) -> int:
    """The place of a moment (seconds since the epoch)."""
    return round(moment * PLACES_A_SECOND)


def row_of(usage: Usage, *, at: float, step: int, gpus: Sequence[str]) -> MetricRow:
    """A heartbeat at the moment `at` (seconds since the epoch), when the run had come to `step`.

    `gpus` are the uuids that the attempt was given: the number of a GPU is its place there, whatever order its host has
    them in, so that it stays the same when another one falls silent.
    """
    values = {STEP: float(step), CPUS: usage.cpus, MEMORY: float(usage.memory_bytes), DISK: float(usage.disk_bytes)}
    known = {uuid: number for number, uuid in enumerate(gpus)}
    for gpu in usage.gpus:
        number = known.setdefault(gpu.uuid, len(known))
        values[gpu_name(number, "busy")] = gpu.busy
        values[gpu_name(number, "memory")] = float(gpu.memory_bytes)
        if gpu.total_bytes:
            values[gpu_name(number, "total")] = float(gpu.total_bytes)
    return MetricRow(step=place_of(at), at=at, values=values)


def gpu_name(number: int, fact: str) -> str:
    """The name of one of `GPU_FACTS` of a GPU."""
    return f"gpu{number}_{fact}"


def table_by_step(table: MetricTable) -> MetricTable:
    """What an export names: the run's step is no series of it but the step of its rows."""
    return replace(table, names=tuple(name for name in table.names if name != STEP))


def slice_by_step(rows: Slice) -> Slice:
    """Rows whose steps are those that the run had come to."""
    steps = rows.columns[STEP][1].astype(np.int64)  # each row has it
    return Slice(steps, rows.at, {name: column for name, column in rows.columns.items() if name != STEP})


def gpu_of(name: str) -> tuple[int, str] | None:
    """The number of a GPU and the fact that a series is of; None where it is of none."""
    found = _GPU.fullmatch(name)
    return (int(found.group(1)), found.group(2)) if found else None
