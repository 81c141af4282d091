"""The systemd units: a stopped worker leaves its runs alone, and the walls let bubblewrap build its own."""

from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# Each of these keeps bubblewrap from its namespaces, mounts or /proc, the GPUs from CUDA, or /tmp from a detached run.
BREAKS_RUNS = {
    "RestrictNamespaces", "SystemCallFilter", "PrivateUsers", "PrivateDevices", "DevicePolicy", "DeviceAllow",
    "ProtectClock", "ProtectProc", "ProcSubset", "ProtectKernelTunables", "ProtectKernelLogs", "PrivateTmp",
    "RuntimeDirectory", "MemoryDenyWriteExecute",
}  # fmt: skip


def read(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_again_for_ever_as_a_user_of_its_own(unit):
    found = read(unit)

    assert found["Restart"] == ["always"]
    assert found["StartLimitIntervalSec"] == ["0"]
    assert found["User"] == [unit.stem.removesuffix("-bot")]
    assert found["NoNewPrivileges"] == ["yes"]
    assert f"/var/lib/{found['StateDirectory'][0]}" == found["WorkingDirectory"][0]
    assert f"TRAINYARD_HOME={found['WorkingDirectory'][0]}" in found["Environment"][0].split()


def test_stopping_the_worker_stops_the_worker_only():
    found = read(DEPLOY / "systemd/trainyard-worker.service")

    assert found["KillMode"] == ["process"]
    assert found["OOMPolicy"] == ["continue"]


def test_the_workers_walls_let_bubblewrap_and_gpus_through():
    assert not BREAKS_RUNS & set(read(DEPLOY / "systemd/trainyard-worker.service"))


def test_the_bot_and_the_worker_are_different_users_with_files_of_their_own():
    bot, worker = (read(DEPLOY / f"systemd/trainyard-{name}.service") for name in ("bot", "worker"))

    assert bot["User"] != worker["User"]
    assert bot["EnvironmentFile"] != worker["EnvironmentFile"]
    assert bot["ExecStart"] == ["/opt/trainyard/.venv/bin/trainyard bot"]
    assert worker["ExecStart"] == ["/opt/trainyard/.venv/bin/python -m worker"]
