"""The commands: declared once for `/train …`, `!train …`, bare words and buttons, with their options and help."""
