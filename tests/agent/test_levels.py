"""How bad a line of a log is."""

import pytest

from agent.domain.levels import level_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("Traceback (most recent call last):", "error"),
        ("ValueError: could not convert string to float: 'x'", "error"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "error"),
        ("2026-11-21 12:00:01 ERROR trainer: it broke", "error"),
        ("[rank0]: RuntimeError: NCCL watchdog", "error"),
        ("FATAL: no space", "error"),
        ("UserWarning: The default of `x` changes", "warning"),
        ("WARNING:root:slow disk", "warning"),
        ("loss is nan at step 5", "warning"),
        ("DeprecationWarning: use y", "warning"),
        ("step 10 loss 0.5", "info"),
        ("INFO error handler installed", "info"),
        ("finished with 0 errors", "info"),
        ("mean_squared_error 0.31", "info"),
        ("error rate 0.02", "info"),
        ("terrorism articles: 12", "info"),
        ("", "info"),
    ],
)
def test_levels(line: str, level: str) -> None:
    assert level_of(line) == level


def test_a_line_of_a_megabyte_costs_no_more_than_its_head() -> None:
    assert level_of("x" * 2**20 + " ERROR") == "info"
