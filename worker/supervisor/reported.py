"""Takes what a training shows of itself (`pictures/NAME.json`) into the store of files, while it runs and at its end.

Owns which pictures were reported already. Distrusts every byte: no link is followed, no pipe waited for, sizes and
counts are bounded, texts lose secrets, of images the head is read and nothing decoded. What is refused is a line that
people can read, once for each content. Reading and storing are in a thread, so that a store that is away holds up
nobody. Used by `worker.supervisor.records`.
"""

import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent.domain.errors import AppError
from agent.domain.events import Pictured
from agent.domain.pictures import (
    LIMIT_BYTES,
    MOST_PICTURES,
    MOST_PIXELS,
    MOST_SIDE,
    Images,
    PictureName,
    Reported,
)
from agent.domain.redaction import Redactor
from agent.wire import encode
from trainyard.images import image_size
from trainyard.pictures import FOLDER
from worker.client.blobs import BlobStore, make_blobs
from worker.folders import HostFolder
from worker.reporting.spool import attempt_of
from worker.settings import Settings

LOOK_EVERY_S = 3.0
_AGAIN_S, _AGAIN_SHARE = 10.0, 0.02  # a name is taken again after this long, longer the longer the attempt runs
_WHILE_RUNNING_BYTES = 256 * 1024**2  # of an attempt; what is there at its end is taken beyond that
_MOST_VALUES = 50_000  # of one picture, lists among them: some 9,000 are the most that one can have
_MOST_ENTRIES = 1_000  # of the folder that are looked at
_FINISH_S = 15.0
_SAID = 300  # characters

_NO_TEXTS = frozenset({"origin", "kind", "guide", "marks", "state", "better"})  # fixed words
_NAME: TypeAdapter[str] = TypeAdapter(PictureName)

log = logging.getLogger(__name__)


class Refused(Exception):
    """A file cannot be shown; the message says why."""


@dataclass(slots=True)
class Found:
    """What a look found: pictures that are in the store, and lines for people."""

    reported: list[Pictured] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class PictureWatch:
    """Tells each picture once it is in the store, and again when it has changed."""

    def __init__(
        self, folder: Path, *, store: Callable[[], BlobStore], secrets: Sequence[str], reported: dict[str, str]
    ) -> None:
        """`reported`: the sha256 of what earlier attempts did, by name; `store` is asked when there is a picture."""
        self._folder, self._store, self._secrets = folder, store, secrets
        self._reported = reported
        self._blobs: BlobStore | None = None
        self._stamps: dict[str, tuple[int, int, int]] = {}
        self._taken_at: dict[str, float] = {}
        self._began = time.monotonic()
        self._looked_at = float("-inf")
        self._bytes = 0
        self._said: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._looking: Future[Found] | None = None

    def take(self) -> Found:
        """What was found since the last call; begins the next look when it is time. Never waits."""
        found = Found()
        if self._looking is not None and self._looking.done():
            found, self._looking = _result(self._looking), None
        now = time.monotonic()
        if self._looking is None and now - self._looked_at >= LOOK_EVERY_S and self._is_there():
            self._looked_at = now
            self._looking = self._thread().submit(self.look)
        return found

    def finish(self, limit_s: float = _FINISH_S) -> Found:
        """A last look, which takes everything; a line instead where the store does not answer within `limit_s`."""
        found = Found()
        self._looked_at = float("inf")  # no look follows
        if self._looking is None and not self._is_there():
            return found
        last = self._thread().submit(self.look, at_end=True)
        running = [one for one in (self._looking, last) if one is not None]
        for done in sorted(wait(running, timeout=limit_s).done, key=running.index):
            found.reported += _result(done).reported
            found.said += _result(done).said
        if not last.done():
            last.cancel()
            found.said.append("its last pictures are not kept: the store of files does not answer")
        self._thread().shutdown(wait=False)
        self._looking = self._pool = None
        return found

    def look(self, *, at_end: bool = False) -> Found:
        """Take what is new, of each name what is there now; what cannot be stored now waits for the next look."""
        found = Found()
        try:
            folder = os.open(self._folder / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return found
        try:
            names = _names(folder)
            known = sorted(names, key=lambda name: (name not in self._reported, name))
            if len(names) > MOST_PICTURES:
                self._say(found, f"{len(names)} pictures are too many; {MOST_PICTURES} are shown")
            for name in known[:MOST_PICTURES]:
                self._look_at(folder, name, found, at_end=at_end)
        except AppError as error:  # the store is away: each name would wait for it anew
            log.warning("pictures_wait folder=%s why=%s", self._folder, error)
            if at_end:
                self._say(found, f"its last pictures are not kept: {error}")
        except OSError as error:
            log.warning("no_pictures folder=%s why=%s", self._folder, error)
        finally:
            os.close(folder)
        return found

    def _look_at(self, folder: int, name: str, found: Found, *, at_end: bool) -> None:
        """Take one picture if it is new. Raises: AppError, and it is taken by a later look."""
        clean = _cleaner(self._secrets)
        try:
            if clean(name) != name:
                raise Refused("its name is a secret")  # noqa: TRY301 - every refusal is said in one place
            stamp, data = self._read(folder, name, at_end=at_end)
            if data is None:
                return
            self._stamps[name], self._taken_at[name] = stamp, time.monotonic()  # refused once for each content
            reported = checked(data, clean)
            self._keep(reported, name, found)
        except (Refused, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._say(found, f"picture {clean(name)} is not shown: {clean(why or type(error).__name__)[:_SAID]}")
        except AppError:
            del self._stamps[name], self._taken_at[name]
            raise

    def _read(self, folder: int, name: str, *, at_end: bool) -> tuple[tuple[int, int, int], bytes | None]:
        """Its stamp, and its bytes where it is new and its time has come. Raises: OSError, Refused."""
        file = os.open(f"{name}.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            about = os.fstat(file)
            stamp = about.st_ino, about.st_mtime_ns, about.st_size
            if not stat.S_ISREG(about.st_mode):
                raise Refused("it is no plain file")
            if self._stamps.get(name) == stamp or not (at_end or self._is_time(name)):
                return stamp, None
            with os.fdopen(file, "rb", closefd=False) as opened:
                data = opened.read(LIMIT_BYTES + 1)
        finally:
            os.close(file)
        if len(data) > LIMIT_BYTES:
            raise Refused(f"it is larger than {LIMIT_BYTES:,} bytes")
        return stamp, data

    def _is_time(self, name: str) -> bool:
        now = time.monotonic()
        if self._bytes > _WHILE_RUNNING_BYTES:
            return False
        return now - self._taken_at.get(name, float("-inf")) >= _AGAIN_S + _AGAIN_SHARE * (now - self._began)

    def _keep(self, reported: Reported, name: str, found: Found) -> None:
        """Into the store, and reported if that is news. Raises: OSError, AppError."""
        if self._blobs is None:
            self._blobs = self._store()
        data = encode(reported)
        self._bytes += len(data)
        sha256 = self._blobs.put_bytes(data, name=f"{self._folder.name}.{name}.json").sha256
        if self._reported.get(name) != sha256:
            self._reported[name] = sha256
            found.reported.append(Pictured(name=name, form=reported.picture.kind, step=reported.step, sha256=sha256))

    def _say(self, found: Found, text: str) -> None:
        if text not in self._said and len(self._said) < 2 * MOST_PICTURES:
            self._said.add(text)
            found.said.append(text)

    def _is_there(self) -> bool:
        try:
            return stat.S_ISDIR((self._folder / FOLDER).lstat().st_mode)
        except OSError:
            return False

    def _thread(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="pictures")
        return self._pool


def checked(data: bytes, clean: Callable[[str], str]) -> Reported:
    """A picture from the bytes of its file, its texts passed through `clean`. Raises: Refused."""
    try:
        found = json.loads(data)
        _require_few(found)
        reported = Reported.model_validate(found)  # before its texts are gone through: they are few then
        reported = Reported.model_validate(_cleaned(reported.model_dump(), clean))
    except ValidationError as error:
        raise Refused(_first(error)) from error
    except (ValueError, RecursionError, OverflowError) as error:
        raise Refused(f"it is not such JSON ({str(error)[:_SAID]})") from error
    if isinstance(reported.picture, Images):
        for number, tile in enumerate(reported.picture.tiles, 1):
            _check_image(tile.image, number)
    return reported


def _require_few(found: object) -> None:
    """A million wrong values are a million errors, which take a gigabyte. Raises: Refused."""
    waiting, count = [found], 0
    while waiting:
        one = waiting.pop()
        inside = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
        count += len(inside)
        if count > _MOST_VALUES:
            raise Refused(f"it holds more than {_MOST_VALUES:,} values")
        waiting += inside


def store_of_host() -> BlobStore:
    """The store of files that the host's settings name."""
    settings = Settings()
    cache = HostFolder.of(settings.home, settings.host_id).blobs
    return make_blobs(settings.blobs, home=settings.home, redis_url=settings.redis_url, cache=cache)


def reported_in(spools: Iterable[Path]) -> dict[str, str]:
    """The sha256 of the newest picture of each name in the spools of a run's attempts."""
    found: dict[str, str] = {}
    for path in sorted(spools, key=attempt_of):
        with path.open("rb") as file:
            for line in file:
                if b'"kind":"pictured"' not in line:
                    continue
                try:
                    body = json.loads(line)["body"]
                    found[str(body["name"])] = str(body["sha256"])
                except (ValueError, RecursionError, KeyError, TypeError):  # torn
                    continue
    return found


def _result(done: "Future[Found]") -> Found:
    """What a look found; nothing, and a line in our own log, where it broke: no picture is worth an attempt."""
    try:
        return done.result()
    except Exception:
        log.exception("pictures_broke")
        return Found()


def _cleaner(secrets: Sequence[str]) -> Callable[[str], str]:
    """Takes secrets out of the texts of one file; also one that was cut off where its text ends."""
    redactor = Redactor(secrets)

    def clean(text: str) -> str:
        *lines, last = text.split("\n")
        end = "…" if last.endswith("…") else ""
        kept = [redactor.line(line.encode()) for line in lines]
        kept.append(redactor.line(last.removesuffix("…").encode(), cut=True))
        return b"\n".join(kept).decode(errors="replace") + end

    return clean


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        found = [entry.name for entry in islice(entries, _MOST_ENTRIES)]
    return [name for one in found if _is_name(name := one.removesuffix(".json")) and name != one]


def _is_name(text: str) -> bool:
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def _check_image(image: bytes, number: int) -> None:
    size = image_size(image)
    if size is None:
        raise Refused(f"image {number} is neither a PNG nor a JPEG")
    if not (min(size) > 0 and max(size) <= MOST_SIDE and size[0] * size[1] <= MOST_PIXELS):
        raise Refused(f"image {number} has {size[0]:,} × {size[1]:,} pixels; {MOST_PIXELS:,} are the most")


def _cleaned(found: object, clean: Callable[[str], str], key: str = "") -> object:
    match found:
        case str():
            return found if key in _NO_TEXTS else clean(found)[: len(found)]
        case tuple():
            return [_cleaned(one, clean, key) for one in found]
        case dict():
            return {name: _cleaned(one, clean, name) for name, one in found.items()}
        case _:
            return found


def _first(error: ValidationError) -> str:
    """What is wrong, and where."""
    one = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in one["loc"])[:100]
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {one['msg']}{more}" if where else f"{one['msg']}{more}"
