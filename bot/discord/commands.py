"""The `/train` command group: declared once, sent to Discord only when it differs from what Discord has."""

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import discord
from discord import app_commands

from bot.discord.inbound import COMMANDS

Client = discord.Client
Interaction = discord.Interaction[Client]
OnCommand = Callable[[Interaction, tuple[str, ...]], Awaitable[None]]
log = logging.getLogger(__name__)

GROUP = "train"
_SHOWN = ("name", "description", "type", "required")


def command_tree(client: Client, on_command: OnCommand) -> app_commands.CommandTree[Client]:
    """The tree of `client`, with `/train <command> [run]`; every use calls `on_command` with the words."""
    group = app_commands.Group(name=GROUP, description="Runs of this team")
    for name, description in COMMANDS.items():
        group.add_command(_command(name, description, on_command))
    tree = app_commands.CommandTree(client)
    tree.add_command(group)
    return tree


def _command(
    name: str,
    description: str,
    on_command: OnCommand,
) -> app_commands.Command[app_commands.Group, [str | None], None]:
    async def called(interaction: Interaction, run: str | None = None) -> None:
        await on_command(interaction, (name, *(run.split() if run else ())))

    described = app_commands.describe(run="A run's id, such as r-abc123, and what else the command takes")(called)
    return app_commands.Command(name=name, description=description, callback=described)


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
        found.append({**kept, "options": _shown(command.get("options") or ())})
    return sorted(found, key=lambda command: str(command.get("name")))
