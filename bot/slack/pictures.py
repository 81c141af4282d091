"""Puts PNGs and long texts on Slack. A picture is uploaded once, privately; image blocks then name it by file id.

Swapping the id in a block is how a chart changes in place: a message's own files cannot be replaced.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from agent.domain.content import Content, Picture
from agent.domain.errors import AppError, NotFound, TransientError
from agent.domain.rooms import Room
from bot.slack.api import SlackApi
from bot.slack.uploads import upload

REMEMBERED = 1_000
TRIES = 3  # that a message waits for its picture

log = logging.getLogger(__name__)


class Pictures:
    """Uploads, remembered by sha256 for as long as the process lives."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._uploads: OrderedDict[str, asyncio.Task[str]] = OrderedDict()
        self._failed: OrderedDict[str, int] = OrderedDict()  # times
        self._shown: OrderedDict[tuple[str, str], str] = OrderedDict()  # the file that a message shows, by its address

    async def ids(self, content: Content) -> Mapping[str, str]:
        """Slack's file id of the content's picture by its sha256; empty when its file is gone or Slack is in trouble.

        Raises:
            AppError: Slack refuses the upload, for want of a scope for example; the text says why.
        """
        picture = content.card.picture if content.card else None
        if picture is None:
            return {}
        try:
            return {picture.sha256: await asyncio.shield(self._uploading(picture))}
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
            self._uploads[picture.sha256] = asyncio.create_task(self._upload(picture))
            while len(self._uploads) > REMEMBERED:
                self._uploads.popitem(last=False)
        return self._uploads[picture.sha256]

    def forget(self, sha256: str) -> None:
        """Slack does not show this file: upload it anew next time."""
        self._uploads.pop(sha256, None)

    async def note(self, channel: str, ts: str, files: Mapping[str, str]) -> None:
        """A message shows these files now: the one that it showed before is deleted, unless another message has it.

        What an earlier process uploaded is not known and stays: at most one file a message and a restart.
        """
        before = self._shown.pop((channel, ts), "")
        now = next(iter(files.values()), "")
        if now:
            self._shown[channel, ts] = now
        while len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)
        if not before or before in self._shown.values():
            return
        for sha256, uploading in list(self._uploads.items()):
            if (
                uploading.done()
                and not uploading.cancelled()
                and not uploading.exception()
                and uploading.result() == before
            ):
                del self._uploads[sha256]
        try:
            await self._api.call("files.delete", file=before)
        except AppError as error:  # it is only space
            log.info("slack.picture_not_deleted", extra={"file": before, "reason": error.text})

    def keep(self, files: Mapping[str, str]) -> None:
        """A private answer shows these files; it has no address, so they stay."""
        self._shown.update({("", file): file for file in files.values()})

    async def share(self, picture: Picture, room: Room) -> None:
        """Post the picture as a file of its own, where image blocks are refused."""
        await self._upload(picture, channel_id=room.channel, thread_ts=room.thread or None)

    async def share_text(self, text: str, name: str, room: Room) -> None:
        """Post a text as a file."""
        await upload(self._api, text.encode(), name, channel_id=room.channel, thread_ts=room.thread or None)

    async def _upload(self, picture: Picture, **where: str | None) -> str:
        try:
            png = await asyncio.to_thread(Path(picture.path).read_bytes)
        except OSError as error:
            raise NotFound("The picture's file is gone.") from error
        return await upload(self._api, png, f"{picture.sha256[:12]}.png", alt=picture.alt[:1000], **where)
