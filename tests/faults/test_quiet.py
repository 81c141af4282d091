"""Rows 13 and 14: what hangs is ended and shows where it stood; what is only slow is left alone."""

import json

import pytest

from tests.faults.site import Site

QUIET = {"TRAINYARD_QUIET_S": "3", "TRAINYARD_FIRST_STEP_QUIET_S": "3", "TRAINYARD_QUIET_MEDIAN_STEPS": "8"}


@pytest.mark.faults
@pytest.mark.parametrize("how", ["deadlock", "sleep"])
def test_row_13_a_run_that_hangs(own_site: Site, how: str) -> None:
    own_site.extra = QUIET
    own_site.start_worker()
    own_site.start_bot()
    asleep = (
        "import time\nfrom worker.recipes.prelude import start\nstart()\ndef stuck():\n    time.sleep(600)\nstuck()\n"
    )
    run = own_site.create("deadlock" if how == "deadlock" else asleep)
    outcome = own_site.ends(run, limit_s=120)
    assert (outcome["state"], outcome["exit_class"]) == ("failed", "hang"), outcome
    assert ("in hold" if how == "deadlock" else "in stuck") in "\n".join(outcome["traceback"])
    attempts = own_site.attempts(run)
    assert 1 < len(attempts) <= 4, "a hang is tried again, and not for ever"
    assert all(json.loads(row["outcome"])["exit_class"] == "hang" for row in attempts)


@pytest.mark.faults
def test_row_14_a_run_that_is_only_slow(own_site: Site) -> None:
    own_site.extra = QUIET
    own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("slow")
    assert own_site.ends(run, limit_s=90)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1
