"""The tool that hands over what a run left: its model with the program that predicts, or its predictions."""

from collections.abc import Sequence

from agent.cards import size
from agent.domain.errors import NotFound
from agent.domain.policy import Effect
from agent.domain.runs import Run
from agent.ports import Blobs
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.runs.pictures.downloads import handed_over
from agent.stores import Runs
from agent.tools.finding import LOOKED_AT, named, of_thread
from agent.tools.runs.watching import RunArguments
from agent.tools.tool import Caller, Result, Tool

NAMES_SHOWN = 8


class Downloading:
    """The tool of this family."""

    def __init__(self, runs: Runs, files: ArtifactWriter, blobs: Blobs) -> None:
        """`blobs` has what a host stored, `files` hands it over."""
        self._runs = runs
        self._files = files
        self._blobs = blobs

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        does = "Hand over a run's artifact as a file: its model, its card, predict.py; or the predictions that it made."
        return (Tool("download_artifact", does, RunArguments, Effect.READ, run=self.download),)

    async def download(self, caller: Caller, asked: RunArguments) -> Result:
        """The file. Raises: NotFound, TransientError."""
        run = await self._found(caller, asked.run)
        file = await handed_over(run, self._blobs, self._files)
        names = run.outcome.artifact.files if run.outcome and run.outcome.artifact else ()
        inside = ", ".join(f"`{name}`" for name in names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
        holds = f": {inside}" if file.name.endswith(".tar") else ""
        return Result(
            f"`{file.name}` of run `{run.id}`, {size(file.size_bytes)}{holds}.", {"run": run.id}, files=(file,)
        )

    async def _found(self, caller: Caller, run_id: str | None) -> Run:
        if run_id is not None:
            return await named(self._runs, caller, run_id)
        for run in await of_thread(self._runs, caller, LOOKED_AT):
            if run.outcome and run.outcome.artifact:
                return run
        raise NotFound("No run of this thread has left any files yet.")
