"""The whole log of a run as a file: what is stored, or where lines were dropped on the way, what its host still has."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent.domain.errors import BadRequest, TransientError
from agent.domain.orders import AttemptLabel
from agent.domain.runs import Run
from agent.run_store import DROPPED
from agent.runs.engines import Engines
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import LogQuery, Runs

LINES_READ = 5000  # at once
MOST_CHARS = 32_000_000  # of what a host has; a host keeps 16 MB in one file


class WholeLog:
    """Writes whole logs. A program may print faster than events carry lines; then the host's own file has more."""

    def __init__(self, runs: Runs, engines: Engines, files: ArtifactWriter) -> None:
        """`engines` are asked for what was dropped; `files` has room for the file."""
        self._runs = runs
        self._engines = engines
        self._files = files

    async def write(self, run: Run) -> tuple[Path, int]:
        """A file, and how many lines it has."""
        path, count = await self._stored(run)
        gaps = await self._runs.log_page(run.id, LogQuery(1, contains=DROPPED, level="warning"))
        if gaps.lines and (text := await self._at_host(run)).count("\n") > count:
            await asyncio.to_thread(path.write_text, text, encoding="utf-8")
            count = text.count("\n")
        return path, count

    async def _stored(self, run: Run) -> tuple[Path, int]:
        path, count = await self._files.scratch(), 0
        page = await self._runs.log_page(run.id, LogQuery(LINES_READ, since=0))
        while page.lines:
            count += len(page.lines)
            await asyncio.to_thread(_append, path, page.lines)
            page = await self._runs.log_page(run.id, LogQuery(LINES_READ, since=page.ids[-1] + 1))
        return path, count

    async def _at_host(self, run: Run) -> str:
        """What the host of the newest attempt has of it, without secrets as all its logs; empty where none answers."""
        attempts = await self._runs.attempts(run.id)
        if not attempts:
            return ""
        label = AttemptLabel(run=run.id, attempt=attempts[-1].number, host=attempts[-1].host)
        parts, end, chars = list[str](), 0, 0
        try:
            while chars < MOST_CHARS and (part := await self._engines.logs(run.spec, label, end)).end > end:
                parts, end, chars = [*parts, part.text], part.end, chars + len(part.text)
        except (BadRequest, TransientError):
            return ""
        return "".join(parts)


def _append(path: Path, lines: Sequence[str]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
