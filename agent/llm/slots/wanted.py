"""Reads whether words that speak of a training wish for it: no question about it, no report, nothing for colleagues.

Called by `agent.llm.intents` for what becomes a plan; what is done at once is read by `slots.actions`.
"""

import re

from agent.llm.slots.limits import FILE_NAME, ONCE

_DONE = (
    r"(?:(?:re-?)?(?:train|start|launch|run|fit|build|clone|deploy|serve|host|kick(?: \w+)? off|do)|entrena\w*"
    r"|entra[iî]ne\w*"
    r"|trainier\w*|starte\w*|lance[rz]?)"
)
_WHAT = (
    r"(?:\s+(?:any(?:thing)?|it|this|that|one|yet|now|a|the|rien|nada|noch|nichts|models?|nothing)\b|\s*[.,;!?]|\s*$)"
)
_FORBIDDEN = re.compile(
    r"^\W*(?:hang on|hold on|(?:please )?wait|not so fast|not yet|warte|moment mal|attends|attendez|espera)\b"
    r"|^\W*(?:等等|等一下|先别|先不)|"
    rf"\b(?:(?:do(?:n['’]?t| not)|never|not|no need to|please not|rather not|ne|no)\s+|n['’])(?:\w+\s+)?"
    rf"{_DONE}{_WHAT}"
    rf"|\b(?:we|they|you|one)\s+(?:ca|wo|must|should)n['’]t\s+(?:\w+\s+)?{_DONE}\b"
    rf"|\b(?:we|they|you|one)\s+(?:cannot|can not|must not|should not|(?:are|am) not (?:allowed|going"
    rf"|supposed) to)\s+(?:\w+\s+)?{_DONE}\b"
    r"|\b(?:bringt (?:ja |doch )?nichts|sert à rien|no sirve de nada|(?:is|be) pointless|no point in|(?:won|would"
    r"|did)n['’]t help)\b"
    r"|\b(?:not (?:now|today|yet)|jetzt noch nicht|noch nicht jetzt|pas (?:maintenant|encore|tout de suite)"
    r"|(?:no ahora|todav[íi]a no"
    r"|a[úu]n no))\W*$|(?:先不急|不是现在)\W*$"
    r"|\b(?:nothing to (?:run|train|start|do)|(?:do(?:n['’]?t| not)|never) (?:use|run|touch|take) (?:it|that"
    r"|this)(?: one)?"
    r"\W*(?:$|,|\.|yet|any))"
    r"|\b(?:trainier|start|mach)\w*\s+(?:\w+\s+){0,2}(?:noch\s+)?(?:nicht|nichts)\b|\bnichts? (?:trainieren|starten)\b"
    r"|(?:不要|别|先别|不用)(?:再)?(?:训练|开始|启动|跑)|\bno entren\w+\b|\bn['’]entra[iî]ne\w*\s+(?:pas|rien)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^\W*(?:so\W+|and\W+|but\W+|hey\W+|hm+\W+)?(?:did|does|do (?:we|i|you)|has|have|had|was|were|should|shall|why"
    r"|when|whose"
    r"|(?:is|are)(?! (?:there (?:a|any) way|it possible|you able))|would(?! you)|how (?:long|often|come|much)|may|might"
    r"|sollte[nst]*|sollen wir|hast|hat|haben|war|wann|warum|wieso|wie lange|wer|w[üu]rde"
    r"|a-t-on|as-tu|avez-vous|est-ce|devrait-on|faut-il|pourquoi|quand|deber[ií]a\w*"
    r"|[¿]?(?:por qu[eé]|cu[aá]ndo|hemos|has|ser[ií]a))"
    r"\b[^.!;]*[?？]\W*$"
    r"|^\W*(?:could|would|can|might|will|kann|könnte\w*|würde\w*|podr[ií]an?|pourraient?)\b[^.!;]*\b(?:help"
    r"|matter|improve|be better"
    r"|make sense|suffice|be enough|change anything|make a difference|helfen|etwas bringen|ayudar|aider"
    r"|changer quelque chose)\b[^.!;]*$"
    r"|^\W*(?:who|qui|wer|qui[eé]n)\s+(?:has|have|a|ont|hat|haben|ha|han)\b"
    r"|^\W*(?:please )?(?:remind|tell|show) me (?:what|which|how|when|whether)\b"
    r"|^\W*(?:which|what|welche\w*|quel\w*|qué|cuál\w*)\b[^.,!;]*\b(?:could|can|should|might|könn\w*|soll\w*|peu\w*|puis"
    r"|pourr\w*|pued\w*|podr\w*)\b[^.!;]*[?？]\W*$|(?:要不要|是不是|有没有|会不会|(?<!可以)(?<!能搞)(?<!能做)(?<!行)(?<!好)吗|多久"
    r"|为什么)[^。！]*[?？]?\W*$",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"^\W*(?:can|could|do|would) you (?:also |even |ever )?(?:work with|handle|deal with|support|cope|read|understand"
    r"|do (?:audio|video|anything)|rather)\b[^.!;]*[?？]\W*$|\bcheck-?list\b|\bsteps first\b|\bcheckliste\b|清单|"
    r"^\W*(?:(?:so|and|but) )?(?:what(?:['’]s| is| are) (?:an?|the (?:point|meaning|use|idea|difference))\b"
    r"|c['’]est quoi\b"
    r"|qu['’]est-ce qu(?:['’]une?|e c['’]est)\b|was (?:ist eine?|bedeutet|heißt)\b|qué (?:es un"
    r"|significa))[^,.;!?]*\W*$"
    r"|是什么(?:意思)?\W*$|^\W*什么是|\bquiz[áa]s?\b|\btal vez\b|\bvielleicht (?:sollte[nst]* )?wir\b|\bpeut-être qu"
    r"|^\W*(?:(?:and|so|but) )?(?:how (?:long|often|come|much (?:would|will|does|did|time))|wie lange|combien de temps"
    r"|cu[áa]nto (?:tiempo|tarda))\b[^.;!]*$|^\W*(?:is|are) (?:it|this|that|\w+) (?:an? )?(?:hard|easy|difficult"
    r"|realistic|worth)\b[^.;!]*$|"
    r"^\W*(?:and |but |so |hey )?how (?:would|do|does|did|should|might) (?:one|people|others|somebody|someone"
    r"|they|you (?:usually"
    r"|normally|generally|typically))\b|^\W*wie (?:würde|macht|geht|trainiert) man\b|^\W*comment (?:on|fait-on)\b"
    r"|^\W*¿?cómo se\b"
    r"|\b(?:imagine (?:we|you|i|if)|if (?:we|i|you) had|had we|what if"
    r"|i wonder|wondering (?:if|whether|why|how)|suppose|hypothetical\w*"
    r"|in theory"
    r"|would it (?:help|make sense|be)"
    r"|(?:should|shall) (?:we|i)|(?:whether|if) (?:we|i|you|it) should"
    r"|maybe (?:we|i) (?:should|could)|(?:we|i)(?:['’]m| am| are|['’]re)? thinking (?:of|about)"
    r"|was w[äa]re,? wenn|ich frage mich|vielleicht sollten|je me demande|qu[eé] pasar[ií]a"
    r"|me pregunto)\b|如果|要不要|想知道",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"^\W*(?:(?:yesterday|last \w+|this morning|fyi|btw|ok|so)\W+)*(?:i|we|they|he|she|someone|somebody|\w+ and i)"
    r"(?:['’]ve| have| had| has)?\s+(?:just\s+|already\s+|once\s+|also\s+|only\s+)?(?:re-?)?(?:trained|ran|run"
    r"|started|launched|built|fitted|fit|deployed|cloned|tried|served|used|did|stopped)\b[^.;!?]*\W*$"
    r"|^\W*(?:ich|wir|er|sie) (?:habe[n]?|hat) [^.;!?]*(?:trainiert|gestartet|probiert|laufen lassen)\W*$"
    r"|^\W*(?:j['’]ai|on a|nous avons) [^.;!?]*(?:entra[iî]n[eé]|lanc[eé]|essay[eé])\b[^.;!?]*$"
    r"|^\W*(?:lo |la )?(?:entrené|he entrenado|hemos entrenado|lancé)\b[^.;!?]*$"
    r"|^(?:昨天|上次|之前|我已经|我们已经)[^。！？]*[的过了]\W*$",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"\b(?:shut|turn|switch|take|bring|spin)\w*\b[^.;]*\b(?:off|down|offline)\b|\b(?:stop|end|kill|undeploy|unserve"
    r"|remove)\b"
    r"|\b(?:abschalten|abstellen|ausschalten|herunterfahren|beende\w*)\b|\b(?:schalte?t?|stellt?|fahrt?)\b[^.;]*\b(?:ab"
    r"|aus|herunter)\b"
    r"|\b(?:arr[êe]te\w*|[ée]teins|coupe[rz]?|apaga\w*|det[ée]n\w*|quita\w*)\b|关闭|关掉|下线|停",
    re.IGNORECASE,
)
# Places that no model of ours goes to.
_ELSEWHERE = re.compile(
    r"\b(?:(?:app|play) ?store|web ?sites?|webseiten?|homepage|blog"
    r"|production database|site web|p[áa]gina web)\b|官网|网站",
    re.IGNORECASE,
)
# A question about a service that there is.
_IS_IT = re.compile(
    r"\W*(?:is|are|was|does|did|has|what|which|who|when|why|how (?:many|often|much|long|fast)|ist|sind|läuft"
    r"|est-ce que|está)\b"
    r"(?! (?:it possible|there (?:a|any) way|about|if))",
    re.IGNORECASE,
)
ABLE = re.compile(
    r"\b(?:can|could|would|will|may|please|kannst|könn\w*|peux|pouv\w+|pourr\w+|puede\w*|podr\w+|bitte|wie wär)\b"
    r"|吗|能|可以",
    re.IGNORECASE,
)
_TO_SOMEBODY = re.compile(
    rf"^\W*(?:(?:hey|hi|hello|hallo|salut|hola|so|ok)\W+)?@(?!trainyard\b)(?!{FILE_NAME})[\w.-]+"
    r"|^\W*(?:please )?(?:ask|tell|remind) (?!me\b|us\b|it\b|the\b)\w+ (?:to|that|about|not)\b",
    re.IGNORECASE,
)


def is_wished(asked: str) -> bool:
    """Whether a request that speaks of a training asks for one."""
    asked = ONCE.sub(" ", asked)
    return not any(pattern.search(asked) for pattern in (_FORBIDDEN, _ASKS, _SUPPOSES, _REPORTS, _TO_SOMEBODY))


def is_begun(asked: str) -> bool:
    """Whether a request that speaks of a model's service wants it, and not its end."""
    asks = asked.rstrip().endswith(("?", "？")) and not ABLE.search(asked)
    return not (asks or _ENDED.search(asked) or _IS_IT.match(asked) or _ELSEWHERE.search(asked))


def is_to_somebody(asked: str) -> bool:
    """Whether somebody else is spoken to."""
    return bool(_TO_SOMEBODY.search(asked))
