"""`Content` as Discord messages: text pieces, an embed for the card, menus, buttons, files. Reads files, sends nothing.

Keeps Discord's limits, so that nothing is refused after the bot has promised it: what does not fit in an embed goes
into a file beside it, and says so. Documents are attachments of the last message; of one that Discord does not take
there is a sentence instead.
"""

import asyncio
import io
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import discord

from agent.domain.content import Button, Card, Content, Document, Fact, Picture
from agent.domain.errors import BadRequest
from bot.discord.components import chars, cut, offered, view_of
from bot.discord.markup import CONTROL, code_block, marked_up, plain, table_block, verbatim
from bot.documents import Limits, safe_name, sort_out
from bot.markdown import split
from bot.menus import Offer

# Source: https://discord.com/developers/docs/resources/message#embed-object-embed-limits, 2026-11
EMBED_CHARS = 6000
DESCRIPTION_CHARS = 4096
TITLE_CHARS, FOOTER_CHARS = 256, 2048
FIELDS, FIELD_NAME_CHARS, FIELD_VALUE_CHARS = 25, 256, 1024
ALT_CHARS = 1024
FILE_BYTES = 10 * 1024 * 1024
# 25 MiB a request and 10 files a message; a picture and the rest of a long text need their thread.
LIMITS = Limits("Discord", file_bytes=FILE_BYTES, all_bytes=14 * 1024 * 1024, files=8)
PIECE_CHARS = 1900  # of the 2,000 that a message holds; the rest is for a trailing "…" and notes
MOST_PIECES = 3
LOG_LINE_CHARS = 160
PROGRESS_CELLS = 12
INLINE_CHARS = 24  # a longer value has a line of its own
LEAST_CHARS = 100  # a shorter beginning of a text says nothing

PICTURE_NAME = "chart.png"
REST_NAME = "more.md"
REST_NOTE = "-# The rest is in the attached file."

TONES = {"neutral": 0x6B7280, "busy": 0x3B82F6, "good": 0x2F9E60, "warn": 0xE3A008, "bad": 0xD64545}


@dataclass(frozen=True, slots=True)
class Piece:
    """What one Discord message shows. Equal pieces look the same."""

    text: str
    embed: discord.Embed | None = None
    menus: tuple[Offer, ...] = ()
    buttons: tuple[Button, ...] = ()
    picture: Picture | None = None
    rest: str = ""
    documents: tuple[Document, ...] = ()

    def view(self) -> discord.ui.View | None:
        """Menus and buttons, None if there are none."""
        return view_of(self.menus, self.buttons)

    async def fields(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """What `send` of discord.py takes for this piece, files read now; a picture that is gone is put in words.

        `without` are names of documents that need not be sent.
        """
        files: list[discord.File] = []
        embed = self.embed
        if self.picture is not None and embed is not None:
            png = await asyncio.to_thread(_read, self.picture.path)
            if png is None:
                embed = _without_picture(embed, self.picture.alt)
            else:
                alt = cut(self.picture.alt, ALT_CHARS)
                files.append(discord.File(io.BytesIO(png), filename=PICTURE_NAME, description=alt))
        if self.rest:
            files.append(discord.File(io.BytesIO(self.rest.encode()), filename=REST_NAME))
        for document in self.documents:
            if (name := attached_as(document)) not in without:
                data = await asyncio.to_thread(_read, document.path)
                files.extend([discord.File(io.BytesIO(data), filename=name)] if data else [])
        return {
            "content": self.text,
            "embeds": [embed] if embed is not None else [],
            "files": files,
            "view": self.view(),
            "allowed_mentions": discord.AllowedMentions.none(),
        }

    async def changes(self, standing: Sequence[discord.Attachment] = ()) -> dict[str, Any]:
        """What `edit` takes: all that is not named is removed, files are replaced; documents in `standing` are kept."""
        names = {attached_as(document) for document in self.documents}
        kept = [attachment for attachment in standing if attachment.filename in names]
        fields = await self.fields(without={attachment.filename for attachment in kept})
        fields["attachments"] = [*kept, *fields.pop("files")]
        return fields


def _without_picture(embed: discord.Embed, alt: str) -> discord.Embed:
    """The same with words in place of the picture, under the footer, as far as there is room for them."""
    footer = embed.footer.text or ""
    thread = EMBED_CHARS - _size(embed) - chars(embed.description or "") + chars(footer)
    words = "\n".join(part for part in (footer, f"(no picture) {plain(alt)}") if part)
    return embed.copy().set_image(url=None).set_footer(text=cut(words, min(thread, FOOTER_CHARS)))


def _read(path: str) -> bytes | None:
    file = Path(path)
    if not file.is_file() or file.stat().st_size > FILE_BYTES:
        return None
    return file.read_bytes()


def attached_as(document: Document) -> str:
    """A document's name in Discord, never that of our own attachments."""
    name = safe_name(document.name)
    return f"file-{name}" if name in {PICTURE_NAME, REST_NAME} else name


def pieces(content: Content, *, most: int = MOST_PIECES) -> list[Piece]:
    """Messages that show `content`, the card in the last; beyond `most` the text goes into a file under its beginning.

    Raises:
        BadRequest: there is nothing to show, or more menus and buttons than Discord has room for.
    """
    handover = sort_out(content.files, LIMITS)
    text = "\n\n".join(part for part in (content.text, *handover.notes) if part.strip())
    *before, last = _pieces(text, content.card, most, bare=bool(handover.taken))
    return [*before, replace(last, documents=handover.taken)]


def _pieces(text: str, shown: Card | None, most: int, *, bare: bool) -> list[Piece]:
    texts = split(marked_up(text), PIECE_CHARS, chars)
    if shown is None:
        if not texts and not bare:
            raise BadRequest("There is nothing to show in this message.")
        return _of_text(texts, text, most) if texts else [Piece("")]
    card = card_piece(shown)
    if not texts:
        return [card]
    *before, last = _of_text(texts, text, most)
    rest = "\n\n".join(part for part in (last.rest, card.rest) if part)
    return [*before, replace(card, text=last.text, rest=rest)]


def _of_text(texts: list[str], whole: str, most: int) -> list[Piece]:
    if len(texts) <= most:
        return [Piece(text) for text in texts]
    return [Piece(f"{texts[0]}\n{REST_NOTE}", rest=whole)]


def card_piece(card: Card) -> Piece:
    """A card as an embed with menus and buttons."""
    menus = offered(card.menus, card.buttons)
    embed = discord.Embed(title=cut(plain(card.title), TITLE_CHARS) or None, colour=TONES[card.tone])
    if card.footer:
        embed.set_footer(text=cut(plain(card.footer), FOOTER_CHARS))
    threadless = [fact for fact in card.facts if not _add_fact(embed, fact)]
    thread = min(DESCRIPTION_CHARS, EMBED_CHARS - _size(embed))
    embed.description, rest = _description(card, threadless, thread)
    if card.picture is not None:
        embed.set_image(url=f"attachment://{PICTURE_NAME}")
    return Piece("", embed, menus, card.buttons, card.picture, rest)


def _add_fact(embed: discord.Embed, fact: Fact) -> bool:
    name = cut(verbatim(fact.name), FIELD_NAME_CHARS) or "\u200b"
    value = cut(verbatim(fact.value), FIELD_VALUE_CHARS) or "–"
    too_large = _size(embed) + chars(name) + chars(value) > EMBED_CHARS - DESCRIPTION_CHARS // 2
    if too_large or len(embed.fields) == FIELDS:
        return False
    embed.add_field(name=name, value=value, inline=chars(value) <= INLINE_CHARS)
    return True


def _size(embed: discord.Embed) -> int:
    texts = [embed.title or "", embed.footer.text or ""]
    texts += [part or "" for shown in embed.fields for part in (shown.name, shown.value)]
    return sum(map(chars, texts))


def _description(card: Card, threadless: list[Fact], thread: int) -> tuple[str | None, str]:
    """Body, progress, table and log in that order of importance; and what had no room, for a file."""
    rest: list[str] = []
    fixed = [bar(card.progress)] if card.progress is not None else []
    thread -= sum(chars(part) + 1 for part in fixed)
    body = card.body + "".join(f"\n**{verbatim(fact.name)}** {verbatim(fact.value)}" for fact in threadless)
    shown = _fitting(marked_up(body).strip(), thread, body, rest)
    thread -= chars(shown) + 1
    table = table_block(card.table) if card.table is not None and card.table.rows else ""
    if table:
        table = _fitting(table, thread, table, rest)
        thread -= chars(table) + 1
    log = log_tail(card.log, thread)
    return "\n".join(part for part in (shown, *fixed, table, log) if part) or None, "\n\n".join(rest)


def _fitting(text: str, thread: int, whole: str, rest: list[str]) -> str:
    """`text`, or its beginning with a note, in which case `whole` joins `rest`."""
    if chars(text) <= thread:
        return text
    rest.append(whole)
    left = thread - chars(REST_NOTE) - 1
    beginning = split(text, left, chars)[:1] if left > LEAST_CHARS else []
    return "\n".join((*beginning, REST_NOTE)) if thread >= chars(REST_NOTE) else ""


def bar(progress: float) -> str:
    """`▰▰▰▱▱▱ 50 %`; outside of 0..1 it is shown as the nearer end, NaN as nothing done."""
    done = 0.0 if math.isnan(progress) else min(max(progress, 0.0), 1.0)
    filled = int(done * PROGRESS_CELLS)
    return "▰" * filled + "▱" * (PROGRESS_CELLS - filled) + f" {int(done * 100)} %"


def log_tail(log: tuple[str, ...], thread: int) -> str:
    """The newest lines that fit, in a code block; empty if none does."""
    kept: list[str] = []
    for line in reversed(log):
        longer = [cut(CONTROL.sub("", line), LOG_LINE_CHARS), *kept]
        if chars(code_block(longer)) > thread:
            break
        kept = longer
    return code_block(kept) if kept else ""
