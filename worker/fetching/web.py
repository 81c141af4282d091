"""Downloads one file from the web: streamed, bounded, from public addresses only.

Owns redirects and the check of each address that is connected to. Used by `worker.fetching.fetcher`.
"""

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote

import httpx

from agent.domain.errors import BadData, NotAllowed, Unavailable
from worker.egress.proxy import Network, Refused, Rules

MOST_REDIRECTS: Final = 5
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_NAMED = re.compile(r"filename\*?=(?:UTF-8'')?\"?([^\";]+)", re.IGNORECASE)


class Web:
    """Downloads. `inside` are networks that may be reached though they are not public (as 10.1.0.0/16)."""

    def __init__(self, inside: Sequence[str] = ()) -> None:
        """Raises `ValueError`: one of `inside` is no network."""
        networks: list[Network] = [ipaddress.ip_network(text) for text in inside]
        self._rules = Rules(allow=(), inside=tuple(networks))

    def download(self, url: str, into: Path, *, limit_bytes: int, headers: Mapping[str, str] | None = None) -> str:
        """Write what lies at `url` to `into`; the name that it goes by.

        `headers` go to the first server only, not to where it redirects. Raises `BadData`, `NotAllowed`, `Unavailable`.
        """
        with httpx.Client(timeout=_TIMEOUT, trust_env=False) as client:
            try:
                response = self._open(client, url, headers or {})
                try:
                    _write(response, into, url, limit_bytes)
                finally:
                    response.close()
            except httpx.HTTPError as error:
                raise Unavailable(f"{url} could not be fetched: {str(error) or type(error).__name__}.") from error
        return _name_of(response, url)

    def _open(self, client: httpx.Client, url: str, headers: Mapping[str, str]) -> httpx.Response:
        """The answer behind all redirects. Each address is looked up once, checked, and that one is connected to."""
        at = httpx.URL(url)
        for _ in range(MOST_REDIRECTS + 1):
            response = client.send(self._request(client, at, headers), stream=True)
            if not response.is_redirect:
                if response.status_code >= 400:
                    response.close()
                    raise _refused(url, response.status_code)
                return response
            response.close()
            at, headers = at.join(response.headers["location"]), {}
        raise BadData(f"{url} redirects more than {MOST_REDIRECTS} times.")

    def _request(self, client: httpx.Client, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Request:
        if url.scheme not in {"http", "https"}:
            raise NotAllowed(f"`{url}` is not fetched: only http and https are.")
        address = self._address(url.host)
        named = {"Host": url.netloc.decode("ascii"), "User-Agent": "trainyard", "Accept-Encoding": "identity"}
        secure = {"sni_hostname": url.host}
        return client.build_request(
            "GET", url.copy_with(host=address), headers=named | dict(headers), extensions=secure
        )

    def _address(self, host: str) -> str:
        """A checked address of a host."""
        try:
            found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            raise Unavailable(f"There is no server of the name `{host}`: {error.strerror or error}.") from error
        try:
            for address in found:
                self._rules.check_address(address)
        except Refused as why:
            raise NotAllowed(
                f"`{host}` is not fetched from: {why}. Attach the file, or let the host's owner add the network to "
                "TRAINYARD_FETCH_INSIDE."
            ) from None
        return found[0]


def _write(response: httpx.Response, into: Path, url: str, limit_bytes: int) -> None:
    if response.headers.get("content-type", "").partition(";")[0].strip() in {"text/html", "application/xhtml+xml"}:
        raise BadData(f"{url} is a web page, not a file of data. Give the address of the file itself.")
    size = int(response.headers.get("content-length") or 0)
    if size > limit_bytes:
        raise _too_large(url, size, limit_bytes)
    written = 0
    with into.open("wb") as file:
        for chunk in response.iter_raw(1024 * 1024):
            written += len(chunk)
            if written > limit_bytes:
                raise _too_large(url, written, limit_bytes)
            file.write(chunk)
    if size and written < size:
        raise Unavailable(f"{url} broke off after {written / 1e6:,.1f} of {size / 1e6:,.1f} MB. Try again.")


def _too_large(url: str, size: int, limit_bytes: int) -> BadData:
    return BadData(
        f"{url} has {size / 1e6:,.0f} MB or more; up to {limit_bytes / 1e6:,.0f} MB are fetched. Give a part of it."
    )


def _refused(url: str, code: int) -> BadData | Unavailable:
    match code:
        case 401 | 403:
            return BadData(f"{url} may not be read without a login (HTTP {code}). Attach the file instead.")
        case 404 | 410:
            return BadData(f"There is nothing at {url} (HTTP {code}).")
        case _:
            return Unavailable(f"The server of {url} answers HTTP {code}. Try again later.")


def _name_of(response: httpx.Response, url: str) -> str:
    named = _NAMED.search(response.headers.get("content-disposition", ""))
    name = unquote(named.group(1)) if named else unquote(httpx.URL(url).path)
    return PurePosixPath(name.replace("\\", "/")).name or "data"
