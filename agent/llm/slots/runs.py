"""Reads which runs a request names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.domain.errors import BadRequest
from agent.domain.runs import LIVE, RunState
from agent.llm.slots.actions import wish_in
from agent.llm.slots.figures import figure
from agent.llm.slots.names import NAME, setting_called

RUN_ID = re.compile(r"(?<![a-z0-9])r-[0-9a-z]{6}(?![0-9a-z])")

_PLACES = (  # of the runs of a thread, by the words that count them
    (0, r"first|oldest|1st|erste[nrs]?|premier|première|primer[oa]?|第一个?"),
    (1, r"second|2nd|zweite[nrs]?|deuxième|second[oae]|segund[oa]|第二个?"),
    (2, r"third|3rd|dritte[nrs]?|troisième|tercer[oa]?|第三个?"),
    (-1, r"newest|latest|neueste[nrs]?|plus récente?|más reciente|最新的?"),
    (
        -2,
        r"second[- ](?:to[- ])?last|last but one|penultimate|vorletzte[nrs]?|avant-dernière?|penúltim[oa]|倒数第二个?",
    ),
)
# Behind a word that counts, where no noun follows: “arrête le premier”.
_ALONE = (
    r"(?<!at )(?=\W*(?:$|[,.;:!?，。；！？]|(?:bitte|please|pls|now|stopp?en|anhalten|pausieren|abbrechen|por favor"
    r"|un moment"
    r"|and|und|et|y)\b))"
)
# Before a word that says when something is to go: “can it go first?”.
_WHEN = "".join(
    rf"(?<!\b{word} )" for word in ("go", "goes", "be", "come", "comes", "run", "it", "en", "als", "vaya", "entre")
)
_COUNTED = tuple(
    (
        at,
        re.compile(
            rf"(?:\b(?:the|my|our|den|der|das|die|le|la|el|the very)\s+)?{_WHEN}(?<![^\W\u3400-\u9fff])(?:{words})\s*"
            rf"(?:(?:one|run|training|job|lauf|entra[iî]nement|entrenamiento)\b|个?(?:任务|训练|运行)|{_ALONE})",
            re.IGNORECASE,
        ),
    )
    for at, words in _PLACES
)

_EXPERIMENTS = {
    "everywhere": re.compile(
        r"\b(?:all|every|other) (?:the )?(?:threads?|channels?)\b|\b(?:whole|entire) team\b|\b(?:whole|entire"
        r"|all of the) channel\b|\beverywhere\b"
        r"|\b(?:ganze[nrs]? kanal\w*|alle[nr]? threads|tout le (?:canal|salon)|tous les fils)\b"
        r"|\b(?:todo el canal|canal entero|todos los hilos)\b|整个频道|所有(?:帖子|话题|对话)"
        r"|\b(?:sämtliche\w*|allen) (?:threads?|kan[äa]le?\w*)\b|\btous les canaux\b|\btodos los canales\b"
        r"|(?:别的|其他|其它|全部|各个)(?:帖子|话题|对话|频道)",
        re.IGNORECASE,
    ),
    "tree": re.compile(
        r"\btree\b|\b(?:came|comes?|derived?|descend\w*|cloned) from\b|\bparents?\b|\blineage\b"
        r"|\bstamm(?:baum|t von|en von)\b|\barbre\b|\bárbol\b|\b(?:vien(?:t|nent)|descend\w*) d|\bdesciend\w+ de\b"
        r"|\b(?:kommt|kommen) von\b|\bvienen? de\b|谱系|继承|实验的?树|树状|从哪个|家谱|从谁|改来"
        r"|\bbaum\b|\bg[ée]n[ée]alog\w+|\bdescend\w*|\bdesciend\w*|\bentstanden\b|\bsalió de\b",
        re.IGNORECASE,
    ),
}


_NAMED_TOO = re.compile(  # “the first one, r-abc123”
    rf"\b(?:the|my|our)\s+(?:{'|'.join(words for _, words in _PLACES)})\s+(?:one|run|training|job)\s*[,:(]?\s*"
    rf"({RUN_ID.pattern})",
    re.IGNORECASE,
)

_OTHER = re.compile(
    r"(?<!with )(?<!to )(?<!vs )(?<!than )(?<!over )(?<!against )(?<!versus )(?<!beside )\b(?:the|my|our)\s+"
    r"(?:(?:other|older|earlier|previous)\s+(?:one|run|training|job)\b|one before(?: that)?\b)(?!.*\bbehind\b)",
    re.IGNORECASE,
)
_OTHER_ELSEWHERE = re.compile(
    r"(?<!mit )(?<!zu )(?<!zum )(?<!gegen )(?<!als )(?<!avec )(?<!que )(?<!contre )(?<!con )(?<!contra )"
    r"(?<![和跟与比])(?:"
    r"\b(?:der|den|dem|das) (?:(?:andere|ältere|vorige|vorherige)[nr]?|andern)\b|\b(?:l['’]autre|l['’]ancien"
    r"|le plus ancien"
    r"|le précédent)\b"
    r"|\bel (?:otro|anterior|más antiguo)\b|(?:另一个|之前那个|上一?个(?:任务|训练)?|旧的那个))"
    r"(?!.*\b(?:behind|card|carte|karte)\b)",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"(?<!with )(?<!to )(?<!vs )(?<!than )(?<!over )(?<!against )\bthe (?:run|training|job|one) (?:just |right )?before"
    r"(?: (?:this|that|it)(?: one)?)?\W*$",
    re.IGNORECASE,
)
_NOT_NAMES = (
    r"run|training|job|model|card|team|it|that|this|he|she|what|who|there|here|let|how|where|when|day|night|week|month"
    r"|today|yesterday|morning"
)
_OF_OTHERS = re.compile(
    rf"\b(?!(?:\w*(?:{_NOT_NAMES}))['’]s\b)[^\W\d_]{{2,}}['’]s? (?:\w+ )?(?:run|training|job|experiment)\b"
    r"|\b(?:his|her|their|deren|seinen?|ihren?|leur|somebody else['’]s|someone else['’]s) (?:\w+ )?(?:run"
    r"|training|job|experiment"
    r"|lauf|entra[iî]nement|entrenamiento)\b|\b(?:hers|theirs)\b"
    r"|\b(?-i:(?:Lauf|Training|Job|Run) von (?:[A-Z]\w+))\b"
    r"|\b(?-i:(?:entra[iî]nement|run|job|entrenamiento) d(?:e |['’])[A-Z]\w+)\b"
    r"|(?:小[\u4e00-\u9fff]|老[\u4e00-\u9fff]|[他她]们?|别人|同事)的(?:训练|任务|运行)",
    re.IGNORECASE,
)
_ONE = r"(?:one|run|training|job|model|lauf|entra[iî]nement|entrenamiento)"
_WITH = re.compile(
    rf"\bthe\s+(?:{_ONE}\s+(?:with|at|using|that has|of)\s+(?:(?:a|the)\s+)?(?P<name>{NAME})\s*(?:of|="
    rf"|:)?\s*(?P<number>\d[\d.e-]*\d|\d)"
    rf"|(?P<value>\d[\d.e-]*)\s+{_ONE})\b",
    re.IGNORECASE,
)
_STATE = (
    r"(?:running|finished|done|completed|successful|failed|crashed|stopped|paused|queued|waiting|active|live"
    r"|laufende[nr]?|fertige[nr]?|fehlgeschlagene[nr]?|terminée?|fini|échoué|en cours|terminad[oa]|fallid[oa])"
)
_BY_STATE = re.compile(
    rf"\b(?:the|my|our)\s+{_STATE}\s+(?:one|run|job|training)\b|\b(?:the one|the run) (?:that|which)(?: is|['’]s"
    rf"| has| was)?"
    rf" (?:still |already )?{_STATE}\b|\b(?:de[nrms]|das)\s+{_STATE}\b|\b(?:le|la|el|celui qui est"
    rf"|el que est[áa])\s+{_STATE}\b"
    r"|(?:跑完|在跑|失败|停掉?)的?那个",
    re.IGNORECASE,
)
_RUNS = r"(?:one|run|model|training|experiment|lauf|modell|mod[eè]le|modelo|entrenamiento|entra[iî]nement)"
_BEST = re.compile(
    rf"\b(?:whichever|which|the {_RUNS} (?:that|which))\s+(?:{_RUNS}\s+)?(?:did|was|is|has|scored|performed|came out"
    r"|worked|turned out)\s+(?:the\s+)?(?:best|better|highest|higher)(?: score)?\b"
    rf"|\b(?:the|our|my)\s+(?:best|better|winning|top|strongest)(?:[- ]scoring)?(?:\s+{_RUNS}"
    r"|\s+of (?:the two|both|them|these|all))*\b(?!\s+(?:checkpoint|epoch|step|way|setting|metric|score))"
    r"|\bthe winner\b"
    rf"|\b(?:den|das|der|dem|le|la|el)\s+(?:beste[nrs]?|bessere[nrs]?|meilleure?|mejor)"
    rf"(?:\s+{_RUNS}|\s+(?:von beiden|des deux|de los dos))*\b"
    r"|(?:效果|表现|得分|分数)?最[好高佳]的?(?:那个|那次|一个|一次|模型|任务|训练|运行)",
    re.IGNORECASE,
)
_WORSE = re.compile(
    r"\b(?:the|my|our|den|das|der|le|la|el)\s+(?:worse|worst|slow(?:er|est)|fast(?:er|est)|small(?:er|est)"
    r"|big(?:ger|gest)"
    r"|larg(?:er|est)|losing|bad|weak(?:er|est)|schlechte\w*|langsam\w*|schneller\w*|pire|moins bonne?"
    r"|plus (?:lente?|mauvaise?)|peor"
    r"|más lent[oa])\b|最?[差慢]的?(?:那个|那次|一个|任务|训练)",
    re.IGNORECASE,
)
_MODEL = re.compile(r"\b(?:model|modell|modèle|modelo)\b|模型", re.IGNORECASE)


_STATES: Sequence[tuple[str, frozenset[RunState]]] = (
    (r"fail|crash|fehl|échou|fallid|失败", frozenset({RunState.FAILED, RunState.LOST})),
    (r"paus", frozenset({RunState.PAUSED, RunState.PAUSING})),
    (r"running|active|live|laufend|en cours|在跑", LIVE),
    (r"queued|waiting", frozenset({RunState.QUEUED})),
    (r"stopp|停", frozenset({RunState.STOPPED})),
    (r"finish|done|complet|success|fertig|fini|termin|跑完", frozenset({RunState.SUCCEEDED})),
)


def by_state(asked: str, now: Mapping[str, RunState]) -> str:
    """A request in which the only run in a state has its id: “stop the running one”. `now` has the states of all."""

    def named(said: re.Match[str]) -> str:
        states = next((states for way, states in _STATES if re.search(way, said.group(), re.IGNORECASE)), frozenset())
        fitting = [run for run, state in now.items() if state in states]
        return fitting[0] if len(fitting) == 1 else said.group()

    return _BY_STATE.sub(named, asked) if len(now) > 1 else asked


def by_id(asked: str, started: Sequence[str]) -> str:
    """A request in which a run has its id that is counted (“the second one”) or named without its `r-`.

    `started` has the first one first.
    """
    for run in started:
        asked = re.sub(rf"(?<![\w-]){run.removeprefix('r-')}(?![\w-])", run, asked, flags=re.IGNORECASE)
    asked = _NAMED_TOO.sub(r"\1", asked)
    for at, pattern in _COUNTED:
        if -len(started) <= at < len(started):
            asked = pattern.sub(started[at], asked)
    if len(started) != 2 or started[1] in asked or _BY_STATE.search(asked):  # “not the finished one, the other”
        return asked
    return _OTHER_ELSEWHERE.sub(started[0], _OTHER.sub(started[0], asked))


def by_settings(asked: str, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """A request in which a run has its id that is named by its settings; `settings` has those of each run."""
    for said in _WITH.finditer(asked):
        value = figure(said["number"] or said["value"])
        of = [run for run, known in settings.items() if _has(known, said["name"], value)]
        if len(of) == 1 < len(settings):
            return asked[: said.start()] + of[0] + asked[said.end() :]
    return asked


def _has(known: Mapping[str, Any], name: str | None, value: float) -> bool:
    return known.get(setting_called(name)) == value if name else value in known.values()


def names_by_state(asked: str) -> bool:
    """Whether one of several runs is meant by what it does, which the conversation alone does not tell."""
    return bool(_BY_STATE.search(asked)) and not runs_in(asked)


def means_other(asked: str) -> bool:
    """Whether a run is meant that is not the newest one and has no name here."""
    counted = (pattern for _, pattern in _COUNTED)
    return any(way.search(asked) for way in (_OTHER, _OTHER_ELSEWHERE, _EARLIER, *counted)) and not runs_in(asked)


def is_of_others(asked: str) -> bool:
    """Whether somebody else's run is meant, and none is named."""
    return bool(_OF_OTHERS.search(asked)) and not runs_in(asked)


_ALL = re.compile(
    r"\b(?:everything|both(?: of them)?|all (?:of )?(?:them|it|the|my|our)?\s*(?:runs|trainings|jobs)?|alles|alle|beide"
    r"|tous|toutes|tout|les deux|todos|todas|todo|los dos)(?!\w)|所有|全部|两个都",
    re.IGNORECASE,
)


def means_all(asked: str) -> bool:
    """Whether more than one run is meant, and none is named."""
    return bool(_ALL.search(asked)) and not runs_in(asked)


def means_worse(asked: str) -> bool:
    """Whether one of several runs is meant by how good it is, and none is named."""
    return bool(_BEST.search(asked) or _WORSE.search(asked)) and not runs_in(asked)


def wants_best(asked: str) -> bool:
    """Whether the run with the best result is meant, and no other one is named."""
    return bool(_BEST.search(asked)) and not runs_in(asked)


def by_rank(asked: str, ranked: Sequence[str]) -> str:
    """A request in which the best run stands by its id; `ranked` has the best first."""
    return (
        _BEST.sub(lambda best: ("model " if _MODEL.search(best.group()) else "") + ranked[0], asked)
        if ranked
        else asked
    )


def runs_in(asked: str) -> tuple[str, ...]:
    """The runs that are named, each once."""
    return tuple(dict.fromkeys(RUN_ID.findall(asked.lower())))


def run_to_act_on(asked: str) -> str | None:
    """The run that a wish names; one that only its reason names is not meant. Raises: BadRequest."""
    named = runs_in(wish_in(asked))
    if not named and runs_in(asked):
        raise BadRequest("Nothing was done, since I am not sure which run is meant. Say no more than “stop r-abc123”.")
    return named[0] if named else None


def experiments_arguments(asked: str) -> dict[str, Any]:
    """Whether the runs of all threads are meant, and whether by which came from which."""
    return {key: True for key, pattern in _EXPERIMENTS.items() if pattern.search(asked)}
