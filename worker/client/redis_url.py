"""The one place that knows how a Redis address is written, and how the keys of ours begin.

Owns the conversions between our spelling (`redis://`, `rediss://`, `unix:///path`), redis-py's and Celery's.
Opens nothing. Used by every module that connects.
"""

from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit, urlunsplit

PREFIX = "trainyard:"  # begins every key of ours
_SOCKET_SCHEMES = ("unix", "redis+socket")


def is_socket(url: str) -> bool:
    """Whether `url` names a unix socket."""
    return urlsplit(url).scheme in _SOCKET_SCHEMES


def socket_path(url: str) -> str:
    """The path of a unix socket address."""
    return urlsplit(url).path


def for_client(url: str) -> str:
    """The spelling of redis-py."""
    if not is_socket(url):
        return url
    parts, query = _socket_parts(url)
    return _joined("unix", parts, query)


def for_celery(url: str) -> str:
    """The spelling of Celery: a unix socket is `redis+socket:///path?virtual_host=0`."""
    if not is_socket(url):
        return url
    parts, query = _socket_parts(url)
    query["virtual_host"] = query.pop("db", "0")
    return _joined("redis+socket", parts, query)


def shown(url: str) -> str:
    """`url` without its password, for logs and people."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))


def _socket_parts(url: str) -> tuple[SplitResult, dict[str, str]]:
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if "virtual_host" in query:
        query["db"] = query.pop("virtual_host")
    return parts, query


def _joined(scheme: str, parts: SplitResult, query: dict[str, str]) -> str:
    """`urlunsplit` would leave out the two slashes of an empty host."""
    return f"{scheme}://{parts.netloc}{parts.path}" + (f"?{urlencode(query)}" if query else "")
