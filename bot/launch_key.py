"""`python -m bot.launch_key [FILE]`: the public half of the key that launch orders are signed with.

Prints it, or writes it to FILE for everybody to read. Makes the key if there is none yet. Hosts need it under
TRAINYARD_PUBLIC_KEY. The private half stays in the bot's home.
"""

import sys
from pathlib import Path

from bot.settings import Settings
from worker.client.keys import load_or_create


def main() -> None:
    """Print or write."""
    key = load_or_create(Settings().home / "keys").public_key().public_bytes_raw().hex()
    if len(sys.argv) > 1:
        _write(Path(sys.argv[1]), key)
    else:
        sys.stdout.write(f"{key}\n")


def _write(path: Path, text: str) -> None:
    """Make `path` hold `text`, all at once: a host may be reading."""
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(f"{text}\n")
    aside.chmod(0o644)
    aside.rename(path)


if __name__ == "__main__":
    main()
