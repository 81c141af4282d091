"""What the evaluation of written texts shows: values in the words of `agent.domain.results.Pictured`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from worker.recipes.common.scoring import named, rounded, short
from worker.recipes.pairs.measure import Measure

_LABELS = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L", "chrf": "chrF", "bleu": "BLEU"}
_SAMPLES = 6
_CELL = 240  # characters
_BINS = 24
_LENGTHS = 5


@dataclass(frozen=True)
class Written:
    """The test rows: what was read, what was wanted, what the model and the strongest baseline wrote, and how good each
    single text is by the metric that decides."""

    row_ids: Sequence[str]
    sources: Sequence[str]
    wanted: Sequence[str]
    said: Sequence[str]
    theirs: Sequence[str]
    ours_of: Sequence[float]
    theirs_of: Sequence[float]


def pictured(
    found: Written, *, beaten: str, measure: Measure, scores: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Samples beside the baseline's and the reference, metrics, scores of single texts, scores by length."""
    label = _LABELS[measure.metric]
    same = sum(ours == theirs for ours, theirs in zip(found.said, found.theirs, strict=True))
    better = int((np.array(found.ours_of) > np.array(found.theirs_of)).sum())
    exact = sum(ours.strip() == wanted.strip() for ours, wanted in zip(found.said, found.wanted, strict=True))
    words = (
        f"Closer to the reference than {named(beaten, 40)} in {better:,} of {len(found.wanted):,} texts"
        f"{f', the same in {same:,}' if same else ''}; exactly right in {exact:,}. Measured by {measure.signature}."
    )
    pictures = [
        _samples(found, beaten, label),
        _metrics(scores, beaten, measure),
        _spread(found, beaten, label),
        _by_length(found, beaten, label),
    ]
    return {
        "kind": "pictured",
        "rows": len(found.wanted),
        "beaten": named(beaten),
        "words": words[:400],
        "pictures": pictures,
    }


def _samples(found: Written, beaten: str, label: str) -> dict[str, Any]:
    """Texts from the best to the worst, evenly spread, so that none is picked because it flatters."""
    ranked = np.argsort(-np.array(found.ours_of), kind="stable")
    chosen = ranked[np.unique(np.linspace(0, len(ranked) - 1, min(_SAMPLES, len(ranked))).astype(int))]
    rows = [
        [short(found.sources[at], _CELL) or "–", short(found.wanted[at], _CELL), short(found.said[at], _CELL) or "–",
         short(found.theirs[at], _CELL) or "–", f"{found.ours_of[at]:.2f}"]
        for at in chosen
    ]  # fmt: skip
    title = f"Samples from the best to the worst of {len(found.wanted):,} texts"
    columns = ["read", "reference", "this model", named(beaten, 40), label]
    return {"view": "samples", "picture": {"kind": "table", "title": title, "columns": columns, "rows": rows}}


def _metrics(scores: Mapping[str, Mapping[str, float]], beaten: str, measure: Measure) -> dict[str, Any]:
    groups = [{"name": words, "values": [rounded(scores[name][one]) for one in measure.names]}
              for name, words in (("model", "this model"), (beaten, named(beaten)))]  # fmt: skip
    names = [_LABELS[one] for one in measure.names]
    return {"view": "scores", "picture": {"kind": "bars", "title": "all metrics", "names": names, "groups": groups}}


def _spread(found: Written, beaten: str, label: str) -> dict[str, Any]:
    """How good single texts are, of the model and of the baseline."""
    end = max(*found.ours_of, *found.theirs_of, 1e-6)
    edges = np.linspace(0.0, end, _BINS + 1)
    groups = [{"name": name, "values": np.histogram(np.clip(values, 0.0, end), bins=edges)[0].tolist()}
              for name, values in (("this model", found.ours_of), (named(beaten), found.theirs_of))]  # fmt: skip
    picture = {"kind": "histogram", "title": f"{label} of single texts", "edges": [float(edge) for edge in edges]}
    return {"view": "errors", "picture": {**picture, "groups": groups, "x_label": label, "unit": "texts"}}


def _by_length(found: Written, beaten: str, label: str) -> dict[str, Any]:
    """The mean score of texts of a length, in fifths of all texts."""
    words = np.array([len(source.split()) for source in found.sources])
    edges = np.unique(np.quantile(words, np.linspace(0, 1, _LENGTHS + 1)).round().astype(int))
    fifth = np.searchsorted(edges[1:-1], words, side="left") if len(edges) > 2 else np.zeros(len(words), dtype=int)
    there = sorted(set(fifth.tolist()))
    names = [f"{words[fifth == one].min():,} to {words[fifth == one].max():,} words" for one in there]
    groups = [{"name": name, "values": [rounded(np.array(values)[fifth == one].mean()) for one in there]}
              for name, values in (("this model", found.ours_of), (named(beaten), found.theirs_of))]  # fmt: skip
    picture = {"kind": "bars", "title": f"mean {label} by length of the text", "names": names, "groups": groups}
    return {"view": "lengths", "picture": picture}
