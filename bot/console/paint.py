"""Renders content for a terminal. Pure: content in, rich renderables out.

Names, logs and a model's words may hold control sequences, which are taken out. No text is given to rich as a plain
string, since rich would read `[…]` in it as markup.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from agent.commands.registry import command_of
from agent.commands.typed import words_of
from agent.domain.content import (
    ALWAYS,
    CHANGE,
    REJECT_BECAUSE,
    Button,
    Card,
    Choice,
    Content,
    Document,
    Menu,
    Table,
    Tone,
)
from agent.domain.questions import ANSWER, typed
from bot.documents import size
from bot.markdown import without_traps
from bot.menus import name_of, shortened

STYLES: dict[Tone, str] = {"neutral": "blue", "busy": "cyan", "good": "green", "warn": "yellow", "bad": "red"}

_WORDS = {REJECT_BECAUSE: "reject because …", CHANGE: "approve with epochs=3", ALWAYS: "approve always"}
BAR_CELLS = 40
NAME_CHARS = 60
# Colours and cursor (CSI), titles and clipboard (OSC and its like), and every other control character but \t and \n.
STEERING = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def painted(content: Content) -> RenderableType:
    """A whole message."""
    content = Content.model_validate(_harmless(content.model_dump()))
    parts: list[RenderableType] = []
    if content.text:
        parts.append(Markdown(without_traps(content.text)))
    if content.card is not None:
        parts.append(card_panel(content.card))
    parts.extend(Text(line, style="bold", no_wrap=True, overflow="fold") for line in file_lines(content.files))
    return Group(*parts)


def harmless(text: str) -> str:
    """`text` without control sequences, which could clear the screen or set the clipboard."""
    return STEERING.sub("", text)


def file_lines(files: Sequence[Document]) -> list[str]:
    """One line a document: where it lies on this machine."""
    return [f"file: {near(Path(document.path))} ({size(document.size_bytes)})" for document in files]


def card_panel(card: Card) -> Panel:
    """A card as a frame in the colour of its tone."""
    style = STYLES[card.tone]
    parts: list[RenderableType] = []
    if card.body:
        parts.append(Markdown(without_traps(card.body)))
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
    parts.extend(_menu(menu) for menu in card.menus if menu.choices)
    if card.buttons:
        answers = _answers(card)
        names = "   ".join(f"[{_label(button, answers)}]" for button in card.buttons)
        parts.append(Text(f"{names}   (type {_typed(card)})", style="bold"))
    if card.footer:
        parts.append(Text(card.footer, style="dim"))
    return Panel(
        Group(*parts),
        title=Text(card.title, style=f"bold {style}"),
        title_align="left",
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
        harmless(f"{bar}{card.title.split(' · ')[0]} · {facts}"),
        style=STYLES[card.tone],
        no_wrap=True,
        overflow="ellipsis",
    )


def _harmless(node: Any) -> Any:
    if isinstance(node, str):
        return harmless(node)
    if isinstance(node, dict):
        return {name: _harmless(value) for name, value in node.items()}
    return tuple(map(_harmless, node)) if isinstance(node, list | tuple) else node


def _bar(share: float, cells: int) -> str:
    full = round(min(1.0, max(0.0, share)) * cells)
    return "█" * full + "░" * (cells - full)


def _answers(card: Card) -> dict[Button, str]:
    """What is typed for the choices of a question."""
    choices = [button for button in card.buttons if button.action == ANSWER]
    return dict(zip(choices, typed([button.label for button in choices]), strict=True))


def _label(button: Button, answers: dict[Button, str]) -> str:
    name = answers.get(button, button.label)
    return button.label if name == button.label else f"{name}: {button.label}"


def _typed(card: Card) -> str:
    words, answers = [], _answers(card)
    for button in card.buttons:
        subject = button.subject.replace(".", " ") if button.action == "results" else button.subject
        if button.action in _WORDS:
            words.append(_WORDS[button.action])
            continue
        if button in answers:
            words.append(answers[button])
            continue
        plain = card.kind == "approval" and button.action in {"approve", "reject"}
        words.append(button.action if plain else f"{button.action} {subject}")
    return " or ".join(words)


def _menu(menu: Menu) -> Text:
    """Its label, all choices with those chosen marked, and what to type on a line of its own."""
    most = min(max(menu.most, 1), len(menu.choices))
    line = Text(f"{name_of(menu.label, 'Choose')} ({f'up to {most}' if most > 1 else 'one'}): ")
    for number, choice in enumerate(menu.choices):
        name = shortened(name_of(choice.label, choice.value), NAME_CHARS)
        line.append(" · " if number else "", style="dim")
        line.append(f"✓ {name}" if choice.chosen else name, style="bold" if choice.chosen else "")
    line.append("\n  type: ", style="dim")
    line.append(_typed_choice(menu, _example(menu, most)), style="bold")
    return line


def _example(menu: Menu, most: int) -> Sequence[Choice]:
    """One or two choices that can be typed as they are shown, failing that any."""
    shown = [choice for choice in menu.choices if choice.label == shortened(name_of(choice.label, "\0"), NAME_CHARS)]
    shown = [choice for choice in shown if not menu.subject.endswith(".m") or _said(menu, [choice])]
    return ([choice for choice in shown if "," not in choice.label] or shown or menu.choices)[: min(most, 2)]


def _typed_choice(menu: Menu, choices: Sequence[Choice]) -> str:
    """What a person types for these choices: of a run's metrics (`<run>.m`, `<run>.<view>.m`) the names.

    Else, and where names would be read as something else, what is carried. With names the view is left out: people say
    it in the words of the command.
    """
    said = _said(menu, choices) if menu.subject.endswith(".m") else ""
    return said or f"{menu.action} {menu.subject}{''.join(choice.value for choice in choices)}"


def _said(menu: Menu, choices: Sequence[Choice]) -> str:
    """The command with the names of metrics, empty where it would mean something else: a metric may be called `log`."""
    names = [name_of(choice.label, choice.value) for choice in choices]
    typed = f"{menu.action} {menu.subject.partition('.')[0]} {', '.join(names)}"
    words, command = words_of(typed), command_of(menu.action)
    if words is None or command is None:
        return ""
    meant = command.arguments(words[1:]).get("metrics", ())  # `words_of` has parsed it before
    return typed if list(meant) == [name.lower() for name in names] else ""


def _facts(card: Card) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in card.facts:
        grid.add_row(Text(fact.name), Text(fact.value))
    return grid


def _table(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        grid.add_column(Text(column), overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid
