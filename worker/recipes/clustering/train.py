"""Finds clusters in a table: k-means first, then Gaussian mixtures, Ward and HDBSCAN, and keeps what fits best.

Each candidate (a method with a number of clusters) is judged on some training rows: by silhouette, by how well it comes
back on resamples of the rows, and a mixture by BIC too. k-means is kept unless another is clearly better. The sealed
rows play no role here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from trainyard import TrainingRuntime
from worker.recipes.clustering.predict import load
from worker.recipes.clusters.measuring import agreement, silhouettes
from worker.recipes.clusters.methods import MOST_TRIED, NAMES, find, sample
from worker.recipes.clusters.reading import Asked, settings_of
from worker.recipes.clusters.rules import Labels, Rule
from worker.recipes.clusters.space import Points, Space, space_of
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.job import Job, write_json
from worker.recipes.common.table import BadData

_TIE = 0.01  # of silhouette, by which a simpler method may be worse and is still kept
_STABLE = 0.6  # mean ARI between resamples below which clusters are not to be trusted
_MOST_MEASURED = 2_000  # rows whose silhouettes are looked at
_LEAST_SIZES = (0.02, 0.05, 0.1)  # of a cluster of HDBSCAN, in parts of all rows


@dataclass(frozen=True)
class Tried:
    """A candidate: what `size` it was asked for (see `find`), and how many clusters it found."""

    method: str
    size: int
    k: int
    silhouette: float
    stability: float
    bic: float | None

    @property
    def named(self) -> str:
        return f"{NAMES[self.method]} with {self.k} clusters"


@dataclass(frozen=True)
class Study:
    """The points that candidates are found in, and those among them that they are judged on."""

    points: Points
    seen: Points
    seed: int
    resamples: int

    def candidate(self, method: str, size: int) -> Tried | None:
        """What a method comes to; None where it finds no two clusters."""
        found = find(method, self.points, size, seed=self.seed)
        if found is None:
            return None
        labels = found.rule.assign(self.seen)
        bic = None if math.isnan(found.bic) else found.bic
        silhouette = float(silhouettes(self.seen, labels).mean())
        return Tried(method, size, found.rule.clusters, silhouette, self._stability(method, size, labels), bic)

    def _stability(self, method: str, size: int, labels: Labels) -> float:
        """How alike the clusters of resamples are to these, as mean adjusted Rand index."""
        random = np.random.default_rng(self.seed)
        alike = []
        for _ in range(self.resamples):
            drawn = np.unique(random.integers(0, len(self.points), len(self.points)))  # equal points have no distance
            found = find(method, self.points[drawn], size, seed=self.seed, starts=2)
            alike.append(agreement(labels, found.rule.assign(self.seen))["ari"] if found else 0.0)
        return float(np.mean(alike))


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Try, choose, and leave artifacts and predictions. Raises: BadData, BadSettings."""
    table, test, split = read_parts(job)
    asked = Asked(settings_of(job.settings), split["features"], split["ignored"], split["labels"])
    space = space_of(table.columns, asked.features)
    points = space.points(table.columns)
    some = sample(points, MOST_TRIED, job.seed)
    study = Study(some, sample(some, _MOST_MEASURED, job.seed), job.seed, asked.settings["resamples"])
    wanted = list(_wanted(asked, len(some)))
    runtime.start("clustering", asked.settings, total_steps=len(wanted))
    runtime.log(
        f"{len(points):,} rows, {len(asked.features)} columns as {points.shape[1]} numbers; {len(wanted)} candidates."
    )
    tried, stopped = _tried(job, runtime, study, wanted)
    best = {
        method: _best([one for one in tried if one.method == method])
        for method in dict.fromkeys(one.method for one in tried)
    }
    chosen, why = _choose(best, asked.settings["method"])
    runtime.log(why)
    rules = {one.method: _rule(points, one, job.seed) for one in (best["kmeans"], chosen)}
    _save(job, space, rules[chosen.method], chosen)
    there = space.points(test.columns)
    row_ids = test.columns["row_id"]
    answers = {
        "model": load(job.artifacts).answers(test.columns).numbers,
        "kmeans": rules["kmeans"].assign(there),
        "random": np.random.default_rng(job.seed).integers(1, chosen.k + 1, len(there)),
    }
    validation = {"rows": len(study.seen), "candidates": [asdict(one) for one in tried]}
    finish(
        job, runtime,
        Finished(chosen.method, why, {**asked.settings, "k": chosen.k, "method": chosen.method}, asked.ignored,
                 validation, stopped, packages=("numpy",),
                 modules=("clusters.rules", "clusters.space", "tabular.encoding"),
                 limits=_limits(chosen, 0 if asked.settings["k"] else max(asked.counts(len(some))))),
        {name: _rows(row_ids, numbers) for name, numbers in answers.items()},
    )  # fmt: skip


def _wanted(asked: Asked, rows: int) -> Iterator[tuple[str, int]]:
    """The candidates, the simplest method first."""
    for method in asked.methods:
        if method == "hdbscan":
            yield from ((method, size) for size in sorted({max(5, round(rows * part)) for part in _LEAST_SIZES}))
        else:
            yield from ((method, k) for k in asked.counts(rows))


def _tried(
    job: Job, runtime: TrainingRuntime, study: Study, wanted: Sequence[tuple[str, int]]
) -> tuple[list[Tried], bool]:
    """What the candidates come to, and whether somebody asked to stop.

    What an earlier attempt has tried is kept in `checkpoints/tried.json`.
    """
    file = job.run_dir / "checkpoints" / "tried.json"
    done: dict[str, dict[str, object] | None] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found: list[Tried] = []
    for step, (method, size) in enumerate(wanted, start=1):
        key = f"{method} {size}"
        if key not in done:
            if runtime.should_stop and found:
                return found, True
            one = study.candidate(method, size)
            done[key] = asdict(one) if one else None
            file.parent.mkdir(exist_ok=True)
            write_json(file, done)
            if one:
                runtime.log_metrics(
                    step=step, **{f"{method}/silhouette": one.silhouette, f"{method}/stability": one.stability}
                )
        if (kept := done[key]) is not None:
            found.append(Tried(**kept))  # type: ignore[arg-type]  # as this function wrote it
    return found, False


def _best(tried: Sequence[Tried]) -> Tried:
    """Of one method: a mixture by BIC, others by silhouette; of those that resamples confirm, where there are some."""
    stable = [one for one in tried if one.stability >= _STABLE] or tried
    if all(one.bic is not None for one in stable):
        return min(stable, key=lambda one: one.bic or 0.0)
    return max(stable, key=lambda one: one.silhouette)


def _choose(best: dict[str, Tried], wanted: str | None) -> tuple[Tried, str]:
    """The candidate that is kept, and the reason as a sentence."""
    if wanted in best:
        return best[
            wanted
        ], f"{_started(best[wanted].named)}, as it was asked for: silhouette {best[wanted].silhouette:.4f}."
    stable = [one for one in best.values() if one.stability >= _STABLE] or list(best.values())
    most = max(one.silhouette for one in stable)
    chosen = next(one for one in stable if one.silhouette >= most - _TIE)
    others = ", ".join(f"{one.named} {one.silhouette:.4f}" for one in best.values() if one is not chosen)
    named = f"{NAMES[wanted]} found no clusters, so {chosen.named}" if wanted else _started(chosen.named)
    why = (
        f"{named} is kept: silhouette {chosen.silhouette:.4f}, stability on resamples "
        f"{chosen.stability:.2f}{f' ({others})' if others else ''}."
    )
    return chosen, why


def _started(words: str) -> str:
    return words[:1].upper() + words[1:]


def _rule(points: Points, one: Tried, seed: int) -> Rule:
    found = find(one.method, points, one.size, seed=seed)
    if found is None:
        raise BadData(f"{NAMES[one.method]} found clusters before and finds none now: did the rows change?")
    return found.rule


def _save(job: Job, space: Space, rule: Rule, chosen: Tried) -> None:
    job.artifacts.mkdir(exist_ok=True)
    rule.save(job.artifacts)
    about = {"answer": "cluster", "kind": chosen.method, "clusters": chosen.k, "space": space.described()}
    write_json(job.artifacts / "model.json", about)


def _limits(chosen: Tried, most: int) -> list[str]:
    """What the clusters are not. `most` is the largest k that was tried where it had to be found."""
    found = [
        "Clusters are a way to group rows, not groups that are known to exist; other columns or scales give others."
    ]
    if chosen.stability < _STABLE:
        found.append(
            f"Resamples of the rows give other clusters (mean ARI {chosen.stability:.2f}): do not lean on them."
        )
    if chosen.size == most:
        found.append(f"{most} is the largest number of clusters that was tried; max_k={2 * most} looks further.")
    if chosen.method == "hdbscan":
        found.append("Cluster 0 are rows that belong to none.")
    return found


def _rows(row_ids: Sequence[str], numbers: Labels) -> tuple[list[str], Iterator[Sequence[object]]]:
    return ["row_id", "label"], zip(row_ids, numbers.tolist(), strict=True)
