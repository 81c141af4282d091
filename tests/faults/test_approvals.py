"""Row 31: one approval, however it is clicked; who may not decide, comes late or saw another card is told."""

import pytest

from tests.faults.file_adapter import BOB, Shown
from tests.faults.site import Site, eventually


def question(site: Site, thread: str) -> Shown:
    """The approval card of a new request."""
    site.asks_for_a_model(thread)
    return site.sees("Approve", thread=thread)


def told(site: Site, thread: str, person: str, *words: str) -> None:
    """Wait for a private word to somebody."""
    eventually(
        lambda: any(one.whisper == person for one in site.in_thread(thread, *words)),
        what=f"a word to {person} with {words}",
    )


def now(site: Site, card: Shown) -> Shown:
    """A message as it stands now."""
    return next(one for one in site.people.shown if one.id == card.id)


def test_row_31_clicked_twice_by_two_and_again(site: Site) -> None:
    card = question(site, "t-31-a")
    site.clicks(card, "Approve", person=BOB)
    told(site, "t-31-a", "bob", "Only the person who asked")
    site.clicks(card, "Approve", times=5)
    eventually(lambda: site.runs_of("t-31-a"), what="a run")
    (run,) = site.runs_of("t-31-a")
    told(site, "t-31-a", "alice", "nothing was done twice")
    site.people.again()  # every delivery once more, as after a lost acknowledgement
    assert site.ends(run)["state"] == "succeeded"
    site.sees("Result of", thread="t-31-a")
    eventually(lambda: not site.people.undelivered, what="an answer to every delivery")
    eventually(lambda: not site.rows("SELECT id FROM inbox WHERE state = 'new'"), what="the end of all turns")
    questions = [one for one in site.in_thread("t-31-a") if (one.content["card"] or {}).get("kind") == "approval"]
    assert [one.id for one in questions] == [card.id], "what was delivered again was no new request"
    assert site.runs_of("t-31-a") == [run]
    assert len(site.in_thread("t-31-a", "Started")) == 1
    assert len(site.in_thread("t-31-a", "Result of")) == 1


def test_row_31_the_card_was_another_one(site: Site) -> None:
    card = question(site, "t-31-b")
    site.clicks(card, "Approve", digest="0123456789abcdef")
    told(site, "t-31-b", "alice")
    assert site.runs_of("t-31-b") == []
    site.clicks(card, "Reject")
    eventually(lambda: not now(site, card).buttons, what="a card without buttons")
    site.clicks(card, "Approve")  # decided already: a button that somebody's client still showed
    told(site, "t-31-b", "alice", "nothing was done twice")
    assert site.runs_of("t-31-b") == []


@pytest.mark.faults  # the quick tier has tests/agent/test_turns.py
def test_row_31_clicked_after_its_time(own_site: Site) -> None:
    offset = own_site.home / "clock"
    own_site.bot_extra = {"TRAINYARD_FAULT_CLOCK": str(offset)}
    own_site.start_worker()
    own_site.start_bot()
    card = question(own_site, "t-31-c")
    offset.write_text(str(25 * 3600))
    own_site.clicks(card, "Approve")
    own_site.sees("Expired", thread="t-31-c")
    assert own_site.runs_of("t-31-c") == []
