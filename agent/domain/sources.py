"""Where data come from that nobody attached: addresses as people write them. Pure."""

import re
from typing import Annotated, Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from agent.domain.errors import BadRequest
from agent.domain.value import Value

DATA_ENDINGS: Final = ("csv", "tsv", "json", "jsonl", "ndjson", "parquet", "xlsx", "txt", "conll", "zip")
FORMS: Final = (
    "a web address (https://…), `hf:owner/name` of Hugging Face (also with `/config`, `:split`, `@revision`), "
    "`kaggle:owner/name`, or the path of a file on a host (`/data/file.csv`, `gpu-1:/data/file.csv`)"
)


class WebSource(Value):
    """A file on the web; `member` is which file of an archive, where it is one."""

    kind: Literal["web"] = "web"
    url: str
    member: str = ""

    @property
    def shown(self) -> str:
        """As people write it."""
        return self.url + (f"#{self.member}" if self.member else "")


class HubSource(Value):
    """A data set of the Hugging Face Hub. An empty `split` is the training part, an empty `revision` the newest one."""

    kind: Literal["hub"] = "hub"
    name: str
    config: str = ""
    split: str = ""
    revision: str = ""

    @property
    def shown(self) -> str:
        """As people write it."""
        config, split = self.config and f"/{self.config}", self.split and f":{self.split}"
        return f"hf:{self.name}{config}{split}{self.revision and f'@{self.revision}'}"


class KaggleSource(Value):
    """A data set of Kaggle; `member` is which file of it. Version 0 is the newest one."""

    kind: Literal["kaggle"] = "kaggle"
    name: str
    member: str = ""
    version: int = 0

    @property
    def shown(self) -> str:
        """As people write it."""
        return f"kaggle:{self.name}{self.member and f'/{self.member}'}{f'@{self.version}' if self.version else ''}"


class PathSource(Value):
    """A file or a folder on a host, in a folder that the host allows; an empty `host` is any."""

    kind: Literal["path"] = "path"
    path: str
    host: str = ""

    @property
    def shown(self) -> str:
        """As people write it."""
        return f"{self.host}:{self.path}" if self.host else self.path


Source = Annotated[WebSource | HubSource | KaggleSource | PathSource, Field(discriminator="kind")]

_ENDING = rf"\.(?:{'|'.join(DATA_ENDINGS)})(?:\.gz)?"
_SLUG = r"[A-Za-z0-9][\w.-]*"
_HUB = re.compile(
    rf"hf:(?://datasets/)?(?P<name>{_SLUG}(?:/{_SLUG})?)(?:/(?P<config>[\w.-]+))?(?::(?P<split>\w+))?(?:@(?P<revision>[\w./-]+))?"
)
_KAGGLE = re.compile(rf"kaggle:(?P<name>{_SLUG}/{_SLUG})(?:/(?P<member>[^@\s]+))?(?:@(?P<version>\d+))?")
_PATH = re.compile(rf"(?:(?P<host>[a-z0-9][a-z0-9-]*):)?(?P<path>/(?:[^\s/]+/)*[^\s/]+{_ENDING})")
_FOLDER = re.compile(r"(?P<host>[a-z0-9][a-z0-9-]+):(?P<path>/(?:[^\s/]+/)*[^\s/]+)/?")
_WEB = re.compile(r"https?://[^\s<>\"|]+")
_WITH_HOST = r"[a-z0-9][a-z0-9-]+:/[^\s/][^\s]*"
_ANY = re.compile(
    rf"(?<![\w:/.])(?:{_WEB.pattern}|hf:[^\s<>\"]+|kaggle:[^\s<>\"]+|{_PATH.pattern}(?![\w/])|{_WITH_HOST})"
)
_HUB_PAGE = re.compile(rf"/datasets/(?P<name>{_SLUG}(?:/{_SLUG})?)(?:/(?:viewer|tree)/(?P<rest>[^?#]+))?/?$")
_HUB_FILE = re.compile(r"/(?:blob|resolve|raw)/")
_KAGGLE_PAGE = re.compile(rf"/datasets/(?P<name>{_SLUG}/{_SLUG})")


def source_of(text: str) -> Source:
    """Read an address. Raises `BadRequest`: it is none; the text says what is."""
    address = text.strip().strip("<>`")
    if found := _HUB.fullmatch(address):
        return HubSource(**_said(found))
    if found := _KAGGLE.fullmatch(address):
        said = _said(found)
        return KaggleSource(name=said["name"], member=said.get("member", ""), version=int(said.get("version", "0")))
    if found := _PATH.fullmatch(address) or _FOLDER.fullmatch(address):
        return PathSource(**_said(found))
    if _WEB.fullmatch(address):
        return _of_web(address)
    raise BadRequest(f"`{address[:200]}` is no address of data. Give {FORMS}.")


def stands_in(address: str, text: str) -> bool:
    """Whether this whole address stands in a text."""
    return address.strip().strip("<>`") in {word.rstrip(".,;:!?") for word in re.split(r"[\s<>|`\"'“”()]+", text)}


def address_in(text: str) -> str | None:
    """The first address of data in a sentence; a link to a page that is no data is none."""
    for found in _ANY.finditer(text):
        address = found.group().rstrip(".,;:!?)'”’")
        try:
            source = source_of(address)
        except BadRequest:
            continue
        if not isinstance(source, WebSource) or re.search(rf"{_ENDING}$", source.member or urlsplit(source.url).path):
            return address
    return None


def _said(found: re.Match[str]) -> dict[str, str]:
    return {name: text for name, text in found.groupdict().items() if text}


def _of_web(address: str) -> Source:
    parts = urlsplit(address)
    host = (parts.hostname or "").lower().removeprefix("www.")
    if host in {"huggingface.co", "hf.co"} and (page := _HUB_PAGE.match(parts.path)):
        rest = (page["rest"] or "").strip("/").split("/")
        if "/viewer/" in parts.path:  # …/viewer/<config>/<split>
            config, split = (*rest, "", "")[:2]
            return HubSource(name=page["name"], config="" if config == "default" else config, split=split)
        return HubSource(name=page["name"], revision=rest[0])
    if host in {"huggingface.co", "hf.co"}:
        return WebSource(url=_HUB_FILE.sub("/resolve/", address, count=1))
    if host == "kaggle.com" and (page := _KAGGLE_PAGE.match(parts.path)):
        return KaggleSource(name=page["name"])
    if host == "github.com" and "/blob/" in parts.path:
        raw = parts.path.replace("/blob/", "/", 1)
        return WebSource(url=f"https://raw.githubusercontent.com{raw}")
    return WebSource(url=address.partition("#")[0], member=unquote(parts.fragment))
