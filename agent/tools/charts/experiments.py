"""The tool that shows the runs of a thread as experiments: best so far, and score against training time. Reads only."""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from agent.cards import counted
from agent.domain.content import Card
from agent.domain.policy import Effect
from agent.domain.runs import Run
from agent.runs.charts.experiments import experiments_of, picture_of, table_of, tree_of, words_of
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.finding import of_all, of_thread
from agent.tools.tool import Arguments, Caller, Result, Tool
from agent.tools.training.change_cards import differences

MOST = 200  # newest runs that are looked at


class ExperimentArguments(Arguments):
    """Which runs."""

    everywhere: bool = Field(False, description="Of all threads, not only of this one.")
    tree: bool = Field(False, description="Which came from which, and what was changed, instead of the best so far.")


class Experimenting:
    """The tool of this family."""

    def __init__(self, runs: Runs, files: ArtifactWriter) -> None:
        """`files` draws."""
        self._runs = runs
        self._files = files

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        said = "The runs of this thread as experiments: a leaderboard, the best so far, score against training time."
        return (Tool("list_experiments", said, ExperimentArguments, Effect.READ, run=self.experiments),)

    async def experiments(self, caller: Caller, asked: ExperimentArguments) -> Result:
        """One picture and a table of those that were measured alike."""
        if asked.everywhere:
            runs = await of_all(self._runs, caller, MOST)
        else:
            runs = await of_thread(self._runs, caller, MOST)
        found = experiments_of(runs)
        if found is None:
            where = "" if asked.everywhere else " of this thread"
            return Result(f"No run{where} has a result yet, so there is nothing to rank. `runs` lists them.")
        spec = tree_of(found, _changes(found.runs)) if asked.tree else picture_of(found)
        picture = await self._files.draw(spec, about=f"experiments/{caller.session_id}")
        said = words_of(found)
        has_tree = not asked.tree and any(trial.parent for trial in found.trials)
        footer = "`experiments tree` shows which came from which" if has_tree else ""
        card = Card(
            kind="notice",
            title="Experiments",
            body=said,
            table=table_of(found),
            picture=picture,
            footer=footer if picture else "The picture could not be drawn",
        )
        ranked: list[JsonValue] = [
            {"run": run.id, found.metric: trial.value, "training_s": trial.cost, "state": trial.state}
            for run, trial in found.measured
        ]
        data: dict[str, JsonValue] = {"said": said, "experiments": ranked, "left_out": found.left_out}
        return Result(f"{counted(len(ranked), 'run')} by result.", data, card)


def _changes(runs: Sequence[Run]) -> dict[str, str]:
    """What each clone does otherwise than the run that it came from."""
    known = {run.id: run for run in runs}
    found = {}
    for run in runs:
        if parent := known.get(run.spec.cloned_from):
            rows = differences(parent.spec, run.spec)
            found[run.id] = ", ".join(f"{name} {before} → {after}" for name, before, after in rows)
    return found
