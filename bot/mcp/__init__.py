"""Tools of MCP servers: what the team lists in a file is offered to language models through the dispatcher.

`config` reads the file, `servers` connects, `tools` makes tools of what a server lists. Loaded where a file is set.
"""
