"""Buttons and menus under a Discord message, and what a click on them brings back. Pure; sends nothing.

Five rows hold up to five buttons each, or one menu. `bot.discord.embeds` calls it for cards, `bot.discord.inbound`
reads the custom ids again.
"""

import math
import re
from collections.abc import Sequence

import discord

from agent.domain.content import Button, Menu
from agent.domain.errors import BadRequest
from bot.discord.markup import plain
from bot.menus import Offer, offers

# Source: https://discord.com/developers/docs/components/reference, 2026-11
ROWS, ROW_BUTTONS, LABEL_CHARS, CUSTOM_ID_CHARS = 5, 5, 80, 100
OPTION_CHARS, PLACEHOLDER_CHARS = 100, 150
STYLES = {
    "plain": discord.ButtonStyle.secondary,
    "primary": discord.ButtonStyle.primary,
    "danger": discord.ButtonStyle.danger,
}
CUSTOM_ID = re.compile(r"^v1:([A-Za-z0-9._-]+):([A-Za-z0-9._-]+):([A-Za-z0-9._-]*)$")


def chars(text: str) -> int:
    """Length as the strictest of Discord's clients counts it: UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, limit: int) -> str:
    """The beginning of `text`, at most `limit` units long."""
    while chars(text) > limit:
        text = text[: min(len(text) - 1, limit) - 1].rstrip() + "…"
    return text


def offered(menus: Sequence[Menu], buttons: Sequence[Button]) -> tuple[Offer, ...]:
    """The menus as Discord can show them, above `buttons`.

    Raises:
        BadRequest: they need more than five rows, or a menu cannot be made.
    """
    made = offers(menus, limit=OPTION_CHARS, measure=chars)
    if len(made) + math.ceil(len(buttons) / ROW_BUTTONS) > ROWS:
        most = ROW_BUTTONS * (ROWS - len(made))
        beside = f" beside {len(made)} menus" if made else ""
        raise BadRequest(f"A card has {len(buttons)} buttons; Discord shows {most} at most{beside}.")
    return made


def view_of(menus: Sequence[Offer], buttons: Sequence[Button]) -> discord.ui.View | None:
    """Menus above buttons; stopped, so that discord.py keeps no state (clicks are handled by their custom id)."""
    if not menus and not buttons:
        return None
    view = discord.ui.View(timeout=None)
    for menu in menus:
        view.add_item(_select(menu))
    for button in buttons:
        view.add_item(
            discord.ui.Button(
                label=cut(plain(button.label) or button.action, LABEL_CHARS),
                style=STYLES[button.style],
                custom_id=custom_id(button),
            )
        )
    view.stop()
    return view


def custom_id(button: Button) -> str:
    """`v1:<action>:<subject>:<digest>`, what a click brings back after any restart.

    Raises:
        BadRequest: it has other characters, or more, than a button may carry.
    """
    made = f"v1:{button.action}:{button.subject}:{button.digest}"
    if not CUSTOM_ID.match(made) or len(made) > CUSTOM_ID_CHARS:
        raise BadRequest(f"The button “{button.label}” cannot carry {made!r}.")
    return made


def _select(offer: Offer) -> discord.ui.Select[discord.ui.View]:
    missing = f" · {offer.missing}" if offer.missing else ""
    return discord.ui.Select(
        custom_id=offer.carried,
        placeholder=cut(offer.label, PLACEHOLDER_CHARS - chars(missing)) + missing,
        min_values=0,
        max_values=offer.most,
        required=False,  # as `min_values` says; read in modals only
        options=[
            discord.SelectOption(label=choice.label, value=choice.value, default=choice.chosen)
            for choice in offer.choices
        ],
    )
