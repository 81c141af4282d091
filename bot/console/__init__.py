"""The terminal as a chat platform: try everything without an account."""
