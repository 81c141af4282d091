"""What there is to say of language models: their names, what people prefer in a thread, and what is known of one.

A name is `provider/name` as LiteLLM knows it, or `provider/name@url` on a server of one's own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

EFFORTS = ("low", "medium", "high")
MODEL_KEYS = "TRAINYARD_MODEL_KEYS"  # the variable that `keys_of` reads
_WITH_URL = re.compile(r"(.+?)@(https?://.+)")
_WITH_KEY = re.compile(r"(https?://[^\s,=]+)=([^\s,]+)")
Effort = Literal["", "low", "medium", "high"]


def split_name(name: str) -> tuple[str, str]:
    """LiteLLM's name and the address, which may be empty; a name may hold an @ of its own."""
    found = _WITH_URL.fullmatch(name)
    return (found[1], found[2].rstrip("/")) if found else (name, "")


def keys_of(text: str) -> Mapping[str, str]:
    """The keys of servers of one's own by their addresses: `url=key`, with blanks or commas between them.

    Raises:
        ValueError: an entry is none; the text of the error has no part of it.
    """
    found = [_WITH_KEY.fullmatch(entry) for entry in re.split(r"[\s,]+", text) if entry]
    if not all(found):
        raise ValueError(
            "These are no keys of model servers. Write http://host:port/v1=key, the address as in TRAINYARD_MODELS, "
            "with commas or blanks between them."
        )
    return {one[1].rstrip("/"): one[2] for one in found if one}


@dataclass(frozen=True, slots=True)
class Preference:
    """Which model is asked first, by its configured name, and how hard it thinks; empty for the usual."""

    model: str = ""
    effort: Effort = ""

    def order(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names with the preferred one first; one that is no more configured changes nothing."""
        return (self.model, *(name for name in names if name != self.model)) if self.model in names else names


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A configured model. `trouble` says why it does not answer now, empty for one that does.

    Prices are US dollars per million tokens; None where nobody knows. `efforts` says that it has levels of effort.
    `tokens_in`, `tokens_out` and `cost_usd` (None: not known) are what it took to ask whether it answers.
    """

    name: str
    trouble: str = ""
    seconds: float = 0.0
    window_tokens: int | None = None
    usd_in: float | None = None
    usd_out: float | None = None
    efforts: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0
