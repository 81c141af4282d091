"""CommonMark as Discord shows it: mentions made harmless, wide tables made narrow, headings that Discord lacks.

Knows nothing about messages and embeds; `bot.discord.embeds` calls it on all that a model, a file or a person wrote.
"""

import re
from collections.abc import Sequence

from discord.utils import escape_markdown

from agent.domain.content import Table
from bot.markdown import CODE, without_traps

PHONE_COLUMNS = 42  # characters of fixed width that a phone shows without wrapping
ZERO_WIDTH = "\u200b"
MENTION = re.compile(r"@(?=everyone\b|here\b)|(?<=<)(@[!&]?|#)(?=\d)|(?<=</)(?=[\w -]+:\d)", re.IGNORECASE)
DEEP_HEADING = re.compile(r"^#{4,6}\s+(.+?)\s*#*$", re.MULTILINE)
PIPE_TABLE = re.compile(r"(?:^[ \t]*\|.*\|[ \t]*$\n?){2,}", re.MULTILINE)
RULER = re.compile(r"^[\s|:-]+$")
CONTROL = re.compile("\x1b\\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def marked_up(text: str) -> str:
    """`text` for a message or an embed; what stands in code stays as it is, Discord shows no mentions there."""
    parts = CODE.split(without_traps(text))
    return "".join(part if n % 2 else _prose(part) for n, part in enumerate(parts))


def _prose(text: str) -> str:
    text = PIPE_TABLE.sub(lambda found: _pipes(found.group()), text)
    return DEEP_HEADING.sub(r"**\1**", harmless(text))


def harmless(text: str) -> str:
    """`text` in which no mention is one any more: a zero-width space stands behind each `@` and `<#` that counts."""
    return MENTION.sub(lambda found: found.group() + ZERO_WIDTH, text)


def plain(text: str) -> str:
    """One line of text without markup: mentions harmless, control characters gone."""
    return harmless(CONTROL.sub("", text).replace("\n", " ").strip())


def verbatim(text: str) -> str:
    """A value exactly as it is: on one line, its asterisks and underscores no markup."""
    return escape_markdown(plain(text))


def code_block(lines: Sequence[str]) -> str:
    """Lines in fixed width; no line can end the block early."""
    inside = "\n".join(CONTROL.sub("", line).replace("```", f"``{ZERO_WIDTH}`") for line in lines)
    return f"```\n{inside}\n```"


def table_block(table: Table) -> str:
    """A table for a phone: aligned in a code block when narrow enough, else a line of names and values per row."""
    columns = [_cell(column) for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    widths = [max(len(row[n]) for row in (columns, *rows)) for n in range(len(columns))]
    if sum(widths) + 2 * (len(widths) - 1) > PHONE_COLUMNS:
        return "\n".join(_as_line(columns, row) for row in rows)
    ruler = ["─" * width for width in widths]
    right = [all(_is_number(row[n]) for row in rows) for n in range(len(columns))]
    return code_block([_aligned(row, widths, right) for row in (columns, ruler, *rows)])


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = zip(row, widths, right, strict=True)
    return "  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells).rstrip()


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[-+−]?[\d.,]+(?:e[-+]?\d+)?\s?%?", cell))


def _as_line(columns: Sequence[str], row: Sequence[str]) -> str:
    head, *rest = map(verbatim, row)
    named = (f"{verbatim(column)}: {cell}" for column, cell in zip(columns[1:], rest, strict=True))
    return " · ".join((f"**{head}**", *named))


def _cell(text: str) -> str:
    return CONTROL.sub("", text).replace("\n", " ").strip()


def _pipes(text: str) -> str:
    lines = [line.strip().strip("|") for line in text.strip().splitlines()]
    filled = [line for line in lines if not RULER.match(line)]
    rows = [tuple(cell.strip().replace("**", "") for cell in line.split("|")) for line in filled]
    if len(filled) == len(lines) or len({len(row) for row in rows}) != 1:
        return text
    return table_block(Table(columns=rows[0], rows=tuple(rows[1:]))) + "\n"
