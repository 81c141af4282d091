"""A chat platform that is a folder: it outlives every process, so a test sees what people would have seen.

`inbound/*.json` is delivered until it was accepted (as Slack delivers until it is acknowledged); every post and edit is
a line of `thread.jsonl`. `find` reads it back, as `conversations.replies` does, so whoever posts twice is found out.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.domain.content import Content
from agent.domain.errors import BadData
from agent.domain.inbound import Attachment, Inbound, Person, Platform, Thread
from agent.ports import Accept, Complete, MessageRef, Whisper
from bot.connection import Connection

ADDRESS = Thread(platform="console", tenant="local", channel="terminal", thread_id="t-1")
ALICE = Person(platform="console", tenant="local", id="alice", name="alice")
BOB = ALICE.model_copy(update={"id": "bob", "name": "bob"})
POLL_S = 0.03


@dataclass
class Shown:
    """A message as it stands now. `versions` is everything that it ever showed, newest last."""

    key: str
    id: str
    thread: str
    versions: list[dict[str, Any]] = field(default_factory=list)
    whisper: str = ""

    @property
    def content(self) -> dict[str, Any]:
        return self.versions[-1]

    @property
    def words(self) -> str:
        """All text of it."""
        return json.dumps(self.content, ensure_ascii=False)

    @property
    def buttons(self) -> dict[str, dict[str, str]]:
        """By label."""
        card = self.content.get("card") or {}
        return {button["label"]: button for button in card.get("buttons") or ()}


def standing(folder: Path) -> list[Shown]:
    """The messages of all threads, in the order of their posting."""
    shown: dict[str, Shown] = {}
    path = folder / "thread.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if entry["op"] == "post":
            shown[entry["id"]] = Shown(entry["key"], entry["id"], entry["thread_id"], whisper=entry["whisper"])
        shown[entry["id"]].versions.append(entry["content"])
    return list(shown.values())


class FileAdapter:
    """`agent.ports.Adapter`."""

    platform: Platform = "console"

    def __init__(self, folder: Path) -> None:
        self.connection = Connection(self.platform)
        self._folder = folder
        self._posts: dict[str, MessageRef] = {}  # by key; of the part of the thread's file before `_read`
        self._read = 0
        self._count = 0
        (folder / "inbound").mkdir(parents=True, exist_ok=True)

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        while True:
            for path in sorted((self._folder / "inbound").glob("*.json")):
                await accept(Inbound.model_validate_json(path.read_text()))
                path.rename(path.with_suffix(".accepted"))
            await asyncio.sleep(POLL_S)

    async def post(self, address: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        self._catch_up()
        number = str(self._count + 1)
        person = whisper.person if whisper else ""
        self._note(op="post", key=key, id=number, thread_id=address.thread_id, content=_plain(content), whisper=person)
        return MessageRef(channel=address.channel, id=number, thread_id=address.thread_id)

    async def edit(self, address: Thread, ref: MessageRef, content: Content) -> MessageRef:
        self._note(op="edit", id=ref.id, content=_plain(content))
        return ref

    def shown_at(self, ref: MessageRef) -> datetime | None:
        return None

    async def find(self, address: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        self._catch_up()
        return self._posts.get(key)

    def _catch_up(self) -> None:
        """Read what is new of the thread. Contents are not kept: this process is weighed."""
        path = self._folder / "thread.jsonl"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                self._read += len(line)
                entry = json.loads(line)
                if entry["op"] == "post":
                    self._count += 1
                    ref = MessageRef(channel=ADDRESS.channel, id=entry["id"], thread_id=entry["thread_id"])
                    self._posts.setdefault(entry["key"], ref)

    async def stream(self, address: Thread, *, key: str) -> "FileStream":
        return FileStream(self, address, key)

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Nobody is in a group here."""
        del person, among
        return frozenset()

    @contextlib.asynccontextmanager
    async def busy(self, address: Thread, asked: Inbound | None) -> AsyncIterator[None]:
        yield

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        if attachment.size_bytes > limit_bytes:
            raise BadData(f"`{attachment.name}` is too large.")
        await asyncio.to_thread(shutil.copyfile, attachment.locator, into)

    def _note(self, **entry: Any) -> None:
        with (self._folder / "thread.jsonl").open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


class FileStream:
    """An answer that grows: posted with its key by the first words."""

    def __init__(self, adapter: FileAdapter, address: Thread, key: str) -> None:
        self._adapter, self._address, self._key = adapter, address, key
        self._ref: MessageRef | None = None
        self._text = ""

    async def append(self, text: str) -> MessageRef | None:
        self._text += text
        if self._ref is None and self._text:
            self._ref = await self._adapter.post(self._address, Content(text=self._text), key=self._key)
        return self._ref

    async def finish(self, content: Content) -> MessageRef:
        if self._ref is None:
            return await self._adapter.post(self._address, content, key=self._key)
        return await self._adapter.edit(self._address, self._ref, content)


class Folder:
    """The people's side of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "inbound").mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count(1)

    def deliver(self, inbound: Inbound) -> None:
        """Deliver until it is accepted."""
        aside = self.folder / "inbound" / f"{next(self._numbers):06d}.tmp"
        aside.write_text(inbound.model_dump_json())
        aside.rename(aside.with_suffix(".json"))

    def again(self) -> None:
        """Deliver everything once more, as a platform does that missed the acknowledgements."""
        for path in (self.folder / "inbound").glob("*.accepted"):
            with contextlib.suppress(FileNotFoundError):
                path.rename(path.with_suffix(".json"))

    @property
    def undelivered(self) -> list[Path]:
        """What was not accepted yet."""
        return list((self.folder / "inbound").glob("*.json"))

    @property
    def shown(self) -> list[Shown]:
        return standing(self.folder)


def _plain(content: Content) -> dict[str, Any]:
    return json.loads(content.model_dump_json())  # type: ignore[no-any-return]
