"""Dialogs in Discord: the modal that a click opens, and the text that comes back. Pure; sends nothing."""

from collections.abc import Iterator

import discord

from agent.domain.content import DIALOGS, Button
from agent.domain.inbound import Clicked
from bot.discord.components import custom_id, cut

FIELD = "text"
TITLE_CHARS, LABEL_CHARS, HINT_CHARS = 45, 45, 100  # discord.com/developers/docs/components/reference, 2026-11


def modal_of(act: Clicked) -> discord.ui.Modal | None:
    """The dialog that a click opens, which carries the click; None for what opens none.

    It is stopped, so that discord.py keeps no state: what is sent off is handled by its custom id.
    """
    dialog = DIALOGS.get(act.action)
    if dialog is None:
        return None
    carried = custom_id(Button(action=act.action, subject=act.subject, digest=act.digest, label=dialog.title))
    modal = discord.ui.Modal(title=cut(dialog.title, TITLE_CHARS), custom_id=carried, timeout=None)
    modal.add_item(
        discord.ui.TextInput(
            label=cut(dialog.label, LABEL_CHARS),
            style=discord.TextStyle.paragraph,
            custom_id=FIELD,
            placeholder=cut(dialog.hint, HINT_CHARS) or None,
            max_length=dialog.most_chars,
        )
    )
    modal.stop()
    return modal


def text_of(components: object) -> str:
    """What was typed into the field of a modal that was sent off."""
    return next(_texts(components), "")


def _texts(node: object) -> Iterator[str]:
    if isinstance(node, list):
        for part in node:
            yield from _texts(part)
    elif isinstance(node, dict):
        if node.get("custom_id") == FIELD:
            yield str(node.get("value") or "")
        yield from _texts(node.get("components"))
        yield from _texts(node.get("component"))
