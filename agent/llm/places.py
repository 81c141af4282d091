"""How much more or less often each thing is meant where a request is made: beside a file, a run, or neither.

Called by `agent.llm.intents` with what the words alone say.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from agent.domain.errors import BadRequest
from agent.domain.runs import LIVE, RunState
from agent.llm.features import concepts, masked, words_of
from agent.llm.slots.changes import settings_in

ACT = frozenset({"stop_run", "kill_run", "pause_run", "resume_run", "retry_run", "set_priority"})
_ONCE_MORE = frozenset({"again", "clone_run"})
_OF_A_RUN = frozenset(
    {
        *("run_status", "run_logs", "run_metrics", "run_chart", "run_results", "run_checkpoints", "run_attempts"),
        *("run_script", "list_runs", "list_queue", "list_experiments", "compare_runs", "serve_model", "evaluate_model"),
        *("download_artifact", "update_script", "predict_as_job", "serving_token", "list_hosts", *ACT),
    }
)
_OF_NO_DATA = frozenset(
    {
        *("set_budget", "set_allowance", "set_card", "prefer_model", "show_budget", "list_models", "show_cost"),
        *("new_session", "compact_session", "undo_turn", "export_session"),
    }
)
# How much more or less often a thing is meant where a file came and no run is known, and where settings are stated.
_WITHOUT_A_RUN, _UNKNOWN_MODEL, _WITH_A_FILE, _STATED = 0.1, 0.4, 3.0, 4.0
_NO_RUN_NAMED = 0.3
_LISTS = frozenset({"list_runs", "list_queue", "list_experiments", "list_hosts", *ACT})
_NOTHING_CAME: Mapping[str, float] = {"inspect_dataset": 0.5, "update_script": 0.5}
_WITH_A_MODEL: Mapping[str, float] = {"evaluate_model": 2.0, "predict": 2.0, "predict_as_job": 2.0, "run_status": 0.5}


# The states of a run in which an act can be done.
_FITS: Mapping[str, frozenset[RunState]] = {
    "pause_run": LIVE | {RunState.QUEUED},
    "resume_run": frozenset({RunState.PAUSING, RunState.PAUSED}),
    "retry_run": frozenset({RunState.FAILED, RunState.STOPPED, RunState.LOST}),
    "stop_run": LIVE | {RunState.QUEUED, RunState.PAUSED},
    "kill_run": LIVE | {RunState.QUEUED, RunState.PAUSED},
    "set_priority": LIVE | {RunState.QUEUED, RunState.PAUSED},
}
_OTHERWISE = frozenset({"xnum", "xset", "xhost", "xfile", "xcol", "with", "without", "but", "instead"})
_CANNOT_BE_DONE, _CAN_BE_DONE = 0.3, 2.0


class Place(NamedTuple):
    """Where a request is made: whether files came with it, whether runs were started, the columns of the data.

    `states` are those of the runs that it may be about; empty where nobody knows.
    """

    with_file: bool = False
    has_runs: bool = True
    columns: tuple[str, ...] = ()
    states: frozenset[RunState] = frozenset()

    def fits(self, act: str) -> bool:
        """Whether a run of this place is known that this can be done with."""
        return bool(self.states & _FITS[act])

    @property
    def has_ended_badly(self) -> bool:
        """Whether its runs can be tried again, and nothing else be done with them."""
        return bool(self.states) and self.states <= _FITS["retry_run"]


class Reading(NamedTuple):
    """An intent, and how probable it is."""

    intent: str
    chance: float


def in_place(found: list[Reading], place: Place, asked: str) -> list[Reading]:
    """The readings by what can be meant here: without a run nothing is done again, and few ask about one."""
    found = _in_states(found, place, asked)
    if not place.with_file and place.has_runs:
        return _weighed(found, {**_NOTHING_CAME, **({"again": _STATED} if states_settings(asked) else {})})
    if not place.with_file:
        return _weighed(found, dict.fromkeys(_OF_A_RUN - _LISTS, _NO_RUN_NAMED))
    if place.has_runs:
        return _weighed(found, _WITH_A_MODEL)
    weights = dict.fromkeys(_OF_A_RUN | _OF_NO_DATA, _WITHOUT_A_RUN) | dict.fromkeys(ACT, 0.0)
    spoken = set(concepts(masked(asked, place.columns)))
    looks = "look" in spoken and not spoken & {"train", "target", "predict", "estimate"}
    weights["predict"] = _UNKNOWN_MODEL
    weights["train"] = (1.0 if looks else _WITH_A_FILE) * (_STATED if states_settings(asked) else 1.0)
    joined = sum(one.chance for one in found if one.intent in {"train", *_ONCE_MORE})
    rest = [one for one in found if one.intent not in {"train", *_ONCE_MORE}]
    return _weighed([*rest, Reading("train", joined)], weights)


def _in_states(found: list[Reading], place: Place, asked: str) -> list[Reading]:
    """The readings by what can be done with the runs as they are: one that failed is retried, not resumed."""
    if not place.states:
        return found
    chances = dict(found)
    if place.has_ended_badly:
        as_it_was = _OTHERWISE.isdisjoint(words_of(masked(asked))) and not states_settings(asked)
        joined = {"resume_run", "again"} if as_it_was else {"resume_run"}
        chances["retry_run"] = chances.get("retry_run", 0.0) + sum(chances.pop(name, 0.0) for name in joined)
    weights = {act: _CAN_BE_DONE if place.fits(act) else _CANNOT_BE_DONE for act in ACT}
    return _weighed([Reading(name, chance) for name, chance in chances.items()], weights)


def _weighed(found: list[Reading], weights: Mapping[str, float]) -> list[Reading]:
    """The readings by how often each is meant, beside what the words say."""
    chances = {one.intent: one.chance * weights.get(one.intent, 1.0) for one in found}
    whole = sum(chances.values())
    weighed = (Reading(name, chance / whole) for name, chance in chances.items())
    return sorted(weighed, key=attrgetter("chance"), reverse=True)


def states_settings(asked: str) -> bool:
    """Whether numbers of a training are stated."""
    try:
        return bool(settings_in(asked))
    except BadRequest:
        return True
