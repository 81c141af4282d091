"""What a request is about: a linear classifier over n-grams and concepts, and the conditions for acting on it.

`intents.npz` has the weights, made by `make intents` of `intents.tsv`. What changes a run at once needs
more than a high probability: its verb, no word that its intent does not know, no negation, condition or report.
"""

import re
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from agent.llm.features import MASKED, TABLE, WEIGHTS, concepts, features, fillers, masked, words_of
from agent.llm.places import ACT, Place, Reading, in_place
from agent.llm.slots.actions import ACTS, ASKED, ENDS, GENTLY, NOT_DONE, RUN, for_now, meant, wish_in
from agent.llm.slots.changes import changes_in
from agent.llm.slots.charts import CARD
from agent.llm.slots.moments import (
    begins_with_a_moment,
    from_the_start,
    names_a_moment,
    names_a_place,
    names_a_span,
    takes_back,
    waits_for_a_run,
)
from agent.llm.slots.numbers import in_figures
from agent.llm.slots.wanted import ABLE, is_begun, is_to_somebody, is_wished
from agent.llm.things import is_of_another_thing

# Done at once too, with what is said beside the words that name them.
_AT_ONCE = frozenset(
    {
        *("set_card", "prefer_model", "set_budget", "set_allowance"),
        *("new_session", "undo_turn", "compact_session"),
    }
)
_LOOKS = frozenset(
    {
        *("run_status", "run_logs", "run_metrics", "run_chart", "run_results", "run_checkpoints", "run_attempts"),
        *("run_script", "list_runs", "list_queue", "list_hosts", "list_experiments", "compare_runs", "show_cost"),
    }
)
_OF_THE_TALK = frozenset({"new_session", "compact_session", "export_session"})
_OF_A_RUN = frozenset({"result", "metric", "chart", "log", "checkpoint", "xrun", "train", "evaluate", "script"})
SURE_AT_ONCE = 0.75
SURE, SURE_TO_ACT, SURER, MAYBE, VETO = 0.5, 0.8, 0.9, 0.2, 0.9
_MINE = re.compile(
    r"\b(?:i|me|my|mine|myself|ich|mich|mir|mein\w*|moi|mes|mon|ma|je|j['’]\w+|m['’]\w+|(?:olv[íi]d|b[óo]rr|elim[íi]n)\w*me|mi|mis|m[ií]os?"
    r"|m[ií]as?|yo|person)\b|我",
    re.IGNORECASE,
)
_IT = rf"(?:\W+{RUN}|{ENDS})"
# What is told of a thing, without a wish behind it.
_ONLY_TOLD = re.compile(
    r"\W*(?:the|our|my|its|das|die|der|den|le|la|les|el|los|las)\s[^,;.!?:]*\b(?:was|were|is|are|has|had|war"
    r"|waren|ist|sind|était"
    r"|est|sont|fue|era|es|son)\b[^,;.!?:]*[.!]?\s*$",
    re.IGNORECASE,
)
# Requests to act in English, whose every following word is read.
_ACTS = (
    ("no", NOT_DONE),
    ("set_card", rf"^(?!{ASKED}{ACTS}\W+{RUN}(?!(?:['’]s)?\s+card\b)){CARD}"),
    ("stop_run", rf"{ASKED}(?:stop|cancel|abort|end|halt|terminate){_IT}"),
    ("kill_run", rf"{ASKED}kill{_IT}"),
    ("pause_run", rf"{ASKED}(?:pause|hold|suspend){_IT}"),
    ("resume_run", rf"{ASKED}(?:(?:resume|unpause){_IT}|(?:continue|go on with|carry on with)\W+{RUN})"),
    ("retry_run", rf"{ASKED}(?:(?:retry|restart){_IT}|try\W+{RUN}\W+again\W*$)"),
    (
        "set_priority",
        rf"{ASKED}(?:(?:{RUN}|this|mine)\W+(?:can|could|may) wait\b(?:\s(?:until|till|for)\b[^.,;!?]*)?"
        rf"|let (?:the )?(?:others?|rest)\b.{{0,20}}\bfirst\b)"
        r"|^\W*(?:(?:it|this|that)\W+)?(?:(?:is|it['’]s)\W+)?(?:not|isn['’]t) (?:\w+ )?urgent\b"
        r"(?=.*\b(?:priority|first)\b)"
        rf"|{ASKED}(?:bump|set|put|move|raise|change|lower|push)\W+{RUN}\W+(?:up |down )?to (?:high|low|normal)\b"
        rf"|{ASKED}(?:(?:de-?)?prioriti[sz]e"
        r"|(?:give|set|make|put|move|raise|lower|increase|reduce|decrease|drop|bump)\b(?=.*\bpriority\b))\b",
    ),
    (
        "compare_runs",
        r"^\W*(?:what|how|where|in what way)\b[^.;!]*\b(?:differs?|difference|differently|different)\b[^.;!]*\b(?:runs"
        r"|trainings|experiments|models|both|the two|th[eo]se two)\b",
    ),
    ("predict_as_job", rf"{ASKED}(?:batch[ -]?)?predict\b.*\bas a job\b"),
    ("evaluate_model", rf"{ASKED}(?:(?:re-?)?evaluate|measure)\b"),
    (
        "download_artifact",
        rf"{ASKED}(?:download\W+(?:{RUN}|(?:(?:the|my|its|this|that) )?(?:\w+ )?(?:model|weights|artifacts?|bundle)\b)"
        r"|(?:give|send|hand) (?:me|us) (?:the |its )?(?:model|weights|artifacts?)"
        r"\W*(?:of\b|from\b|$))",
    ),
)
_DONE_WITH_IT = frozenset({"pause", "paused", "stop", "stopped", "kill", "resume", "retry", "prio"})
_VERBS = {
    "stop_run": {"stop"},
    "kill_run": {"kill"},
    "pause_run": {"pause", "stop"},
    "resume_run": {"resume"},
    "retry_run": {"retry", "again"},
    "set_priority": {"prio"},
}
# Verbs beside which a thing is wished for all the same: “force it to stop”, “pick it up again”.
_SAME_AS = {
    "kill_run": frozenset({"stop"}),
    "retry_run": frozenset({"resume"}),
    "pause_run": frozenset({"resume"}),
}
# Verbs of other acts, beside which it is unclear what is wanted.
_OTHERWISE = {
    one: set.union(*_VERBS.values()) - verbs - {"again"} - _SAME_AS.get(one, frozenset())
    for one, verbs in _VERBS.items()
}
_TO_LEARN = frozenset({"train", "again", "target", "predict"})
_OF_SOMETHING_ELSE = frozenset({"chart", "conversation"})
_TRIES = re.compile(r"\b(?:try|tries|versuch\w*|r[ée]?essa\w+|intent\w*)\b|试", re.IGNORECASE)
_OR = re.compile(r"\b(?:or|oder|ou|o)\b|还是|或", re.IGNORECASE)
_ANY_VERB = frozenset.union(*map(frozenset, _VERBS.values())) - {"again"}
_CLAUSES = re.compile(r"[,.;:!?…](?:\s+|$)|[，。；！？]|\s[-–—]+\s|\s(?=(?:so|but|because)\s)")
_NO_GAIN = re.compile(
    r"\b(?:we|i|nobody) (?:don['’]?t|do not|no longer|doesn['’]?t)? ?needs? (?:the|this|that|it)\b[^,.;]*"
    r"|\bwir brauchen [^,.;]*nicht mehr\b"
    r"|\b(?:wird|ist) nicht mehr (?:gebraucht|nötig)\b|\bon n['’]a plus besoin [^,.;]*|\bya no (?:hace falta"
    r"|necesit\w+)\b[^,.;]*"
    r"|(?:不需要|用不着|不用)[^,，。；]*了|(?:别|不)(?:练|跑|训练)了|"
    r"\b(?:(?:it|this|that)(?:['’]s| is)?\s)?(?:isn['’]?t|not|doesn['’]?t|won['’]?t|no)\s(?:\w+\s)?(?:going anywhere"
    r"|improv\w+|learn\w*"
    r"|work\w*|get\w* (?:any )?better|worth it|progress|needed)\b|\b(?:no use|hopeless|pointless)\b",
    re.IGNORECASE,
)
_FORBIDS = frozenset({"not", "nope", "if", "later", "said", "maybe", "who", "why", "how", "what", "did"})
# What a sentence before an act must not speak of.
_NOT_TOLD = frozenset({"not", "nope", "if", "later", "said", *(word for words in _VERBS.values() for word in words)})
_TOLD_IF = frozenset({"if", "later", "said"})
_DEADLINE = re.compile(
    r"\b(?:needs?|present\w*|demo|due|deadline|meeting|board|review|release|launch|besoin|brauch\w*|präsentier\w*"
    r"|abgabe|besoin|client\w*|kunde\w*|necesit\w*|hace falta|reuni[óo]n|entrega\w*|rendu"
    r"|es para|c['’]est pour|ist für|is for)\b"
    r"|要用|要交|要看|演示|汇报|截止",
    re.IGNORECASE,
)
_ONLY_THEN = re.compile(
    r"\W*(?:but|only|from|as of|starting|not before|erst|ab|aber|nur|seulement|à partir|dès|mais|solo|desde|pero)\b"
    r"|从|但",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(NOT_DONE, re.IGNORECASE)
_RATHER = re.compile(
    rf"{NOT_DONE}[^,;.!?]*?(?:[,;.!]\s*|\s+(?=but|just|rather))(?:(?:but|just|only|rather|instead"
    rf"|please)\W+)*(?P<wish>.+?)(?:\W+instead)?\W*$",
    re.IGNORECASE | re.DOTALL,
)
_NO_WISHES = frozenset({"none", "cannot", "thanks"})
_TALK = frozenset({"none", "yes", "no", "thanks", "help", "cannot"})
# Of which the conversation says the one that is meant, or which both show the same picture.
_ALIKE = (
    {"train", "predict"}, {"again", "clone_run"}, {"run_chart", "run_results"}, {"predict", "predict_as_job"}
)  # fmt: skip
PLANNED = frozenset({"train", "again", "clone_run", "serve_model", "evaluate_model", "predict_as_job"})
# Asks whether somebody did what is done at once: how the run is says so.
_WHETHER_DONE = re.compile(
    r"\W*(?:and |so |hm+,? |wait,? )*(?:did|has|have|was|is|who|what['’]?s?|which|hat|haben|wurde|wer"
    r"|ist|a-t-on|est-ce qu|qui a|ha|han|fue|qui[eé]n)\b[^.!;]*[?？]\W*$",
    re.IGNORECASE,
)
# Questions, verbs as names, runs that are left out, and hosts: none asks for an act on the run that is named.
_NO_WISH = re.compile(
    r"[,，]\s*(?:right|oder|verdad|no|non|对吗|是吗)\s*[?？]\W*$|^\W*(?:warte\w*|wait|attend(?:s|ez)|esper[ae]\w*)\b"
    r"|^\W*(?:等等|等一下|稍等)"
    r"|\b(?:another|an extra|one more|a few more|some more|more) (?:hours?|minutes?|days?|nights?|weeks?|gpus?"
    r"|memory|time (?:to|for))\b"
    r"|^\W*(?:is|are|was|were|does|do(?! you mind)|did|has|have(?! (?:it|the|my|this|that|r-|another)\b)|had|will"
    rf"|(?:would|can|could)(?! (?:you|we (?:\w+ )?{ACTS}\W+{RUN}|we please"
    r"|(?:this|that|it|mine|ours|my|our|we)\b[^?.!]*\b(?:first|front|ahead|up|next|line|queue|before"
    r"|priority)\b))|should|shall|may"
    r"|might|who|whose|what|when|why|how|which|where)\b(?!n['’]t)"
    r"|\b(?:leave|keep)\b[^.,;]*\b(?:priority|it|everything|order)\s+(?:just |exactly )?(?:as|where) (?:it "
    r"|they )?(?:is|are|was)\b"
    r"|^\W*priority\b[^=]*\?\s*$|^\W*(?:the )?others? (?:are|is|were|was|have|had)\b"
    r"|\b(?<!end )(?<!lift )(?<!undo )(?:the|a|an|no|its|every|each)\s+(?:stop|kill|pause|retry|restart)\b"
    r"|\b(?:but|except|apart from|other than|besides)\s+(?:for\s+)?(?:r-|the|it\b|that|this|my|mine|gpu)"
    r"|\b(?:stop|kill|pause|resume|retry|restart)\s+(?:the\s+)?"
    r"(?:hosts?|workers?|servers?|bot|queue|gpus?|machines?|(?:gpu|node|host)-?\d|clock|cards?|posting|updates)",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"(?:^|[.,;:!?]\s|\b(?:but|so|and)\s)\W*(?:please )?(?:(?:can|could|would|will) (?:you|we)(?: mind)?"
    r"|(?:kannst|konntest|peux|pourrais)[ -](?:du|tu)|(?:konnt|konntet|konnen|konnten) (?:ihr|sie|wir)"
    r"|(?:pouvez|pourriez)[ -]vous|podrias|podemos)\b|能不能|可不可以|能否|麻烦你?"
)


_WHAT_IS_IN = re.compile(
    r"\W*(?:(?:so|ok|hm+|and|wait)\W+)*what(?:['’]?s| is| are)\s+(?:\w+\s)?in\s+(?:this|that|the|it|here|there)"
    r"\b[^.,;]*\??\W*$",
    re.IGNORECASE,
)
_HOW = re.compile(
    r"\W*(?:how (?:do|does|can|would|to)|wie (?:kann|setzt|macht)|comment|cómo)\b|怎么|如何", re.IGNORECASE
)
_ANYWHERE = Place()


class Decision(NamedTuple):
    """What to do with a request: `intent`, or ask which of `between` is meant."""

    intent: str | None
    between: tuple[str, ...] = ()


@cache
def _model() -> tuple[list[str], Any, Any]:
    import numpy as np  # noqa: PLC0415 - the bot starts without it

    with np.load(WEIGHTS) as stored:
        return stored["names"].tolist(), stored["weights"].astype(np.float32).T.copy(), stored["bias"]


@cache
def known_words(intent: str) -> frozenset[str]:
    """The words in which the table says an intent, and masks."""
    lines = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines())
    said = {word for name, _, words in lines if name == intent for word in words_of(masked(in_figures(words)))}
    return frozenset(said | fillers() | {"xrun", "xhost"})


@cache
def _grammar() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((intent, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for intent, pattern in _ACTS)


def readings(said: str) -> list[Reading]:
    """All intents of a masked sentence, the most probable first."""
    import numpy as np  # noqa: PLC0415 - the bot starts without it

    names, weights, bias = _model()
    found = features(said)
    scores = bias + np.array(list(found.values()), np.float32) @ weights[list(found)]
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    return sorted(map(Reading, names, chances.tolist()), key=attrgetter("chance"), reverse=True)


def decide(asked: str, place: Place = _ANYWHERE) -> Decision:
    """What a request is about; a file without words means: look at it.

    Raises:
        BadRequest: a run is wanted again with a number that cannot be read.
    """
    if not re.search(r"\w", asked):
        return Decision("inspect_dataset" if place.with_file else None)
    asked = in_figures(asked, keep=place.columns)
    decision = _decided(asked, place)
    if decision.intent in PLANNED and place.has_runs and waits_for_a_run(asked):
        return Decision("later")
    return _at_once(decision, asked) if decision.intent in _VERBS else decision


def _at_once(decision: Decision, asked: str) -> Decision:
    """An act on a run, unless it is wished for another moment, in part, or with what nothing here reads."""
    act = str(decision.intent)
    wish = wish_in(for_now(asked) if act == "pause_run" else asked)
    said = wish if _ANY_VERB & set(concepts(masked(wish))) else asked  # a reason may stand first
    clauses = [clause for clause in _CLAUSES.split(said) if re.search(r"\w", clause)]
    spoken = {clause: set(concepts(masked(clause))) for clause in clauses}
    asking = [clause for clause in clauses if _VERBS[act] & spoken[clause]]
    asking = asking or [one for one in clauses if _ANY_VERB & spoken[one] and not _DEADLINE.search(one)] or clauses
    others = [clause for clause in clauses if clause not in asking]
    if takes_back(asked) or any(_plans(one) for one in others if not _DEADLINE.search(one)):
        return Decision("unclear")
    again = act in {"resume_run", "retry_run"}  # for which hours are a setting of a new run
    moment = any(names_a_moment(clause) or (not again and names_a_span(clause)) for clause in asking)
    if act != "set_priority" and (moment or any(map(begins_with_a_moment, others))):
        return Decision("later")
    if again and from_the_start(wish):
        return Decision("clone_run")
    return Decision("unclear") if again and names_a_place(wish) else decision


def _decided(asked: str, place: Place) -> Decision:
    """What a request is about, before the moment of an act is looked at."""
    found = in_place(readings(masked(asked, place.columns)), place, asked)
    best = found[0]
    if (rather := _nothing_or_a_look(asked, place)) is not None:
        return rather
    if place.with_file and _WHAT_IS_IN.match(asked):
        return Decision("inspect_dataset")
    wish = _act_at_the_end(asked) or asked
    if (place.has_runs or not place.with_file) and (act := _act_in(wish)):
        return _checked(act, wish, place)
    spoken = set(concepts(masked(asked)))
    if place.has_runs and _WHETHER_DONE.match(asked) and best.intent in ACT | {"none"} and spoken & _DONE_WITH_IT:
        return Decision("list_queue" if best.intent == "set_priority" else "run_status")
    if best.intent in ACT:
        return _acting(best, asked, found, place)
    if _is_doubtful(best.intent, spoken, asked):
        return _between(found)
    if best.intent in {"train", "again"} and "serve" in spoken and spoken.isdisjoint(_TO_LEARN):
        return Decision(None, ("serve_model", best.intent))
    if _is_only_told(best.intent, asked):
        return Decision(None)
    return _as_sure(found, asked, place)


def _as_sure(found: list[Reading], asked: str, place: Place) -> Decision:
    """The best reading where it is sure enough, what one clause amid talk wishes for, or a question."""
    best = found[0]
    alike = {best.intent, found[1].intent} in _ALIKE
    sure = best.chance + (found[1].chance if alike else 0.0)
    if sure >= (SURE_AT_ONCE if best.intent in _AT_ONCE else SURE) and best.intent not in _NO_WISHES:
        return Decision(best.intent)
    if (amid := _amid_talk(asked, place)) is not None:
        return _acting(amid, asked, found, place) if amid.intent in ACT else Decision(amid.intent)
    return Decision(None if best.intent == "none" else best.intent) if sure >= SURE else _between(found)


def _amid_talk(asked: str, place: Place) -> Reading | None:
    """What the only clause wishes for that is no talk: “NER model please, it may use the hub”."""
    clauses = [clause for clause in _CLAUSES.split(asked) if re.search(r"\w", clause)]
    read = [in_place(readings(masked(clause, place.columns)), place, clause)[0] for clause in clauses]
    wishes = [one for one in read if one.intent not in _TALK | _AT_ONCE and one.chance >= SURER]
    others = {one.intent for one in read} - {one.intent for one in wishes}
    if len({one.intent for one in wishes}) != 1 or not others <= _NO_WISHES:
        return None
    return None if _is_only_told(wishes[0].intent, asked) else wishes[0]


def _nothing_or_a_look(asked: str, place: Place) -> Decision | None:
    """Nothing where somebody else is spoken to; a look instead of an act: “don't stop it, just show me the loss”."""
    if is_to_somebody(asked):
        return Decision(None)
    rather = _RATHER.match(asked)
    if rather is None or _act_in(rather["wish"]):
        return None
    instead = decide(rather["wish"], place)
    return instead if instead.intent in _LOOKS else None


def _is_doubtful(intent: str, spoken: set[str], asked: str) -> bool:
    """Whether the words do not say what the intent needs: “sum up the results” is no wish about what was said."""
    if intent == "forget_person":  # nothing of people is deleted by a guess
        return spoken.isdisjoint({"erase", "delete", "nope"}) or not _MINE.search(asked)
    return intent in _OF_THE_TALK and bool(spoken & _OF_A_RUN) and "conversation" not in spoken


def _is_only_told(intent: str, asked: str) -> bool:
    """Whether a thing that changes something is spoken of and not wished for."""
    if intent in PLANNED and not (is_wished(asked) and (intent != "serve_model" or is_begun(asked))):
        return True
    asks = intent in _OF_THE_TALK | {"undo_turn"} and asked.rstrip().endswith(("?", "？")) and not ABLE.search(asked)
    asks = asks or (intent in _AT_ONCE and bool(_HOW.match(asked)))
    return asks or (intent in _AT_ONCE and bool(_ONLY_TOLD.match(asked)))


def _checked(act: str, wish: str, place: Place) -> Decision:
    """What the grammar read, unless the words around it say otherwise."""
    if act in PLANNED and not is_wished(wish):
        return Decision(None)
    if act == "resume_run" and place.has_ended_badly:
        act = "retry_run"
    told = wish if act == "set_priority" else wish_in(wish)
    return Decision("unclear" if act in ACT and (_NO_WISH.search(told) or _refused(wish, place.columns)) else act)


def _refused(asked: str, columns: tuple[str, ...]) -> bool:
    """Whether words that begin like a request to act are none all the same."""
    wish = readings(masked(re.split(r"[.!?;]\s", asked, maxsplit=1)[0], columns))[0]
    return wish.intent in {"none", "no", "train"} and wish.chance > VETO


def _act_in(asked: str) -> str | None:
    for intent, pattern in _grammar():
        if found := pattern.search(asked):
            return meant(intent, asked[found.end() :], changes_in) if intent in ACT else intent
    return None


def wish_to_act(asked: str, act: str) -> str:
    """The part of a request that asks for an act: all of it, or the clause beside what is only told."""
    if act == "set_priority":  # how soon may stand in another clause
        return asked
    return _act_at_the_end(in_figures(asked)) or _wishing_part(asked, act)


def _act_at_the_end(asked: str) -> str | None:
    """The last sentence, where it plainly asks for an act behind ones that only tell, or say what not to do."""
    if (rather := _RATHER.match(asked)) and _act_in(rather["wish"]):
        return rather["wish"]
    *told, last = re.split(r"[.!;]\s+|,\s+(?=(?:so|please|then)\b)", asked.strip().rstrip(".!"))
    plainly = (
        told
        and not _plans(" ".join(told))
        and _NOT_TOLD.isdisjoint(concepts(masked(" ".join(told))))
        and "?" not in asked
    )
    return last if plainly and _act_in(last) in ACT else None


def _plans(told: str) -> bool:
    """Whether what stands before an act is a wish of its own, such as for a training."""
    best = readings(masked(told))[0]
    return best.intent in (PLANNED | {"predict"}) - {"again", "clone_run"} and best.chance >= SURER and is_wished(told)


def _acting(best: Reading, asked: str, found: list[Reading], place: Place) -> Decision:
    """Whether to act on what was not said in the words of the grammar."""
    if place.states and not place.fits(best.intent):
        return _between(found)  # “ich gebe das so weiter” resumes nothing that has ended
    asked = for_now(asked) if best.intent in {"pause_run", "set_priority"} else asked
    asked = _wishing_clause(_wishing_part(asked, best.intent), best.intent)
    if _NO_WISH.search(asked):
        return Decision(None)
    said = _POLITE.sub(" ", masked(wish_in(asked)))
    spoken = set(concepts(said))
    if spoken & _FORBIDS:
        waits = spoken & _VERBS[best.intent] and spoken & {"if", "later"}
        return Decision("later" if waits else None)
    wish = in_place(readings(masked(wish_in(asked))), place, asked)[0]
    chances = (best.chance, wish.chance if wish.intent == best.intent else 0.0)
    named = tuple(one for one, verbs in _VERBS.items() if spoken & (verbs - {"again"}))
    if len(named) > 1 and _OR.search(asked):
        return Decision(None, named[:2])
    unknown = set(words_of(said)) - known_words(best.intent) - GENTLY
    plainly = spoken & _VERBS[best.intent] and not unknown and max(chances) >= SURE_TO_ACT
    surely = min(chances) >= SURER and _is_harmless(unknown)
    tries = best.intent == "resume_run" and _TRIES.search(asked)
    otherwise = tries or spoken & (_OTHERWISE[best.intent] | _OF_SOMETHING_ELSE)
    if not (plainly or surely) or otherwise or is_of_another_thing(said, _ANY_VERB):
        return _between(found)
    return Decision("clone_run" if best.intent in {"retry_run", "resume_run"} and changes_in(asked) else best.intent)


def _wishing_part(asked: str, intent: str) -> str:
    """The only clause with the verb of an act, where the others just tell something; else all of it."""
    clauses = [clause for clause in _CLAUSES.split(_NO_GAIN.sub(" ", asked)) if re.search(r"\w", clause)]
    spoken = [set(concepts(masked(clause))) for clause in clauses]
    harmless = _SAME_AS.get(intent, frozenset()) | {"again"}
    wishing = [at for at, words in enumerate(spoken) if words & (_ANY_VERB - harmless)]
    if intent == "retry_run" and not wishing:
        wishing = [at for at, words in enumerate(spoken) if "again" in words]
    told = [at for at in range(len(clauses)) if at not in wishing]
    forbids = any(spoken[at] & (_NOT_TOLD - harmless) and not _is_no_moment(clauses[at], intent) for at in told)
    asks = "?" in asked and intent != "set_priority"
    beside = len(clauses) > 1 or _NO_GAIN.search(asked)
    return clauses[wishing[0]] if beside and len(wishing) == 1 and not (forbids or asks) else asked


def _is_no_moment(clause: str, intent: str) -> bool:
    """Whether a clause says until when what waits is needed, or that what pauses goes on later: no time to act at."""
    if intent == "pause_run":
        return "resume" in concepts(masked(clause)) and not _ONLY_THEN.match(clause)
    return intent == "set_priority" and bool(_DEADLINE.search(clause)) and not _ONLY_THEN.match(clause)


def _wishing_clause(asked: str, intent: str) -> str:
    """The only clause that asks for an act, where the others just tell something; else all of it."""
    clauses = [clause for clause in _CLAUSES.split(asked) if re.search(r"\w", clause)]
    wishes = [readings(masked(clause))[0] for clause in clauses]
    asking = [at for at, one in enumerate(wishes) if one.intent == intent and one.chance >= SURE_TO_ACT]
    if len(asking) != 1 or len(clauses) < 2:
        return asked
    told = [clause for at, clause in enumerate(clauses) if at not in asking]
    otherwise = any(wishes[at].intent in ACT for at in range(len(clauses)) if at not in asking)
    forbids = any(_TOLD_IF & set(concepts(masked(clause))) or _FORBIDDEN.match(clause) for clause in told)
    return asked if otherwise or forbids else clauses[asking[0]]


def _is_harmless(unknown: set[str]) -> bool:
    """Whether words that an intent does not know are one at most, and no number or name."""
    return len(unknown) <= 1 and unknown.isdisjoint(MASKED)


def _between(found: list[Reading]) -> Decision:
    """The two best readings, or the best one of what changes nothing at once, where they are worth a question."""
    worth = [one.intent for one in found[:4] if one.intent not in _TALK and one.chance >= MAYBE / 2][:2]
    enough = len(worth) == 2 or not set(worth) <= ACT | _AT_ONCE
    ask = enough and found[0].chance >= MAYBE and found[0].intent == worth[0]
    return Decision(None, tuple(worth) if ask else ())
