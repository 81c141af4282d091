"""The `/train` commands, made of their declarations: everyday ones at the top, the others in groups.

Sent to Discord only when they differ from what Discord has.
"""

import hashlib
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import discord
from discord import app_commands

from agent.commands.command import Command
from agent.commands.options import Kind, Option
from agent.commands.registry import COMMANDS, GROUPS, HELP
from agent.commands.words import split
from agent.domain.content import Choice

Client = discord.Client
Interaction = discord.Interaction[Client]
OnCommand = Callable[[Interaction, tuple[str, ...]], Awaitable[None]]
Propose = Callable[[Interaction, Command, Option, str], Awaitable[Sequence[Choice]]]
log = logging.getLogger(__name__)

GROUP = "train"
CHANGED = "My commands have changed since Discord showed you this one. Reload Discord (Ctrl+R) and choose it again."
_SHOWN = ("name", "description", "type", "required", "choices", "autocomplete")
_TYPES: dict[Kind, type] = {Kind.WHOLE: int, Kind.NUMBER: float, Kind.FLAG: bool, Kind.YES_NO: bool}
_MOST_CHOICES = 25


def command_tree(client: Client, on_command: OnCommand, propose: Propose) -> app_commands.CommandTree[Client]:
    """The tree of `client`; every use calls `on_command` with the words, every letter of some options `propose`."""
    train = app_commands.Group(name=GROUP, description="Runs of this team")
    commands = (*COMMANDS.values(), HELP)
    for group, title in GROUPS.items():
        inside = [command for command in commands if command.group == group and not command.everyday]
        if inside:
            folder = app_commands.Group(name=group, description=title, parent=train)
            for command in inside:
                folder.add_command(_as_discords(command, on_command, propose))
    for command in commands:
        if command.everyday:
            train.add_command(_as_discords(command, on_command, propose))
    tree = app_commands.CommandTree(client)
    tree.add_command(train)
    tree.error(_failed)
    return tree


def _as_discords(
    command: Command, on_command: OnCommand, propose: Propose
) -> app_commands.Command[app_commands.Group, ..., None]:
    """A command whose parameters are the options."""
    options = command.all_options

    async def called(interaction: Interaction, **given: Any) -> None:
        said = (option.written_as(text, split) for option in options for text in _texts(option, given[option.name]))
        await on_command(interaction, (command.name, *(word for words in said for word in words)))

    # discord.py makes the options of a command from the signature of its function.
    first = inspect.Parameter("interaction", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    vars(called)["__signature__"] = inspect.Signature([first, *map(_parameter, options)])
    described = app_commands.describe(**{option.name: _capital(option.does) for option in options})(called)
    chosen = {
        option.name: [app_commands.Choice(name=choice, value=choice) for choice in option.choices]
        for option in options
        if 0 < len(option.choices) <= _MOST_CHOICES
    }
    described = app_commands.choices(**chosen)(described)
    completed = {
        option.name: _completer(command, option, propose)
        for option in options
        if option.completes or len(option.choices) > _MOST_CHOICES
    }
    described = app_commands.autocomplete(**completed)(described)
    return app_commands.Command(name=command.name, description=_capital(command.does), callback=described)


def _parameter(option: Option) -> inspect.Parameter:
    kind = _TYPES.get(option.kind, str)
    if option.needed:
        return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind | None)


def _completer(
    command: Command, option: Option, propose: Propose
) -> Callable[[Interaction, str], Coroutine[Any, Any, list[app_commands.Choice[str]]]]:
    async def complete(interaction: Interaction, current: str) -> list[app_commands.Choice[str]]:
        found = await propose(interaction, command, option, current)
        return [app_commands.Choice(name=choice.label, value=choice.value) for choice in found]

    return complete


def _texts(option: Option, value: str | float | bool | None) -> tuple[str, ...]:
    """A value from Discord as words would say it; none where it says nothing."""
    if value is None or value == "" or (option.kind is Kind.FLAG and not value):
        return ()
    if isinstance(value, bool):
        return ("yes" if value else "no",)
    return (f"{value:.15g}" if isinstance(value, float) else str(value),)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


async def _failed(interaction: Interaction, error: app_commands.AppCommandError) -> None:
    """Tell a person whose Discord still shows the commands of an earlier version."""
    if not isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch):
        log.error("discord_command_broke", exc_info=error)
        return
    log.info("discord_command_unknown", extra={"event_id": str(interaction.id)})
    if interaction.type is discord.InteractionType.application_command:
        await interaction.response.send_message(CHANGED, ephemeral=True)


async def sync_commands(tree: app_commands.CommandTree[Client], guild_ids: Sequence[int]) -> None:
    """Bring Discord's copy up to date: in these guilds (at once), or everywhere when none is named."""
    guilds: list[discord.Object | None] = [discord.Object(guild_id) for guild_id in guild_ids]
    for guild in guilds or [None]:
        if guild is not None:
            tree.copy_global_to(guild=guild)
        try:
            await _sync_one(tree, guild)
        except discord.HTTPException as error:
            log.warning("discord_commands_not_synced", extra={"guild": _id(guild), "reason": str(error)})


async def _sync_one(tree: app_commands.CommandTree[Client], guild: discord.Object | None) -> None:
    client = tree.client
    app_id = client.application_id or 0
    if guild is None:
        theirs = await client.http.get_global_commands(app_id)
    else:
        theirs = await client.http.get_guild_commands(app_id, guild.id)
    ours = [command.to_dict(tree) for command in tree.get_commands(guild=guild)]
    if commands_hash(ours) != commands_hash(theirs):
        await tree.sync(guild=guild)
        log.info("discord_commands_synced", extra={"guild": _id(guild)})


def _id(guild: discord.Object | None) -> int:
    return guild.id if guild is not None else 0


def commands_hash(commands: Sequence[Mapping[str, object]]) -> str:
    """Equal for equal commands, whatever else Discord adds to its copy."""
    return hashlib.sha256(json.dumps(_shown(commands), sort_keys=True).encode()).hexdigest()


def _shown(commands: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for command in commands if isinstance(commands, Sequence) else ():
        kept = {name: command[name] for name in _SHOWN if command.get(name)}
        if "choices" in kept:
            kept["choices"] = [(choice["name"], choice["value"]) for choice in command["choices"]]
        found.append({**kept, "options": _shown(command.get("options") or ())})
    return sorted(found, key=lambda command: str(command.get("name")))
