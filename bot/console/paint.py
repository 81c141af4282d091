"""Renders content for a terminal. Pure: content in, rich renderables out."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from agent.domain.content import Card, Content, Document, Table, Tone
from bot.documents import size

STYLES: dict[Tone, str] = {"neutral": "blue", "busy": "cyan", "good": "green", "warn": "yellow", "bad": "red"}

BAR_CELLS = 40


def painted(content: Content) -> RenderableType:
    """A whole message."""
    parts: list[RenderableType] = []
    if content.text:
        parts.append(Markdown(content.text))
    if content.card is not None:
        parts.append(card_panel(content.card))
    parts.extend(Text(line, style="bold", no_wrap=True, overflow="fold") for line in file_lines(content.files))
    return Group(*parts)


def file_lines(files: Sequence[Document]) -> list[str]:
    """One line a document: where it lies on this machine."""
    return [f"file: {near(Path(document.path))} ({size(document.size_bytes)})" for document in files]


def card_panel(card: Card) -> Panel:
    """A card as a frame in the colour of its tone."""
    style = STYLES[card.tone]
    parts: list[RenderableType] = []
    if card.body:
        parts.append(Markdown(card.body))
    if card.facts:
        parts.append(_facts(card))
    if card.progress is not None:
        parts.append(Text(f"{_bar(card.progress, BAR_CELLS)} {card.progress:.0%}", style=style))
    if card.table is not None:
        parts.append(_table(card.table))
    if card.log:
        parts.append(Text("\n".join(card.log), style="dim"))
    if card.picture is not None:
        parts.append(Text(f"chart: {near(Path(card.picture.path))}", style="bold", no_wrap=True, overflow="fold"))
    if card.buttons:
        names = "   ".join(f"[{button.label}]" for button in card.buttons)
        parts.append(Text(f"{names}   (type {_typed(card)})", style="bold"))
    return Panel(
        Group(*parts),
        title=Text(card.title, style=f"bold {style}"),
        title_align="left",
        subtitle=Text(card.footer, style="dim") if card.footer else None,
        subtitle_align="left",
        border_style=style,
        box=box.ROUNDED,
    )


def near(path: Path) -> Path:
    """A path as a person in this folder would write it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def progress_line(card: Card) -> Text:
    """A run card that was edited, in one line."""
    facts = " · ".join(f"{fact.name.lower()} {fact.value}" for fact in card.facts)
    bar = ""
    if card.progress is not None:
        bar = f"{_bar(card.progress, BAR_CELLS // 2)} "
    return Text(
        f"{bar}{card.title.split(' · ')[0]} · {facts}", style=STYLES[card.tone], no_wrap=True, overflow="ellipsis"
    )


def _bar(share: float, cells: int) -> str:
    full = round(min(1.0, max(0.0, share)) * cells)
    return "█" * full + "░" * (cells - full)


def _typed(card: Card) -> str:
    words = []
    for button in card.buttons:
        subject = button.subject.replace(".", " ") if button.action == "results" else button.subject
        words.append(button.action if button.action in {"approve", "reject"} else f"{button.action} {subject}")
    return " or ".join(words)


def _facts(card: Card) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in card.facts:
        grid.add_row(fact.name, fact.value)
    return grid


def _table(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        grid.add_column(column, overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid
