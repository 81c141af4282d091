"""The processes that torchrun starts, one a GPU, when they train one network together.

Each learns from its share of every batch, and the gradients are added up, so that several take the steps that one would
take. All come to the same weights, so rank 0 alone measures, reports, saves and writes; the others end with the
training. Not through DistributedDataParallel: a rank that is out of memory goes through its share in more parts, and
the hooks of that class cannot follow.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PATIENCE = dt.timedelta(hours=12)  # of the others while rank 0 measures


@dataclass(frozen=True)
class Ranks:
    """This process and how many there are."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process measures and writes."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of a batch that this process learns from; none where there are fewer than processes."""
        return rows[self.rank :: self.count]

    def add_up(self, tensors: Iterable[Any]) -> None:
        """Make each tensor, in place, its sum over all processes."""
        import torch

        if self.count > 1:
            for tensor in tensors:
                torch.distributed.all_reduce(tensor)

    def take_over(self, tensors: Iterable[Any]) -> None:
        """Make each tensor, in place, that of rank 0."""
        import torch

        if self.count > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, src=0)

    def agreed(self, number: int) -> int:
        """The number that rank 0 has."""
        import torch

        if self.count < 2:
            return number
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        known = torch.tensor(number, device=device)
        self.take_over([known])
        return int(known)

    def end(self) -> None:
        """Leave rank 0 alone: the others exit here, with nothing left to do."""
        import torch

        if self.count > 1:
            torch.distributed.destroy_process_group()
        if not self.first:
            sys.exit(0)


def join() -> None:
    """Where torchrun started this process, take its GPU and meet the others; all but rank 0 are silent from here on."""
    count, rank = (int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", "1"), ("RANK", "0")))
    if count < 2:
        return
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend, timeout=_PATIENCE)
    if rank:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until this process ends


def ranks() -> Ranks:
    """Those that have joined; one alone where nobody has."""
    import torch

    group = torch.distributed
    if not group.is_available() or not group.is_initialized():
        return Ranks()
    return Ranks(group.get_rank(), group.get_world_size())
