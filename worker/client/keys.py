"""The Ed25519 key that orders to hosts are signed with.

Owns the key files. The private key stays with the bot; hosts get the public one. Called by the fleet and by launches.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.domain.orders import FetchOrder, InspectOrder, LaunchOrder, LookOrder, PredictOrder, SignedOrder, StopOrder
from agent.wire import signed_bytes

if TYPE_CHECKING:  # loaded with the first key: a start needs none
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def load_or_create(folder: Path) -> "Ed25519PrivateKey":
    """The private key `folder/launch.key`, made at first use with `launch.pub`; safe from many processes at once."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - see above

    private = folder / "launch.key"
    if not private.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        raw = Ed25519PrivateKey.generate().private_bytes_raw().hex()
        with contextlib.suppress(FileExistsError):  # another process was first: its key counts
            _create(private, raw)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private.read_text()))
    public = folder / "launch.pub"
    if not public.exists():
        with contextlib.suppress(FileExistsError):
            _create(public, key.public_key().public_bytes_raw().hex())
    return key


Order = TypeVar("Order", LaunchOrder, StopOrder, InspectOrder, PredictOrder, FetchOrder, LookOrder)


def sign(order: Order, key: "Ed25519PrivateKey") -> Order:
    """The order with its signature."""
    return order.model_copy(update={"signature": key.sign(signed_bytes(order)).hex()})


def is_signed(order: SignedOrder, public: Path) -> bool:
    """Whether the order carries a signature by the key whose public half lies in `public`.

    Raises:
        FileNotFoundError: there is no public key on this host.
    """
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public.read_text()))
    try:
        key.verify(bytes.fromhex(order.signature), signed_bytes(order))
    except (InvalidSignature, ValueError):
        return False
    return True


class ServingKey:
    """Makes the tokens of served models from a nonce and the private key, so that none has to be kept."""

    def __init__(self, folder: Path) -> None:
        """The key is read, or made, at the first token."""
        self._folder = folder

    def token(self, nonce: str) -> str:
        """The token of a nonce: 43 characters that fit a URL."""
        key = load_or_create(self._folder).private_bytes_raw()
        digest = hmac.new(key, f"serving {nonce}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _create(path: Path, text: str) -> None:
    """Make a new 0600 file appear with its whole content, or raise `FileExistsError`."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(aside)
    finally:
        aside.unlink()
