"""The journal is read while it is written: what a reader sees of a row is the whole row, or nothing yet."""

from __future__ import annotations

import fcntl
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recipes.test_journal import read
from tests.recipes.test_runtime import LIMIT_S, script
from trainyard import runtime
from trainyard.runtime import JOURNAL, Converter, TrainingRuntime, journal_steps, segments

HEAD_BYTES = 64


class Processor:
    """`os.pread` as a processor may carry it out beside a writer.

    A copy of many bytes (`rep movsb` on x86, vectors elsewhere) takes them in any order. So of a row that is written
    meanwhile, the mark may come along, and older bytes of what the writer wrote before it: zeros. Bytes that a
    later read copies are newer than a mark which an earlier one has brought. On an AMD EPYC one read in 600 at the
    end of a journal was seen to be such. No processor does it when told to, hence this stand-in.
    """

    def __init__(self, seed: int) -> None:
        self.torn = 0
        self._pread = os.pread
        self._dice = random.Random(seed)
        self._marks: set[tuple[int, int]] = set()

    def __call__(self, file: int, size: int, at: int) -> bytes:
        data, inode = bytearray(self._pread(file, size, at)), os.fstat(file).st_ino
        found = [record for record in self._records(file) if at <= record.start and record.start + 8 <= at + len(data)]
        for record in found:
            if (inode, record.start) in self._marks:
                continue
            self._marks.add((inode, record.start))
            for word in range(record.start + 8 - at, min(record.stop - at, len(data)), 8):
                if self._dice.random() < 0.3:
                    self.torn += 1
                    data[word : word + 8] = bytes(8)
        return bytes(data)

    def _records(self, file: int) -> Iterator[range]:
        """Where each record stands."""
        at = HEAD_BYTES
        while size := int.from_bytes(self._pread(file, 4, at), sys.byteorder):
            yield range(at, at + size)
            at += size


@pytest.mark.parametrize("chunk", [128, 700, 256 * 1024])
@pytest.mark.parametrize("seed", range(4))
def test_a_mark_that_is_seen_before_its_row_brings_no_row_of_zeros(
    seed: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "1")
    monkeypatch.setattr(runtime, "_SEGMENT_BYTES", 4096)
    monkeypatch.setattr(runtime, "_CHUNK_BYTES", chunk)
    processor, dice = Processor(seed), random.Random(seed)
    monkeypatch.setattr(os, "pread", processor)
    rt, logged = TrainingRuntime("r", tmp_path), []
    for step in range(1, 400):
        values = {f"loss_{step // 50}": step / 3, **({"only now and then": step} if step % 7 == 0 else {})}
        rt.log_metrics(step, **values)
        logged.append((step, {name.replace(" ", "_"): value for name, value in values.items()}))
        if dice.random() < 0.2:
            assert all(0 < found <= step for found in journal_steps(tmp_path))
        if dice.random() < 0.2:
            Converter(tmp_path).run()
    rt.finish()
    Converter(tmp_path).run(ended=True)
    assert read(tmp_path) == logged
    assert processor.torn > 300


def test_a_reader_that_keeps_up_with_a_writer_sees_each_row_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with a real processor, which does it now and then where both run at the same time."""
    monkeypatch.setattr(runtime, "_CHUNK_BYTES", 512)
    count = 20_000
    body = (
        f"for n in range(1, {count + 1}):\n rt.log_metrics(n, loss=n)\n for _ in range(100):\n  pass\n"
        "import os\nos.kill(os.getpid(), 9)\n"
    )
    child = script(tmp_path, body, TRAINYARD_SUPERVISED="1")
    while not segments(tmp_path / JOURNAL):
        assert child.poll() is None
    file = os.open(tmp_path / JOURNAL / segments(tmp_path / JOURNAL)[0], os.O_RDONLY)
    segment, at, texts, rows = runtime._Segment(file), HEAD_BYTES, [], 0
    while True:
        dead = child.poll() is not None
        text, found, end = segment.read(at, segment.size)
        texts.append(text)
        rows += found
        if dead and end == at:
            break
        at = end
    os.close(file)
    child.communicate(timeout=LIMIT_S)
    steps = [runtime._step_of(line) for line in b"".join(texts).splitlines()]
    assert steps == list(range(1, count + 1))
    assert rows == count


@pytest.mark.parametrize("child", [True, False])
def test_finish_waits_while_another_process_converts(
    child: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the child of a forked worker that logs too: what it has looked through already, it does not see."""
    monkeypatch.delenv("TRAINYARD_SUPERVISED", raising=False)
    if not child:
        monkeypatch.setattr(sys, "executable", "/no/such/python")
    (tmp_path / JOURNAL).mkdir()
    other = os.open(tmp_path / JOURNAL, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    rt = TrainingRuntime("r", tmp_path)
    for step in range(3):
        rt.log_metrics(step, loss=step)
    ending = threading.Thread(target=rt.finish)
    ending.start()
    ending.join(0.5)
    assert ending.is_alive()
    assert read(tmp_path) == []
    os.close(other)
    ending.join(LIMIT_S)
    assert [step for step, _ in read(tmp_path)] == [0, 1, 2]
    assert not (tmp_path / JOURNAL).exists()
