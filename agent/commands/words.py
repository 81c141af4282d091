"""Text to words and back, as a shell reads them, so that a quoted value is one word."""

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from agent.domain.ids import is_run_id

_AROUND_IDS = "`,.<>;:"  # what people write around an id: it stands in backticks in what the bot writes
_CURLED = str.maketrans(dict.fromkeys("“”„", '"'))  # quotes as phones type them
# Stand for what a shell would take for a quote or an escape, and people do not: don't, \d.
_APOSTROPHE, _BACKSLASH = "\ue000", "\ue001"
_WITHIN_A_WORD = re.compile(r"(?<=\w)'(?=\w)")
_BEFORE_A_LETTER = re.compile(r"""\\(?![\\\s"'])""")


@lru_cache(16)  # whoever looks for a command in a message splits it, and most are none
def split(text: str) -> tuple[str, ...]:
    """The words of a text; one with a quote that is not closed is split at its spaces."""
    plain = " ".join(text.translate(_CURLED).split())
    marked = _BEFORE_A_LETTER.sub(_BACKSLASH, _WITHIN_A_WORD.sub(_APOSTROPHE, plain))
    try:
        words = shlex.split(marked)
    except ValueError:
        return tuple(plain.split())
    return tuple(word.replace(_APOSTROPHE, "'").replace(_BACKSLASH, "\\") for word in words)


def joined(words: Sequence[str]) -> str:
    """The words as a text that `split` reads back."""
    return shlex.join(words)


def is_open(word: str) -> bool:
    """Whether a quote in it is not closed."""
    return word.count('"') % 2 == 1


def plain_ids(words: Sequence[str]) -> tuple[str, ...]:
    """The words, run ids without what is written around them."""
    plain = ((word, word.strip(_AROUND_IDS)) for word in words)
    return tuple(bare if is_run_id(bare.lower()) else word for word, bare in plain)


def is_session_address(word: str) -> bool:
    """Whether a word can name a conversation: its id, or a link to its thread."""
    plain = word.strip("`<>,").lower()
    return plain.startswith(("https://", "http://")) or (plain.startswith("s-") and len(plain) == len("s-") + 26)
