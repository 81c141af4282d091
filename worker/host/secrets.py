"""The secrets of a GPU host: one file for each, put there by the people who run the host.

Owns reading them and the rules for their files. Knows nothing of runs: who may have which secret is decided by an
approval, whose list of names comes in. Called by the supervisor, which puts the values into the environment of the
training process and nowhere else.
"""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from agent.domain.errors import BadRequest, NotFound
from agent.domain.redaction import SHORTEST_SECRET

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")
_LARGEST = 64 * 1024
# These decide how a process is started or what it trusts. A secret of such a name would be a way around the walls.
_RESERVED = ("TRAINYARD_", "LD_", "PYTHON", "CUDA_")
_RESERVED_NAMES = frozenset({"PATH", "HOME", "LANG", "TZ", "IFS", "BASH_ENV", "ENV", "SHELL", "USER", "TMPDIR"})
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"})


def folder(home: Path) -> Path:
    """Where the secrets of a host lie."""
    return home / "secrets"


def granted(home: Path, names: Iterable[str]) -> dict[str, str]:
    """The values of exactly these names, as text without the end of their last line.

    Raises:
        BadRequest: a name that no secret can have, or a file that others may read or that holds no usable text.
        NotFound: this host keeps no secret of that name.
    """
    return {name: _read(folder(home), _checked(name)) for name in names}


def names(home: Path) -> tuple[str, ...]:
    """What this host keeps, sorted; never the values. Files with other names are no secrets.

    Empty where the folder cannot be listed: a run that is granted one hears why when it is read.
    """
    try:
        return tuple(sorted(file.name for file in folder(home).iterdir() if _NAME.match(file.name)))
    except OSError:
        return ()


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise BadRequest(
            f"{name[:64]!r} cannot be the name of a secret. A name is capital letters, digits and underscores and "
            "begins with a letter, such as HF_TOKEN."
        )
    if name.startswith(_RESERVED) or name in _RESERVED_NAMES | _PROXIES:
        raise BadRequest(
            f"A secret cannot be called {name}: that name decides how the training process runs. Rename it."
        )
    return name


def _read(place: Path, name: str) -> str:
    path = place / name
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(
            f"This host keeps no secret {name}. Put its value into {path} on the host (chmod 600), or leave it out of "
            "the run."
        ) from None
    except OSError as error:
        raise BadRequest(
            f"The secret {name} cannot be read ({error.strerror}). {path} must be a plain file of the worker's user."
        ) from error
    with os.fdopen(fd, "rb") as file:
        _check_file(os.fstat(fd), path, name)
        data = file.read(_LARGEST + 1)
    return _text(data, path, name)


def _check_file(found: os.stat_result, path: Path, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadRequest(f"The secret {name} cannot be read: {path} is no plain file. Replace it by one.")
    if found.st_uid not in (os.geteuid(), 0):
        raise BadRequest(
            f"The secret {name} is refused: {path} belongs to another user. Make the worker's user own it."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise BadRequest(
            f"The secret {name} is refused: other users of the host can get at {path}. Run `chmod 600 {path}` there, "
            "and change the secret if somebody may have read it."
        )


def _text(data: bytes, path: Path, name: str) -> str:
    if len(data) > _LARGEST:
        raise BadRequest(f"The secret {name} is refused: {path} is larger than {_LARGEST // 1024} KiB.")
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if "\0" in text or len(text.strip()) < SHORTEST_SECRET:
        raise BadRequest(
            f"The secret {name} is refused: {path} must hold UTF-8 text of at least {SHORTEST_SECRET} characters. "
            "Shorter values cannot be kept out of logs."
        )
    return text
