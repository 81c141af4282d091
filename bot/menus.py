"""What a menu offers people and what their choice means, the same on every platform. Pure.

Knows no platform: the adapters of Slack and Discord give their limits and draw what comes out, and hand in what was
chosen; the terminal takes the names alone.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent.domain.content import Choice, Menu
from agent.domain.errors import BadRequest
from agent.domain.inbound import Clicked

MENUS, CHOICES, CARRIED_CHARS = 5, 25, 100  # Discord's limits, the smallest of all platforms
CARRIED = re.compile(r"v1:([A-Za-z0-9._-]+):([A-Za-z0-9._-]+):")
VALUE = re.compile(r"[A-Za-z0-9_-]+")
BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # would turn round what stands after them
UNSEEN = frozenset({"Cc", "Cs"})


@dataclass(frozen=True, slots=True)
class Offer:
    """A menu that every platform can show.

    `carried` is what a choice brings back besides the values. Labels of `choices` are one line each, never empty, all
    different and within the limit; at most `most` of them are chosen. `unlisted` more had no room.
    """

    carried: str
    label: str
    choices: tuple[Choice, ...]
    most: int
    unlisted: int = 0

    @property
    def missing(self) -> str:
        """A word about what had no room, empty if all is listed."""
        return f"{self.unlisted} more not listed" if self.unlisted else ""


def offers(menus: Sequence[Menu], *, limit: int, measure: Callable[[str], int] = len) -> tuple[Offer, ...]:
    """What can be offered of `menus`, those without choices left out.

    A label of a choice is at most `limit` long by `measure`; of more choices than a menu holds the first are taken,
    but those that are chosen always, so that the next choice does not drop them unseen.

    Raises:
        BadRequest: there are too many menus, two are the same, or one cannot carry what it would bring back.
    """
    made = tuple(_offer(menu, limit, measure) for menu in menus if menu.choices)
    if len(made) > MENUS:
        raise BadRequest(f"A card has {len(made)} menus; {MENUS} can be shown at most.")
    if len({offer.carried for offer in made}) < len(made):
        raise BadRequest("A card has two menus with the same action and subject; a choice could not be told apart.")
    return made


def chosen(carried: str, values: Sequence[object]) -> Clicked | None:
    """What a choice means, None for one that no menu of ours offers. `values` are in the platform's order."""
    found = CARRIED.fullmatch(carried)
    texts = [value for value in values if isinstance(value, str) and VALUE.fullmatch(value)]
    if found is None or len(texts) < len(values) or len(set(texts)) < len(texts) or len(texts) > CHOICES:
        return None
    if len(carried) + sum(map(len, texts)) > CARRIED_CHARS:
        return None
    action, subject = found.groups()
    return Clicked(action=action, subject=subject + "".join(texts))


def name_of(text: str, otherwise: str) -> str:
    """`text` on one line without control characters, `otherwise` if nothing of it can be seen."""
    line = "".join(char for char in " ".join(text.split()) if _is_shown(char))
    return line if any(char.isprintable() and not char.isspace() for char in line) else otherwise


def shortened(text: str, limit: int, measure: Callable[[str], int] = len) -> str:
    """At most `limit` long by `measure`, cut in the middle: names of metrics differ at their ends."""
    if measure(text) <= limit:
        return text
    thread = max(limit - 1, 0)
    head, tail = text[: thread - thread // 3], text[len(text) - thread // 3 :]
    while measure(head) + measure(tail) > thread:
        head, tail = (head[:-1], tail) if len(head) > len(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def _offer(menu: Menu, limit: int, measure: Callable[[str], int]) -> Offer:
    carried = f"v1:{menu.action}:{menu.subject}:"
    values = [choice.value for choice in menu.choices]
    most = min(max(menu.most, 1), len(menu.choices), CHOICES)
    longest = sum(sorted(map(len, values), reverse=True)[:most])
    if not CARRIED.fullmatch(carried) or not all(map(VALUE.fullmatch, values)) or len(set(values)) < len(values):
        raise BadRequest(f"The menu “{menu.label}” cannot carry {carried!r} with {values!r}.")
    if len(carried) + longest > CARRIED_CHARS:
        text = (
            f"The menu “{menu.label}” can bring back {len(carried) + longest} characters; {CARRIED_CHARS} are possible."
        )
        raise BadRequest(text)
    listed = _listed(menu.choices)
    labels = _labels(listed, limit, measure)
    taken = [choice.value for choice in listed if choice.chosen][:most]
    choices = (
        Choice(value=choice.value, label=label, chosen=choice.value in taken)
        for choice, label in zip(listed, labels, strict=True)
    )
    return Offer(carried, name_of(menu.label, "Choose"), tuple(choices), most, len(menu.choices) - len(listed))


def _listed(choices: Sequence[Choice]) -> list[Choice]:
    first = [choice for choice in choices if choice.chosen][:CHOICES]
    others = [choice for choice in choices if not choice.chosen][: CHOICES - len(first)]
    kept = {choice.value for choice in (*first, *others)}
    return [choice for choice in choices if choice.value in kept]


def _labels(choices: Sequence[Choice], limit: int, measure: Callable[[str], int]) -> Iterator[str]:
    """One each; equal ones are numbered, those that have become equal by being cut too."""
    seen: set[str] = set()
    for choice in choices:
        name = name_of(choice.label, choice.value)
        label, number = shortened(name, limit, measure), 1
        while label in seen:
            number += 1
            mark = f" ({number})"
            label = shortened(name, limit - len(mark), measure) + mark
        seen.add(label)
        yield label


def _is_shown(char: str) -> bool:
    return char not in BIDI and unicodedata.category(char) not in UNSEEN
