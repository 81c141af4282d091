"""chrF and BLEU by sacrebleu, of any choice of rows: it counts each row once, and scores are made of sums of counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.recipes.pairs.measure import Measure

METRIC = "chrf"


class Bleu(Measure):
    """chrF and BLEU as a measure of pairs, over all rows together (corpus scores, 0 to 100)."""

    metric = METRIC
    names = ("chrf", "bleu")

    def __init__(self) -> None:
        from sacrebleu.metrics import BLEU, CHRF

        self._metrics = (CHRF(), BLEU())
        self._width = 3 * self._metrics[0].order  # counts of chrF in a row; those of BLEU follow

    @property
    def signature(self) -> str:
        """What exactly is measured, as sacrebleu says it."""
        chrf, bleu = self._metrics
        for metric in self._metrics:
            metric.corpus_score(["a"], [["a"]])  # the signature has the number of references only afterwards
        return (
            f"sacrebleu: chrF {chrf.get_signature().format(short=True)}, BLEU {bleu.get_signature().format(short=True)}"
        )

    def statistics(self, said: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
        """The counts of each row, of both metrics side by side."""
        chrf, bleu = (
            np.array(metric._extract_corpus_statistics(list(said), [list(wanted)]), dtype=np.float64)  # noqa: SLF001 - the pinned version's own bootstrap does so
            for metric in self._metrics
        )
        return np.concatenate([chrf, bleu], axis=1)

    def scores(self, rows: NDArray[np.float64]) -> dict[str, float]:
        """The metrics of rows of `statistics`."""
        chrf, bleu = self._metrics
        sums = rows.sum(axis=0).astype(int).tolist()
        return {
            "chrf": float(chrf._compute_score_from_stats(sums[: self._width]).score),  # noqa: SLF001 - as above
            "bleu": float(bleu._compute_score_from_stats(sums[self._width :]).score),  # noqa: SLF001 - as above
        }
