"""Dialogs in Slack: the view that a click opens, and what comes back when it is sent off. Pure; sends nothing.

The view carries the click that opened it and where that was, so that any later process can read what comes back.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent.domain.content import DIALOGS
from agent.domain.inbound import Clicked, Inbound, Person, Thread
from bot.slack.blocks import plain

FIELD = "text"
TITLE_CHARS, HINT_CHARS = 24, 150  # docs.slack.dev/reference/views, 2026-11
Payload = Mapping[str, Any]


def view_of(inbound: Inbound) -> dict[str, Any] | None:
    """The dialog that a click opens; None for what opens none."""
    act = inbound.act
    dialog = DIALOGS.get(act.action) if isinstance(act, Clicked) else None
    if dialog is None:
        return None
    carried = {"act": act.model_dump(), "thread": inbound.thread.model_dump(), "handle": inbound.reply_handle}
    field: dict[str, Any] = {
        "type": "plain_text_input",
        "action_id": FIELD,
        "multiline": True,
        "max_length": dialog.most_chars,
    }
    if dialog.hint:
        field["placeholder"] = plain(dialog.hint, HINT_CHARS)
    return {
        "type": "modal",
        "callback_id": "v1",
        "title": plain(dialog.title, TITLE_CHARS),
        "submit": plain("Send", TITLE_CHARS),
        "close": plain("Cancel", TITLE_CHARS),
        "private_metadata": json.dumps(carried),
        "blocks": [{"type": "input", "block_id": FIELD, "label": plain(dialog.label, HINT_CHARS), "element": field}],
    }


def submitted(body: Payload, *, tenant: str) -> Inbound | None:
    """The click with the text that was sent off; None for a dialog that is not ours."""
    view, user = body.get("view") or {}, body.get("user") or {}
    if view.get("callback_id") != "v1":
        return None
    carried = json.loads(view["private_metadata"])
    text = str(view["state"]["values"][FIELD][FIELD].get("value") or "")
    person_id = str(user.get("id", ""))
    return Inbound(
        event_id=f"{view['id']}:{person_id}",
        thread=Thread.model_validate(carried["thread"]),
        person=Person(
            platform="slack",
            tenant=tenant,
            id=person_id,
            name=str(user.get("name") or user.get("username") or ""),
            external=str(user.get("team_id") or tenant) != tenant,
        ),
        act=Clicked.model_validate(carried["act"] | {"text": text}),
        reply_handle=str(carried["handle"]),
        at=datetime.now(UTC),
    )
