"""Discord's events as `Inbound` values.

Pure: it decides what concerns the bot; storing and acknowledging happen in `bot.discord.client`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import discord

from agent.commands.registry import COMMANDS, HELP
from agent.commands.words import split
from agent.domain.ids import is_run_id
from agent.domain.inbound import Attachment, Clicked, Commanded, Inbound, Person, Said, Thread
from agent.domain.redaction import without_secrets
from bot.discord.addresses import DIRECT, Handle, Locator
from bot.discord.components import CUSTOM_ID
from bot.discord.dialogs import text_of
from bot.menus import chosen

TALK = (discord.MessageType.default, discord.MessageType.reply)
BANG = re.compile(r"^!train\b\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Where:
    """The channel that an event comes from."""

    tenant: str
    channel: str
    thread_id: str = ""

    @property
    def thread(self) -> Thread:
        """It as an address."""
        return Thread(platform="discord", tenant=self.tenant, channel=self.channel, thread_id=self.thread_id)

    @property
    def is_direct(self) -> bool:
        """A conversation with one person."""
        return self.tenant == DIRECT


def is_for_the_bot(message: discord.Message, me: discord.ClientUser, where: Where) -> bool:
    """Whether a message may concern the bot: people's words in threads, to its name, in private, or `!train`.

    Whose thread it is, the stored sessions know.
    """
    if message.author.bot or message.webhook_id is not None or message.type not in TALK:
        return False
    if where.is_direct or mentions(message, me):
        return True
    if not message.content and not message.attachments:
        return False  # a sticker, or words that Discord hides in mention-only mode
    return bool(where.thread_id) or bool(BANG.match(message.content))


def mentions(message: discord.Message, me: discord.ClientUser) -> bool:
    """By its name, by the role that carries its name, or by a reply that pings it."""
    role = message.guild.self_role if message.guild is not None else None
    return any(user.id == me.id for user in message.mentions) or (role is not None and role in message.role_mentions)


def said(message: discord.Message, me: discord.ClientUser, where: Where) -> Inbound:
    """The message as a value. Outside of threads, the thread that will answer it has the message's own id."""
    text = without_mention(message, me)
    files = tuple(_attachment(message, file) for file in message.attachments)
    named = mentions(message, me)
    words = command_words(text, bare=named) if not files else None
    thread_id = where.thread_id or ("" if where.is_direct else str(message.id))
    return Inbound(
        event_id=str(message.id),
        thread=Thread(platform="discord", tenant=where.tenant, channel=where.channel, thread_id=thread_id),
        person=person_of(message.author, where),
        act=Commanded(words=words) if words is not None else Said(text=text, attachments=files),
        mentions_bot=where.is_direct or named,
        to_others=not named and _is_reply_to_others(message, me),
        at=message.created_at,
    )


def _is_reply_to_others(message: discord.Message, me: discord.ClientUser) -> bool:
    if message.type is not discord.MessageType.reply or message.reference is None:
        return False
    answered = message.reference.resolved
    return not (isinstance(answered, discord.Message) and answered.author.id == me.id)


def without_mention(message: discord.Message, me: discord.ClientUser) -> str:
    """The text without the bot's own name in it."""
    role = message.guild.self_role if message.guild is not None else None
    own = rf"<@!?{me.id}>" + (rf"|<@&{role.id}>" if role is not None else "")
    return re.sub(rf"[ \t]*(?:{own})[ \t]*", " ", message.content).strip()


def command_words(text: str, *, bare: bool) -> tuple[str, ...] | None:
    """What follows `!train`; if `bare`, also all of `status` or `stop r-abc123`, which need no language model."""
    if found := BANG.match(text):
        return split(text[found.end() :])
    words = split(text)
    known = bool(words) and words[0].lower() in {*COMMANDS, HELP.name} and all(map(is_run_id, words[1:]))
    return words if bare and known else None


def commanded(interaction: discord.Interaction[discord.Client], where: Where, words: tuple[str, ...]) -> Inbound:
    """A slash command."""
    return _from_interaction(interaction, where, Commanded(words=words))


def clicked(interaction: discord.Interaction[discord.Client], where: Where) -> Inbound | None:
    """A button, a menu or a dialog of ours, None for a form that this version does not know."""
    data: Mapping[str, object] = interaction.data or {}
    is_menu = data.get("component_type") == discord.ComponentType.string_select.value
    act = _chosen(data) if is_menu else _pressed(str(data.get("custom_id", "")))
    if act is not None and interaction.type is discord.InteractionType.modal_submit:
        act = act.model_copy(update={"text": text_of(data.get("components"))})
    return None if act is None else _from_interaction(interaction, where, act)


def _pressed(custom_id: str) -> Clicked | None:
    found = CUSTOM_ID.match(custom_id)
    if found is None:
        return None
    action, subject, digest = found.groups()
    return Clicked(action=action, subject=subject, digest=digest)


def _chosen(data: Mapping[str, object]) -> Clicked | None:
    values = data.get("values")
    return chosen(str(data.get("custom_id", "")), values if isinstance(values, list) else [])


def _from_interaction(
    interaction: discord.Interaction[discord.Client],
    where: Where,
    act: Commanded | Clicked,
) -> Inbound:
    handle = Handle(
        application=interaction.application_id,
        token=interaction.token,
        kind="slash" if isinstance(act, Commanded) else "button",
    )
    return Inbound(
        event_id=str(interaction.id),
        thread=where.thread,
        person=person_of(interaction.user, where),
        act=act,
        reply_handle=handle.model_dump_json(),
        at=interaction.created_at,
    )


def person_of(user: discord.User | discord.Member, where: Where) -> Person:
    """Who did it."""
    return Person(platform="discord", tenant=where.tenant, id=str(user.id), name=user.display_name)


def _attachment(message: discord.Message, file: discord.Attachment) -> Attachment:
    url = "" if without_secrets(file.url)[1] else file.url  # asked for again when the file is fetched
    locator = Locator(channel=message.channel.id, message=message.id, attachment=file.id, url=url)
    return Attachment(
        id=str(file.id),
        name=file.filename,
        size_bytes=file.size,
        media_type=file.content_type or "",
        locator=locator.model_dump_json(),
    )
