"""Carries one attempt from Accepted to Ended.

Owns the order of things and the outcome. Knows no Celery. Entered by `worker.supervisor.__main__` with the lock held.
The outcome is on disk before it is sent, and this process stays until Redis has it, or leaves that to the sweep.
"""

import logging
import os
import shutil
import signal
import time
from collections.abc import Sequence

from agent.domain.errors import AppError
from agent.domain.events import Accepted, Ended
from agent.domain.orders import LaunchOrder
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import decode, encode
from worker.client.blobs import BlobStore, make_blobs
from worker.folders import HostFolder, RunFolder, write_atomically
from worker.processes import adopt_orphans, boot_id
from worker.sandbox import choose_tier
from worker.sender import Sender, note_sent
from worker.settings import Settings
from worker.spool import Spool
from worker.supervisor import outputs
from worker.supervisor.exits import failed
from worker.supervisor.stage import Stage, StepFailed
from worker.supervisor.steps import steps_for
from worker.supervisor.wishes import Wishes

_SECOND_TRY_S = 5.0

log = logging.getLogger(__name__)


def supervise(folder: RunFolder, attempt: int, *, asked: Sequence[int], lock: int) -> int:
    """Run the attempt to its end; the process's exit code. `asked` holds the SIGTERMs that came before we listen."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    adopt_orphans()
    settings = Settings()
    order = decode(LaunchOrder, folder.order.read_bytes())
    wishes = Wishes(folder, attempt, max_s=order.spec.max_hours * 3600)
    signal.signal(signal.SIGTERM, wishes.on_term)
    if asked:
        wishes.on_term()
    wishes.look()
    spool = Spool(folder.spool, run=order.run, attempt=attempt, host=settings.host_id)
    sender = Sender(spool, redis_url=settings.redis_url, flush_s=settings.flush_s)
    spool.append(Accepted(boot_id=boot_id()))
    sender.start()
    outcome = _Attempt(folder, order, settings, spool, wishes).run()
    _finish(folder, spool, outcome)
    if sender.close(limit_s=settings.send_limit_s):
        note_sent(folder, attempt, seq=spool.seq, epoch=sender.epoch, done=False)
    else:
        log.warning("unsent_left_to_sweep run=%s", order.run)
    os.close(lock)
    return 0


def _finish(folder: RunFolder, spool: Spool, outcome: Outcome) -> None:
    """Write the outcome, then spool it. A full disk gets a second chance with the data of the run removed."""
    try:
        write_atomically(folder.outcome, encode(outcome))
        spool.append(Ended(outcome=outcome))
    except OSError:
        log.exception("outcome_unwritten run=%s", folder.run)
        shutil.rmtree(folder.path / "data", ignore_errors=True)
        time.sleep(_SECOND_TRY_S)
        write_atomically(folder.outcome, encode(outcome))
        spool.append(Ended(outcome=outcome))
    log.info("attempt_ended run=%s attempt=%d state=%s", folder.run, spool.attempt, outcome.state.value)


class _Attempt:
    """One attempt's work. Every way out of `run` is an `Outcome`."""

    def __init__(self, folder: RunFolder, order: LaunchOrder, settings: Settings, spool: Spool, wishes: Wishes) -> None:
        self._folder, self._order, self._settings, self._wishes = folder, order, settings, wishes
        self._began = time.monotonic()
        self._blobs: BlobStore = make_blobs(
            settings.blobs,
            home=settings.home,
            redis_url=settings.redis_url,
            cache=HostFolder.of(settings.home, settings.host_id).blobs,
        )
        self._stage = Stage(folder, order, settings, spool, wishes)

    def run(self) -> Outcome:
        """Do all steps; never raises."""
        try:
            outcome = self._work()
        except StepFailed as error:
            outcome = error.outcome
        except AppError as error:
            outcome = failed(ExitClass.BAD_DATA, error.text)
        except outputs.BadOutput as error:
            outcome = failed(ExitClass.USER_ERROR, str(error))
        except OSError as error:
            log.exception("attempt_broke run=%s", self._order.run)
            outcome = _from_os_error(error)
        except Exception:
            log.exception("attempt_broke run=%s", self._order.run)
            outcome = failed(
                ExitClass.USER_ERROR,
                f"The supervisor on {self._order.host} broke. Its log is {self._folder.path}/supervisor.log.",
            )
        self._stage.close()
        return outcome.model_copy(update={"seconds": round(time.monotonic() - self._began, 3)})

    def _work(self) -> Outcome:
        if self._wishes.ending:
            return self._wishes.outcome()
        self._lay_out()
        tier = choose_tier(self._settings.sandbox)
        for step in steps_for(self._folder):
            self._stage.run(step, tier=tier)
            if step.trains and (why := outputs.check_training(self._folder.path)):
                return failed(ExitClass.USER_ERROR, why, code=0)
        scorecard = outputs.read_scorecard(self._folder.path)
        artifact = outputs.pack_artifact(self._folder.path, self._blobs, name=f"{self._order.run}.tar")
        return Outcome(
            state=RunState.SUCCEEDED,
            exit_code=0,
            scorecard=scorecard,
            artifact=artifact,
            chosen=outputs.read_chosen(self._folder.path),
        )

    def _lay_out(self) -> None:
        """The bundle, the data and the configuration."""
        spec, path = self._order.spec, self._folder.path
        outputs.clear(path)
        outputs.unpack_bundle(self._blobs.get_file(spec.bundle_sha256), path)
        (path / "data").mkdir()
        shutil.copyfile(self._blobs.get_file(spec.dataset.sha256), path / "data" / "source.csv")
        self._folder.sealed.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = f'{{"run":"{self._order.run}","spec":{spec.model_dump_json()},"data":"data/source.csv"}}'
        write_atomically(path / "config.json", config.encode())


def _from_os_error(error: OSError) -> Outcome:
    if error.errno == 28:
        return failed(ExitClass.DISK_FULL, "The host's disk is full. Free some space, then start again.")
    return failed(ExitClass.USER_ERROR, f"The host could not start this run: {error}")
