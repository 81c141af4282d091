"""From `Content` to Block Kit, within the limits that Slack enforces. Pure: no calls, no files.

Text from models, files and people is neutralised on the way, so that nothing in it can ping anybody: only CommonMark
formatting gets through. Limits: docs.slack.dev/reference/block-kit (November 2026) and what Slack was seen to refuse.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.domain.content import Button, Card, Content, Fact, Menu, Table, Tone
from bot.markdown import split, without_traps
from bot.menus import Offer, offers

Block = dict[str, Any]

MESSAGE_CHARS = 11_000  # Slack refuses all blocks together from about 13,200
WHISPER_CHARS = 2_800
LEAST_CHARS = 200  # of a text beside a card that fills the message
FALLBACK_BYTES = 3_900  # chat.update refuses a text above 4,000 bytes
BODY_CHARS, LOG_CHARS, TABLE_CHARS = 4_000, 1_800, 2_500
HEADER_CHARS, FIELD_CHARS, CONTEXT_CHARS, ALT_CHARS = 150, 600, 1_000, 2_000
OPTION_CHARS, PLACEHOLDER_CHARS = 75, 150
BUTTON_CHARS, BUTTONS_A_ROW, FACTS_A_SECTION, FACTS, TABLE_ROWS, TABLE_COLUMNS = 75, 5, 10, 20, 50, 20

MARKS: Mapping[Tone, str] = {"neutral": "▪️", "busy": "⏳", "good": "✅", "warn": "⚠️", "bad": "❌"}
PING = re.compile(r"<(?=[@#][A-Z0-9]|!(?:channel|here|everyone|subteam|date))|@(?=(?:channel|here|everyone)\b)")
STRESS = re.compile(r"\*\*|`+|^#{1,6}\s+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Message:
    """One Slack message; `text` is what notifications and screen readers get."""

    text: str
    blocks: list[Block]


def messages(content: Content, files: Mapping[str, str], *, limit: int = MESSAGE_CHARS) -> list[Message]:
    """The messages that show `content`, usually one. `files` maps a picture's sha256 to Slack's file id."""
    texts = split(neutral(content.text), limit)
    card = _card_within(content.card, files, limit) if content.card else []
    shown = [Message(fallback(text), [markdown(text)]) for text in texts]
    if content.card:
        if shown and len(texts[-1]) + weight(card) <= limit:
            last = shown.pop()
            shown.append(Message(last.text, [*last.blocks, *card]))
        else:
            shown.append(Message(summary(content.card), card))
    return shown or [Message("…", [markdown("…")])]


def single(content: Content, files: Mapping[str, str], *, limit: int = MESSAGE_CHARS) -> Message:
    """One message in any case: of a text that is too long the beginning, with a word about the rest."""
    words = neutral(content.text) if content.text.strip() else ""
    card = _card_within(content.card, files, limit - min(len(words), LEAST_CHARS)) if content.card else []
    text = clipped(words, max(limit - weight(card), LEAST_CHARS))
    blocks = ([markdown(text)] if text else []) + card
    if not blocks:
        return Message("…", [markdown("…")])
    return Message(summary(content.card) if content.card and not text else fallback(text), blocks)


def card_blocks(card: Card, files: Mapping[str, str], *, part: int = 1) -> list[Block]:
    """The card from top to bottom: title, words, facts, progress, table, picture, log, menus, buttons, footer.

    Its long texts are cut to one `part` of what they may be at most, so 2 is half.

    Raises:
        BadRequest: there are more menus than any platform shows, or one cannot carry what it would bring back.
    """
    blocks: list[Block] = [{"type": "header", "text": plain(f"{MARKS[card.tone]} {card.title}", HEADER_CHARS)}]
    if card.body.strip():
        blocks.append(markdown(clipped(neutral(card.body), BODY_CHARS // part)))
    blocks.extend(_facts(card.facts, FIELD_CHARS // part))
    if card.progress is not None:
        blocks.append(_context(bar(card.progress)))
    if card.table is not None and card.table.rows:
        blocks.extend(_table(card.table, TABLE_CHARS // part))
    if card.picture is not None:
        blocks.append(_picture(card.picture.alt, files.get(card.picture.sha256)))
    if card.log:
        blocks.append(_log(card.log, LOG_CHARS // part))
    blocks.extend(_menus(card.menus))
    blocks.extend(_buttons(card.buttons))
    if card.footer.strip():
        blocks.append(_context(clip(card.footer, CONTEXT_CHARS // part)))
    return blocks


def _card_within(card: Card, files: Mapping[str, str], limit: int) -> list[Block]:
    """The card in blocks of at most `limit` characters together, if shorter texts make that possible."""
    blocks = card_blocks(card, files)
    for part in (2, 4, 8):
        if weight(blocks) <= limit:
            break
        blocks = card_blocks(card, files, part=part)
    return blocks


def neutral(text: str) -> str:
    """CommonMark in which nothing pings, runs or is fetched: a zero-width space parts each mention from its mark."""
    return _unpinged(without_traps(text))


def _unpinged(text: str) -> str:
    return PING.sub(lambda found: found.group() + "\u200b", text)


def escape(text: str) -> str:
    """Text for Slack's own markup, shown as it is."""
    return _unpinged(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def clip(text: str, limit: int) -> str:
    """Escaped, and at most `limit` characters after that."""
    escaped = escape(text)
    if len(escaped) <= limit:
        return escaped
    return re.sub(r"&[a-z]{0,3}$", "", escaped[: limit - 1]) + "…"


def clipped(text: str, limit: int) -> str:
    """CommonMark of at most `limit` characters; says how much is missing."""
    if len(text) <= limit:
        return text
    note = "\n\n_… cut here, {:,} more characters_"
    beginning = next(iter(split(text[: 2 * limit], max(200, limit - 60))), "")
    return beginning + note.format(max(1, len(text) - len(beginning)))


def fallback(text: str) -> str:
    """Plain words for a notification, never empty, small enough for any call."""
    escaped = escape(STRESS.sub("", text)).strip() or "…"
    raw = escaped.encode()
    if len(raw) <= FALLBACK_BYTES:
        return escaped
    return re.sub(r"&[a-z]{0,3}$", "", raw[: FALLBACK_BYTES - 3].decode(errors="ignore")) + "…"


def summary(card: Card) -> str:
    """A card in one line, for notifications."""
    progress = f" ({card.progress:.0%})" if card.progress is not None else ""
    first = card.body.strip().split("\n", 1)[0]
    return fallback(f"{card.title}{progress}" + (f": {first[:300]}" if first else ""))


def bar(progress: float, *, width: int = 20) -> str:
    """`▓▓▓░░ 60 %`"""
    done = min(1.0, max(0.0, progress))
    filled = int(done * width)
    return "▓" * filled + "░" * (width - filled) + f" {done * 100:.0f} %"


def markdown(text: str) -> Block:
    """CommonMark, rendered by Slack itself."""
    return {"type": "markdown", "text": text}


def plain(text: str, limit: int) -> Block:
    """Text without any markup, on one line."""
    line = " ".join(text.split())
    return {"type": "plain_text", "text": (line if len(line) <= limit else line[: limit - 1] + "…") or "…"}


def weight(blocks: Sequence[Block]) -> int:
    """Characters of text that count towards Slack's limit."""
    return sum(len(text) for text in _texts(blocks))


def without_pictures(blocks: Sequence[Block]) -> list[Block]:
    """The same blocks with each picture as words."""
    return [_picture(block["alt_text"], None) if block["type"] == "image" else block for block in blocks]


def button_value(button: Button) -> str:
    """What a click brings back; `bot.slack.inbound` reads it."""
    return f"v1:{button.action}:{button.subject}:{button.digest}"


def _facts(facts: Sequence[Fact], chars: int) -> Iterator[Block]:
    shown = facts[:FACTS]
    for at in range(0, len(shown), FACTS_A_SECTION):
        fields = [
            {"type": "mrkdwn", "text": f"*{clip(fact.name, 80)}*\n{clip(fact.value, chars) or '–'}"}
            for fact in shown[at : at + FACTS_A_SECTION]
        ]
        yield {"type": "section", "fields": fields}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def _table(table: Table, chars: int) -> Iterator[Block]:
    columns = table.columns[:TABLE_COLUMNS]
    rows, used = [[_cell(name) for name in columns]], sum(map(len, columns))
    for row in table.rows[:TABLE_ROWS]:
        used += sum(len(cell) for cell in row)
        if used > chars:
            break
        rows.append([_cell(cell) for cell in row[:TABLE_COLUMNS]])
    if len(rows) > 1:
        yield {"type": "table", "rows": rows, "column_settings": [{"is_wrapped": True} for _ in columns]}
    if (missing := len(table.rows) - len(rows) + 1) > 0:
        yield _context(f"{missing} more rows are not shown here.")


def _cell(text: str) -> Block:
    return {"type": "raw_text", "text": text.strip() or "–"}


def _picture(alt: str, file_id: str | None) -> Block:
    if file_id is None:
        return _context(f"📈 {clip(alt, CONTEXT_CHARS)}")
    return {"type": "image", "slack_file": {"id": file_id}, "alt_text": (alt.strip() or "chart")[:ALT_CHARS]}


def _log(lines: Sequence[str], chars: int) -> Block:
    text = "\n".join(lines).strip("\n") or " "
    if len(text) > chars:
        tail = text[-(chars - 2) :]
        text = "…\n" + (tail.split("\n", 1)[1] if "\n" in tail else tail)
    inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [inner]}


def _menus(menus: Sequence[Menu]) -> Iterator[Block]:
    for offer in offers(menus, limit=OPTION_CHARS):
        yield _menu(offer)


def _menu(offer: Offer) -> Block:
    """A multi-select for a choice of one too: the other kind cannot be emptied. It stands in sections only.

    Clients show again what was last chosen under a `block_id`, whatever an update says (bolt-js issues 1073, 2766),
    so the id changes with what the menu shows, and only then.
    """
    options = [{"text": plain(choice.label, OPTION_CHARS), "value": choice.value} for choice in offer.choices]
    taken = [option for option, choice in zip(options, offer.choices, strict=True) if choice.chosen]
    most = f"Choose up to {offer.most}" if offer.most > 1 else "Choose one"
    element: Block = {
        "type": "multi_static_select",
        "action_id": offer.carried,  # a choice of nothing brings back no value, so the element tells what it is
        "placeholder": plain(" · ".join(filter(None, (most, offer.missing))), PLACEHOLDER_CHARS),
        "options": options,
        "max_selected_items": offer.most,
    }
    if taken:  # Slack refuses an empty list
        element["initial_options"] = taken
    section: Block = {"type": "section", "text": plain(offer.label, PLACEHOLDER_CHARS), "accessory": element}
    shown = json.dumps(section, sort_keys=True).encode()
    return {**section, "block_id": f"menu.{hashlib.sha256(shown).hexdigest()[:16]}"}


def _buttons(buttons: Sequence[Button]) -> Iterator[Block]:
    elements = [_button(number, button) for number, button in enumerate(buttons)]
    for at in range(0, len(elements), BUTTONS_A_ROW):
        yield {"type": "actions", "elements": elements[at : at + BUTTONS_A_ROW]}


def _button(number: int, button: Button) -> Block:
    element: Block = {
        "type": "button",
        "text": plain(button.label, BUTTON_CHARS),
        "action_id": f"{number}.{button.action}"[:255],
        "value": button_value(button),
    }
    if button.style != "plain":
        element["style"] = button.style
    if button.style == "danger":
        element["confirm"] = {
            "title": plain(button.label, 100),
            "text": plain(f"{button.label}: are you sure?", 300),
            "confirm": plain(button.label, 30),
            "deny": plain("Cancel", 30),
            "style": "danger",
        }
    return element


def _texts(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in {"text", "alt_text"} and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _texts(value)
