"""The Discord door: gateway in, REST out. `bot.discord.door.DiscordDoor` is what the composition root builds."""
