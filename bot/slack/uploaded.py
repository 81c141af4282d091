"""Puts PNGs and long texts on Slack. A picture is uploaded once, privately; image blocks then name it by file id.

Swapping the id in a block is how a chart changes in place: a message's own files cannot be replaced.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from agent.domain.content import Content, Picture
from agent.domain.errors import AppError, NotFound, TransientError
from agent.domain.inbound import Thread
from bot.slack.api import SlackApi
from bot.slack.uploads import upload

REMEMBERED = 1_000
TRIES = 3  # that a message waits for its picture

log = logging.getLogger(__name__)


class Pictures:
    """Uploads by sha256, and which message shows which; remembered over restarts in the file `memory`."""

    def __init__(self, api: SlackApi, memory: Path | None = None) -> None:
        """Without `memory` they are forgotten when the process ends."""
        self._api = api
        self._memory = memory
        self._uploads: dict[str, asyncio.Task[str]] = {}  # under way
        self._failed: OrderedDict[str, int] = OrderedDict()  # times
        known, shown = _remembered(memory)
        self._known: OrderedDict[str, str] = OrderedDict(known)  # file ids by sha256
        # The file that a message shows, by its address.
        self._shown: OrderedDict[tuple[str, str], str] = OrderedDict(shown)

    async def ids(self, content: Content) -> Mapping[str, str]:
        """Slack's file id of the content's picture by its sha256; empty when its file is gone or Slack is in trouble.

        Raises:
            AppError: Slack refuses the upload, for want of a scope for example; the text says why.
        """
        picture = content.card.picture if content.card else None
        if picture is None:
            return {}
        try:
            if picture.sha256 not in self._known:
                self._known[picture.sha256] = await asyncio.shield(self._uploading(picture))
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return {picture.sha256: self._known[picture.sha256]}
        except AppError as error:
            self.forget(picture.sha256)
            given_up = isinstance(error, TransientError) and not self._may_wait(picture.sha256)
            if not given_up and not isinstance(error, NotFound):
                raise
            log.warning("slack.picture_left_out", extra={"sha256": picture.sha256, "reason": error.text})
            return {}

    def _may_wait(self, sha256: str) -> bool:
        """Whether a picture that could not be uploaded now is worth another try of its message."""
        self._failed[sha256] = self._failed.get(sha256, 0) + 1
        while len(self._failed) > REMEMBERED:
            self._failed.popitem(last=False)
        return self._failed[sha256] < TRIES

    def _uploading(self, picture: Picture) -> asyncio.Task[str]:
        if picture.sha256 not in self._uploads:
            task = self._uploads[picture.sha256] = asyncio.create_task(self._upload(picture))
            task.add_done_callback(lambda _: self._uploads.pop(picture.sha256, None))
        return self._uploads[picture.sha256]

    def forget(self, sha256: str) -> None:
        """Slack does not show this file: upload it anew next time."""
        self._known.pop(sha256, None)

    async def note(self, channel: str, ts: str, files: Mapping[str, str]) -> None:
        """A message shows these files now: the one that it showed before is deleted, unless another message has it."""
        before = self._shown.pop((channel, ts), "")
        now = next(iter(files.values()), "")
        if now:
            self._shown[channel, ts] = now
        while len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)
        over = before if before not in self._shown.values() else ""
        for sha256 in [sha256 for sha256, file in self._known.items() if file == over]:
            del self._known[sha256]
        if before != now:
            await self._remember()
        if not over:
            return
        try:
            await self._api.call("files.delete", file=over)
        except AppError as error:  # it is only space
            log.info("slack.picture_not_deleted", extra={"file": over, "reason": error.text})

    async def _remember(self) -> None:
        if self._memory is None:
            return
        shown = [[channel, ts, file] for (channel, ts), file in self._shown.items() if channel]
        text = json.dumps({"known": dict(self._known), "shown": shown})
        try:
            await asyncio.to_thread(_write, self._memory, text)
        except OSError as error:  # a restart uploads again, and leaves a file behind
            log.warning("slack.pictures_not_remembered", extra={"reason": str(error)})

    def keep(self, files: Mapping[str, str]) -> None:
        """A private answer shows these files; it has no address, so they stay."""
        self._shown.update({("", file): file for file in files.values()})

    async def share(self, picture: Picture, thread: Thread) -> None:
        """Post the picture as a file of its own, where image blocks are refused."""
        await self._upload(picture, channel_id=thread.channel, thread_ts=thread.thread_id or None)

    async def share_text(self, text: str, name: str, thread: Thread) -> None:
        """Post a text as a file."""
        await upload(self._api, text.encode(), name, channel_id=thread.channel, thread_ts=thread.thread_id or None)

    async def _upload(self, picture: Picture, **where: str | None) -> str:
        try:
            png = await asyncio.to_thread(Path(picture.path).read_bytes)
        except OSError as error:
            raise NotFound("The picture's file is gone.") from error
        return await upload(self._api, png, f"{picture.sha256[:12]}.png", alt=picture.alt[:1000], **where)


def _remembered(memory: Path | None) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """What an earlier process left; nothing where it left nothing that can be read."""
    try:
        found = json.loads(memory.read_text()) if memory is not None else {}
        shown = {(str(channel), str(ts)): str(file) for channel, ts, file in found.get("shown", ())}
        return {str(sha256): str(file) for sha256, file in found.get("known", {}).items()}, shown
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("slack.pictures_not_remembered", extra={"reason": str(error)})
        return {}, {}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    aside.write_text(text)
    aside.replace(path)
