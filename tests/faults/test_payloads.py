"""Rows 9, 11, 12, 15: training scripts end in every way that they know, and each gets its class and its sentence."""

import json

import pytest

from agent.domain.runs import ExitClass
from tests.faults.site import CANARIES, Site, eventually
from tests.worker.conftest import processes_naming

C = ExitClass
OF_A_STEP = {"TRAINYARD_RUN_DIR", "TRAINYARD_RUN_ID", "TRAINYARD_ATTEMPT", "TRAINYARD_SUPERVISED"}
# seed of payloads/exits.py -> (class, words of the reason, tried again by itself)
WAYS = {
    1: (C.USER_ERROR, "exit code 1", False),
    3: (C.USER_ERROR, "exit code 3", False),
    9: (C.KILLED, "SIGKILL", False),
    11: (C.USER_ERROR, "SIGSEGV", False),
    15: (C.PREEMPTED, "SIGTERM", True),
    101: (C.CUDA_OOM, "out of memory", False),
    102: (C.NCCL, "NCCL", True),
    103: (C.CUDA_FAULT, "device-side assert", True),
    104: (C.HOST_OOM, "ran out of memory", False),
    105: (C.DISK_FULL, "disk is full", False),
}


DEATHS = (1, 3, 9, 11)


@pytest.fixture(scope="module")
def dead(shared_site: Site) -> dict[int, str]:
    """One run for each death, all at once; by seed."""
    return {seed: shared_site.create("exits", seed=seed) for seed in DEATHS}


@pytest.fixture(scope="module")
def judged(shared_site: Site) -> dict[int, str]:
    """One run for each way whose last words decide, all at once; by seed."""
    return {seed: shared_site.create("exits", seed=seed) for seed in WAYS if seed not in DEATHS}


@pytest.mark.parametrize("seed", DEATHS)
def test_row_09_a_payload_dies(site: Site, dead: dict[int, str], seed: int) -> None:
    outcome = site.ends(dead[seed], limit_s=120)
    wanted, words, _ = WAYS[seed]
    assert (outcome["state"], outcome["exit_class"]) == ("failed", wanted.value), outcome
    assert words in outcome["reason"]
    assert outcome["exit_code"] == {9: -9, 11: -11}.get(seed, seed)
    assert len(site.attempts(dead[seed])) == 1, "what is wrong with the program is not tried again blindly"


@pytest.mark.faults
@pytest.mark.parametrize("seed", [15, 101, 102, 103, 104, 105])
def test_row_11_last_words_decide_the_class(site: Site, judged: dict[int, str], seed: int) -> None:
    run, (wanted, words, again) = judged[seed], WAYS[seed]
    with site.explained(run):
        eventually(lambda: _first_outcome(site, run), limit_s=120, what=f"the end of attempt 1 of {run}")
    outcome = _first_outcome(site, run)
    assert outcome["exit_class"] == wanted.value, outcome
    assert words in outcome["reason"]
    final = site.ends(run, limit_s=120)
    assert final["exit_class"] == wanted.value
    assert (len(site.attempts(run)) > 1) == again, "only classes where it helps are tried again, and not for ever"
    assert len(site.attempts(run)) <= 4


@pytest.mark.faults
def test_row_12_a_loss_that_is_no_number(site: Site) -> None:
    stopped = site.create("nan")
    outcome = site.ends(stopped)
    assert (outcome["state"], outcome["exit_class"]) == ("failed", "diverged"), outcome
    assert len(site.attempts(stopped)) == 1
    goes_on = site.create("nan", on_nan="go_on")
    site.progresses(goes_on, beyond=10)
    assert "is over" not in site.order_bot("stop", run=goes_on).get("error", "")
    assert site.ends(goes_on)["state"] == "stopped"


@pytest.mark.faults
def test_row_15_a_payload_that_ignores_sigterm(site: Site) -> None:
    run = site.create("stubborn")
    site.progresses(run, beyond=0)
    site.order_bot("stop", run=run)
    outcome = site.ends(run)
    assert outcome["state"] == "stopped", outcome
    assert not processes_naming(f"TRAINYARD_RUN_DIR={site.folder(run).path}")
    told = site.rows("SELECT text FROM note WHERE run_id = ?", run)
    assert "kill" in json.dumps([outcome, told]).lower(), "people are told that it had to be killed"


def _first_outcome(site: Site, run: str) -> dict[str, object]:
    rows = site.attempts(run)
    return json.loads(rows[0]["outcome"]) if rows and rows[0]["outcome"] else {}  # type: ignore[no-any-return]


def test_row_09_a_payload_finds_nothing_of_its_host(site: Site) -> None:
    run = site.create("leaky")
    assert site.ends(run)["state"] == "succeeded"
    lines = [line[4:] for line in site.folder(run).log.read_text().splitlines() if line.startswith("ENV ")]
    found = dict(line.split("=", 1) for line in lines)
    assert found["TRAINYARD_RUN_ID"] == run
    assert {name for name in found if name.startswith("TRAINYARD_")} <= OF_A_STEP
    assert not set(CANARIES) & set(found)
    assert not {"TRAINYARD_REDIS_URL", "TRAINYARD_HOME"} & set(found), "the host's own settings stay on the host"
