"""The Celery tasks of a host: short, harmless when repeated, one JSON string each.

Owns decoding, time limits and the form of answers; what they do stands in `worker.launches.launching` and
`worker.scripts`. Registered by `worker.app`. An error that is not an `AppError` is logged here, with an id for people:
this is an edge.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from agent.domain.errors import BadData
from agent.domain.orders import FetchOrder, InspectOrder, LaunchOrder, LookOrder, PredictOrder, StopOrder
from agent.domain.value import Value
from agent.wire import Malformed, decode
from worker import consuming
from worker.client.answers import answered
from worker.fetching.fetcher import Fetcher
from worker.folders import HostFolder
from worker.launches import looking
from worker.launches.launching import Launcher
from worker.launches.signatures import require_signature
from worker.scripts import Scripts
from worker.settings import Settings

Question = TypeVar("Question", InspectOrder, PredictOrder, FetchOrder, LookOrder)

_SPARE_S = 10  # for unpacking and downloads around a script's own limit

log = logging.getLogger(__name__)


def register(app: Celery, launcher: Launcher, scripts: Scripts, fetcher: Fetcher, settings: Settings) -> None:
    """Give `app` the tasks of a host."""

    def check(order: InspectOrder | PredictOrder | FetchOrder | LookOrder) -> None:
        home = HostFolder.of(settings.home, settings.host_id)
        require_signature(order, settings.public_key_path, host=settings.host_id, home=home)

    @app.task(name="trainyard.launch")  # type: ignore[untyped-decorator]
    def launch(text: str) -> None:
        _act("launch", lambda: launcher.launch(decode(LaunchOrder, text)))

    @app.task(name="trainyard.stop")  # type: ignore[untyped-decorator]
    def stop(text: str) -> None:
        _act("stop", lambda: launcher.stop(decode(StopOrder, text)))

    @app.task(name="trainyard.noop")  # type: ignore[untyped-decorator]
    def noop(text: str = "") -> None:
        del text
        consuming.note(HostFolder.of(settings.home, settings.host_id))

    @app.task(name="trainyard.look", ignore_result=False)  # type: ignore[untyped-decorator]
    def look(text: str) -> dict[str, Any]:
        def looked() -> Value:
            order = _checked(decode(LookOrder, text), check)
            return looking.look(HostFolder.of(settings.home, settings.host_id), order.label, log_after=order.log_after)

        return _answered("look", looked)

    limits = _limits(settings.inspect_limit_s)

    @app.task(name="trainyard.inspect", ignore_result=False, **limits)  # type: ignore[untyped-decorator]
    def inspect(text: str) -> dict[str, Any]:
        return _answered("inspect", lambda: scripts.inspect(_checked(decode(InspectOrder, text), check)))

    limits = _limits(settings.predict_limit_s)

    @app.task(name="trainyard.predict", ignore_result=False, **limits)  # type: ignore[untyped-decorator]
    def predict(text: str) -> dict[str, Any]:
        return _answered("predict", lambda: scripts.predict(_checked(decode(PredictOrder, text), check)))

    limits = _limits(settings.fetch_limit_s)

    @app.task(name="trainyard.fetch", ignore_result=False, **limits)  # type: ignore[untyped-decorator]
    def fetch(text: str) -> dict[str, Any]:
        return _answered("fetch", lambda: fetcher.fetch(_checked(decode(FetchOrder, text), check)))


def _checked(order: Question, check: Callable[[Question], None]) -> Question:
    check(order)
    return order


def _limits(script_s: float) -> dict[str, float]:
    return {"soft_time_limit": script_s + _SPARE_S, "time_limit": script_s + 2 * _SPARE_S}


def _act(name: str, act: Callable[[], str]) -> None:
    try:
        log.info("%s_done word=%s", name, act())
    except Malformed as error:
        log.warning("%s_malformed why=%s raw=%r", name, error, error.raw[:200])
    except Exception:
        log.exception("%s_broke", name)


def _answered(name: str, act: Callable[[], Value]) -> dict[str, Any]:
    def in_time() -> Value:
        try:
            return act()
        except SoftTimeLimitExceeded:
            raise BadData("The host needed too long for this and gave up. Try with fewer rows.") from None

    return answered(name, in_time)
