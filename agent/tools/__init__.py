"""What the bot can do, declared once: a file a family, one dispatcher for every caller."""
