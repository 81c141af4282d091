"""The worker's public face for the bot: publish orders, read events, store files. Light: no training code, no torch."""
