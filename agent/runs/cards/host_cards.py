"""The cards of the hosts and of the queue, built from values. Pure; lines, not wide tables, for a phone's width."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from agent.cards import counted, duration, gpus_words, priority_words, sandbox_words, size
from agent.domain.content import Card, Table
from agent.domain.orders import GpuInfo, HostInfo
from agent.domain.runs import Attempt, Run
from agent.runs.queue.scheduling import Waiting

SHOWN_IN_QUEUE = 10


def cluster_card(
    hosts: Sequence[HostInfo],
    live: Sequence[tuple[Run, Attempt]],
    *,
    held: Mapping[str, str],
    cordoned: Mapping[str, str],
    queue: Sequence[Waiting],
    gone: Sequence[str] = (),
) -> Card:
    """Every host with its GPUs, who has them and what is wrong with them, and who waits. Both maps are by GPU uuid.

    `gone` are sentences about hosts that are not there.
    """
    parts = [*(_host(host, live, held, cordoned) for host in hosts), *gone]
    if queue:
        parts.append("**Queue**\n" + "\n".join(_waits(waiting) for waiting in queue[:SHOWN_IN_QUEUE]))
        if len(queue) > SHOWN_IN_QUEUE:
            parts.append(f"and {len(queue) - SHOWN_IN_QUEUE} more")
    trouble = any(host.shut or host.alert or any(gpu.sick for gpu in host.gpus) for host in hosts)
    gpus = sum(len(host.gpus) for host in hosts)
    return Card(
        kind="notice",
        title=f"Cluster: {counted(len(hosts), 'host')}, {counted(gpus, 'GPU')}",
        tone="warn" if trouble or cordoned or gone else "neutral",
        body="\n\n".join(parts),
        footer=f"{len(live)} running, {len(queue)} waiting",
    )


def gone_words(host: HostInfo, now: datetime) -> str:
    """When a host was heard last that is not there any more."""
    return f"**{host.host}** does not answer · last seen {duration(max(0.0, (now - host.at).total_seconds()))} ago"


def _host(
    host: HostInfo, live: Sequence[tuple[Run, Attempt]], held: Mapping[str, str], cordoned: Mapping[str, str]
) -> str:
    on_cpu = [run.id for run, attempt in live if attempt.host == host.host and not attempt.gpus]
    lines = [f"**{host.host}** · {host.cpus} CPUs, {size(host.memory_bytes)}{_models(host.gpus)}"]
    if host.shut:
        lines.append(f"- **it takes no new runs now**: {host.shut}")
    if host.alert:
        lines.append(f"- **{host.alert}**")
    lines += [_gpu(gpu, held, cordoned) for gpu in sorted(host.gpus, key=lambda gpu: gpu.index)]
    lines.append(f"- CPU slots: {len(on_cpu)} of {host.slots} in use" + (f" ({', '.join(on_cpu)})" if on_cpu else ""))
    lines.append(f"- disk: {size(host.disk_free_bytes)} free")
    lines.append(f"- sandbox: {sandbox_words(host.sandbox)}; network: {', '.join(host.networks)}")
    if host.secrets:
        lines.append(f"- secrets: {', '.join(host.secrets)}")
    if host.warm:
        lines.append(f"- warm: {', '.join(host.warm)}")
    return "\n".join(lines)


def _gpu(gpu: GpuInfo, held: Mapping[str, str], cordoned: Mapping[str, str]) -> str:
    who = held.get(gpu.uuid)
    bad = gpu.sick or cordoned.get(gpu.uuid, "")
    if bad:
        state = f"**cordoned**: {bad}" + (f" ({who} still has it)" if who else "")
    elif who:
        state = who
    elif gpu.foreign_bytes:
        state = "used by others"
    else:
        state = "free"
    if bad or not (gpu.used_bytes or gpu.busy):
        return f"- GPU {gpu.index}: {state}"
    others = f" ({size(gpu.foreign_bytes)} by others)" if gpu.foreign_bytes and who else ""
    return f"- GPU {gpu.index}: {state}, {gpu.busy:.0%} busy, {size(gpu.used_bytes)} in use{others}"


def _models(gpus: Sequence[GpuInfo]) -> str:
    """`, 4 × H100 80GB HBM3 (85.0 GB)`."""
    kinds = Counter((gpu.name.removeprefix("NVIDIA "), gpu.memory_bytes) for gpu in gpus)
    return "".join(f", {count} × {name} ({size(memory)})" for (name, memory), count in kinds.items())


def _waits(waiting: Waiting) -> str:
    run = waiting.run
    urgent = f", {priority_words(run.priority)} priority" if run.priority else ""
    return f"{waiting.position}. {run.id} ({gpus_words(run.spec.gpus)}{urgent}): {waiting.why}"


def queue_card(queue: Sequence[Waiting]) -> Card:
    """Who waits, in the order in which they start, and why."""
    rows = tuple(
        (str(waiting.position), waiting.run.id, priority_words(waiting.run.priority), waiting.why) for waiting in queue
    )
    return Card(
        kind="notice",
        title=f"Queue: {len(queue)} waiting",
        table=Table(columns=("#", "run", "priority", "why it waits"), rows=rows),
        footer="Move one with: priority <run> high, normal or low",
    )
