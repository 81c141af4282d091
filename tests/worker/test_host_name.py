"""A host's name belongs to one worker at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent.domain.errors import Conflict
from tests.worker.conftest import Yard
from worker.folders import HostFolder
from worker.host.host_name import HostName


async def test_a_second_worker_of_the_same_name_is_refused(yard: Yard) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "worker"], env=yard.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1].startswith(f"Another worker serves as host “{yard.host}” from ")
    assert "TRAINYARD_HOST_ID" in second.stderr


async def test_a_worker_of_another_machine_is_refused_until_the_first_one_is_gone(yard: Yard, tmp_path: Path) -> None:
    first, other = (HostName("twin", tmp_path / name, yard.server.url) for name in ("first", "other"))
    first.take()
    with pytest.raises(Conflict, match="on the machine"):
        other.take()
    first.release()
    other.take()


async def test_the_same_machine_takes_its_name_again_after_a_crash(yard: Yard) -> None:
    worker = yard.workers[-1]
    worker.kill()  # its key stays
    worker.wait()
    again = HostName(yard.host, HostFolder.of(yard.home, yard.host).path, yard.server.url)
    again.take()
    again.release()
