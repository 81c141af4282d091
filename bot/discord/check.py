"""What `trainyard doctor` asks about Discord: is the token good, may the bot hear and write. Changes nothing."""

from dataclasses import dataclass

import discord
from discord.http import Route

from bot.discord.failures import ALL_NEEDS, FOREIGN, in_words, translated

PORTAL = "https://discord.com/developers/applications"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `mend` says what to do when it is not ok."""

    ok: bool
    text: str
    mend: str = ""


async def check(
    token: str,
    *,
    message_content: bool = True,
    guild_ids: tuple[int, ...] = (),
    api_base: str | None = None,
) -> list[Finding]:
    """Findings about the token, the Message Content intent and the bot's permissions in its servers."""
    if api_base:
        Route.BASE = api_base
    async with discord.Client(intents=discord.Intents.none()) as client:
        try:
            await client.login(token)
            return [_signed_in(client), _hears(client, message_content), *await _servers(client, guild_ids)]
        except FOREIGN as error:
            return [Finding(ok=False, text=translated(error, "read").text, mend=f"{PORTAL} → Bot → Reset Token")]


def _signed_in(client: discord.Client) -> Finding:
    return Finding(ok=True, text=f"Discord: signed in as {client.user}.")


def _hears(client: discord.Client, wanted: bool) -> Finding:
    flags = client.application_flags
    has = flags.gateway_message_content or flags.gateway_message_content_limited
    if has or not wanted:
        mode = "hears its threads without being named" if has and wanted else "mention-only mode"
        return Finding(ok=True, text=f"Discord: {mode}.")
    return Finding(
        ok=False,
        text="Discord: the Message Content intent is off, so the bot cannot connect as configured.",
        mend=f"Switch it on at {PORTAL} → Bot → Privileged Gateway Intents, or choose mention-only mode.",
    )


async def _servers(client: discord.Client, guild_ids: tuple[int, ...]) -> list[Finding]:
    ids = guild_ids or tuple([guild.id async for guild in client.fetch_guilds(limit=20)])
    invite = discord.utils.oauth_url(
        client.application_id or 0,
        permissions=discord.Permissions(**dict.fromkeys(ALL_NEEDS, True)),
        scopes=("bot", "applications.commands"),
    )
    if not ids:
        return [Finding(ok=False, text="Discord: the bot is in no server.", mend=f"Invite it: {invite}")]
    return [await _server(client, guild_id, invite) for guild_id in ids]


async def _server(client: discord.Client, guild_id: int, invite: str) -> Finding:
    try:
        guild = await client.fetch_guild(guild_id)
        me = await guild.fetch_member(client.user.id if client.user is not None else 0)
    except discord.HTTPException:
        return Finding(ok=False, text=f"Discord: the bot is not in server {guild_id}.", mend=f"Invite it: {invite}")
    lacking = [name for name in ALL_NEEDS if not getattr(me.guild_permissions, name)]
    if lacking:
        names = ", ".join(map(in_words, lacking))
        return Finding(
            ok=False,
            text=f"Discord: in {guild.name} the bot lacks {names}.",
            mend=f"Give its role these permissions, or invite it again: {invite}",
        )
    return Finding(ok=True, text=f"Discord: has all permissions it needs in {guild.name}.")
