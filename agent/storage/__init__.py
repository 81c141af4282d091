"""The database: the one truth. Only the bot's process opens it."""
