"""Which part of a conversation a model reads, and how many tokens that has.

Pure: messages and a compaction in, messages out. Messages are cut apart only where every call has its answer.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.conversation.prompt import as_read
from agent.domain.datasets import DatasetRef
from agent.domain.models import Preference
from agent.ports import ModelMessage, Role
from agent.stores import Compaction, Context, ThreadNow

BYTES_A_TOKEN = 3  # of words and schemas, on average
# The same by kind, each rather too few, so that an estimate is rather too large: lists of numbers, logs and hashes have
# twice the tokens of words of their length.
_BYTES_OF_WORDS, _BYTES_OF_SIGNS, _BYTES_OF_OTHERS = 3.5, 1.3, 2.5
_WORDS, _ASCII = b"abcdefghijklmnopqrstuvwxyz ", bytes(range(128))
MESSAGE_TOKENS = 8  # of what stands around a message
LONGEST_SHARE = 0.25  # of a window, for one message and for what a summary leaves as it is
TRANSCRIPT_RESULT_CHARS = 600


@dataclass
class Conversation:
    """What a turn has before it; `history` grows while it is carried out.

    A message that takes more than `longest_share` of the window is read as its beginning and its end. `now` is what was
    so in the thread when the newest result was stored, for the step that follows at once. `told_of_others` says whether
    the facts of a step quoted others' words; None before any were read.
    """

    history: list[ModelMessage]
    files: Sequence[DatasetRef]
    compaction: Compaction
    preference: Preference = field(default_factory=Preference)
    longest_share: float = LONGEST_SHARE
    now: ThreadNow | None = None
    told_of_others: bool | None = None

    @classmethod
    def of(cls, context: Context) -> "Conversation":
        """The conversation as the store gives it."""
        return cls(list(context.history), context.files, context.compaction, context.preference)


def since_request(history: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """What a turn, the last of a session, has said and done so far, its request first."""
    start = next((n for n in range(len(history) - 1, -1, -1) if _begins(history[n])), 0)
    return history[start:]


def task_of(talk: Conversation) -> Sequence[ModelMessage]:
    """What people said in the present turn; it is never summarised."""
    return [said for said in since_request(talk.history) if said.role is Role.USER]


def _begins(said: ModelMessage) -> bool:
    return said.role is Role.USER and not said.steers


def read_by_model(talk: Conversation, *, window: int) -> list[ModelMessage]:
    """The messages for one model call, without the system's word."""
    made, task = talk.compaction, {said.id for said in task_of(talk)}
    kept = [said for said in talk.history if not 0 < said.id <= made.upto or said.id in task]
    tools = _tools_by_call(talk.history)
    shown = [
        _shortened(_put_away(said, made, tools), most_chars=longest_chars(talk, window)) for said in _told_apart(kept)
    ]
    if not made.summary:
        return shown
    return [ModelMessage(Role.USER, f"[summary, by Trainyard, of what was said before] {made.summary}"), *shown]


def longest_chars(talk: Conversation, window: int) -> int:
    """How long a message may be that is read whole."""
    return int(window * talk.longest_share) * BYTES_A_TOKEN


def _told_apart(messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    """The messages; where several people have one name, with their ids."""
    people = {(said.speaker, said.steers or said.person) for said in messages if said.speaker}
    names = Counter(name for name, _ in people)
    for said in messages:
        shared = names[said.speaker] > 1
        yield replace(said, speaker=f"{said.speaker} ({_whose(said)})") if shared else said


def _whose(said: ModelMessage) -> str:
    return (said.steers or said.person).rpartition("/")[2]


def _tools_by_call(history: Sequence[ModelMessage]) -> Mapping[str, str]:
    return {call.id: call.name for said in history for call in said.calls}


def _put_away(said: ModelMessage, made: Compaction, tools: Mapping[str, str]) -> ModelMessage:
    """The note in place of a tool's result that was left out: where the result can be read again."""
    if said.role is not Role.TOOL or not 0 < said.id <= made.cleared:
        return said
    length = said.cut_chars or len(said.text)
    text = (
        f"[result of {tools.get(said.call_id, 'a tool')}, {length} characters, read again with read_more id {said.id}]"
    )
    return replace(said, text=text, cut_chars=0) if len(said.text) > len(text) else said


def _shortened(said: ModelMessage, *, most_chars: int) -> ModelMessage:
    """A message that would fill the window alone, as its beginning and its end."""
    text = without_middle(said.text, most_chars=most_chars)
    return said if text is said.text else replace(said, text=text, cut_chars=said.cut_chars or len(said.text))


def estimated_tokens(messages: Iterable[ModelMessage]) -> int:
    """About how many tokens messages have, rather too many."""
    written = ((as_read(said), *(call.name + call.arguments for call in said.calls)) for said in messages)
    return sum(MESSAGE_TOKENS + sum(map(_tokens, texts)) for texts in written)


def _tokens(text: str) -> int:
    data = text.encode(errors="ignore")
    words, others = len(data) - len(data.translate(None, _WORDS)), len(data.translate(None, _ASCII))
    signs = len(data) - words - others
    return int(words / _BYTES_OF_WORDS + signs / _BYTES_OF_SIGNS + others / _BYTES_OF_OTHERS)


def next_read(talk: Conversation, *, window: int, besides: int) -> tuple[int, Sequence[ModelMessage]]:
    """What the next call reads: the tokens that the provider counted for the last answer, and the messages since.

    Where nothing was counted since the last compaction, `besides` for the system's word and tools, and all messages.
    """
    for index in range(len(talk.history) - 1, -1, -1):
        said = talk.history[index]
        read = said.tokens - said.failed_tokens
        if read and said.role is Role.ASSISTANT and said.id > talk.compaction.made_after:
            return read, talk.history[index + 1 :]
    return besides, read_by_model(talk, window=window)


def cleared_upto(talk: Conversation, *, keep_tokens: int) -> int:
    """Up to which id results of tools can be put away: all that a model has read, but for the newest of that size."""
    left = keep_tokens
    for said in reversed(_read(talk.history)):
        if said.role is Role.TOOL:
            left -= estimated_tokens([said])
            if left < 0:
                return max(said.id, talk.compaction.cleared)
    return talk.compaction.cleared


def summarised_upto(talk: Conversation, *, keep_tokens: int) -> int:
    """Up to which id a summary can stand for the messages: to the first place whose rest has at most that size.

    Where no rest is so short, to the last place before what the model has not read yet.
    """
    spans = _spans(talk.history)
    rest, best = estimated_tokens(talk.history), 0
    for index, said in enumerate(_read(talk.history)):
        rest -= estimated_tokens([said])
        place = min((later.id for later in talk.history[index + 1 :]), default=said.id + 1) - 1
        if not _within(spans, place):
            best = place
            if rest <= keep_tokens:
                break
    return max(best, talk.compaction.upto)


def answered_upto(talk: Conversation) -> int:
    """The last id up to which no call waits for its answer; a summary can stand for all until there."""
    spans = _spans(talk.history)
    return max((said.id for said in talk.history if not _within(spans, said.id)), default=0)


def _spans(history: Sequence[ModelMessage]) -> Sequence[tuple[int, float]]:
    """From each call to its answer, which may still come where it is of the last reply of a turn that has not ended."""
    answers = {said.call_id: said.id for said in history if said.role is Role.TOOL}
    waiting, last = set[str](), set[str]()
    for said in history:
        if _begins(said):  # a turn that has ended ends in a reply without calls
            waiting, last = waiting | last, set()
        elif said.role is Role.ASSISTANT:
            last = {call.id for call in said.calls}
    waiting |= last
    return [
        (said.id, answers.get(call.id, math.inf if call.id in waiting else said.id))
        for said in history
        for call in said.calls
    ]


def _within(spans: Sequence[tuple[int, float]], place: int) -> bool:
    return any(begun <= place < ended for begun, ended in spans)


def _read(history: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """What the model has read and answered: all but its last calls and what came since."""
    last = next((index for index in range(len(history) - 1, -1, -1) if history[index].role is Role.ASSISTANT), -1)
    return history[: last if last >= 0 and history[last].calls else last + 1]


def transcript(talk: Conversation, *, upto: int, most_chars: int) -> str:
    """What a summary is made of, as text: the last summary and the messages since, results of tools in short."""
    lines = [f"Summary so far: {talk.compaction.summary}"] if talk.compaction.summary else []
    for said in talk.history:
        if talk.compaction.upto < said.id <= upto:
            lines.append(_line(said))
            lines += [f"You called {call.name}({call.arguments[:TRANSCRIPT_RESULT_CHARS]})" for call in said.calls]
    return without_middle("\n".join(line for line in lines if line), most_chars=most_chars)


def fitting(text: str, *, most_tokens: int) -> str:
    """A text of at most about so many tokens."""
    return without_middle(text, most_chars=len(text) * most_tokens // max(1, _tokens(text)))


def without_middle(text: str, *, most_chars: int) -> str:
    """A text that is too long, as its beginning and its end."""
    return text if len(text) <= most_chars else f"{text[: most_chars // 2]}\n…\n{text[-most_chars // 2 :]}"


def _line(said: ModelMessage) -> str:
    match said.role:
        case Role.TOOL:
            return f"Result: {said.text[:TRANSCRIPT_RESULT_CHARS]}"
        case Role.ASSISTANT:
            return f"You: {said.text}" if said.text else ""
        case _:
            return as_read(said)


def in_short(talk: Conversation, *, upto: int) -> str:
    """A summary without a model: what people said and answered, and which tools were used."""
    old = [said for said in talk.history if talk.compaction.upto < said.id <= upto]
    asked = {call.id: call.arguments for said in old for call in said.calls if call.name == "ask_user"}
    words = []
    for said in old:
        if said.role is Role.USER:
            words.append(f"{said.speaker or 'The monitor'}: {said.text[:200]}")
        elif said.call_id in asked:
            words.append(f"You asked people {asked[said.call_id][:300]} and got {said.text[:200]}")
    used = sorted({call.name for said in old for call in said.calls})
    parts = [talk.compaction.summary, *words[-20:], f"Tools that were used: {', '.join(used)}." if used else ""]
    return "\n".join(part for part in parts if part)
