"""What is proposed for an option of a command while somebody types it: runs, metrics, pictures, files, hosts, names."""

from collections.abc import Sequence

from agent.commands.options import Completes, Option
from agent.commands.registry import COMMANDS, GROUPS, HELP
from agent.domain.content import Choice
from agent.domain.errors import AppError
from agent.domain.models import split_name
from agent.ports import HalfTyped, HostDirectory
from agent.runs.cards.run_cards import state_words
from agent.runs.charts.run_charts import panel_names
from agent.runs.pictures.results import VIEWS
from agent.stores import Stores
from agent.tools.finding import named_or_newest, of_all, of_thread
from agent.tools.models import USUAL
from agent.tools.tool import Caller

MOST = 25  # Discord's limit
LONGEST = 100  # characters of a value and of a label


class Completion:
    """Proposes only what the person may read."""

    def __init__(self, stores: Stores, directory: HostDirectory, *, workspace: bool, models: Sequence[str]) -> None:
        """`workspace` opens runs to all channels of a workspace; `models` are those of the settings."""
        self._runs = stores.runs
        self._conversations = stores.conversations
        self._directory = directory
        self._workspace = workspace
        self._models = models

    async def complete(self, asked: HalfTyped) -> Sequence[Choice]:
        """At most 25 values that hold what was typed, the newest or the likeliest first."""
        command = HELP if asked.command == HELP.name else COMMANDS.get(asked.command)
        options = command.all_options if command else ()
        option = next((one for one in options if one.name == asked.option), None)
        if option is None:
            return ()
        try:
            known = await self._known(option, asked)
        except AppError:  # no run, no host or no database now: there is nothing to propose
            return ()
        before, _, typed = asked.text.rpartition(" ") if option.many else ("", "", asked.text)
        found = [choice for choice in known if typed.lower() in choice.label.lower()]
        whole = [Choice(value=f"{before} {one.value}".strip(), label=one.label[:LONGEST]) for one in found]
        return [choice for choice in whole if len(choice.value) <= LONGEST][:MOST]

    async def _known(self, option: Option, asked: HalfTyped) -> Sequence[Choice]:
        session_id = await self._conversations.session_of(asked.thread, create=False) or ""
        caller = Caller(asked.person, session_id, asked.thread, workspace=self._workspace)
        match option.completes:
            case Completes.RUNS:
                return await self._known_runs(caller)
            case Completes.METRICS:
                run = await named_or_newest(self._runs, caller, asked.run or None)
                return _plain(panel_names(await self._runs.metric_names(run.id)))
            case Completes.PICTURES:
                run = await named_or_newest(self._runs, caller, asked.run or None)
                return _plain([*(one.name for one in await self._runs.pictures(run.id)), *VIEWS])
            case Completes.FILES:
                return _plain([file.name for file in await self._conversations.files(session_id)])
            case Completes.HOSTS:
                return _plain([host.host for host in await self._directory.hosts()])
            case Completes.MODELS:
                return _plain([USUAL, *(split_name(name)[0] for name in self._models)])
            case Completes.HELP:
                return _plain([*GROUPS, *COMMANDS])
            case None:
                return _plain(option.choices)

    async def _known_runs(self, caller: Caller) -> Sequence[Choice]:
        """Those of the thread, then those of the channel, the newest first."""
        runs = [*await of_thread(self._runs, caller, MOST), *await of_all(self._runs, caller, MOST)]
        return [
            Choice(value=run.id, label=f"{run.id} · {run.spec.subject} · {state_words(run)}")
            for run in {run.id: run for run in runs}.values()
        ]


def _plain(names: Sequence[str]) -> Sequence[Choice]:
    return [Choice(value=name, label=name) for name in dict.fromkeys(names)]
