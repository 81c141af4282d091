"""Reads what people want done with a run: at once, later, or otherwise than before; and how soon it should start.

Called by `agent.llm.intents`, which decides that such a thing is meant. A sentence is read in clauses: the first one,
up to a reason, is the wish. Nothing is done at once that was wished for a later moment, under a condition, or with
other settings; what only a reason says does not matter.
"""

import re
from collections.abc import Callable

from agent.domain.errors import BadRequest
from agent.llm.slots import names

ASKED = r"^\W*(?:(?:please|now|ok(?:ay)?|so|and|then|hi|hello|hey|(?:can|could|would|will) you|let us|let's)\W+)*"
RUN = (
    r"(?:(?:it|(?:that|this)(?: one)?|everything)\b(?! from)"
    r"|(?:(?:the|my|this|that)\s+)?(?:runs?|training|jobs?|model|experiment)\b|r-[0-9a-z]{6}\b"
    r"|the (?:paused|failed|crashed|stopped|running|last|current) (?:one|run|job|training)\b)"
)
ACTS = r"(?:stop|cancel|abort|end|kill|pause|hold|resume|unpause|continue|retry|restart|clone|copy|duplicate)"
NOT_DONE = rf"{ASKED}(?:don['’]?t|do not|never)\s+(?:ever\s+)?{ACTS}\b"
NAME = names.NAME

# Sounds like a condition, or like another setting, and is none.
_HARMLESS = (
    r"(?:if it(?:['’]s| is)? still (?:alive|runs|running|there|going|active)|(?:if|when) (?:possible|you (?:can|could))"
    r"|as soon as (?:possible|you can)|at once|once more|after all|(?:from )?where (?:it|we|you) \w+(?: off)?"
    r"|with(?:out)? (?:a |its )?checkpoint|with (?:the |its )?same \w+|on (?:the |its )?same (?:host|machine|gpus?))\b"
)
# What may follow the run, with which a wish is still one for this moment and without changes.
_JUST_SO = (
    rf"(?:(?:(?:of|with (?:the )?id|named|called)\s+)?{RUN}|{_HARMLESS}|(?:please|pls|plz|(?:right )?now|right away"
    r"|straight away|immediately|asap|quickly|today|already|completely|entirely|anyway|gracefully|too|as well|again"
    r"|(?:one (?:more|last)|another|a second) time|for (?:now|me|good|real)|thanks|thank you|thx"
    r"|from (?:the|its) (?:\w+ )?checkpoint)\b)"
)
GENTLY = frozenset(
    {*("cleanly", "properly", "nicely", "sauber", "ordentlich"), *("proprement", "doucement", "limpiamente")}
)
ENDS = rf"(?:\W+{_JUST_SO})*\W*$"
_ENDS = re.compile(ENDS, re.IGNORECASE)
_ON_HOST = re.compile(r"\bon (?:host )?(?!step|epoch|round)[a-z][\w.-]*\d[\w.-]*", re.IGNORECASE)  # of what is ended
_GOES_ON = re.compile(rf"(?:\W+{_JUST_SO})*\s*\b(?:and|so|then)\b", re.IGNORECASE)
_HARMLESS_WORDS = re.compile(rf"\b{_HARMLESS}", re.IGNORECASE)

_SPANS = r"(?:seconds?|minutes?|mins?|hours?|days?|nights?|weeks?|while|bit|moment|few|next|last|[hms])\b"
_BREAK = re.compile(
    r"((?<!\s)(?:(?:\s*(?:[,.](?!\w)|[;:!?()…\n–—]|,(?=[a-z])|[，。；！？]|\s-+(?=\s)))+\s*"
    r"|\s+(?=(?:but|unless|only (?:if|when|after|at|once|in|before|until|on))\b)))",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"(?<!\s)\s+(?:because|since|due to|so that|now that|as(?! (?:soon|long|well|fast|quick|high|low|normal)\b)"
    rf"|for (?:an?|the|my|our) (?!{_SPANS})|to (?:save|free|make|let|give|avoid|see|look|check)\b"
    r"|(?:i|we)(?:['’]\w+| (?:need|want|must|will|have to|do not|don['’]?t|forgot|made a mistake))"
    r"|it(?:['’]s| (?:is|has|\w+(?<![s])s|\w+ed|was|had|did|will))|there(?:['’]s| (?:is|are|was))"
    r"|the \w+ (?:is|are|was|were|has|had)"
    r"|before (?:it|this|that|they|more)"
    r" (?!reach|finish|end|complet|converg|start|beg[ai]n|is (?!too)|has|gets? to))\b",
    re.IGNORECASE,
)
_BECAUSE = re.compile(
    r"(?<!\s)\s+(?:because|due to|so that|now that|(?:as|since) (?:it|there|i|we|they|the \w+ (?:is|was|has|had"
    r"|are|were))"
    r"|(?:it|which) (?:failed|crashed|died)|weil|denn|parce qu\w*|car|puisque|porque|ya que"
    r"|que (?:es|se|ya|nos|hay|tenemos|estamos|necesit\w+))\b|(?<!\s)\s*因为",
    re.IGNORECASE,
)
# A whole clause that gives a reason: it has someone or something that is, was or does; and one that makes a demand.
_TELLS = re.compile(
    r"(?:(?:and|but|so|then)\s+)?(?:because|since|as|due to|it|its|it['’]s|there|i|we|they|you|that|this(?! time)|my"
    r"|our|failed|crashed|died|stopped|hung|diverged|overfitted|interrupted|fixed|ran|went|got|lost"
    r"|some(?:one|body)|no(?:body| one)|people"
    rf"|the(?!\s+(?:{NAME}|same|next|new)\b))\b|(?!(?:(?:but|and|just|please)\s+)*(?:(?:the\s+)?{NAME}|(?:with "
    rf"|on )?\d+\s*gpus?\b"
    r"|have (?:it|this|that|the)\b)).*\b(?:is|are|was|were|has|had|have)\b"
    r"|.*\b(?:at|in|after|around|during|since) (?:the )?(?:\S+ )?(?:steps?|epochs?|rounds?)\b",
    re.IGNORECASE | re.DOTALL,
)
# The same in other languages, where the clause names no moment and no condition.
_TELLS_ELSEWHERE = re.compile(
    r"(?!.*(?:\b(?:demain|morgen|mañana|luego|hasta|jusqu\w*|bis|si|wenn|falls)\b|明天|如果))(?:no (?:mejora|progresa"
    r"|avanza|sirve|aprende|funciona|vale la pena)|(?:ça |il )?ne (?:progresse|avance|marche"
    r"|sert|apprend)"
    r"|(?:das |es )?(?:bringt|lernt|wird) nichts|没(?:有)?(?:用|进展|意义|提高|必要))"
    r"|(?!.*(?:\b(?:bis|morgen|sp[äa]ter|wenn|falls|sobald|erst|nach|soll\w*|muss|nicht|demain|quand|si|d[èe]s|apr[èe]s"
    r"|jusqu\w*|doit|pas|mañana|cuando|despu[ée]s|hasta|debe\w*|no|sino|aber|mais|pero)\b|\d|明天|等|之后|如果|再|先"
    r"|不|但))"
    r"(?:(?:er|sie|es|ich|wir|man|jemand|(?:der|die|das) \w+ (?:ist|sind|war|hat|haben|wird|braucht|bringt|l[äa]uft)"
    r"|il|elle|[çc]a|c['’]est|je|on (?:a(?! [cg]pu)(?= (?:\w+ )?\w+(?:é|ée|és|i|u|is|it)\b)|est|n['’])|nous"
    r"|j['’]ai|quelqu['’]un|ya|est[áa]|hay"
    r"|necesito|necesitamos|alguien|se)\b|我|它|有人|已经)",
    re.IGNORECASE | re.DOTALL,
)
_WHICH_IS = re.compile(
    r"\b(?:which|that|who) (?:is|are|was|has|have|had)\b.*", re.IGNORECASE | re.DOTALL
)  # told of a thing
_DEMANDS = re.compile(
    r"\b(?:should|must|shall|ha(?:s|ve) to|use|take(?= (?:up to |at most |about )?\d)|give it|allow|wants?|would like"
    rf"|(?:you|we|ihr|du|vous|tu) (?:can|may|could|kannst|könnt|peux|pouvez) (?:now |again |please )?(?:{ACTS}"
    rf"|let|go on|carry on)"
    r"|so (?:please )?(?:do|run|use|make|give|put|start) (?:it|this|that|them)\b"
    r"|(?:may|can|could|might) (?:take|use|run|have|last|cost)|takes? (?:up to|at most)"
    r"|(?:is|are) (?:fine|ok(?:ay)?|enough|plenty|all ?right|the (?:most|maximum|limit))"
    r"|needs? (?:an?|at least|more|fewer|less|another|\d+))\b",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:when(?:ever)?|if|unless|in case|provided|assuming|should it|once|after|before|until|till|later|tomorrow"
    r"|tonight|only|not (?:now|yet)|no (?:sooner|earlier)|as (?:soon|long)|the (?:moment|minute|next|second|instant)"
    r"|(?:at|on|by|around|upon) (?:the )?(?:step|epoch|round|noon|midnight|night|next|earliest"
    r"|end(?! of the (?:priority|queue)))|at (?:about |around )?\d+|around \d+"
    r"|in (?:about )?(?:\d+|an?|half|some|the (?:morning|evening))|(?:from|as of|starting) (?:tomorrow|tonight|next)"
    r"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|this (?:morning|afternoon|evening)|by \d+:\d+)\b"
    r"|\b(?:at|by) \d+ ?(?:am|pm)\b",
    re.IGNORECASE,
)
_FOR_A_WHILE = re.compile(rf"\bfor (?:about )?(?:\d+|an?|half an?|some|the|another) ?{_SPANS}", re.IGNORECASE)
# Until when a run is to pause or may wait, which begins at once.
_UNTIL = re.compile(
    r"(?<!wait )(?<!stop )\s(?:until|till|['’]?til|bis|jusqu['’]?\w*|hasta(?: que)?"
    r"|while|as long as|during|solange|während|le temps (?:que|de)|pendant(?: que)?|mientras|durante)\s(?!(?:the |it "
    r"|its )?(?:next |step|epoch"
    r"|checkpoint|converg|finish|reach))[^,.;!?]*|(?<=等)[^，。；]*(?:完|结束|以后|之后)"
    r"|\s(?:and|und|et|y)\s+(?:then\s+|dann\s+|puis\s+|luego\s+)?(?:later(?: on)?|afterwards?|später|nachher|danach"
    r"|plus tard|ensuite|más tarde|después)\s+(?:\w+\s+)?(?:resum\w+|continu\w+|go on|carry on|weiter\w*|fortsetz\w*"
    r"|repren\w*|sigu\w*|continú\w*|reanud\w*)"
    r"|\s(?:and|und|et|y)\s+(?:resum\w+|continu\w+|go on|carry on|reprends?|continúa\w*|reanuda\w*)(?:\s\w+)?"
    r"\s+(?:later|afterwards?|plus tard|ensuite|más tarde|después)\b"
    r"|[，,]?(?:晚点|之后|待会儿?|过会儿?|稍后|回头)再(?:继续|跑|恢复|接着)\w*",
    re.IGNORECASE,
)
_A_WHILE = re.compile(r"\bfor (?:a|the) (?:little )?(?:bit|while|moment|sec(?:ond)?)\b", re.IGNORECASE)  # of any length
# How a later clause begins that says when, before the moment or the condition; and one that only tells what was.
_WHEN = re.compile(
    r"(?:(?:but|only|and|please|just|so|then|however|or|maybe|ideally|preferably|say|at least"
    r"|right|exactly|shortly|directly|immediately|not(?! (?:now|yet))"
    rf"|do (?:it|so|that|this)|{ACTS}\W+{RUN})\W+)*"
    r"(?:(?P<wait>wait|hold off)\b"
    r"|(?P<first>(?:let it|it (?:should|can|may|must)) (?:first )?(?:finish|reach|run on|go on|complete|end)"
    r"|(?:finish|complete) (?:the|this|its))\b)?",
    re.IGNORECASE,
)
_WAS_THEN = re.compile(
    r"(?:later|tomorrow|tonight)\s+(?:i|we)\b|(?:at|in|after|on)\s+(?:(?!(?:it|i|we|they)\b)\S+\s+){1,4}(?:it|i|we"
    r"|they)\s+"
    r"(?:was|were|had|did|began|got|went|took|\w+ed|(?:is|are|has) (?:still|only|not|never))\b",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"\b(?:with|using|use|instead|lower|higher|smaller|larger|bigger|more|fewer|less|longer|another|different|other|new"
    rf"|on\s+\w+|{NAME}|gpus?|hours?|hosts?)\b",
    re.IGNORECASE,
)
_FROM = re.compile(r"\bfrom\s+(?:the\s+)?(?:\w+\s+)?(?:steps?|epochs?|rounds?)\b", re.IGNORECASE)

_LEVEL = r"(high|normal|low)(?:er|est)?\b"
_LEVELS = re.compile(rf"\b{_LEVEL}", re.IGNORECASE)
_STATED = re.compile(
    r"\bprio(?:rity)?\s*(?:[=:]|back to|to)\s*(high|normal|low)\b|\bback to (high|normal|low)\b"
    r"|\b(high|normal|low) prio(?:rity)?\b",
    re.IGNORECASE,
)
_BECOMES = re.compile(rf"\bto\s+(?:(?:a|the)\s+)?{_LEVEL}", re.IGNORECASE)
# What names the run or its earlier priority, or by how much.
_WAS = re.compile(
    rf"\bfrom\s+(?:(?:a|the)\s+)?{_LEVEL}|\br-[0-9a-z]{{6}}\b|\b(?:last|first)\s+(?:run|training|job|model|one)\b"
    r"|\bby\s+(?:1|one)\b",
    re.IGNORECASE,
)
_STEP = re.compile(r"(?<![\w.-])([+-]?\d+(?:\.\d+)?)(?![\w.]*\w)")
_NOT = re.compile(
    r"\b(?:not|no|never|without|cannot|\w+n['’]t|(?:do|does|did|is|are|was|were|ca|wo|should)nt)\b", re.IGNORECASE
)
_BEYOND = re.compile(r"\b(below|above|under|over)\s+normal\b", re.IGNORECASE)
_UP = re.compile(
    r"\b(?:up|raise|increase|bump|top|front|first|more(?! thing)|ahead|urgent|rush|skip the line|jump the queue"
    r"|precedence"
    r"|jump|before|expedite|promote|fast-?track|next"
    r"|vor(?:ne?|ziehen|rang)?|ganz vorne?|dringend|eilig|hohe?[nr]?|erhöhe|anheben|haute?|tête|devant|urgente?"
    r"|monte[rz]?|avant|premier"
    r"|prisa|s[uú]be\w*|delante|primer[oa]?|principio|alta)\b|前|急|插队|提高|优先(?!级)|高",
    re.IGNORECASE,
)
_DOWN = re.compile(
    r"\b(?:down|less|reduce|decrease|drop|bottom|back|end|last|behind|demote|de-?prioriti[sz]e"
    r"|hinten|hintan?|niedrig\w*|senke\w*|runter|basse|baisse\w*|fin|derrière|final|b[aá]ja\w*|atrás|detrás)\b|后|低"
    r"|降",
    re.IGNORECASE,
)
_YIELDS = re.compile(
    r"\b(?:others?|the rest|every(?:one|body)(?: else)?|any(?:one|body) else)\b[^.,;]*\b(?:first|before|ahead|pass"
    r"|in front)\b"
    r"|\b(?:can|could|may) wait\b|\bno (?:hurry|rush)\b|\b(?:not|isn['’]t|less) (?:\w+ )?(?:urgent|important)\b"
    r"|\b(?:kann|darf) warten\b|\bhat zeit\b|\b(?:nicht|keine) (?:dringend|eilig|eile)\b"
    r"|\blass\w* (?:die )?anderen? vor\b"
    r"|\bpeut attendre\b|\bpas (?:urgent|pressé)\b|\brien ne presse\b|\blaisse\w* passer\b"
    r"|\bpuede esperar\b|\bno (?:corre prisa|es urgente|hay prisa)\b|\bsin prisa\b|\bpasen? (?:los|las) demás\b|不着?急"
    r"|可以等|让别人|\beilt nicht\b|\bhat noch zeit\b|\bpas pressée?\b|\brien d['’]urgent\b|\bque espere\b",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"\bprioriti[sz]e\b|\bgive\b.*\bpriority\b", re.IGNORECASE)
_GIVES = re.compile(r"(?:(?:please|not|to)\s+)*(?:[+-]?\d+\W*$|(?:high|normal|low)(?:er|est)?\b)", re.IGNORECASE)
_NUMBERS = {"+1": "high", "1": "high", "0": "normal", "-1": "low"}


def meant(intent: str, rest: str, changes: Callable[[str], object]) -> str:
    """What a wish to act on a run comes to, by what follows the run in its sentence.

    `changes` reads the settings that are named in a text: with any it is a new run, which people approve. "later" is
    what cannot be waited for, "unclear" what cannot be followed exactly.
    """
    if _ENDS.match(rest):
        return intent
    again = intent in {"retry_run", "resume_run"}
    first, *others = _BREAK.split(rest)[::2]
    wish = _without_reason(first)
    if intent == "pause_run":
        wish = for_now(_A_WHILE.sub(" ", wish))
    if _waits(wish, again=again) or any(_says_when(clause, again=again) for clause in others):
        return "later"
    if again:
        wanted = wish_in(wish + rest[len(first) :])
        if _FROM.search(wanted):
            return "unclear"
        if changes(wanted):
            return "clone_run"
        if _OTHERWISE.search(re.sub(rf"\b{_JUST_SO}", " ", wanted, flags=re.IGNORECASE)):
            return "unclear"
    else:
        wish = _ON_HOST.sub(" ", wish)
    if _GOES_ON.match(wish) and changes(wish):
        return "unclear"  # something else is to start behind it
    return intent if intent == "set_priority" or _ENDS.match(wish) or _GOES_ON.match(wish) else "unclear"


def for_now(wish: str) -> str:
    """A wish without the moment until which it holds."""
    return _UNTIL.sub(" ", wish)


def wish_in(words: str) -> str:
    """What is wanted, without the reasons for it."""
    first, *others = _BREAK.split(words)
    kept = [_BECAUSE.split(first, maxsplit=1)[0]]
    for between, clause in zip(others[::2], others[1::2], strict=True):
        if _DEMANDS.search(clause) or not (_TELLS.match(_WHICH_IS.sub("", clause)) or _TELLS_ELSEWHERE.match(clause)):
            kept += [between, _BECAUSE.split(clause, maxsplit=1)[0]]
    return "".join(kept)


def _without_reason(clause: str) -> str:
    reason = None if _ENDS.match(clause) else _REASON.search(clause)
    return clause[: reason.start()] if reason else clause


def _waits(wish: str, *, again: bool) -> bool:
    """Whether a wish is for a later moment; hours are a setting of what goes on."""
    said = _HARMLESS_WORDS.sub(" ", wish)
    return bool(_LATER.search(said) or (not again and _FOR_A_WHILE.search(said)))


def _says_when(clause: str, *, again: bool) -> bool:
    """Whether a clause behind the wish says when, or under which condition, it should be carried out."""
    said = _HARMLESS_WORDS.sub("", clause)
    opening = _WHEN.match(said)
    if opening is None:
        return False
    if opening["wait"] or (opening["first"] and not again):
        return True
    behind = said[opening.end() :]
    if _WAS_THEN.match(behind) or _REASON.match(f" {behind}"):
        return False
    return bool(_LATER.match(behind) or (not again and _FOR_A_WHILE.match(behind)))


def priority_in(words: str) -> str:
    """The priority that a person named, by its name, its number or its direction.

    Raises:
        BadRequest: none was named, or more than one.
    """
    first, *others = _BREAK.split(re.sub(ASKED, "", words, flags=re.IGNORECASE))[::2]
    said = " ".join((_without_reason(first), *(clause for clause in others if _GIVES.match(clause))))
    said = _WAS.sub("", said)
    if _YIELDS.search(words) and {level.lower() for level in _LEVELS.findall(said)} <= {"low"}:
        return "low"
    becomes = _BECOMES.search(said)
    if becomes and not _NOT.search(said):
        return becomes.group(1).lower()
    stated: set[str] = {level.lower() for said in _STATED.findall(words) for level in said if level}
    if len(stated) == 1 and not _NOT.search(words):
        return stated.pop()
    found = {"high" if beyond.lower() in {"above", "over"} else "low" for beyond in _BEYOND.findall(said)}
    said = _BEYOND.sub("", said)
    found |= {level.lower() for level in _LEVELS.findall(said)}
    found |= {_NUMBERS.get(number, number) for number in _STEP.findall(said)}
    found |= {level for pattern, level in ((_UP, "high"), (_DOWN, "low")) if pattern.search(said)}
    if not found:  # what is only told says it
        found = {level for pattern, level in ((_UP, "high"), (_DOWN, "low")) if pattern.search(words)}
    if not found and _GIVEN.search(said):
        found = {"high"}
    if len(found) != 1 or found.isdisjoint({"high", "normal", "low"}) or _NOT.search(said):
        raise BadRequest("Say which run and how soon: “give r-abc123 high priority”, or normal, or low.")
    return found.pop()
