"""Takes secrets out of what people send and models say before it is stored or shown, and has the warning for people."""

import json
import re
from dataclasses import replace

from agent.domain.inbound import Clicked, Commanded, Inbound, Said
from agent.domain.redaction import SHORTEST_SECRET, hidden, without_secrets
from agent.ports import ModelReply, ToolCall

_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "
_SAYS_SECRET = re.compile("passw|pwd|passphrase|authorization|bearer|kaggle", re.IGNORECASE)
_LONG_CHARS = 16  # the shortest value that is known for a secret without such a word
_BEFORE_CHARS = 200  # of what was shown, which may say that a secret follows

REMEDY = (
    "A run gets one from its GPU host: put it into the file `secrets/HF_TOKEN` of the host's home (mode 0600), and "
    "ask for it by that name."
)
PASTED = (
    "Your message held what looks like a secret ({kinds}). I took it out before I stored the message: neither a model "
    "nor a log has seen it, but whoever reads this channel has. Please delete the message and revoke the secret. "
    f"{REMEDY} A key of a language model belongs in the bot's `.env`."
)


def redacted(inbound: Inbound) -> Inbound:
    """The same without secrets; `secrets` says which kinds its words and the names of its files held."""
    kinds: list[str] = []

    def clean(text: str) -> str:
        text, found = without_secrets(text)
        kinds.extend(found)
        return text

    act = inbound.act
    if isinstance(act, Said):
        files = tuple(
            file.model_copy(update={"name": clean(file.name), "locator": _clean(file.locator)})
            for file in act.attachments
        )
        act = act.model_copy(update={"text": clean(act.text), "attachments": files})
    elif isinstance(act, Commanded):
        line = " ".join(act.words)
        cleaned = clean(line)
        act = act if cleaned == line else act.model_copy(update={"words": tuple(cleaned.split())})
    elif isinstance(act, Clicked):
        update = {"action": _clean(act.action), "subject": _clean(act.subject), "text": clean(act.text)}
        act = act.model_copy(update=update)
    person = inbound.person.model_copy(update={"name": _clean(inbound.person.name)})
    return inbound.model_copy(update={"act": act, "person": person, "secrets": tuple(dict.fromkeys(kinds))})


def said_safely(reply: ModelReply) -> ModelReply:
    """A model's reply without secrets in its words and in the arguments of its calls."""
    return replace(reply, text=_clean(reply.text), calls=tuple(map(_called_safely, reply.calls)))


def _called_safely(call: ToolCall) -> ToolCall:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):  # the dispatcher says so
        return replace(call, arguments=_clean(call.arguments))
    clean = hidden(arguments)
    return call if clean == arguments else replace(call, arguments=json.dumps(clean, ensure_ascii=False))


class Growing:
    """An answer while it is said: gives its words once they are whole, without secrets.

    A word is shown when something stands behind it. Only new words are looked at, with a few before them, and only
    where one of them is as long as a secret. A private key is kept back to its end.
    """

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._shown = ""  # the end of it, as it was said
        self._held = ""

    def more(self, piece: str) -> str:
        """What can be shown after a piece more was said."""
        rest = len(piece)
        while rest and _is_of_word(piece[rest - 1]):
            rest -= 1
        self._held += piece
        if not rest or self._held.rfind(_KEY_BEGINS) > self._held.rfind(_KEY_ENDS):
            return ""
        end = len(self._held) - (len(piece) - rest)
        words, self._held = self._held[:end], self._held[end:]
        return self._safe(words)

    def end(self) -> str:
        """The last word of an answer that was cut off, where it is too short to be a part of a secret."""
        return self._held if len(self._held) < SHORTEST_SECRET else ""

    def _safe(self, words: str) -> str:
        before, self._shown = self._shown, (self._shown + words)[-_BEFORE_CHARS:]
        if not any(_may_be_secret(word, before, words) for word in words.split()):
            return words
        known, clean = _clean(before), _clean(before + words)
        return clean.removeprefix(known) if clean.startswith(known) else _clean(words)


def _may_be_secret(word: str, before: str, words: str) -> bool:
    """Whether a word is worth a look: a long one, or a shorter one where something is said to be a password."""
    if len(word) < SHORTEST_SECRET or word.isalpha():
        return False
    return len(word) >= _LONG_CHARS or bool(_SAYS_SECRET.search(before) or _SAYS_SECRET.search(words))


def _is_of_word(sign: str) -> bool:
    """Whether a sign may be in the middle of a secret: Chinese has no spaces, and no secret is Chinese."""
    return sign.isascii() and not sign.isspace()


def _clean(text: str) -> str:
    return without_secrets(text)[0]
