"""Answers to commands and clicks: in the thread, or to their person alone where the platform waits for that."""

from agent.conversation.items import whisper_for
from agent.conversation.redacted import PASTED
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.session_events import COMMAND_KEY
from agent.ports import Whisper
from agent.stores import InboxItem


class Replies:
    """Stores answers for delivery; a second one under the same key replaces the first."""

    def __init__(self, delivery: OutboxDelivery) -> None:
        """`delivery` posts them."""
        self._delivery = delivery

    async def answer(self, item: InboxItem, content: Content, *, key: str = COMMAND_KEY) -> None:
        """Answer, under this key with the item's id."""
        whisper = whisper_for(item)
        await self._delivery.put(key.format(item.id), item.inbound.thread, content, whisper=whisper, urgent=True)

    async def whisper(self, item: InboxItem, text: str) -> None:
        """Tell it to the person alone, where the platform waits for that."""
        if whisper_for(item) is not None:
            await self.answer(item, Content(text=text))

    async def say(self, item: InboxItem, key: str, text: str) -> None:
        """Say it in the thread, once for each key."""
        await self._delivery.put(key, item.inbound.thread, Content(text=text), urgent=True)

    async def warn_of_secrets(self, item: InboxItem) -> None:
        """Tell the person alone what was taken out of the message, and what to do."""
        if kinds := item.inbound.secrets:
            whisper, content = Whisper(item.inbound.person.id), Content(text=PASTED.format(kinds=", ".join(kinds)))
            await self._delivery.put(f"secret:{item.id}", item.inbound.thread, content, whisper=whisper, urgent=True)

    async def done(self, key: str) -> bool:
        """Whether something was said under this key."""
        return await self._delivery.has(key)
