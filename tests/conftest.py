"""The order of the suite, and how many examples a property is tried with."""

import pytest
from hypothesis import HealthCheck, settings

SLOW_FIRST = ("system", "recipes", "worker", "faults", "llm")

# The quick suite tries the same few examples each time; `make test-faults` looks for new ones (--hypothesis-profile).
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("any"), max_examples=30, derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("any"), max_examples=300)
settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts processes and trains comes first, so that no processor is idle at the end; else the order stays."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return SLOW_FIRST.index(folder) if folder in SLOW_FIRST else len(SLOW_FIRST)
