"""What a menu offers on any platform, and which choices are ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.content import Choice, Menu
from agent.domain.errors import BadRequest
from agent.domain.inbound import Clicked
from bot.menus import CARRIED_CHARS, CHOICES, chosen, name_of, offers, shortened


def menu(*labels: str, taken: tuple[int, ...] = (), most: int = 4, subject: str = "r-abc123.m") -> Menu:
    """A menu with the values `00`, `01` and so on."""
    choices = (Choice(value=f"{n:02}", label=label, chosen=n in taken) for n, label in enumerate(labels))
    return Menu(action="card", subject=subject, label="Metrics", choices=tuple(choices), most=most)


def test_labels_are_never_empty_and_never_the_same() -> None:
    [offer] = offers([menu("loss", "", " \u200b\u202e\n", "loss", "a\nb\x1b[31m", "x" * 30, "x" * 31)], limit=10)
    assert [choice.label for choice in offer.choices] == [
        "loss",
        "01",
        "02",
        "loss (2)",
        "a b[31m",
        "xxxxxx…xxx",
        "xxxx…x (2)",
    ]


def test_of_many_choices_those_that_are_chosen_are_always_listed() -> None:
    [offer] = offers([menu(*(f"m{n}" for n in range(40)), taken=(3, 38))], limit=75)
    assert len(offer.choices) == CHOICES
    assert [choice.label for choice in offer.choices if choice.chosen] == ["m3", "m38"]
    assert [choice.label for choice in offer.choices][-3:] == ["m22", "m23", "m38"]
    assert (offer.unlisted, offer.missing) == (15, "15 more not listed")


@pytest.mark.parametrize(("most", "count", "allowed"), [(0, 3, 1), (4, 3, 3), (99, 40, 25), (2, 40, 2)])
def test_no_more_may_be_chosen_than_there_are(most: int, count: int, allowed: int) -> None:
    [offer] = offers([menu(*"x" * count, taken=tuple(range(count)), most=most)], limit=75)
    assert offer.most == sum(choice.chosen for choice in offer.choices) == allowed


def test_a_menu_without_choices_is_left_out() -> None:
    assert offers([menu(), menu(subject="r-1.m")], limit=75) == ()


@pytest.mark.parametrize(
    ("menus", "word"),
    [
        ([menu("a", subject=f"r-{n}") for n in range(6)], "6 menus"),
        ([menu("a"), menu("b")], "two menus"),
        ([menu("a", subject="r 1")], "cannot carry"),
        ([menu("a", subject="")], "cannot carry"),
        ([Menu(action="card", subject="r", label="l", choices=(Choice(value="a.b", label="l"),))], "cannot carry"),
        ([Menu(action="card", subject="r", label="l", choices=(Choice(value="a", label="l"),) * 2)], "cannot carry"),
        ([menu(*"abcd", subject="r" * 84, most=4)], "101 characters"),
    ],
)
def test_what_no_platform_could_bring_back_is_refused(menus: list[Menu], word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        offers(menus, limit=75)


def test_a_choice_means_its_values_in_their_order() -> None:
    assert chosen("v1:card:r-abc123.m:", ["b", "a_1", "-"]) == Clicked(action="card", subject="r-abc123.mba_1-")
    assert chosen("v1:card:r-abc123.m:", []) == Clicked(action="card", subject="r-abc123.m")


@pytest.mark.parametrize(
    ("carried", "values"),
    [
        ("v2:card:r.m:", ["a"]),
        ("v1:card:r.m:0123456789abcdef", ["a"]),
        ("v1:card:r.m", ["a"]),
        ("0.card", ["a"]),
        ("v1:card:r.m:\n", ["a"]),
        ("v1:card:r.m:", ["a.b"]),
        ("v1:card:r.m:", ["a:b"]),
        ("v1:card:r.m:", [""]),
        ("v1:card:r.m:", ["a", None]),
        ("v1:card:r.m:", ["a", "a"]),
        ("v1:card:r.m:", ["a" * 90]),
        ("v1:card:r.m:", [f"{n}" for n in range(26)]),
        ("v1:card:r.m:", ["ä"]),
    ],
)
def test_what_no_menu_of_ours_offers_is_nothing(carried: str, values: list[object]) -> None:
    assert chosen(carried, values) is None


@given(st.text(), st.integers(1, 120), st.booleans())
def test_a_name_is_cut_to_what_fits(text: str, limit: int, wide: bool) -> None:
    def measure(name: str) -> int:
        return len(name.encode("utf-16-le")) // 2 if wide else len(name)

    name = name_of(text, "x")
    cut = shortened(name, limit, measure)
    assert measure(cut) <= limit
    assert cut == name or "…" in cut
    assert len(cut.splitlines()) == 1
    assert cut.strip()


def test_a_full_choice_of_any_offer_is_understood() -> None:
    made = menu(*"abcd", subject="r" * 83, most=4)
    [offer] = offers([made], limit=75)
    values = [choice.value for choice in offer.choices]
    assert len(offer.carried + "".join(values)) == CARRIED_CHARS
    assert chosen(offer.carried, values) == Clicked(action="card", subject="r" * 83 + "00010203")
