"""Splits texts, seals a part of them, and measures what needs no training on it: compressors and counted sequences.

The baselines are measured here, where the training part cannot have been changed by a training yet. What they reached
lies with the sealed texts in `baselines.json`: the bits of each text, and what the counted sequences write.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.common.job import Job, write_json
from worker.recipes.common.sealing import seal
from worker.recipes.common.table import write_rows
from worker.recipes.language.compressing import lzma_bits, zlib_bits
from worker.recipes.language.documents import Documents, read_documents
from worker.recipes.language.ngrams import ByteNgrams

_SHOWN, _PROMPT_CHARS, _WRITTEN_BYTES = 3, 160, 240


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts, of which `data/train.csv` has the texts, the test part only numbers.

    Gives what `split.json` keeps of them. Raises: BadData.
    """
    documents = read_documents(source, job)
    train, test = documents.split(job.test_frac, job.seed)
    sealed_dir.mkdir(parents=True, exist_ok=True)
    texts = documents.texts
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], ([at, texts[row]] for at, row in enumerate(test)))
    write_json(sealed_dir / "baselines.json", _baselines(documents, train, test, seed=job.seed))
    write_rows(job.run_dir / "data/test.csv", ["row_id"], ([at] for at in range(len(test))))
    write_rows(job.run_dir / "data/train.csv", ["text"], ([texts[row]] for row in train))
    what = "parts of one text, in its order" if documents.one else "texts"
    print(f"Split {len(texts):,} {what}: {len(train):,} to train, {len(test):,} sealed to measure.")
    return {
        "one_text": documents.one,
        "train_rows": len(train),
        "test_rows": len(test),
        "how": "equal texts on one side" if not documents.one else "",
    }


prepare = partial(seal, split=_split)


def _baselines(documents: Documents, train: list[int], test: list[int], *, seed: int) -> dict[str, Any]:
    known = [text.encode() for text in documents.joined(train)]
    sealed = [documents.texts[row].encode() for row in test]
    counted = ByteNgrams(known)
    bits = {
        "lzma": lzma_bits(b"\n".join(known), sealed),
        "zlib": zlib_bits(b"\n".join(known), sealed),
        "byte_ngrams": [counted.bits(text) for text in sealed],
    }
    samples = []
    for at, row in enumerate(test[:: max(1, len(test) // _SHOWN)][:_SHOWN]):
        prompt = prompt_of(documents.texts[row])
        said = counted.continuation(prompt.encode(), _WRITTEN_BYTES, seed=seed + at)
        samples.append({"prompt": prompt, "byte_ngrams": said.decode("utf-8", "replace")})
    return {"bits": bits, "samples": samples}


def prompt_of(text: str) -> str:
    """The beginning of a text, to its half at most, without a part of a word at its end."""
    start = text[: min(_PROMPT_CHARS, max(1, len(text) // 2))]
    cut = max(start.rfind(" "), start.rfind("\n"))
    return start[: cut + 1].rstrip(" ") if cut > 0 else start
