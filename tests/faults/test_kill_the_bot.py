"""Row 27: the bot dies at any of its boundaries, in the middle of a conversation; the conversation does not notice."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import invariants
from tests.faults.killer import traced
from tests.faults.site import Site, opened

LIMIT_S = 180.0
STEP = 14  # boundaries that each life of the bot has more than the one before: it always gets further


class Conversation:
    """From a request to its result. `advance` does what a person would do next; `over` when there is nothing left."""

    def __init__(self, site: Site, thread: str) -> None:
        self.site, self.thread = site, thread
        self.clicked = False
        self.apologies = 0
        site.asks_for_a_model(thread, payload="short")

    def advance(self) -> bool:
        cards = [card for card in self.site.in_thread(self.thread, "Approve") if "Approve" in card.buttons]
        apologies = len(self.site.in_thread(self.thread, "had no answer"))
        if apologies > self.apologies:  # told that it did not work: once more, then
            self.apologies = apologies
            self.clicked = False
            if not cards and not self.site.runs_of(self.thread):
                self.site.asks_for_a_model(self.thread, payload="short")
        if cards and not self.clicked:
            self.site.clicks(cards[0], "Approve")
            self.clicked = True
        return self.over

    @property
    def over(self) -> bool:
        runs = self.site.runs_of(self.thread)
        ended = bool(runs) and self.site.state(runs[0]) == "succeeded"
        return ended and bool(self.site.in_thread(self.thread, "Result of"))

    def assert_told_once(self) -> None:
        """One run, and each thing said once; where the answer itself could not be stored, that was said instead."""
        assert len(self.site.runs_of(self.thread)) == 1
        refused = self.site.in_thread(self.thread, "A fault was put in here")
        for words in ("Started", "Result of"):
            found = self.site.in_thread(self.thread, words)
            if words == "Started" and not found and refused:
                continue
            assert len(found) == 1, f"{len(found)} messages say {words}: {[one.key for one in found]}"
        assert not any("Approve" in one.buttons for one in self.site.in_thread(self.thread))


@pytest.mark.faults
def test_row_27_killed_again_and_again(own_site: Site, tmp_path: Path) -> None:
    own_site.start_worker()
    talk, life, at = Conversation(own_site, "t-27"), 0, STEP
    end = time.monotonic() + LIMIT_S
    own_site.start_bot(tmp_path / "trace-0", at=at, wait=False)
    while not talk.advance():
        assert time.monotonic() < end, f"life {life}: {traced(tmp_path / f'trace-{life}')}\n{own_site.bot_log[-3000:]}"
        if own_site.bot_ended:
            life, at = life + 1, at + STEP
            own_site.start_bot(tmp_path / f"trace-{life}", at=at, wait=False)
        time.sleep(0.05)
    if not own_site.bot_ended:
        own_site.kill_bot()
    own_site.start_bot()
    talk.assert_told_once()
    assert life >= 3, "it was hardly killed"


@pytest.fixture(scope="module")
def sweep_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Redis and a worker; each test has bots of its own over one database."""
    with opened(tmp_path_factory.mktemp("sweep") / "home") as found:
        found.start_worker()
        yield found
        found.start_bot()
        invariants.settled(found)


@pytest.mark.faults
@pytest.mark.parametrize("at", range(1, 61))
def test_row_27_killed_at_each_boundary(sweep_site: Site, tmp_path: Path, at: int) -> None:
    _one_fault(sweep_site, tmp_path, at, "kill")


@pytest.mark.faults
@pytest.mark.parametrize("how", ["raise", "timeout"])
@pytest.mark.parametrize("at", range(3, 40, 6))
def test_row_27_a_boundary_fails(sweep_site: Site, tmp_path: Path, at: int, how: str) -> None:
    """What is sent or stored fails, or is done while the caller hears that it was not."""
    _one_fault(sweep_site, tmp_path, at, how, only="launch,stop,ack,post,edit,write")


def _one_fault(site: Site, folder: Path, at: int, how: str, only: str = "") -> None:
    trace = folder / "trace"
    talk = Conversation(site, f"t-{how}-{at}")
    site.start_bot(trace, at=at, how=how, wait=False, only=only)
    try:
        killed = _talked(site, talk, trace)
        assert len(traced(trace)) >= at, "the conversation had fewer boundaries than that"
        assert killed == (how == "kill")
        talk.assert_told_once()
        invariants.check(site)
    finally:
        if not site.bot_ended:
            site.stop_bot()


def _talked(site: Site, talk: Conversation, trace: Path) -> bool:
    """Have the conversation, with a new bot where one was killed; whether that happened."""
    end, killed = time.monotonic() + LIMIT_S, False
    while not talk.advance():
        shown = "\n".join(one.words[:300] for one in site.in_thread(talk.thread))
        assert time.monotonic() < end, f"{traced(trace)[:99]}\n{shown}\n{site.bot_log[-3000:]}"
        if site.bot_ended:
            assert not killed, f"the bot ended again:\n{site.bot_log[-3000:]}"
            killed = True
            site.start_bot()
        time.sleep(0.05)
    return killed
