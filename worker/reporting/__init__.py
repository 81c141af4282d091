"""From a supervisor to the bot: events are spooled on the disk, sent to Redis, and sent again until they are stored."""
