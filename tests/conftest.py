"""The order of the suite: what starts processes and trains comes first, so that no processor is idle at the end."""

import pytest

SLOW_FIRST = ("system", "recipes", "worker", "faults", "llm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by folder; within one the order stays."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return SLOW_FIRST.index(folder) if folder in SLOW_FIRST else len(SLOW_FIRST)
