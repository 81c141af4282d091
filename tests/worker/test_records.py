"""Spool, metrics and log on their own: no gaps, no halves, no floods."""

import errno
import fcntl
import json
import math
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.domain.events import Beat, Ended, Started
from agent.domain.runs import ExitClass, Outcome, RunState
from trainyard.metrics import last_step
from worker.folders import HostFolder, write_atomically
from worker.launches.sweep import _boot_of as boot_of
from worker.reporting.sender import sent_notes
from worker.reporting.spool import Spool, attempt_of, has_ended, last_seq, lines_between, offset_after
from worker.supervisor import follow
from worker.supervisor import records as records_module
from worker.supervisor.attempt import from_os_error
from worker.supervisor.capture import LINE_BYTES, Bucket, Capture
from worker.supervisor.checkpoints import CheckpointWatch, newest_step
from worker.supervisor.exits import Death, classify, traceback_tail
from worker.supervisor.follow import ROWS, MetaWatch, MetricsTail, rows_in
from worker.supervisor.outputs import read_chosen, read_error, read_notes
from worker.supervisor.records import Records
from worker.supervisor.stop_reasons import StopReasons


def spool_at(path: Path) -> Spool:
    return Spool(path, run="r-1", attempt=2, host="h1")


def test_a_spool_numbers_without_gaps_over_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    spool = spool_at(path)
    assert [spool.append(Beat()) for _ in range(3)] == [1, 2, 3]
    spool.close()
    with path.open("ab") as file:
        file.write(b'{"run": "r-1", "att')
    again = spool_at(path)
    assert (again.seq, again.last_kind) == (3, "beat")
    again.append(Ended(outcome=Outcome(state=RunState.LOST)))
    again.close()
    assert (last_seq(path), attempt_of(path), spool_at(path).last_kind) == (4, 2, "ended")
    assert path.read_bytes().count(b"\n") == 4


def test_a_spool_says_that_its_attempt_is_over_where_its_last_whole_line_does(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    assert not has_ended(path)
    spool = spool_at(path)
    assert not has_ended(path)
    spool.append(Beat())
    assert not has_ended(path)
    spool.append(Ended(outcome=Outcome(state=RunState.LOST)))
    spool.close()
    assert has_ended(path)
    with path.open("ab") as file:
        file.write(b'{"run": "r-1", "att')
    assert not has_ended(path)
    path.write_bytes(b"[]\n")
    assert not has_ended(path)


def test_a_spool_is_read_in_whole_lines(tmp_path: Path) -> None:
    spool = spool_at(tmp_path / "spool.jsonl")
    for _ in range(5):
        spool.append(Beat())
    end = spool.sync()
    first, after = lines_between(spool.path, 0, end, limit=3)
    rest, last = lines_between(spool.path, after, end, limit=3)
    assert (len(first), len(rest), last) == (3, 2, end)
    assert offset_after(spool.path, 3) == after
    assert offset_after(spool.path, 0) == 0


def row(step: int, loss: str = "1.0") -> str:
    return f'{{"step":{step},"at":1.5,"values":{{"loss":{loss}}}}}\n'


def test_a_half_written_row_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert tail.take() is None
    whole = row(1) + row(2)
    for cut in range(len(whole) + 1):
        path.write_text(whole[:cut])
        found = tail.take()
        steps = [one.step for one in found.rows] if found else []
        assert steps == {len(row(1)): [1], len(whole): [2]}.get(cut, [])


def test_a_torn_row_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    path.write_text('{"step": 1, "at\n' + row(2) + "\n[]\n" + row(3, '"NaN"'))
    found = tail.take()
    assert found is not None
    assert [one.step for one in found.rows] == [2, 3]
    assert math.isnan(found.rows[1].values["loss"])
    assert (tail.malformed, tail.bad_losses) == (2, 1)


def test_rows_come_in_batches_and_an_earlier_attempts_rows_do_not_come(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(row(0))
    tail = MetricsTail(path)
    with path.open("a") as file:
        file.writelines(row(step) for step in range(1, 2 * ROWS + 2))
    sizes = []
    while (found := tail.take()) is not None:
        sizes.append(len(found.rows))
    assert sizes == [ROWS, ROWS, 1]
    assert tail.rows_seen == 2 * ROWS + 1


def test_a_start_is_noticed_once(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    path.write_text('{"model": "old", "total_steps": 1}')
    watch = MetaWatch(path)
    assert watch.take() is None
    write_atomically(path, b'{"model": "new", "tot')
    assert watch.take() is None
    write_atomically(path, b'{"model": "new", "total_steps": null}')
    assert watch.take() == Started(model="new", total_steps=None)
    write_atomically(path, b'{"model": "newer", "total_steps": 4}')
    assert watch.take() is None


def test_output_is_a_sign_of_life_though_no_line_ends(tmp_path: Path) -> None:
    folder = HostFolder.of(tmp_path, "h1").run("r-dots000")
    folder.path.mkdir(parents=True)
    records = Records(folder, spool_at(folder.spool), secrets=())
    reading, writing = os.pipe()
    before = records.signs()
    for _ in range(3):
        os.write(writing, b".")
        records.capture.pump(reading, wait_s=30)
        assert records.signs() != before
        before = records.signs()
    records.capture.say("a line of ours")
    assert records.signs() == before
    os.close(reading)
    os.close(writing)
    records.close()


def test_no_secret_is_kept_in_the_name_of_a_metric_or_a_model(tmp_path: Path) -> None:
    granted, known = "canaryGranted4mNs81LwQz90TrUvXy", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    folder = HostFolder.of(tmp_path, "h1").run("r-names00")
    folder.path.mkdir(parents=True)
    records = Records(folder, spool_at(folder.spool), secrets=(granted,))
    write_atomically(folder.path / "meta.json", json.dumps({"model": f"net {granted}", "total_steps": 2}).encode())
    names = (f"loss_{granted}", f"{'long' * 99} {known}", "-----BEGIN PRIVATE KEY-----", "loss")
    values = json.dumps(dict.fromkeys(names, 1.0))
    rows = [f'{{"step": {step}, "at": 1.0, "values": {values}}}\n' for step in range(2)]
    (folder.path / "metrics.jsonl").write_text("".join(rows))
    records.flush()
    records.close()
    started, measured = (json.loads(line)["body"] for line in folder.spool.read_text().splitlines())
    assert started["model"] == "net [secret: granted]"
    clean = ["loss_[secret: granted]", f"{'long' * 99} [secret: huggingface]", "[secret: private-key]", "loss"]
    assert [list(measured_row["values"]) for measured_row in measured["rows"]] == [clean, clean]


def test_names_of_metrics_are_looked_at_once(tmp_path: Path) -> None:
    looked: list[str] = []
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path, clean=lambda name: looked.append(name) or name)
    path.write_text("".join(row(step) for step in range(100)))
    found = tail.take()
    assert found is not None
    assert len(found.rows) == 100
    assert looked == ["loss"]


DEEP = b"[" * 60_000


def test_nesting_without_end_is_read_as_nothing(tmp_path: Path) -> None:
    """All these files are the payload's; what they hold must not end who watches it."""
    folder = HostFolder.of(tmp_path, "h1").run("r-deep000")
    (folder.path / "artifacts").mkdir(parents=True)
    records = Records(folder, spool_at(folder.spool), secrets=())
    for name in ("meta.json", "error.json", "artifacts/config.json", "metrics.jsonl"):
        (folder.path / name).write_bytes(DEEP)
    assert records.status() == ""
    assert read_error(folder.path)[0] is ExitClass.BAD_DATA
    assert read_chosen(folder.path) == ""
    assert read_notes(folder.path) == ()
    records.flush()
    records.close()
    assert b'"started"' not in folder.spool.read_bytes()


def test_notes_of_an_attempt_that_nest_without_end_are_read_as_none(tmp_path: Path) -> None:
    """Where no sandbox keeps it out, a training can write these too; the worker that sweeps its host goes on."""
    folder = HostFolder.of(tmp_path, "h1").run("r-deep000")
    folder.path.mkdir(parents=True)
    for path in (folder.sent, folder.supervisor, folder.spool, folder.path / "metrics.jsonl"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(DEEP + b"\n")
    assert sent_notes(folder) == {}
    assert boot_of(folder) == ""
    assert last_step(folder.path / "metrics.jsonl") is None
    assert not has_ended(folder.spool)
    with pytest.raises(ValueError, match="nested"):
        last_seq(folder.spool)


@pytest.mark.parametrize(("code", "gone"), [(errno.EIO, False), (errno.EACCES, False), (errno.ESTALE, True)])
def test_a_folder_that_does_not_answer_is_not_taken_for_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, gone: bool
) -> None:
    folder = HostFolder.of(tmp_path, "h1").run("r-away000")
    folder.path.mkdir(parents=True)
    lock = os.open(folder.lock, os.O_CREAT | os.O_RDWR)
    stop_reasons = StopReasons(folder, 1, max_s=60, lock=lock)
    assert not stop_reasons.removed

    def fails(_fd: int) -> os.stat_result:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", fails)
        removed = stop_reasons.removed
    os.close(lock)
    assert removed is gone


def captured(tmp_path: Path, data: bytes, *, secrets: Sequence[str] = ()) -> Capture:
    reading, writing = os.pipe()
    capture = Capture(tmp_path / "output.log", secrets=secrets)
    if os.fork() == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as file:
            file.write(data)
        os._exit(0)
    os.close(writing)
    while capture.pump(reading, wait_s=30):
        pass
    capture.drain(reading, limit_s=30)
    os.close(reading)
    os.wait()
    return capture


def test_a_long_line_is_split(tmp_path: Path) -> None:
    capture = captured(tmp_path, b"x" * (3 * LINE_BYTES + 5) + b"\nlast without an end")
    lines = (tmp_path / "output.log").read_bytes().split(b"\n")
    assert [len(line) for line in lines[:4]] == [LINE_BYTES, LINE_BYTES, LINE_BYTES, 5]
    assert lines[4] == b"last without an end"
    assert capture.tail.rstrip().endswith("last without an end")


@pytest.mark.parametrize("length", [40, 3 * 4096, 60_000])
@pytest.mark.parametrize("where", ["over the cut", "at a death"])
def test_no_part_of_a_secret_is_kept_where_a_line_is_cut(tmp_path: Path, length: int, where: str) -> None:
    """Where a long line is split, and where whoever wrote it died in the middle of the secret."""
    secret = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=length))
    before = b"x" * (LINE_BYTES - length // 2)
    data = before + secret.encode() + b"\n" if where == "over the cut" else b"x " + secret[:-1].encode()
    capture = captured(tmp_path, data, secrets=[secret])
    kept = (tmp_path / "output.log").read_text()
    logged = capture.take()
    assert logged is not None
    assert "[secret: granted]" in kept.replace("\n", "")
    for text in (kept, "\n".join(logged.lines), capture.tail):
        assert not any(secret[at : at + 12] in text for at in range(0, length - 12, 6))


def test_progress_bars_and_binary_become_lines(tmp_path: Path) -> None:
    capture = captured(tmp_path, b"10%\r20%\r\ndone\x1b[0m \xff\n")
    logged = capture.take()
    assert logged is not None
    assert logged.lines == ("10%", "20%", "done\ufffd[0m \ufffd")
    assert capture.take() is None


def test_what_is_over_the_rate_is_counted(tmp_path: Path) -> None:
    count = 3000
    capture = captured(tmp_path, b"y" * 9_999 + b"\n" + b"z\n" * count)
    logged = capture.take()
    assert logged is not None
    assert len(logged.lines) + logged.dropped == count + 1
    assert logged.dropped > 0


def rate_of_file(monkeypatch: pytest.MonkeyPatch, *, rate: int, burst: int) -> None:
    """So that a slow machine is over it too."""
    monkeypatch.setattr("worker.supervisor.capture._FILE_RATE", rate)
    monkeypatch.setattr("worker.supervisor.capture._FILE_BURST", burst)


NOISE = {
    "lines": b"step 12 loss 0.4567 lr 1e-4 hf_none grad 0.44\n",
    "no breaks": b"loss 0.45 [####   ] https://h.example/x @",
    "progress bars": b"\r 12%|###    | 12/100 [00:12<10:22, 12.34it/s, loss=0.4]",
    "halves of tokens": b"-eyJaaaaaaaaaa",
}


@pytest.mark.parametrize("kind", NOISE)
def test_what_is_dropped_costs_next_to_nothing(tmp_path: Path, kind: str) -> None:
    """In processor time: what is kept is searched for secrets, what is over the rate only counted."""
    piece = (NOISE[kind] * 2**20)[: 2**20]
    capture = Capture(tmp_path / "output.log", secrets=["a-secret-of-this-run"])
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, len(piece))
    spent = []
    for _ in range(80):
        os.write(writing, piece)
        began = time.thread_time()
        capture.pump(reading, wait_s=30)
        spent.append(time.thread_time() - began)
    os.close(reading)
    os.close(writing)
    capture.take()
    assert min(spent[8:]) < min(spent[:8]) / 4
    assert sum(spent[:8]) < 1000 * sum(sorted(spent[8:])[:8])  # and to search takes no quadratic time
    logged = capture.take()
    assert capture.bytes_seen == 80 * 2**20
    assert "left out: the script prints too much" in (tmp_path / "output.log").read_text()
    assert logged is None


def test_no_secret_is_kept_where_lines_were_left_out(tmp_path: Path) -> None:
    """The first half of a line, or of a private key, is dropped; the second would be kept by its time."""
    key = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 4
    capture = Capture(tmp_path / "output.log", secrets=["a-secret-of-this-run"])
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 2**20)

    def told(data: bytes, *, dropped: bool) -> None:
        capture._file_bucket = Bucket(1, 1 if dropped else 2**20)
        os.write(writing, data)
        capture.pump(reading, wait_s=30)

    told(b"before\nx a-secret-", dropped=False)
    told(b"of-this", dropped=True)
    told(b"-run and on\nnext\n", dropped=False)
    told(b"left out\n" + key[:9], dropped=True)
    told(key[9:60], dropped=True)
    told(key[60:80], dropped=True)
    told(key[80:] + b"and after it\n", dropped=False)
    capture.drain(reading, limit_s=30)
    logged = capture.take()
    os.close(reading)
    os.close(writing)
    kept = (tmp_path / "output.log").read_text()
    assert logged is not None
    assert logged.dropped == 5  # one that held a secret, one left out, three of the key
    for text in (kept, "\n".join(logged.lines), capture.tail):
        assert not re.search("a-secret|this-run|MIIE|9w0B", text)
        assert {"next", "and after it"} <= set(text.split("\n"))


@pytest.mark.parametrize("end", [b"\n", b""])
def test_what_is_printed_last_is_kept_however_much_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    rate_of_file(monkeypatch, rate=1, burst=2**18)
    lines = 50_000
    capture = captured(tmp_path, b"a line of forty bytes, more or less, yes\n" * lines + b"final score 0.91" + end)
    logged = capture.take()
    kept = "".join(path.read_text() for path in sorted(tmp_path.glob("output.log*"), reverse=True))
    assert kept.endswith("\nfinal score 0.91\n")
    left_out = sum(int(count) for count in re.findall(r"\[trainyard\] (\d+) lines? left out", kept))
    written = kept.count("\n") - kept.count("[trainyard]")
    assert left_out > 0
    assert written + left_out == lines + 1
    assert logged is not None
    assert len(logged.lines) + logged.dropped == lines + 1


def test_the_count_of_dropped_lines_stands_where_they_would(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    capture = Capture(tmp_path / "output.log")
    for data, burst in ((b"first\n", 2**20), (b"lost\nlost\n", 1), (b"last\n", 2**20)):
        capture._file_bucket = Bucket(1, burst)
        os.write(writing, data)
        capture.pump(reading, wait_s=30)
    capture.take()
    os.close(reading)
    os.close(writing)
    note = "[trainyard] 2 lines left out: the script prints too much"
    assert (tmp_path / "output.log").read_text().splitlines() == ["first", note, "last"]


def test_the_tail_begins_after_the_key_that_was_printed_before(tmp_path: Path) -> None:
    key = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 90
    capture = captured(tmp_path, b"a line\n" * 40_000 + key + b"k." * 30 * 1024 + b"\nlast.")
    assert len(capture.tail) < 80 * 1024
    assert "MIIE" not in capture.tail
    assert capture.tail.endswith("k.\nlast.")


@pytest.mark.parametrize(
    ("code", "tail", "oom", "expected"),
    [
        (-9, "", True, ExitClass.HOST_OOM),
        (137, "", False, ExitClass.KILLED),
        (75, "", False, ExitClass.PREEMPTED),
        (-11, "", False, ExitClass.USER_ERROR),
        (1, "OSError: [Errno 28] No space left on device", False, ExitClass.DISK_FULL),
        (1, "torch.OutOfMemoryError: CUDA out of memory.", False, ExitClass.CUDA_OOM),
        (1, "Watchdog caught collective operation timeout", False, ExitClass.NCCL),
        (-6, "RuntimeError: CUDA error: device-side assert triggered", False, ExitClass.CUDA_FAULT),
        (1, "Traceback (most recent call last):\n  x\nKeyError: 'age'", False, ExitClass.USER_ERROR),
        (1, "numpy.core._exceptions.MemoryError: Unable to allocate", False, ExitClass.HOST_OOM),
        (3, "", False, ExitClass.USER_ERROR),
    ],
)
def test_last_words_become_a_class_and_a_sentence(code: int, tail: str, oom: bool, expected: ExitClass) -> None:
    outcome = classify(Death(step="Training (train.py)", code=code, tail=tail, oom=oom))
    assert (outcome.state, outcome.exit_class, outcome.exit_code) == (RunState.FAILED, expected, code)
    assert outcome.reason


def test_of_a_log_the_last_traceback_is_kept() -> None:
    block = ["Traceback (most recent call last):", *[f"  line {n}" for n in range(30)], "ValueError: no"]
    kept = traceback_tail("\n".join(["Traceback (most recent call last):", "old", "noise", *block]))
    assert len(kept) == 15
    assert kept[-1] == "ValueError: no"
    assert "old" not in kept


def test_only_names_become_folders(tmp_path: Path) -> None:
    home = HostFolder(tmp_path)
    assert home.run("r-abc123").path == tmp_path / "runs" / "r-abc123"
    for name in ("", ".", "..", "../x", "a/b", "a" * 65, "-x"):
        with pytest.raises(ValueError, match="not a run id"):
            home.run(name)


def test_a_step_that_no_database_holds_is_no_row(tmp_path: Path) -> None:
    """The bot could not store it, nor the two hundred rows that came with it."""
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    path.write_text(row(1) + row(2**63) + row(-(2**63) - 1) + row(10**30) + row(2**63 - 1))
    found = tail.take()
    assert found is not None
    assert [one.step for one in found.rows] == [1, 2**63 - 1]
    assert tail.malformed == 3


def test_an_end_that_no_database_holds_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    watch = MetaWatch(path)
    write_atomically(path, b'{"model": "new", "total_steps": 99999999999999999999}')
    assert watch.take() == Started(model="new", total_steps=None)


def test_a_checkpoint_of_a_step_that_no_database_holds_is_none(tmp_path: Path) -> None:
    watch = CheckpointWatch(tmp_path)
    for step in (3, 2**63, 99999999999999999999):
        (tmp_path / "checkpoints" / f"step_{step}").mkdir(parents=True)
        (tmp_path / "checkpoints" / f"step_{step}" / "weights").write_bytes(b"w")
    assert [saved.step for saved in watch.take()] == [3]
    assert newest_step(tmp_path) == 3


def test_a_look_ends_while_rows_go_on_and_the_end_takes_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script can write faster than anybody reads, and still has to be watched."""
    monkeypatch.setattr(records_module, "_ROWS_S", 0.0)
    folder = HostFolder.of(tmp_path, "h1").run("r-fast000")
    folder.path.mkdir(parents=True)
    records = Records(folder, spool_at(folder.spool), secrets=())
    path = folder.path / "metrics.jsonl"
    path.write_text("".join(row(step) for step in range(10 * ROWS)))
    records.flush()
    assert rows_in(folder.spools()) == ROWS
    records.step_ended()
    assert rows_in(folder.spools()) == 10 * ROWS
    records.close()


def test_what_is_left_is_not_read_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_TAKE_S", 0.0)
    monkeypatch.setattr(records_module, "_CATCH_UP_S", 0.0)
    monkeypatch.setattr(records_module, "_BEAT_S", 0.0)
    folder = HostFolder.of(tmp_path, "h1").run("r-junk000")
    folder.path.mkdir(parents=True)
    records = Records(folder, spool_at(folder.spool), secrets=())
    (folder.path / "metrics.jsonl").write_text("".join(row(step) for step in range(3)) + "no row\n" * 200_000)
    records.step_ended()
    records.close()
    assert rows_in(folder.spools()) == 3
    assert "the rest of metrics.jsonl is not read" in folder.log.read_text()
    assert b'"kind":"beat"' in folder.spool.read_bytes()


def test_a_quota_that_is_used_up_is_a_full_disk() -> None:
    said = f"Traceback (most recent call last):\nOSError: [Errno {errno.EDQUOT}] {os.strerror(errno.EDQUOT)}: 'model'"
    assert classify(Death(step="Training", code=1, tail=said)).exit_class is ExitClass.DISK_FULL
    for number in (errno.EDQUOT, errno.ENOSPC):
        assert from_os_error(OSError(number, os.strerror(number))).exit_class is ExitClass.DISK_FULL
    assert from_os_error(PermissionError(errno.EACCES, "no")).exit_class is ExitClass.USER_ERROR


def test_a_log_that_cannot_be_rotated_is_written_on(tmp_path: Path) -> None:
    """A folder in the place of an older log, or of the log itself: the training goes on, and so does the file."""
    capture = Capture(tmp_path / "output.log", file_bytes=200, files=3)
    (tmp_path / "output.log.1" / "deep").mkdir(parents=True)
    for number in range(20):
        capture.say(f"line {number} of twenty")
    capture.close()
    kept = "".join(path.read_text() for path in tmp_path.glob("output.log*") if path.is_file())
    assert "line 19 of twenty" in kept
    logged = capture.take()
    assert logged is not None
    assert len(logged.lines) == 20
