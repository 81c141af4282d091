"""What went wrong with a language model, as a sentence for people: one map of LiteLLM's exceptions.

The provider's own text can hold secrets, so it is never part of a sentence.
"""

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from agent.cards import duration


@dataclass(frozen=True, slots=True)
class Failure:
    """`text` is for people; `later` says that it may work later, `too_long` that a shorter conversation would.

    `hung`: it was waited for as long as our own limits allow.
    """

    text: str
    later: bool
    retry_after_s: float | None = None
    too_long: bool = False
    hung: bool = False

    @property
    def short(self) -> str:
        """The first sentence, without its end."""
        return self.text.partition(". ")[0].removesuffix(".")


class CutOffError(Exception):
    """The provider's answer ended without its end."""


class NothingError(Exception):
    """The answer has neither words nor calls."""


class RefusedError(Exception):
    """The provider took the answer back."""


class NoStreamError(Exception):
    """What came ended without an answer: a page of the web, an answer that is no stream, an error with status 200."""


class NotInstalledError(Exception):
    """There is no LiteLLM."""


_TOO_LONG = "The conversation is too long for {model}. Start a new thread."
_REFUSED = "The provider of {model} refused this content."
_NO_KEY = "There is no key for {model}. Put {missing} into `.env` and restart the bot."
_UNREACHED = "{model} cannot be reached."
_ANY = frozenset(range(400, 600)) - {401, 402, 403}
# By status and what servers say for which LiteLLM has no exception: the sentence and whether to try later.
_SAID: tuple[tuple[frozenset[int], re.Pattern[str], str, bool], ...] = tuple(
    (statuses, re.compile(pattern, re.IGNORECASE), sentence, later)
    for statuses, pattern, sentence, later in (
        (
            frozenset({400, 413, 422}),
            r"context[ _](length|size|window)|reduce the length|request too large|too many tokens",
            _TOO_LONG,
            False,
        ),
        (frozenset({429}), r"request too large", _TOO_LONG, False),  # this one; "too many tokens" are those of a minute
        (
            _ANY,
            r"support (tool|function)|tool choice requires|tools param requires",
            "{model} cannot call tools as it is served, and I need them. Choose another in TRAINYARD_MODELS.",
            False,
        ),
        (_ANY, r"content management policy|content_filter", _REFUSED, False),
        (_ANY, r"loading model", "{model} is still being loaded.", True),
        (_ANY, r"cannot connect to host", _UNREACHED, True),
        (
            _ANY,
            r"default credentials were not found",
            _NO_KEY.format(model="{model}", missing="GOOGLE_APPLICATION_CREDENTIALS, the path of its file,"),
            False,
        ),
        (
            frozenset({401}),
            r"unable to locate credentials",
            _NO_KEY.format(model="{model}", missing="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
            False,
        ),
    )
)
# By the name of LiteLLM's exception or one of its bases, else by HTTP status: the sentence and whether to try later.
_SENTENCES: dict[str, tuple[str, bool]] = {
    "NotInstalledError": ("LiteLLM is not installed. Run `pip install 'trainyard[llm]'` and restart the bot.", False),
    "CutOffError": ("{model} broke off in the middle of its answer.", True),
    "MidStreamFallbackError": ("{model} broke off in the middle of its answer.", True),
    "NoStreamError": ("{model} sent no streamed answer. Check that its address in TRAINYARD_MODELS is whole.", True),
    "NothingError": ("{model} answered nothing.", False),
    "RefusedError": (_REFUSED, False),
    "ContextWindowExceededError": (_TOO_LONG, False),
    "ContentPolicyViolationError": (_REFUSED, False),
    "UnknownProvider": (
        "The provider of {model} is unknown. Names in TRAINYARD_MODELS begin with it: `openai/…`.",
        False,
    ),
    "TimeoutError": ("{model} did not answer in time.", True),
    "Timeout": ("{model} did not answer in time.", True),
    "Connection error.": (_UNREACHED, True),
    "401": ("The key for {model} was refused. Put a valid one into `.env` and restart the bot.", False),
    "402": ("The account that pays for {model} has no credit left.", False),
    "403": ("The key for {model} may not use this model. Choose another in TRAINYARD_MODELS.", False),
    "404": (
        "The provider does not know the model {model}. Check its name in TRAINYARD_MODELS; on a server of your own "
        "also that it has the model, and the address: mostly with /v1 at its end, for `ollama_chat/…` without.",
        False,
    ),
    "413": (_TOO_LONG, False),
    "429": ("{model} answers that we ask too often or have used up the quota.", True),
    "503": ("{model} is overloaded.", True),
    "529": ("{model} is overloaded.", True),
}
# How providers write a time: `7m12s`, `20ms`, `1.2s`, `30 seconds`, `1 minute and 30 seconds`.
_UNITS_S = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|milli|[smhd])", re.IGNORECASE)
_TIME = r"(?:\d+(?:\.\d+)? ?(?:ms|[smhd])[a-z]*[ ,]{0,2}(?:and )?)+"
_WAIT = re.compile(rf"(?:try again|retry|wait) (?:after |in |for )?({_TIME})", re.IGNORECASE)


def failure_of(error: Exception, model: str, *, missing_key: str = "") -> Failure:
    """The sentence for an exception. `missing_key` names the variables of a key that it failed without."""
    status = status_of(error)
    if missing_key:
        return Failure(_NO_KEY.format(model=model, missing=missing_key), later=False)
    sentence, later = _sentence(error, status)
    retry_after_s = _retry_after_s(error) if later else None
    text = sentence.format(model=model)
    if retry_after_s is not None:
        text += f" It asks to wait {duration(max(1.0, retry_after_s))}."
    return Failure(text, later, retry_after_s, too_long=sentence == _TOO_LONG, hung=isinstance(error, TimeoutError))


def status_of(error: Exception) -> int:
    """The HTTP status behind an exception; 0 where there is none."""
    try:
        return int(getattr(error, "status_code", 0) or 0)
    except (TypeError, ValueError):
        return 0


def _sentence(error: Exception, status: int) -> tuple[str, bool]:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    if "LLM Provider NOT provided" in str(error):  # a bad request, to LiteLLM
        kinds.insert(0, "UnknownProvider")
    if str(error).endswith("Connection error."):
        kinds.append("Connection error.")
    for statuses, pattern, sentence, later in _SAID:
        if status in statuses and pattern.search(str(error)):
            return sentence, later
    for kind in (*kinds, str(status)):
        if kind in _SENTENCES:
            return _SENTENCES[kind]
    if status == 0 or status >= 500:
        return "{model} failed at its provider.", True
    return "{model} did not accept the request.", False


def _retry_after_s(error: Exception) -> float | None:
    """How long the provider asks to wait: its `Retry-After`, else its words, else when a limit that is used up ends."""
    headers = getattr(error, "litellm_response_headers", None) or {}
    told_s = _header_s(str(headers.get("retry-after") or ""))
    if told_s is not None:
        return told_s
    words = _WAIT.search(str(error))
    return _span_s(words[1]) if words else max(map(_span_s, _used_up(headers)), default=None)


def _header_s(value: str) -> float | None:
    """A `Retry-After`, in seconds or as a date."""
    try:
        return max(0.0, float(value))
    except ValueError:
        at = email.utils.parsedate_tz(value)
        return max(0.0, email.utils.mktime_tz(at) - time.time()) if at else None


def _used_up(headers: Mapping[str, object]) -> list[str]:
    """When the limits of requests and tokens begin anew, of those of which nothing is left."""
    kinds = [kind for kind in ("requests", "tokens") if str(headers.get(f"x-ratelimit-remaining-{kind}", "")) == "0"]
    resets = (str(headers.get(f"x-ratelimit-reset-{kind}", "")) for kind in kinds)
    return [reset for reset in resets if _PART.match(reset)]


def _span_s(words: str) -> float:
    """A time such as `7m12s`, `20ms` or `1 minute 30 seconds`."""
    return sum(float(number) * _UNITS_S[unit.lower()] for number, unit in _PART.findall(words))
