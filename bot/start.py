"""The console script `trainyard`: the command line, or one sentence that says which extra it lacks.

Standard library only until then: `pip install trainyard` without extras is what training scripts import.
"""

import importlib.util
import sys

# The extra of a command, and a library that only it brings. The others need what every process does.
_BOT = ("bot", "matplotlib")
_EXTRAS = {"chat": _BOT, "up": _BOT, "bot": _BOT, "chart": _BOT, "demo": _BOT, "worker": ("worker", "torch")}


def main() -> None:
    """The entry point."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    extra, library = _EXTRAS.get(command, ("bot", "typer"))
    if any(importlib.util.find_spec(name) is None for name in ("typer", library)):
        raise SystemExit(f"trainyard: this needs the extra `{extra}`: `pip install 'trainyard[{extra}]'`.")
    from bot.cli import main as command_line  # noqa: PLC0415 - it needs the extra

    command_line()
