"""`python -m worker.engines.local.act VERB`: carries out one order on this machine, and ends.

The order is JSON on standard input, the answer (`worker.client.answers`) JSON on standard output. Started by
`worker.engines.local.machine`; what it starts itself, supervisors, outlives it.
"""

import json
import logging
import sys
from collections.abc import Callable

from agent.domain.orders import AttemptLabel, FetchOrder, HostInfo, InspectOrder, LaunchOrder, PredictOrder, StopOrder
from agent.domain.value import Value
from agent.wire import decode
from worker.client.answers import Done, answered
from worker.client.blobs import make_blobs
from worker.folders import HostFolder
from worker.host import secrets
from worker.host.disk import disk_is_low
from worker.host.hostbeat import HostBeat
from worker.host.limits import limits_of
from worker.launches.launching import Launcher
from worker.launches.sweep import Sweep
from worker.sandbox import choose_tier, networks_of
from worker.scripts import Scripts
from worker.settings import Settings


class Local:
    """What can be asked of this machine."""

    def __init__(self, settings: Settings) -> None:
        """Raises `NoSandbox` where no sandbox works that the settings allow."""
        self._settings = settings
        self._tier = settings.tier or choose_tier(settings.sandbox)
        self._home = HostFolder.of(settings.home, settings.host_id)
        self._home.path.mkdir(parents=True, exist_ok=True)
        self._blobs = make_blobs(
            settings.blobs, home=settings.home, redis_url=settings.redis_url, cache=self._home.blobs
        )

    def describe(self, _raw: bytes) -> HostInfo:
        """What this machine has; its GPUs are asked once."""
        settings, home = self._settings, self._home
        beat = HostBeat(
            settings.host_id,
            home=settings.home,
            redis_url=settings.redis_url,
            tier=self._tier,
            slots=settings.slots,
            networks=networks_of(self._tier),
            disk_low=lambda: disk_is_low(
                home.path, floor_bytes=settings.disk_floor_bytes, floor_share=settings.disk_floor_share
            ),
            secrets=lambda: secrets.names(settings.home),
            limits=lambda gpus, of_gpus: limits_of(settings, gpus=gpus, of_gpus=of_gpus),
        )
        beat.look()
        return beat.info().model_copy(update={"engine": "local"})

    def launch(self, raw: bytes) -> Done:
        """Start an attempt, unless it was begun."""
        return Done(word=self._launcher().launch(decode(LaunchOrder, raw)))

    def cancel(self, raw: bytes) -> Done:
        """Tell an attempt to end."""
        return Done(word=self._launcher().stop(decode(StopOrder, raw)))

    def sweep(self, raw: bytes) -> Done:
        """Write the end of an attempt whose supervisor died."""
        folder = self._home.run(decode(AttemptLabel, raw).run)
        lost = Sweep(self._home, host=self._settings.host_id, redis_url="").look_at(folder)
        return Done(word="lost" if lost else "")

    def inspect(self, raw: bytes) -> Value:
        """Audit a file."""
        return self._scripts().inspect(decode(InspectOrder, raw))

    def predict(self, raw: bytes) -> Value:
        """Predict with a finished model."""
        return self._scripts().predict(decode(PredictOrder, raw))

    def fetch(self, raw: bytes) -> Value:
        """Fetch data that nobody attached."""
        from worker.fetching.fetcher import Fetcher  # noqa: PLC0415 - no other order pays for a client of HTTP

        fetcher = Fetcher(self._blobs, self._settings, rows=self._scripts().rows, home=self._home.path)
        return fetcher.fetch(decode(FetchOrder, raw))

    def _launcher(self) -> Launcher:
        return Launcher(self._settings, self._blobs, tier=self._tier)

    def _scripts(self) -> Scripts:
        limits = {"inspect_s": self._settings.inspect_limit_s, "predict_s": self._settings.predict_limit_s}
        return Scripts(self._blobs, self._home, tier=self._tier, **limits)


def main() -> None:
    """Answer one order."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    verb, raw = sys.argv[1], sys.stdin.buffer.read()

    def carried_out() -> Value:
        act: Callable[[bytes], Value] = getattr(Local(Settings()), verb)
        return act(raw)

    sys.stdout.write(json.dumps(answered(verb, carried_out)))


if __name__ == "__main__":
    main()
