"""A stored question with exact arguments: what a click executes is what its card showed."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

from pydantic import Field, JsonValue

from agent.domain.content import Card
from agent.domain.ids import new_ulid
from agent.domain.value import Value

SHOWN_DIGEST_CHARS = 16
MOST_SHOWN_CHARS = 60  # of a value that was changed
CARD_KEY = "approval:{}"  # of the card of a question, by its id
INSTEAD = " asks instead"  # ends the reason of a question whose place a newer one takes, behind its id
AGAIN_KEY = "again:{}"  # of a card that asks about open questions once more, by the message that it answers


class ApprovalState(StrEnum):
    """`approved` becomes `consumed` in the transaction that executes it."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CONSUMED = "consumed"


class Approval(Value):
    """One question. `requester` is the key of the person who decides it: who asked, or whose run it is about.

    `digest` covers everything that decides what happens (see `digest_of`). `edits` are the changes that people made to
    what the call asked for, `edited_by` the keys of who made them, `edited_at` the time of the last one; `reason` is
    why it was rejected. `quorum` is how many people have to approve; `allowance` names the one that approved it by
    itself.
    """

    id: str
    session_id: str
    turn_id: str
    call_id: str
    tool: str
    arguments: dict[str, JsonValue]
    requester: str
    digest: str
    state: ApprovalState
    created_at: datetime
    expires_at: datetime
    decided_by: str | None = None
    decided_name: str = ""  # how people know who decided
    decided_at: datetime | None = None
    reason: str = ""
    edits: dict[str, JsonValue] = Field(default_factory=dict)
    edited_at: datetime | None = None
    edited_by: tuple[str, ...] = ()
    quorum: int = 1
    allowance: str = ""

    @property
    def spec(self) -> dict[str, JsonValue] | None:
        """The specification of the run that it starts; None where it starts none."""
        spec = self.arguments.get("spec")
        return spec if isinstance(spec, dict) else None


class Allowance(Value):
    """What people let a thread start without asking: one tool, or whatever has a known price, up to `cap_usd`."""

    id: str
    thread_key: str
    tool: str = ""
    cap_usd: float | None = None
    by: str
    name: str = ""
    at: datetime


def digest_of(
    *, tool: str, arguments: dict[str, JsonValue], requester: str, session_id: str, expires_at: datetime, nonce: str
) -> str:
    """sha256 over canonical JSON (sorted keys, no spaces), hex."""
    shown = {
        "tool": tool,
        "arguments": arguments,
        "requester": requester,
        "session": session_id,
        "expires": expires_at.isoformat(),
        "nonce": nonce,
    }
    return hashlib.sha256(json.dumps(shown, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def with_edits(arguments: dict[str, JsonValue], edits: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments of a call with people's changes; an argument with parts, such as settings, keeps the others."""
    changed = dict(arguments)
    for name, value in edits.items():
        before = changed.get(name)
        changed[name] = before | value if isinstance(before, dict) and isinstance(value, dict) else value
    return changed


_FOLLOWS = frozenset({"estimate_s"})


def difference(before: dict[str, JsonValue], after: dict[str, JsonValue]) -> tuple[str, ...]:
    """What two exact plans differ in, a line each: `seed: 7 → 3`. What follows from the rest, the card says."""
    old, new = dict(_parts("", before)), dict(_parts("", after))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name) and name not in _FOLLOWS]
    return tuple(f"{name}: {_shown(old.get(name))} → {_shown(new.get(name))}" for name in names)


def _parts(name: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """The innermost values by their own names."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, part in value.items():
        yield from _parts(key, part)


def _shown(value: JsonValue) -> str:
    text = "default" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN_CHARS else f"{text[:MOST_SHOWN_CHARS]}…"


def decided_again(card: Card, approval_id: str, decided: Card) -> Card:
    """A card that asked about a question once more, after its decision: without its buttons, with who decided.

    `decided` is the question's own card.
    """
    buttons = tuple(button for button in card.buttons if button.subject != approval_id)
    if buttons == card.buttons:
        return card
    footer = "\n".join(filter(None, (card.footer, f"{approval_id}: {decided.footer}")))
    return card.model_copy(
        update={"buttons": buttons, "footer": footer, "tone": card.tone if buttons else decided.tone}
    )


def sealed(approval: Approval) -> Approval:
    """The question with a new digest over what it asks."""
    digest = digest_of(
        tool=approval.tool,
        arguments=approval.arguments,
        requester=approval.requester,
        session_id=approval.session_id,
        expires_at=approval.expires_at,
        nonce=new_ulid(),
    )
    return approval.model_copy(update={"digest": digest})
