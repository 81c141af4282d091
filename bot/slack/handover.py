"""Hands a message's documents over: into the thread right before the message, or privately for a whisper.

Slack has no message of ours with both blocks and files, so each file is a post of its own. The files go first and the
message with its mark last, so that "the message stands" means "its files stand". After an unknown outcome the files
behind the last foreign message of ours are looked at, by name and size, and not posted again. What can double: a file
whose post Slack has not finished after a crash, or that another message of ours overtook in the same thread before the
crash; and after a crash the files of a whisper, since neither can be found again. Ephemeral messages carry no files, so
a whisper's go to the person as a direct message and the whisper says so; never into the thread, which all can see.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from agent.domain.content import Content, Document
from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Thread
from bot.documents import Limits, not_taken, safe_name, sort_out
from bot.slack.api import SlackApi
from bot.slack.standing import Standing
from bot.slack.uploads import upload

Mark = TypeVar("Mark")
LIMITS = Limits("Slack", file_bytes=10**9, files=10)  # docs.slack.dev: 1 GB a file
REMEMBERED = 1_000

log = logging.getLogger(__name__)


class Files:
    """Documents of messages. Remembers finished handovers, so that edits do not ask Slack again."""

    def __init__(self, api: SlackApi, standing: Standing) -> None:
        self._api = api
        self._standing = standing
        self._whispered: OrderedDict[tuple[str, str], bool] = OrderedDict()  # by key and sha256
        self._handed: OrderedDict[str, bool] = OrderedDict()  # addresses of messages whose files stand

    async def hand_over(self, thread: Thread, content: Content, *, key: str) -> Content:
        """Post the files that do not stand there yet; what is left to post: words about each that Slack refuses."""
        if not content.files:
            return content
        sorted_out = sort_out(content.files, LIMITS)
        notes = list(sorted_out.notes)
        standing = await self._standing.files(thread, key) if sorted_out.taken else set()
        for document in sorted_out.taken:
            if (safe_name(document.name), document.size_bytes) not in standing:
                notes.extend(await self._post(document, thread.channel, thread.thread_id))
        return _with(content, notes)

    async def privately(self, thread: Thread, content: Content, *, person: str, key: str) -> Content:
        """Send the files to one person directly; the content says where they are."""
        if not content.files:
            return content
        sorted_out = sort_out(content.files, LIMITS)
        notes = list(sorted_out.notes)
        direct = await self._direct(person) if sorted_out.taken else ""
        sent: list[str] = []
        for document in sorted_out.taken:
            mark = (key, document.sha256)
            refused = [] if mark in self._whispered else await self._privately(document, direct)
            if refused:
                notes.extend(refused)
            else:
                _remember(self._whispered, mark)
                sent.append(f"`{document.name}`")
        if sent and direct != thread.channel:
            notes.append(f"{', '.join(sent)}: in your direct messages with me, as nobody else should see it.")
        return _with(content, notes)

    def finished(self, ts: str) -> None:
        """The files of the message at `ts` stand."""
        _remember(self._handed, ts)

    def is_finished(self, ts: str) -> bool:
        """Whether this process knows that the files of the message at `ts` stand."""
        return ts in self._handed

    def noted(self, content: Content) -> Content:
        """The content with the sentences about what Slack would not take, for an edit."""
        return _with(content, sort_out(content.files, LIMITS).notes)

    async def _direct(self, person: str) -> str:
        """The channel of direct messages with a person; empty when Slack refuses it."""
        try:
            answer = await self._api.call("conversations.open", users=person)
        except TransientError:
            raise
        except AppError as error:
            log.warning("slack.no_direct_messages", extra={"reason": error.text})
            return ""
        return str(answer["channel"]["id"])

    async def _privately(self, document: Document, direct: str) -> list[str]:
        if not direct:
            return [not_taken(document, "I may not write to you directly, and nobody else should see it.")]
        return await self._post(document, direct, "")

    async def _post(self, document: Document, channel: str, thread_id: str) -> list[str]:
        """Post one file; a sentence when Slack will never take it."""
        name = safe_name(document.name)
        try:
            await upload(self._api, Path(document.path), name, channel_id=channel, thread_ts=thread_id or None)
        except TransientError:
            raise
        except AppError as error:
            log.warning("slack.file_refused", extra={"channel": channel, "reason": error.text})
            return [not_taken(document, error.text)]
        return []


def _with(content: Content, notes: Sequence[str]) -> Content:
    text = "\n\n".join(part for part in (content.text, *notes) if part.strip())
    return content.model_copy(update={"text": text, "files": ()})


def _remember(kept: "OrderedDict[Mark, bool]", mark: Mark) -> None:
    kept[mark] = True
    kept.move_to_end(mark)
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)
