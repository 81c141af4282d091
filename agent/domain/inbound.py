"""Where something was said, by whom, and what came with it."""

import unicodedata
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from agent.domain.value import Value

Platform = Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]  # the name of a package in `bot`
_MOST_CHARS = 100  # of a name; platforms allow 32 to 255


class Thread(Value):
    """A place that answers go to. `thread` is empty for what was said outside any thread."""

    platform: Platform
    tenant: str
    channel: str
    thread_id: str = ""

    @property
    def key(self) -> str:
        """One string for the whole address."""
        return "/".join((self.platform, self.tenant, self.channel, self.thread_id))

    @property
    def channel_key(self) -> str:
        """One string for the channel that the thread is in."""
        return "/".join((self.platform, self.tenant, self.channel))


def one_line(text: str) -> str:
    """A name that somebody chose, as one line of at most 100 characters: its beginning, and its end with the ending.

    Control characters and marks that turn the direction of writing are left out.
    """
    clean = " ".join("".join(sign for sign in text if unicodedata.category(sign)[0] != "C" or sign.isspace()).split())
    return clean if len(clean) <= _MOST_CHARS else f"{clean[: _MOST_CHARS - 31]}…{clean[-30:]}"


Name = Annotated[str, AfterValidator(one_line)]


class Person(Value):
    """Who said it. Identity is (platform, tenant, id); the name is for display only."""

    platform: Platform
    tenant: str
    id: str
    name: Name = ""
    external: bool = False  # a guest of another organisation (Slack Connect)

    @property
    def shown(self) -> str:
        """How others know them."""
        return self.name or self.id

    @property
    def key(self) -> str:
        """One string for the identity."""
        return "/".join((self.platform, self.tenant, self.id))


class Attachment(Value):
    """A file that came with a message; `locator` is what its own adapter needs to fetch it, and holds no secret."""

    id: str
    name: Name
    size_bytes: int
    media_type: str = ""
    locator: str = ""


class Said(Value):
    """Words to the bot, in a thread or starting one."""

    kind: Literal["said"] = "said"
    text: str
    attachments: tuple[Attachment, ...] = ()


class Commanded(Value):
    """`/train status r-abc123`, `!train status` or `@bot status`: `words` is what follows the name."""

    kind: Literal["commanded"] = "commanded"
    words: tuple[str, ...]


class Clicked(Value):
    """A button: what it does, what it is about, the digest of what its card showed, and the text of its dialog."""

    kind: Literal["clicked"] = "clicked"
    action: str
    subject: str
    digest: str = ""
    text: str = ""


class Noticed(Value):
    """Not a person but the monitor: something new shows in the rows or the log of `run`.

    `text` is what a model is told of it, with rows and log lines quoted as data; `finding` its kind. Such a turn may
    look and ask for approvals, and change nothing by itself. The inbound's person is who asked for the run.
    """

    kind: Literal["noticed"] = "noticed"
    run: str
    finding: str
    text: str


class Away(Value):
    """When the bot could not hear people."""

    since: datetime
    until: datetime


class Inbound(Value):
    """One thing that a person did, as it is stored in the inbox before it is acknowledged.

    `event_id` is the platform's id of this delivery; `twin` is a second key under which the same act may
    arrive again with another event id (Slack's `message` and `app_mention`), empty if there is none.
    `to_others` says that it replies to somebody else's message.
    `reply_handle` is the adapter's own token for a private answer (Slack's response_url, a Discord interaction).
    `mentions_bot` is false for thread replies that do not name the bot. `secrets` are the kinds of secrets that were
    taken out of its words before it was stored. `away` is set for what was said while the bot was away, and read back.
    `version` is that of the union of acts: an older bot does not read a newer one's.
    """

    version: Literal[1] = 1
    event_id: str
    twin: str = ""
    thread: Thread
    person: Person
    act: Annotated[Said | Commanded | Clicked | Noticed, Field(discriminator="kind")]
    mentions_bot: bool = True
    to_others: bool = False
    reply_handle: str = ""
    away: Away | None = None
    secrets: tuple[str, ...] = ()
    at: datetime

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, value: Any) -> Any:
        return _renamed(value, "room", "thread")


def _renamed(value: Any, old: str, new: str) -> Any:
    """A stored value of a version that called one field otherwise."""
    if isinstance(value, dict) and old in value and new not in value:
        return {new if name == old else name: part for name, part in value.items()}
    return value
