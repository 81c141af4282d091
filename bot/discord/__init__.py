"""The Discord adapter: gateway in, REST out. The composition root builds `bot.discord.adapter.DiscordAdapter`."""
