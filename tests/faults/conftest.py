"""A site for each module that breaks nothing for its neighbours, and one of its own for each test that does."""

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.faults import invariants
from tests.faults.site import Site, opened

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether their test failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Redis, a worker and a bot, shared by the tests of a module; each creates its own runs."""
    with opened(tmp_path_factory.mktemp("site") / "home") as found:
        found.extra["TRAINYARD_WARM"] = "data"  # attempts are forks of a supervisor that waits
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
def own_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Redis and a proxy; the test starts worker and bot. All invariants hold at its end."""
    with opened(tmp_path / "home") as found:
        yield found
        if request.node.stash.get(FAILED, False):
            return  # what follows from a failure is not worth the wait
        invariants.check(found)
        if found.database.exists():
            invariants.settled(found)


@pytest.fixture
def sandboxed_site(tmp_path: Path) -> Iterator[Site]:
    """A site whose host has the bubblewrap tier."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed: nothing was tried inside a sandbox")
    with opened(tmp_path / "home", sandbox="bwrap") as found:
        found.start_worker()
        found.start_bot()
        yield found
        invariants.settled(found)
