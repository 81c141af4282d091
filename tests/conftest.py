"""The order of the suite, how many examples a property is tried with, and no search for garbage in what stays."""

import gc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
# Files that take ten seconds or more on two processors, longest first (`pytest --durations=0` measures them). Those of
# `system` mostly wait for processes of their own, so trainings and they begin together and neither is left for the end.
LONG = {name: place for place, name in enumerate((ROOT / "tests/longest.txt").read_text().split())}

# The quick suite tries the same few examples each time; `make test-faults` looks for new ones (--hypothesis-profile).
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("any"), max_examples=15, derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("any"), max_examples=300)
settings.load_profile("quick")
gc.disable()  # until the tests are collected: modules and items stay, and each of six processes makes them


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that no processor is idle at the end; else the order stays."""
    items.sort(key=lambda item: LONG.get(item.path.relative_to(ROOT).as_posix(), len(LONG)))


def pytest_collection_finish() -> None:
    """From now on garbage is looked for, but not in what the collection made."""
    gc.freeze()
    gc.enable()
