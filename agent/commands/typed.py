"""What people type as a command: after `/train`, or as bare words that can mean nothing else; and typed decisions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agent.commands.command import Command
from agent.commands.options import Kind
from agent.commands.registry import COMMANDS, command_of
from agent.commands.words import is_session_address, plain_ids, split
from agent.domain.datasets import may_be_program
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.tools.cards.card_views import CARD_WORDS
from agent.tools.charts.chart_views import view_of as chart_view_of
from agent.tools.charts.chart_words import RESULT_WORDS, SMOOTH_WORDS, USAGE_WORDS
from agent.tools.runs.log_views import view_of

DECISIONS = {"approve": True, "yes": True, "ok": True, "reject": False, "no": False}
# What people say for `yes`, `ok` and `no`, with nothing else. An `ok` may also mean that they have read it.
_SAYS = {
    phrase: meant
    for meant, phrases in {
        "yes": "yep|yeah|yup|y|sure|go ahead|go for it|do it|let's go|lgtm|approved|i approve|start it|ship it|"
        "ja|ja gerne|ja bitte|mach das|mach es|ja mach|ja mach das|los|leg los|ja leg los|freigeben|genehmigt"
        "|einverstanden|oui|vas-y|d'accord|approuvé|sí|si|dale|adelante|aprobado|是|是的|好的|可以|同意",
        "ok": "ok|okay|fine|alright|sounds good|looks good|passt|klar|vale|好",
        "no": "nope|nah|never mind|nevermind|forget it|no thanks forget it|no wait|wait no|rather not|nein|nein danke"
        "|lass es|lass das|lass gut sein|vergiss es|lieber nicht|non|non merci|laisse tomber|refuse|no gracias|déjalo"
        "|olvídalo|mejor no|不|不要|算了|不用了",
    }.items()
    for phrase in phrases.split("|")
}
_COURTESY = frozenset({"please", "thanks", "thank", "you", "bitte", "danke"})
_NAMES = frozenset({"/train", "!train"})
_CHART_WORDS = frozenset({"loss", "accuracy", "log", "time", "epoch", "all", "vs", "previous", "yesterday"})
_PICTURE_WORDS = frozenset({*RESULT_WORDS, "matrix", "curve"})
_LOGGED_WORDS = frozenset(
    {"pictures", "reported", "told", "residuals", "forecast", "clusters", "samples", "detections"}
)
# The words of commands with a language of their own that are no talk.
_OWN: dict[str, frozenset[str]] = {
    "logs": frozenset({"file", "older", "errors", "warnings"}),
    "chart": frozenset({*_CHART_WORDS, *SMOOTH_WORDS, *USAGE_WORDS, *_PICTURE_WORDS}),
    "card": frozenset({"loss", "accuracy", *CARD_WORDS}),
    "results": frozenset({*_PICTURE_WORDS, *_LOGGED_WORDS}),
}
_POLITE = frozenset({"please", "thanks", "thank", "you", "it", "this", "that", "do", "go", "ahead"})
_TALK = frozenset(
    {"is", "isn't", "are", "was", "has", "looks", "shows", "says", "does", "doesn't", "why", "what", "how"}
)
_NO_COLUMN = frozenset(
    {*_POLITE, "a", "again", "another", "model", "new", "now", "one", "over", "run", "the", "training"}
)
_CHANGE = re.compile(r"[^=]*[^\s=]=")  # name=value; a quoted text may hold “ = ” too
_ENOUGH = re.compile(
    r"(?:(?:please|ok(?:ay)?|no)\W+)*(?:stop|cancel|halt|abort|(?:be )?quiet|shut up|hush|(?:that['’]?s )?enough)"
    r"(?:\W+(?:it|this|that|talking|answering|writing|there|here|now|please|thanks|thank you))*\W*",
    re.IGNORECASE,
)


def words_of(text: str) -> tuple[str, ...] | None:
    """The command in a text: after `/train` or `!train`, or a bare command that can mean nothing else."""
    words = split(text)
    if words and words[0].lower() in _NAMES:
        return words[1:]
    if not words:
        return None
    head, rest = words[0].lower().strip("?!.,"), words[1:]
    if head == "help" and not rest:
        return ("help",)
    command = command_of(head)
    if command is not None and _bare(command, rest):
        return (head, *rest)
    if (meant := _says(words)) is not None:
        return (meant,)
    if head in DECISIONS:
        return _decision((head, *rest))
    return None


def _says(words: Sequence[str]) -> str | None:
    """The `yes`, `ok` or `no` that these words are, with nothing else."""
    plain = [word.lower().replace("’", "'").strip("?!.,。！") for word in words]
    for said in (plain, [word for word in plain if word not in _COURTESY]):
        phrase = " ".join(said)
        meant = _SAYS.get(phrase) or _SAYS.get(phrase.removeprefix("ok ").removeprefix("okay "))
        if meant is not None:
            return meant
    return None


def _bare(command: Command, rest: Sequence[str]) -> bool:
    """Whether words without `/train` before them can only be this command: ids, changes and its own few words."""
    rest = plain_ids(rest)
    if command.name == "card" and (not rest or rest[-1].endswith("?") or not _TALK.isdisjoint(map(str.lower, rest))):
        return False  # a word of people too
    if command.name == "start" and _runs_program(rest):
        return True
    if command.name in {"start", "predict"} and not any(
        _CHANGE.match(word) or is_run_id(word.lower()) for word in rest
    ):
        return False  # what people say to a model that has proposed something
    own = _own_words(command, rest)
    if command.name == "start" and rest[0].lower() not in _NO_COLUMN:
        own |= {rest[0].lower()}  # the column to predict
    of_card = command.name == "card" and is_run_id(rest[0].lower().partition(".")[0])
    if not (of_card or all(_is_own(command, word, own) for word in rest)):
        return False
    try:
        command.arguments(rest)
    except BadRequest:
        return False
    return True


def _runs_program(rest: Sequence[str]) -> bool:
    """Whether words name a program first and then nothing but arguments: `train.py --lr 0.1 gpus=1`."""
    return (
        len(rest) > 1
        and may_be_program(rest[0])
        and all(word.startswith("-") or "=" in word or last.startswith("-") for last, word in pairwise(rest))
    )


def _own_words(command: Command, rest: Sequence[str]) -> frozenset[str]:
    """The words that only this command gives a meaning to here."""
    if command.reads is not None:
        return _OWN[command.name] | (_named_picture(rest) if command.name == "results" else frozenset())
    flags = {option.name for option in command.all_options if option.kind is Kind.FLAG}
    choices = {word for option in command.all_options if option.by_place for word in (*option.choices, *option.also)}
    return frozenset(flags | choices | command.fillers)


def _is_own(command: Command, word: str, own: frozenset[str]) -> bool:
    plain = word.lower().strip(",")
    if view_of(word.strip(",")) or view_of(plain) or _CHANGE.match(plain) or plain in own:
        return True
    match command.name:
        case "results" | "priority":
            return is_run_id(plain.partition(".")[0])
        case "model":
            return "/" in plain or plain == "usual"
        case "resume":
            return is_session_address(word)
        case "script":
            return plain.isdecimal()
        case "chart":
            return "_" in plain or chart_view_of(plain) is not None
        case _:
            return False


def _named_picture(rest: Sequence[str]) -> frozenset[str]:
    """The word that can only be the name of a picture: `r-abc123 NAME`, `r-abc123 reported NAME`."""
    said = [word.lower() for word in rest]
    if len(said) > 1 and is_run_id(said[0]) and said[1:-1] in ([], ["reported"], ["told"]) and said[-1] not in _POLITE:
        return frozenset({said[-1]})
    return frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """What typed words decide: which approval (empty: the open one), and why, or with which changes, `epochs=3`.

    `always` lets the same kind of job start without asking from then on. What is not `sure` may only say that somebody
    has read it.
    """

    approve: bool
    approval_id: str = ""
    reason: str = ""
    changes: tuple[str, ...] = ()
    always: bool = False
    sure: bool = True


def decision_of(words: Sequence[str]) -> Decision:
    """Read `approve a-…`, `yes please`, `reject a-… because …`, `approve a-… with epochs=3`, `approve a-… always`.

    Raises:
        BadRequest: more is said than a decision.
    """
    approve, rest = DECISIONS[words[0].lower()], list(words[1:])
    named = rest[0].strip("`,.:").lower() if rest else ""
    approval_id = named if named.startswith("a-") else ""
    rest = rest[1:] if approval_id else rest
    head = rest[0].lower().strip(",:") if rest else ""
    if not approve and head == "because" and len(rest) > 1:
        return Decision(approve, approval_id, reason=" ".join(rest[1:]))
    changes = tuple(word.strip(",") for word in rest[1:] if word.lower() not in {"and", ","})
    if approve and head == "with" and changes and all("=" in word for word in changes):
        return Decision(approve, approval_id, changes=changes)
    if approve and words[0].lower() == "approve" and [word.lower() for word in rest] == ["always"]:
        return Decision(approve, approval_id, always=True)
    if all(word.lower().strip("?!.,") in _POLITE for word in rest):
        return Decision(approve, approval_id, sure=words[0].lower() != "ok")
    raise BadRequest(
        f"I cannot read `{' '.join(words)[:100]}`. Write `approve a-…`, `approve a-… with epochs=3`, `reject a-…`, or "
        "`reject a-… because …`."
    )


def changes_of(tool: str, words: Sequence[str]) -> dict[str, Any]:
    """The arguments of a tool that `key=value` words change, read as the options of its command.

    Raises:
        BadRequest: there is no such option, or no such value.
    """
    command = _changing(tool)
    if command is None:
        raise BadRequest("There is nothing to change about this; approve or reject it.")
    return replace(command, switch=None).arguments(words)


def can_change(tool: str) -> bool:
    """Whether `key=value` words can change the arguments of a tool."""
    return _changing(tool) is not None


def _changing(tool: str) -> Command | None:
    """The command whose options are a tool's arguments."""
    commands = (one for command in COMMANDS.values() for one in (command, command.other) if one is not None)
    return next((command for command in commands if command.tool == tool and command.reads is None), None)


def _decision(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The words, where they say a decision and no more."""
    try:
        decision_of(words)
    except BadRequest:
        return None
    return words


def may_be_talk(words: Sequence[str]) -> bool:
    """Whether a decision can also be the answer to something that was asked in words."""
    return bool(words) and words[0] in {"yes", "ok", "no"} and not decision_of(words).approval_id


def ends_answer(text: str) -> bool:
    """Whether these words, with nothing else, end an answer that is being given: `stop`, `cancel`, `stop talking`."""
    return bool(_ENOUGH.fullmatch(text.strip()))


def is_decision(words: Sequence[str]) -> bool:
    """Whether these words answer an approval."""
    return bool(words) and words[0].lower() in DECISIONS
