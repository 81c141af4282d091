"""Somebody at a terminal, and tests that leave the GPU alone."""

import sys
from collections.abc import Iterator

import pytest

from tests.person import person

__all__ = ["person"]


@pytest.fixture(autouse=True)
def _kept_off_the_gpu() -> Iterator[None]:
    """A test that uses CUDA itself keeps memory until all tests are over, and no run is let near that GPU."""
    yield
    torch = sys.modules.get("torch")
    assert torch is None or not torch.cuda.is_initialized()
