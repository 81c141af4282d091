"""A site for each module that breaks nothing for its neighbours, and one of its own for each test that does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import invariants
from tests.faults.site import Site, opened


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Redis, a worker and a bot, shared by the tests of a module; each creates its own runs."""
    with opened(tmp_path_factory.mktemp("site") / "home") as found:
        found.start_worker()
        found.start_bot()
        yield found
        invariants.settled(found)


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """The module's site, its invariants checked after each test."""
    yield shared_site
    invariants.check(shared_site)


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """Redis and a proxy; the test starts worker and bot. All invariants hold at its end."""
    with opened(tmp_path / "home") as found:
        yield found
        invariants.check(found)
        if found.database.exists() and not found.bot_ended:
            invariants.settled(found)
