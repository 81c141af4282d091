"""Facts of messages and turns are columns: what stood in brackets in the words, or in the beginning of an id."""

import json
import re

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_FILE = re.compile(r"\n\[file: (.+), (\d+) bytes\]$")
_REFUSED = re.compile(r"\n\[file refused: (.+)\]$")
_OFFER = re.compile(r"Shall I train a model for `([^`]+)`\?")
_NOTICE = "[monitor] "

_turn = sa.table("turn", sa.column("id"), sa.column("kind"))
_message = sa.table("message", *(sa.column(name) for name in ("id", "turn_id", "role", "text", "facts")))


def upgrade() -> None:
    """Go to this version."""
    op.add_column("turn", sa.Column("kind", sa.String(length=16), server_default="asked", nullable=False))
    op.add_column("message", sa.Column("facts", sa.Text(), server_default="", nullable=False))
    for prefix, kind in (("n-", "noticed"), ("c-", "commanded")):
        op.execute(sa.update(_turn).where(_turn.c.id.startswith(prefix)).values(kind=kind))
    marked = (
        _message.c.text.contains("[file") | _message.c.text.startswith(_NOTICE) | _message.c.text.contains("Shall I")
    )
    rows = op.get_bind().execute(sa.select(_message).where(marked, _message.c.role != "tool")).all()
    for row in rows:
        text, facts = _of_assistant(row.text) if row.role == "assistant" else _of_user(row.text)
        if row.turn_id.startswith("n-"):
            text = text.removeprefix(_NOTICE)
        kept = json.dumps(facts) if facts else ""
        op.execute(sa.update(_message).where(_message.c.id == row.id).values(text=text, facts=kept))


def _of_assistant(text: str) -> tuple[str, dict[str, object]]:
    offer = _OFFER.search(text)
    return text, {"offers": offer.group(1)} if offer else {}


def _of_user(text: str) -> tuple[str, dict[str, object]]:
    """The words of a person, and what the lines at their end say."""
    files: list[tuple[str, int]] = []
    refused: list[str] = []
    while found := _FILE.search(text) or _REFUSED.search(text):
        if found.re is _FILE:
            files.insert(0, (found.group(1), int(found.group(2))))
        else:
            refused.insert(0, found.group(1))
        text = text[: found.start()]
    kept = {"files": files, "refused": refused}
    return text, {name: fact for name, fact in kept.items() if fact}


def downgrade() -> None:
    """Leave this version: what older messages say of files and offers is lost."""
    op.drop_column("message", "facts")
    op.drop_column("turn", "kind")
