"""Which host a plan names, so that its card shows where a run goes and behind which walls.

`place`, `connected` and `ledger` ask engine and database; the rest is pure. The queue decides for good when the run
starts; another host with the same walls may take it then.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from agent.domain.datasets import DataReport
from agent.domain.errors import BadRequest, Unavailable
from agent.domain.orders import HostInfo, Limits
from agent.domain.runs import Network, RunSpec
from agent.domain.tasks import TASKS, TaskType
from agent.ports import Engine, HostDirectory
from agent.runs.engines import Engines
from agent.runs.queue.fair import FOREIGN_BYTES
from agent.stores import Runs

_LOOK_S = 0.3


@dataclass(frozen=True, slots=True)
class Ledger:
    """What we know of the hosts' GPUs, by uuid: the run that holds one, and why one gets no runs."""

    held: Mapping[str, str]
    cordoned: Mapping[str, str]

    def usable(self, host: HostInfo) -> int:
        """How many of its GPUs are in order."""
        return sum(1 for gpu in host.gpus if not gpu.sick and gpu.uuid not in self.cordoned)

    def free(self, host: HostInfo) -> int:
        """How many of them nobody has now, of ours or of others."""
        return sum(
            1
            for gpu in host.gpus
            if not gpu.sick
            and gpu.uuid not in self.cordoned
            and gpu.uuid not in self.held
            and gpu.foreign_bytes <= FOREIGN_BYTES
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the run of a plan goes first, and what it gets there."""

    engine: Engine
    host: HostInfo
    gpus: int
    network: Network

    @property
    def limits(self) -> Limits | None:
        """What such a run may take of the host, where that says it."""
        return self.host.limits_with(self.gpus)

    def priced(self, spec: RunSpec) -> RunSpec:
        """The specification with the name of the engine, and what that charges."""
        named = spec.model_copy(update={"engine": self.engine.name})
        return named.model_copy(update={"price_usd": self.engine.price(named)})


async def place(  # noqa: PLR0913 - one argument for each thing that a place must keep to
    engines: Engines,
    runs: Runs,
    *,
    engine: str | None,
    host: str | None,
    gpus: int | None,
    network: Network | None = None,
    secrets: Sequence[str] = (),
    task: TaskType | None = None,
    preferred_host: str = "",
) -> Placement:
    """The place that can keep to what was asked. Where nobody said, `task` decides the GPUs and the hosts the network.

    Raises:
        BadRequest, NotFound: there is no such engine or host, or none can do it.
        Unavailable: no host is there.
    """
    chosen = engines.named(engine)
    hosts, known = await connected(chosen.hosts), await ledger(runs)
    if gpus is None:
        gpus = default_gpus(task, hosts, known) if task else 0
    policy = network or default_network(hosts)
    found = choose_host(
        hosts,
        [attempt.host for _, attempt in await runs.live()],
        known,
        gpus=gpus,
        network=policy,
        secrets=secrets,
        wanted=host,
        preferred_host=preferred_host,
    )
    return Placement(chosen.engine, found, gpus, policy)


def estimate_s(report: DataReport, spec: RunSpec, host: HostInfo) -> float:
    """Rough training time from the size of the data and what the settings ask for. `report` is the plan's."""
    pace, cores = TASKS[str(spec.task)].pace, 2 / max(1, min(host.cpus, 8))
    rows_s = pace.row_s * report.rows * (pace.on_gpu if spec.gpus else cores)
    work_s = (rows_s + pace.cell_s * report.rows * len(report.columns) * cores) * report.effort
    minutes = float(str(spec.settings.get("minutes") or 0))  # of a search, which ends then at the latest
    return pace.base_s + (min(work_s, 60 * minutes) if minutes else work_s)


async def connected(directory: HostDirectory) -> Sequence[HostInfo]:
    """The hosts, once the worker of this machine has started. Raises `Unavailable` where there is none."""
    while not (hosts := await directory.hosts()):
        if not directory.starting:
            raise Unavailable(directory.nobody())
        await asyncio.sleep(_LOOK_S)
    return hosts


async def ledger(runs: Runs) -> Ledger:
    """Leases and cordons as they are now."""
    held = {lease.uuid: lease.run for lease in await runs.leases()}
    return Ledger(held, {cordon.uuid: cordon.reason for cordon in await runs.cordons()})


def choose_host(  # noqa: PLR0913 - one argument for each thing that a host must keep to
    hosts: Sequence[HostInfo],
    busy: Sequence[str],
    known: Ledger,
    *,
    gpus: int = 0,
    network: Network | None = None,
    secrets: Sequence[str] = (),
    wanted: str | None = None,
    preferred_host: str = "",
) -> HostInfo:
    """The connected host that can keep to what was asked: that takes runs, with enough free GPUs, the fewest live runs.

    `busy` holds the host of each live run. `network` None: nobody said. `secrets` are names. `wanted` is a host
    that was named, `preferred_host` one that is taken where it is as good.

    Raises:
        BadRequest: none can do it; the text says what they have.
    """
    if wanted is not None:
        hosts = [host for host in hosts if host.host == wanted] or _missing(wanted, hosts)
    able = [host for host in hosts if known.usable(host) >= gpus]
    if not able:
        has = ", ".join(f"{host.host} has {known.usable(host)}" for host in hosts)
        raise BadRequest(f"No connected host has {gpus} GPU{'s' if gpus > 1 else ''} in order: {has}.")
    if network is not None:
        able = [host for host in able if network in host.networks] or _cannot(network, able)
    able = [host for host in able if not lacking(host, secrets)] or _unknown(secrets, able)

    def order(host: HostInfo) -> tuple[bool, bool, int, bool, int, str]:
        full = known.free(host) < gpus
        return bool(host.shut), full, busy.count(host.host), host.host != preferred_host, -host.cpus, host.host

    return min(able, key=order)


def default_network(hosts: Sequence[HostInfo]) -> Network:
    """The strictest policy that a connected host can keep to; `open`, which the card then says, where none can."""
    return "none" if not hosts or any("none" in host.networks for host in hosts) else "open"


def default_gpus(task: TaskType, hosts: Sequence[HostInfo], known: Ledger) -> int:
    """One GPU where the recipe is quicker on one and a host has one that nobody uses; else none."""
    return 1 if TASKS[task].uses_gpu and any(known.free(host) for host in hosts) else 0


def _missing(wanted: str, hosts: Sequence[HostInfo]) -> NoReturn:
    raise BadRequest(f"There is no host `{wanted}` connected. Connected: {', '.join(host.host for host in hosts)}.")


def lacking(host: HostInfo, secrets: Sequence[str]) -> list[str]:
    """The names of `secrets` that a host says it does not keep."""
    return [name for name in secrets if host.secrets is not None and name not in host.secrets]


def _unknown(secrets: Sequence[str], hosts: Sequence[HostInfo]) -> NoReturn:
    wanted = ", ".join(f"`{name}`" for name in secrets)
    keeps = "; ".join(f"{host.host}: {', '.join(host.secrets or ()) or 'none'}" for host in hosts)
    raise BadRequest(
        f"No connected host that could run this keeps the {'secret' if len(secrets) == 1 else 'secrets'} {wanted} "
        f"(they keep: {keeps}). Put each value into a file of that name in `secrets/` of Trainyard's folder on "
        "the host (chmod 600), or leave it out."
    )


def _cannot(network: Network, hosts: Sequence[HostInfo]) -> NoReturn:
    can = "; ".join(f"{host.host}: {', '.join(host.networks)}" for host in hosts)
    raise BadRequest(f"No connected host can keep to the network policy `{network}` ({can}).")
