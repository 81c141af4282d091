"""The terminal as a chat adapter: reads lines and prints messages.

`@path` in a line attaches a file, and so does the name of a data file or program that lies there.
"""

import asyncio
import filecmp
import mimetypes
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from agent.domain.content import END_ANSWER, Content, Document
from agent.domain.errors import AppError, BadData
from agent.domain.ids import new_ulid
from agent.domain.inbound import Attachment, Clicked, Inbound, Person, Platform, Said, Thread
from agent.ports import Accept, Complete, MessageRef, Whisper
from bot.connection import Connection
from bot.console.paint import harmless, painted, progress_line
from bot.console.plain import PlainScreen
from bot.console.proposals import Proposals
from bot.console.screen import Screen

LEAVE = frozenset({"exit", "quit", ":q"})
_NAMED = re.compile(r'"([^"]+)"|`([^`]+)`|([^\s=,;"`]+)')
_ATTACHABLE = frozenset(
    {
        *(".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".txt", ".conll", ".gz", ".zip", ".py"),
        *(".jpg", ".jpeg", ".png"),
    }
)
_ATTACHED = re.compile(r'(?<!\S)@(?:"([^"]+)"|(\S+))[ \t]?')


class ConsoleAdapter:
    """One terminal, one thread, one person."""

    platform: Platform = "console"

    def __init__(
        self, *, thread_id: str, person: str, files: Path, read: bool = True, screen: Screen | None = None
    ) -> None:
        """`read` takes lines from the screen; without it only `say` speaks. `thread` names the conversation.

        What is handed over lies in the folder `files` under its own name.
        """
        self.thread = Thread(platform="console", tenant="local", channel="terminal", thread_id=thread_id)
        self.person = Person(platform="console", tenant="local", id=person, name=person)
        self.shown: list[Content] = []
        self._had: set[tuple[str, int, int]] = set()  # path, size and time of change of files that were attached
        self._shown_at: dict[str, datetime] = {}
        self._files = files
        self._read = read
        self._screen = screen or PlainScreen()
        self._accept: Accept | None = None
        self.connection = Connection(self.platform)
        self._changed = asyncio.Condition()

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        """Take lines until the person leaves."""
        self._accept = accept
        self.connection.established()
        if not self._read:
            await asyncio.Event().wait()
        proposals = Proposals(complete, self.thread, self.person)
        async with aclosing(self._screen.lines(proposals, self.interrupt)) as lines:
            async for line in lines:
                if line.strip().lower() in LEAVE:
                    return
                if line.strip():
                    try:
                        await self.say(line)
                    except BadData as error:
                        await self._refuse(error)

    async def say(self, line: str) -> None:
        """What the person types. Raises `BadData` for a file that is not there."""
        words, paths = _without_files(line)
        there = {word: path for word, path in _named_in(words).items() if _is_there(path)}
        self._had.update(map(_state_of, paths))
        new = {state: path for path in there.values() if (state := _state_of(path)) not in self._had}
        self._had.update(new)
        named = list(new.values())
        files = tuple(map(_attachment, [*paths, *named]))
        if named:
            await self._screen.show(Text(harmless(f"Attached {', '.join(map(str, named))}."), style="dim"))
        for word, path in sorted(there.items(), key=lambda one: -len(one[0])):
            words = words.replace(word, path.name)  # what is attached is known by its name; a path would be a host's
        await self._act(Said(text=words, attachments=files))

    async def interrupt(self) -> None:
        """End the answer that is being given, as its button does on other platforms."""
        try:
            await self._act(Clicked(action=END_ANSWER.action, subject=END_ANSWER.subject))
        except AppError as error:
            await self._refuse(error)

    async def _act(self, act: Said | Clicked) -> None:
        await self.connection.wait()
        assert self._accept is not None  # noqa: S101 - set before it is connected
        await self._accept(
            Inbound(event_id=new_ulid(), thread=self.thread, person=self.person, act=act, at=datetime.now(UTC))
        )

    async def _refuse(self, error: AppError) -> None:
        await self._screen.show(Text(harmless(error.text), style="red"))

    async def until(self, seen: Callable[[Content], bool], *, limit_s: float, since: int = 0) -> Content:
        """Wait for a message that satisfies `seen`; all that were shown count, but for the first `since`."""
        async with asyncio.timeout(limit_s), self._changed:
            while True:
                for content in self.shown[since:]:
                    if seen(content):
                        return content
                await self._changed.wait()

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        """Show a message; of its files the paths, since they lie on this machine."""
        del whisper
        content = await self.laid_out(content)
        if thread == self.thread:
            await self._screen.show("", painted(content), picture=_picture(content))
            self._shown_at[key] = datetime.now(UTC)
        await self._note(content)
        return MessageRef(channel=thread.channel, id=key, thread_id=thread.thread_id)

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Show what changed: one line for progress, the whole card when it is decided or over."""
        if thread == self.thread:
            card = content.card
            if card is not None and card.kind == "run" and card.tone == "busy":
                await self._screen.progress(ref.id, progress_line(card))
            elif card is not None and card.kind == "approval" and not card.buttons:
                await self._screen.show(Text(harmless(f"{card.title} {card.footer}"), style="bold"))
            else:
                rest = content.model_copy(update={"files": ()})  # they were told of once
                await self._screen.show(painted(rest), over=ref.id, picture=_picture(content))
        await self._note(content)
        return ref

    async def find(self, thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        """None: a terminal cannot be read back."""
        del thread, key, growing
        return None

    def shown_at(self, ref: MessageRef) -> datetime | None:
        """When it was printed; None for what an earlier terminal printed."""
        return self._shown_at.get(ref.id)

    async def stream(self, thread: Thread, *, key: str) -> "ConsoleStream":
        """Show words as they come."""
        return ConsoleStream(self, self._screen, thread, key)

    @asynccontextmanager
    async def busy(self, thread: Thread, asked: Inbound | None) -> AsyncIterator[None]:
        """Show on the screen that the bot is at work."""
        del asked
        if thread != self.thread:
            yield
            return
        with self._screen.busy():
            yield

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """A terminal has no groups."""
        del person, among
        return frozenset()

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """Copy a local file. Raises `BadData`."""
        await asyncio.to_thread(_copy, Path(attachment.locator), into, limit_bytes)

    async def laid_out(self, content: Content) -> Content:
        """The same message with its files where they have their names."""
        files = [await asyncio.to_thread(_laid_out, document, self._files) for document in content.files]
        return content.model_copy(update={"files": tuple(files)})

    async def _note(self, content: Content) -> None:
        async with self._changed:
            self.shown.append(content)
            self._changed.notify_all()


class ConsoleStream:
    """An answer that grows in the terminal."""

    def __init__(self, adapter: ConsoleAdapter, screen: Screen, thread: Thread, key: str) -> None:
        self._adapter = adapter
        self._screen = screen
        self._thread = thread
        self._ref = MessageRef(channel=thread.channel, id=key, thread_id=thread.thread_id)

    async def append(self, text: str) -> MessageRef | None:
        """Show more words."""
        if self._thread == self._adapter.thread:
            await self._screen.grow(self._ref.id, text)
        return self._ref

    async def finish(self, content: Content) -> MessageRef:
        """Show what does not stand there yet."""
        content = await self._adapter.laid_out(content)
        if self._thread == self._adapter.thread:
            await self._screen.settle(self._ref.id, content)
        await self._adapter._note(content)  # noqa: SLF001 - the stream is a part of its adapter
        return self._ref


def _picture(content: Content) -> str:
    """The path of a message's picture; empty where it has none."""
    return content.card.picture.path if content.card and content.card.picture else ""


def _without_files(line: str) -> tuple[str, list[Path]]:
    """The words of a line, and the files that it attaches by `@`. Raises `BadData` for a file that is not there."""
    paths = [_path(quoted or plain) for quoted, plain in _ATTACHED.findall(line)]
    for path in paths:
        if not path.is_file():
            raise BadData(f"There is no file {path}. `@path` attaches a file, relative to {Path.cwd()}.")
    return _ATTACHED.sub("", line).strip(), paths


def _named_in(words: str) -> dict[str, Path]:
    """What reads like the path of a data file or of a program, by the words for it."""
    said = ("".join(one).rstrip(".:!?)").lstrip("(") for one in _NAMED.findall(words))
    return {word: _path(word) for word in said if Path(word).suffix.lower() in _ATTACHABLE and "://" not in word}


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or no name
        return False


def _path(text: str) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path.expanduser raises where nobody is called so


def _state_of(path: Path) -> tuple[str, int, int]:
    about = path.stat()
    return str(path.resolve()), about.st_size, about.st_mtime_ns


def _attachment(path: Path) -> Attachment:
    return Attachment(
        id=new_ulid(),
        name=path.name,
        size_bytes=path.stat().st_size,
        media_type=mimetypes.guess_type(path.name)[0] or "",
        locator=str(path.resolve()),
    )


def _laid_out(document: Document, folder: Path) -> Document:
    """The document copied to a file of its own name; a file of that name with other content is kept."""
    source, name = Path(document.path), Path(document.name).name or "file"
    if source.name == name or not source.is_file():
        return document
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / name
    if place.exists() and not filecmp.cmp(source, place, shallow=False):
        place = place.with_stem(f"{place.stem}-{document.sha256[:6]}")
    shutil.copyfile(source, place)
    return document.model_copy(update={"path": str(place)})


def _copy(source: Path, into: Path, limit_bytes: int) -> None:
    if not source.is_file():
        raise BadData(f"The file {source} is not there any more.")
    if source.stat().st_size > limit_bytes:
        raise BadData(f"`{source.name}` is larger than the limit of {limit_bytes / 1e9:.0f} GB.")
    shutil.copyfile(source, into)
