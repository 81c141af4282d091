"""Files that come with a message: downloaded, stored, and kept for the conversation. Used by the inbox router."""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agent.conversation.redacted import REMEDY
from agent.conversation.turn_control import TurnControl
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.datasets import FILE_LIMIT_BYTES, DatasetRef
from agent.domain.errors import AppError, BadData, Conflict, NotFound
from agent.domain.inbound import Attachment, Inbound, Said
from agent.ports import AttachedFile, Blobs, ChatAdapter, Clock, Whisper
from agent.stores import Conversations, InboxItem
from agent.tools.training.programs import holds_program, secrets_in_file

ATTACHED = (
    "{file} holds what looks like a secret ({kinds}). I keep the file as it is, since it has to run, and show nobody "
    "the value, but whoever reads this channel can open the file. Please delete it there and revoke the secret. "
    f"{REMEDY}"
)
STOPPED = "`{}` was not downloaded to its end, as somebody said `stop`. Send it again, if it is needed."


class AttachedFiles:
    """Downloads attached files through the adapters."""

    def __init__(
        self,
        conversations: Conversations,
        blobs: Blobs,
        adapters: Mapping[str, ChatAdapter],
        delivery: OutboxDelivery,
        clock: Clock,
    ) -> None:
        """`adapters` fetch them, `delivery` tells their person of secrets in a program."""
        self._conversations = conversations
        self._blobs = blobs
        self._adapters = adapters
        self._delivery = delivery
        self._clock = clock

    async def take(
        self, item: InboxItem, said: Said, control: TurnControl | None = None
    ) -> tuple[tuple[AttachedFile, ...], tuple[str, ...]]:
        """Download what came with a message, unless it has a turn already; the files, and why others were not taken.

        Through `control` people end a download that goes on, and those that would follow.
        """
        if not said.attachments or await self._conversations.turn_of_item(item.id) is not None:
            return (), ()
        session_id = await self._conversations.session_of(item.inbound.thread, create=True)
        if session_id is None:
            raise NotFound("This thread has no session.")
        files: list[AttachedFile] = []
        refused: list[str] = []
        for attachment in said.attachments:
            try:
                dataset = await self._fetched(item.inbound, attachment, control)
            except AppError as error:
                refused.append(error.text)
                continue
            await self._conversations.add_file(session_id, dataset, self._clock.now())
            await self._warn_of_program(item, dataset)
            files.append(AttachedFile(dataset.name, dataset.size_bytes, dataset.program))
        return tuple(files), tuple(refused)

    async def _fetched(self, inbound: Inbound, file: Attachment, control: TurnControl | None) -> DatasetRef:
        """An attachment, downloaded and stored. Raises `AppError`: it cannot be taken; the text says why."""
        if file.size_bytes > FILE_LIMIT_BYTES:
            raise BadData(
                f"`{file.name}` has {file.size_bytes / 1e9:.1f} GB; files in chat may have up to "
                f"{FILE_LIMIT_BYTES / 1e9:.0f} GB. Send a sample of it."
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "attachment"
            coming = self._adapters[inbound.thread.platform].fetch(file, path, limit_bytes=FILE_LIMIT_BYTES)
            try:
                await (control.wait(coming) if control else coming)
            except TimeoutError:
                if control is None or control.by is None:
                    raise
                raise Conflict(STOPPED.format(file.name)) from None
            dataset = await self._blobs.put(path, name=file.name)
            program = await asyncio.to_thread(holds_program, path, file.name)
            return dataset.model_copy(update={"program": program})

    async def _warn_of_program(self, item: InboxItem, file: DatasetRef) -> None:
        """Tell the person alone which kinds of secrets an attached program holds, and what to do."""
        path = await self._blobs.get(file.sha256) if file.is_program else None
        if path and (kinds := await asyncio.to_thread(secrets_in_file, path, file.name)):
            text = ATTACHED.format(file=f"`{file.name}`", kinds=", ".join(kinds))
            key, whisper = f"secret:{item.id}:{file.sha256[:16]}", Whisper(item.inbound.person.id)
            await self._delivery.put(key, item.inbound.thread, Content(text=text), whisper=whisper, urgent=True)
