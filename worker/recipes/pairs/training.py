"""Trains on pairs of texts: simple writers first, then a sequence-to-sequence network, and keeps what is best.

The baselines are measured when the network is measured for the first time, so that a person who has just approved the
run sees it learn at once. The choice is made on pairs held out of the training part; a tie goes to the simpler writer.
The sealed test part plays no role here. What baselines there are and what is measured is a `Problem`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard import TrainingRuntime
from worker.recipes.common.columns import require_words
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import NOT_KEPT, Job, write_json
from worker.recipes.common.scores import log_baseline
from worker.recipes.networks.loop import Goal, Loop, total_steps
from worker.recipes.pairs.learner import PairLearner
from worker.recipes.pairs.measure import Measure
from worker.recipes.pairs.network import Network, build, network_settings
from worker.recipes.pairs.simple import Copy, Dictionary, Lead

NETWORK = "network"
_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
_MODULES = ("pairs.writing", "pairs.simple", "texts.answers", "texts.padding")
_SHOWN = 24  # held-out texts that are written anew at each measurement
_CHOOSING = 200  # held-out texts that the choice is made on
Texts = Sequence[str]


class Problem(ABC):
    """What texts are written for. `words` names each baseline for people."""

    measure: Measure
    words: Mapping[str, str]
    limits: Sequence[str]

    @abstractmethod
    def baselines(self, sources: Texts, targets: Texts) -> dict[str, Lead | Copy | Dictionary]:
        """The simple writers, learned from these pairs."""


@dataclass(frozen=True)
class _Pairs:
    sources: list[str]
    targets: list[str]

    def at(self, rows: Any) -> _Pairs:
        return _Pairs([self.sources[row] for row in rows], [self.targets[row] for row in rows])


@dataclass
class _Found:
    scores: dict[str, dict[str, float]]
    held: int
    stopped: bool
    notes: tuple[str, ...]


def train_pairs(job: Job, runtime: TrainingRuntime, problem: Problem) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    settings = network_settings(job.settings)
    table, test, split = read_parts(job)
    column, target = split["text_column"], split["target"]
    pairs = _Pairs(table.columns[column], table.columns[target])
    require_words(pairs.sources, column)
    fit, held = read_holdout(job).split([""] * table.rows, frac=settings["valid_frac"], seed=job.seed)
    runtime.start(settings["model"] or "small T5", settings, total_steps=total_steps(settings, len(fit)))
    learning, holding = pairs.at(fit), pairs.at(held)
    made = build([*learning.sources, *learning.targets], settings, seed=job.seed)
    runtime.log(f"{table.rows:,} pairs: “{column}” to “{target}”. {made.origin} on {made.device}, learning rate "
                f"{settings['learning_rate']:g}.")  # fmt: skip
    found = _candidates(job, runtime, problem, made, settings, (learning, holding))
    kind, why = _choose(problem, found)
    runtime.log(why)
    found.stopped = found.stopped or runtime.should_stop
    simple = problem.baselines(pairs.sources, pairs.targets)
    _save(job, kind, made, simple, column)
    network = made.writer(beams=settings["beams"])
    writers = {"model": network, **simple}
    if kind != NETWORK:
        writers |= {"model": simple[kind], f"{NETWORK}{NOT_KEPT}": network}
    ignored = [f"{name} (this recipe reads one text column)" for name in table.names if name not in {column, target}]
    sources = test.columns[column]
    finish(
        job, runtime,
        Finished(kind, why, settings, ignored, {"rows": found.held, **found.scores}, found.stopped,
                 packages=_PACKAGES if kind == NETWORK else (), modules=_MODULES, limits=problem.limits,
                 notes=found.notes),
        {name: _rows(test.columns["row_id"], writer.texts(sources)) for name, writer in writers.items()},
    )  # fmt: skip


def _candidates(
    job: Job,
    runtime: TrainingRuntime,
    problem: Problem,
    made: Network,
    settings: dict[str, Any],
    parts: tuple[_Pairs, _Pairs],
) -> _Found:
    """The scores of all candidates on held-out pairs."""
    learning, holding = parts
    measure, scores = problem.measure, dict[str, dict[str, float]]()
    chosen = holding.at(range(min(_CHOOSING, len(holding.sources))))

    def scored(texts: Texts) -> dict[str, float]:
        return measure.scores(measure.statistics(texts, holding.targets[: len(texts)]))

    def measure_baselines(step: int | None) -> None:
        """Score and, with a step, tell the charts: an attempt that goes on has told them already."""
        for name, writer in problem.baselines(learning.sources, learning.targets).items():
            scores[name] = scored(writer.texts(chosen.sources))
            runtime.log(f"Baseline {problem.words[name]}: {measure.metric} {scores[name][measure.metric]:.4f}.")
        if step is not None:
            best = max(scores, key=lambda name: scores[name][measure.metric])
            log_baseline(runtime, best, scores[best], step=step)

    learner = PairLearner(
        made, (learning.sources, learning.targets), (holding.sources, holding.targets), scored, shown=_SHOWN
    )
    goal = Goal("loss", before_first=measure_baselines, higher=False)
    trained = Loop(learner, settings, runtime, seed=job.seed).run(goal)
    if not scores:  # an earlier attempt has measured
        measure_baselines(None)
    scores[NETWORK] = scored(made.writer(beams=settings["beams"]).texts(chosen.sources))
    runtime.log(f"Network: best step {trained.best_step} of {trained.steps}, loss {trained.best_score:.4f}, "
                f"{measure.metric} {scores[NETWORK][measure.metric]:.4f}.")  # fmt: skip
    return _Found(scores, len(chosen.sources), trained.stopped, trained.notes)


def _choose(problem: Problem, found: _Found) -> tuple[str, str]:
    """The network or a baseline, and the reason as a sentence."""
    metric = problem.measure.metric
    best = max((name for name in found.scores if name != NETWORK), key=lambda name: found.scores[name][metric])
    simple, network = found.scores[best][metric], found.scores[NETWORK][metric]
    numbers = f"{metric} {network:.4f} against {simple:.4f} on {found.held:,} held-out texts"
    if network > simple:
        return NETWORK, f"The network is kept: it beats {problem.words[best]} ({numbers})."
    words = problem.words[best]
    return best, f"{words[0].upper()}{words[1:]} is kept: the network does not beat it ({numbers})."


def _save(job: Job, kind: str, made: Network, simple: Mapping[str, Any], column: str) -> None:
    job.artifacts.mkdir(exist_ok=True)
    about: dict[str, Any] = {"answer": "text", "kind": kind, "text_column": column}
    if kind == NETWORK:
        made.save(job.artifacts / NETWORK)
        about |= {"file": NETWORK, "limits": vars(made.limits), "languages": made.languages}
    else:
        about["file"] = "writer.json"
        write_json(job.artifacts / "writer.json", simple[kind].facts())
    write_json(job.artifacts / "model.json", about)


def _rows(row_ids: Texts, texts: Texts) -> tuple[list[str], Iterator[Sequence[object]]]:
    """Header and rows of a file of predictions."""
    return ["row_id", "label"], iter(list(zip(row_ids, texts, strict=True)))
