"""What the bot shows, before any platform's markup: text in CommonMark, cards, pictures, buttons, menus.

An adapter renders these; nobody else knows blocks, embeds or terminals.
"""

from collections.abc import Mapping
from typing import Literal

from agent.domain.value import Value

Tone = Literal["neutral", "busy", "good", "warn", "bad"]
ButtonStyle = Literal["plain", "primary", "danger"]


class Button(Value):
    """A click on it comes back as `Clicked(action, subject, digest)`.

    `action` and `subject` hold only letters, digits, `.`, `_` and `-`; together with a digest of up to 16 characters
    they fit in 100 characters, Discord's limit.
    """

    action: str
    subject: str
    label: str
    style: ButtonStyle = "plain"
    digest: str = ""


END_ANSWER = Button(action="end", subject="answer", label="Stop")  # of an answer that is still growing


class Dialog(Value):
    """A form with one field for text. `title` has up to 24 characters, Slack's limit, `label` 45, Discord's."""

    title: str
    label: str
    hint: str = ""
    most_chars: int = 500


REJECT_BECAUSE = "reject_because"
CHANGE = "change"  # of a plan that waits for an approval
ALWAYS = "always"  # approve, and the same kind of job without asking from then on
# A click on a button with such an action opens a dialog; what is sent off there is the click, with its text.
DIALOGS: Mapping[str, Dialog] = {
    REJECT_BECAUSE: Dialog(title="Reject with a reason", label="Why not?", hint="The card and the model get it."),
    CHANGE: Dialog(title="Change the plan", label="What is different?", hint="epochs=3 lr=0.01 hours=2"),
}


class Choice(Value):
    """One line of a menu. `value` is what it adds to the subject: letters, digits, `_` and `-` only."""

    value: str
    label: str
    chosen: bool = False


class Menu(Value):
    """A choice of up to `most` of `choices` (at most 25, Discord's limit); none is a choice too.

    It comes back as `Clicked(action, subject + the chosen values joined)`, with no digest: the values one after the
    other in the platform's order, nothing between them. What a full choice makes fits in 100 characters with `v1:`,
    the action and two colons. `label` stands in it while nothing is chosen.
    """

    action: str
    subject: str
    label: str
    choices: tuple[Choice, ...]
    most: int = 1


class Fact(Value):
    """A short name and its value, shown side by side."""

    name: str
    value: str


class Table(Value):
    """A small table; every row has as many cells as `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Picture(Value):
    """A PNG on the bot's disk. `alt` says in words what it shows."""

    path: str
    alt: str
    sha256: str


class Card(Value):
    """A message that the bot keeps up to date by editing.

    `body` is CommonMark. `progress` is 0..1. `log` is shown in fixed width, newest line last. `menus` stand above the
    buttons.
    """

    kind: Literal["run", "approval", "result", "data", "notice"]
    title: str
    tone: Tone = "neutral"
    body: str = ""
    facts: tuple[Fact, ...] = ()
    table: Table | None = None
    progress: float | None = None
    log: tuple[str, ...] = ()
    picture: Picture | None = None
    menus: tuple[Menu, ...] = ()
    buttons: tuple[Button, ...] = ()
    footer: str = ""


class Document(Value):
    """A file on the bot's disk that is handed over with a message: a csv of metrics or predictions, a whole log."""

    path: str
    name: str
    sha256: str
    size_bytes: int


class Content(Value):
    """One message: words, a card, files, or all of them. Files are posted once, with the message's first posting."""

    text: str = ""
    card: Card | None = None
    files: tuple[Document, ...] = ()
