"""The way out: makes messages of a thread equal to what should stand there."""
