"""Puts amounts into the one form that the readers know: numbers in words, durations, multiples, names of settings.

Comes after `slots.glossary`, which puts what people say in other languages into English; the classifier learned
without this. What stands in quotation marks stays as it is.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from agent.llm.slots.glossary import in_english
from agent.llm.slots.replacing import Replacements

_QUOTED = r"[“\"«].*?[”\"»]|`[^`]*`|(?<!\S)--?[A-Za-z][\w-]*[= ]\S+"
_COUNTS = {
    6: "six|sechs|seis",
    7: "seven|sieben|sept|siete",
    8: "eight|acht|huit|ocho",
    9: "nine|neun|neuf|nueve",
    11: "eleven|elf|onze|once",
    12: "twelve|zwölf|douze|doce|a dozen|ein dutzend|une douzaine",
    13: "thirteen|dreizehn|treize|trece",
    14: "fourteen|vierzehn|quatorze|catorce",
    15: "fifteen|fünfzehn|quinze|quince",
    16: "sixteen|sechzehn|seize|dieciséis",
    18: "eighteen|achtzehn|dix-huit|dieciocho",
    24: "twenty-four|vierundzwanzig|vingt-quatre|veinticuatro",
    25: "twenty-five|fünfundzwanzig|vingt-cinq|veinticinco",
    45: "forty-five|fünfundvierzig|quarante-cinq|cuarenta y cinco",
    48: "forty-eight|achtundvierzig|quarante-huit|cuarenta y ocho",
    60: "sixty|sechzig|soixante|sesenta",
    70: "seventy|siebzig|setenta",
    80: "eighty|achtzig|quatre-vingts|ochenta",
    90: "ninety|neunzig|quatre-vingt-dix|noventa",
    200: "two hundred|zweihundert|deux cents|doscient[oa]s",
    300: "three hundred|dreihundert|trois cents|trescient[oa]s",
    500: "five hundred|fünfhundert|cinq cents|quinient[oa]s",
    1000: "a thousand|one thousand|tausend|mille|mil",
    # Those of `slots.numbers`, which stand there before fewer nouns.
    1: "one|a single|single|an|eine?[nr]?|une?|un seul|un solo|una sola|une seule|una?",
    2: "two|zwei|deux|dos|a couple of|couple of|a pair of",
    3: "three|drei|trois|tres",
    4: "four|vier|quatre|cuatro",
    5: "five|fünf|cinq|cinco",
    10: "ten|zehn|dix|diez",
    20: "twenty|zwanzig|vingt|veinte",
    30: "thirty|dreißig|trente|treinta",
    40: "forty|vierzig|quarante|cuarenta",
    50: "fifty|fünfzig|cinquante|cincuenta",
    100: "a hundred|one hundred|hundred|hundert|cent|cien",
}
_UNITS = (
    r"(?:(?:max |log |boosting |attention |hidden )?(?:epochs?|rounds?|trials?|steps?|layers?|heads?|beams?|trees"
    r"|leaves|iterations|folds?|lines?|zeilen|lignes|l[ií]neas|clusters|groups|segments|classes|attempts?)"
    r"|gpus?|hours?|hrs?|minutes?|mins?|days?|weeks?|months?|quarters?|years?|times|-?fold|grupos|groupes|gruppen)\b"
)
_WORD_OF = {word: count for count, words in _COUNTS.items() for word in words.split("|")}
_COUNTED = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(_WORD_OF, key=len, reverse=True))})(?=(?: more| extra)? {_UNITS})", re.IGNORECASE
)
_NUMBER = r"\d+(?:[.,]\d+)?"
_HALVES = (  # of hours, and of days
    (r"\b(?:anderthalb|eineinhalb|einundeinhalb)\s+(?=(?:hours|days))", "1.5 "),
    (r"\bzwei(?:und)?einhalb\s+(?=(?:hours|days))", "2.5 "),
    (r"\bdrei(?:und)?einhalb\s+(?=(?:hours|days))", "3.5 "),
    (r"\bvier(?:und)?einhalb\s+(?=(?:hours|days))", "4.5 "),
    (r"\b(?:half an?|eine?n? (?:halbe[nr]?|half)|une? demi-?|medi[oa])\s*(?=day|hour)", "0.5 "),
    (r"半天", " 0.5 days "),
    (
        r"\b(?:a |an |1 )?quarter of (?:an|1) hours?\b|\b(?:un |1 )?quart d['’]hours?\b"
        r"|\b(?:eine?r? )?viertelstunde\b|\b(?:un )?cuarto de hours?\b|一刻钟",
        "0.25 hours",
    ),
    (
        r"\b(?:three|3) quarters of (?:an|1) hours?\b|\b(?:trois|3) quarts d['’]hours?\b"
        r"|\b(?:tres|3) cuartos de hours?\b|\b(?:eine? )?drei ?viertel ?(?:stunde|hours)\b",
        "0.75 hours",
    ),
)
_AND_A_HALF = re.compile(
    rf"\b({_NUMBER}|{'|'.join(_WORD_OF)})\s+(?:and a half|et demie?|y medi[oa]|1/2)\s+(?=(?:hour|hr|day))"
    rf"|\b({_NUMBER})\s*(hours?|days?)\s+(?:and a half|et demie?|y medi[oa])\b|\b(\d+)½",
    re.IGNORECASE,
)
_BOTH = re.compile(
    rf"\b({_NUMBER})\s*(?:hours?|hrs?|h)\s*(?:and|et|y|und|,)?\s*(\d{{1,2}})\s*(?:minutes?|mins?|m)?\b(?![.,]?\d"
    rf"|\s*[a-z%])"
    rf"|\b({_NUMBER})\s*(?:hours?|hrs?|h)\s*(?:and|et|y|und|,)?\s*(\d{{1,2}})\s*(?:minutes?|mins?|m)\b",
    re.IGNORECASE,
)
_SETTING = r"(?:(?:the|its)\s+)?(learning rate|lr|rounds|epochs|batch size|max depth|trials)"
_SMALLER = r"(?:times smaller|fois plus (?:petite?|faible|bas)|mal kleiner|veces (?:menor|más baja))\b"
_OF = r"(?: (?:der|des|von|du|de|del))?"
_ELSEWHERE = (  # English, and how it is said elsewhere or otherwise
    (", ", r"(?<=[^\d\s]),(?=\d)"),
    (" gpus", r"\s(?:graphics|video|gpu) cards?\b"),
    (r"\1 gpus", r"\b(one|an?|two|four|eight|\d)\s*[x×]?\s*(?:[ahv]100|a10g?|l40?s?|h200|t4|rtx[ -]?\w+)s?\b(?!\.)"),
    (
        r"search hyperparameters for \1 minutes ",
        r"\bspend(?:ing)? (?:up to )?(\w+) min(?:ute)?s (?:on )?(?:look|search|tun|explor|try)\w*"
        r"(?: (?:for|out|at|on)\b)?",
    ),
    ("trials", r"\b(?:optuna|search|tuning|hpo) trials\b"),
    ("once more", r"\banother round(?: of)?\b(?! \d)"),
    (
        r"patience \1\2",
        r"\b(?:early[ -]stop\w*|stop early) (?:after|with|at)?\s*(\d+) (?:rounds?|epochs?)(?: (?:without|with no) \w+)?"
        r"|\bstop (?:after|with)?\s*(\d+) (?:rounds?|epochs?) (?:without|with no) \w+",
    ),
    (
        r"patience \1",
        r"\b(?:früh(?:zeitig)? (?:abbrechen|stoppen)|arrêt anticipé|parada temprana)\D{1,12}(\d+)(?: rounds| epochs)?",
    ),
    (r"\1 % of the rows ", r"\b(\d+) ?% (?:der (?:zeilen|daten)|des (?:lignes|données)|de (?:las filas|los datos))"),
    (r"\1 % test set", r"\b(\d+) ?% (?:de|der|des|von|an) test set\b"),
    *(
        (f"{100 // parts} % ", rf"\b(?:1/{parts}|one {word}|a {word})(?=[^.;,]{{0,25}}\b(?:back|aside|out|test))")
        for parts, word in ((3, "third"), (4, "quarter"), (5, "fifth"), (10, "tenth"))
    ),
    (
        r"patience \1",
        r"\b(?:stop\w*|quit|end)?\W*(?:when|if|once|as soon as|after)?\W*(?:there (?:is|was) )?(?:no|without"
        r"|kein\w*|ohne|sans"
        r"|sin) (?:gain|progress|improv\w*|better|change|besser\w*|verbesser\w*|mejora|amélioration)\w* (?:for"
        r"|in|over|after|within"
        r"|seit|pendant|durante|en) (\d+) (?:rounds|epochs|steps)",
    ),
    (r"patience \1", r"\bafter (\d+) (?:bad|stale|flat|useless) (?:rounds|epochs|steps)\b"),
    (
        r"patience \1",
        r"\b(?:stop\w* )?(?:when|if|once|unless) (?:it|the \w+|nothing) (?:hasn['’]?t|has not|doesn['’]?t|does not"
        r"|stops?|has)? ?"
        r"improv\w* (?:for|in|over|after|within) (\d+) (?:rounds|epochs|steps)",
    ),
    ("without ", r"\bw/o\s+|不要\s*(?=[`A-Za-z_]|$)"),
    ("learning rate ", r"\b(?:taux|tasa)\s+(?=(?:de )?\d)"),
    (r"\2 \1", rf"(\d[\d.,e-]*)\s+(?:als|comme|como|as)\s+{_SETTING}"),
    (" to ", r"(?:提高|降低?|增加|减少?|提|加|升)到(?=\s*\d)"),
    (
        " against the previous run ",
        r"\b(?:gegen|mit)\s+de[nm]\s+(?:vorigen|vorherigen|letzten|last)\s+(?:lauf|run|training)\b"
        r"|\b(?:comparée?s? )?(?:au|à l['’]|avec le|contre le)\s*(?:run|entra[iî]nement)\s+(?:précédent|d['’]avant)\b"
        r"|\b(?:con|contra|frente a) (?:el|la) (?:run|entrenamiento|ejecución) anterior\b"
        r"|(?:和|跟|与)(?:上一?次|前一次|上个)的?(?:训练|任务|运行)?(?:相比|比较|对比|比)?",
    ),
    ("last hour ", r"\b(?:la )?(?:dernière|última)\s+hours?\b"),
    ("smoothed ", r"\bglättung\b|\blissage\b|\bsuavizado\b"),
    ("first ", r"\b(?:(?:die|den|der|les|los|las) )?(?:ersten|premiers|premières|primer[oa]s)\s+(?=\d)"),
    (r"first \1 ", r"\b(?:les |los |las )?(\d+) (?:premi[eè]re?s|primer[oa]s)\s+"),
    ("first ", r"前(?=\s*\d+\s*(?:steps|epochs))"),
    ("0.5 days ", r"\b(?:einen halben tag|une demi-journée|medio d[ií]a)\b"),
    ("1 days ", r"\b(?:einen|un|una?e?)\s+(?:ganzen )?(?:tag|jour|día|journée)\b(?: lang| entière?)?"),
    (
        r"search hyperparameters for \1 minutes ",
        r"\b(?:such\w*|cherche\w*|busca\w*)\s+(?:les |los )?(?:hyper\w+\s+)?(?:at most\s+)?(\d+) minutes(?: lang)?"
        r"(?: nach hyper\w+)?",
    ),
    (r"\1 trials ", r"\b(\d+) (?:combinaciones|combinaisons|kombinationen|configuraciones)\b"),
    ("random split ", r"\bzufällig (?:auf)?teilen\b|\bdécoupage aléatoire\b|\bdivi\w+ al azar\b|随机划分"),
    (
        r"split by \1 ",
        r"\bnach (\w+) (?:auf)?(?:teilen|splitten|trennen)\b",
    ),
    ("split by ", r"\b(?:découp\w+|partag\w+|divid\w+|separ\w+) (?:par|por|selon|según)\s"),
    (r"split by \1 ", r"按\s*(\w+)\s*划分"),
    (" ahead ", r"\bim voraus\b|\bà l['’]avance\b|\bpor adelantado\b|\bde antelación\b"),
    ("4bit ", r"\b4[- ]bits\b"),
    (r"reduce \1 by a factor of ten ", rf"\b(?:zehnmal|10[- ]?mal) (?:kleinere|geringere|niedrigere)\w* {_SETTING}"),
    (r"double the \1", rf"\b(?:en )?doubl(?:ant|e|ez|er) (?:le |la )?(?:nombre de |les )?{_SETTING}"),
    (r"half the \1", rf"{_SETTING}\s+(?:a la mitad|halbieren|à moitié)\b"),
    (
        r"steps \1 to \2 ",
        r"\b(?:zwischen|entre|de|von)\s+(?:schritt|steps?|l['’]étape|el paso)\s+(\d+)\s+(?:und|bis|et|à|y|a)\s+(\d+)",
    ),
    (" since step ", r"\b(?:à partir de|depuis|dès)\s*l['’]\s*(?:étape|steps?)(?=\s+\d)"),
    (" until step ", r"\b(?:bis|hasta|jusqu['’]à)(?: zum| el| l['’])?\s*(?:schritt|paso|étape|steps?)(?=\s+\d)"),
    (r"since step \1 ", r"(\d+)\s*steps\s*(?:之后|以后|后|开始)的?"),
    (r"until step \1 ", r"(\d+)\s*steps\s*(?:之前|以前)的?"),
    ("last ", r"\bletzte[nrs]?\s+(?=\d)"),
    ("on ", r"在\s*(?=(?:gpu|node|box|host)-?\d)"),
    ("50 % of the ", r"\b(?:a )?half of the (?=(?:rows|data|lines)\b)"),
    ("33 % of the ", r"\b(?:a|one) third of the (?=(?:rows|data|lines)\b)"),
    ("25 % of the ", r"\b(?:a|one) quarter of the (?=(?:rows|data|lines)\b)"),
    ("20 % of the ", r"\b(?:a|one) fifth of the (?=(?:rows|data|lines)\b)"),
    ("10 % of the ", r"\b(?:a|one) tenth of the (?=(?:rows|data|lines)\b)"),
    (
        r"raise \1 by a factor of \2 ",
        rf"{_SETTING}\s+(?:times|mal|fois|por|x|×|\*)\s*(\d+|two|three|five|ten|zwei|drei|zehn|deux|trois|dix|dos"
        rf"|tres|diez)\b",
    ),
    (r"\1 \2", r"\b(last|next)\s+(?:las|los|les|die|den|der)\s+(\d+)"),
    (r"half the \1", rf"{_SETTING}\s+(?:a|à|auf|por|par)\s+(?:la |die )?(?:mitad|moitié|hälfte|half)\b"),
    (r"a tenth of the \1", rf"{_SETTING}\s+(?:a|à|au|auf)\s+(?:la |un |ein )?(?:décima parte|dixième|zehntel|tenth)\b"),
    (r"double the \1", rf"{_SETTING}\s+(?:al?|au|auf)\s+(?:el |le |das )?(?:doble|double|doppelte)\b"),
    (r"\1 times the ", r"\b(\d+)\s+(?:fois plus d(?:e |['’])|veces más (?=\w))"),
    (r"\1 times the ", r"\b(\d+)\s*(?:mal|-?fach) so (?:viele?n?|gro(?:ß|ss)e?|hohe?)\b"),
    ("half the ", r"\b(?:deux|2) fois moins de\b|\bla moitié des?\b|\bhalb so (?:viele?n?|gro(?:ß|ss)e?|hohe?)\b"),
    (r"half the \1", rf"\b(?:cut|reduce|lower|slash|drop|divide)\s+{_SETTING}\s+(?:in|by) (?:half|2|two)\b"),
    (r"\1 times the ", r"(?<![\w.])(\d+)\s*[x×]\s+(?:the|as many|more|of the)\b"),
    (
        r"reduce \1 by a factor of \2",
        rf"{_SETTING}\s+(\w+)\s+{_SMALLER}",
    ),
    (
        r"raise \1 by a factor of \2 ",
        rf"\b(?:multipl(?:y|ie[rz]?|izier\w*|ica\w*)|times)\s+{_SETTING}\s+(?:by|mit|par|por)\s+(\w+)",
    ),
    (
        r"reduce \1 by a factor of \2 ",
        rf"\b(?:divide|teile?n?|divise[rz]?|divid\w+)\s+{_SETTING}\s+(?:by|durch|par|entre|por)\s+(\w+)",
    ),
    (r"raise \1 by a factor of \2 ", rf"{_SETTING}\s*(?:乘以?|翻)\s*(\d+)倍?"),
    (r"reduce \1 by a factor of \2 ", rf"{_SETTING}\s*除以\s*(\d+)"),
    ("1 ", r"(?:(?<=\bfor )|(?<=\bmost )|(?<=\bto )|(?<=\bwithin )|(?<=\bthan ))an? (?=(?:hour|day|week)\b)"),
    (" rounds ", r"轮数"),
    (" since step ", r"\b(?:ab|seit)(?: dem)? (?:schritt|steps)(?=\s+\d)|\b(?:à partir de|depuis) l['’]étape(?=\s+\d)"),
    (" since step ", r"\b(?:desde|a partir de)l? (?:el )?(?:paso|steps)(?=\s+\d)"),
    (r"\1 ", r"\b(\d+)\s*(?:[x×]|by)\s*\1(?!\d)\s*"),
    (r"\1 ", r"(\d[\d.]*)\s*的(?=\s*learning rate)"),
    ("image size ", r"\bbildgr(?:ö|oe)(?:ß|ss)e\b|\btaille d['’]images?\b|\btamaño de imagen\b|图像大小|图片大小"),
    ("half the ", r"\bhalf\s+des?\b"),
    ("half the ", r"\bhalve\b|\bhalbier(?:e|en?)\b|\bdivid(?:e|ir) (?:entre|por) (?:2|dos)\b"),
    ("half the ", r"\bdivise[rz]? par (?:2|deux)\b"),
    ("double the ", r"\b(?:deux|2) fois plus de\b|\b(?:doppelt|zweimal) so (?:viele?n?|große?|hohe?)\b"),
    ("double the ", r"\bdos veces más\b|\bverdopp(?:le|eln?)\b(?: mal)?(?: bitte)?|\bduplica(?:r|ndo)?\b"),
    ("double the ", r"\bdoublant\b|\bdouble[rz]?(?= (?:les?|la) )"),
    ("triple the ", r"\b(?:die )?dreifache[nr]?(?: (?:zahl|anzahl)(?: (?:der|an|von))?)?\b"),
    ("a tenth of the ", rf"\b(?:einem?|ein) zehntel{_OF}\b|\b(?:un |le )?dixième(?: d[eu])?\b|十分之一的?"),
    ("a tenth of the ", rf"\b(?:una? |la )?décim[ao](?: parte)?{_OF}\b"),
    ("a third of the ", rf"\b(?:un |la )(?:tercio|tercera parte){_OF}\b"),
    ("seed ", r"\bzufallszahl\b"),
    ("batch size ", r"\b(?:stapel|losgr)öße\b|\btamaño de (?:lote|batch)\b|\blot(?:e|s|es)? de(?= \d)|批量(?:大小)?"),
    (" log scale ", r"\b(?:en|in) log\b(?! scale)|\blog[- ]y\b|\by[- ]?(?:axis)? log\b"),
    (" segments ", r"\bsegmentos\b|\bsegmente\b"),
    (
        r"\1 ",
        r"\b(seed|rounds|epochs|learning rate|lr|batch size|beams?|trials|rank|alpha|dropout"
        r"|max depth)\s*(?:用|取|为|是|到|开|设|给|调)\s*(?=\d)",
    ),
    ("rank ", r"\b(?:rang|rango)\b(?=\s*\d)"),
    (" layers ", r"\bschichten\b|\bcouches\b|\bcapas\b|(?<=\d)\s*层"),
    (" heads ", r"\btêtes\b|\bcabezas\b|\bköpfen?\b|(?<=\d)\s*个?头"),
    (" trees ", r"\bbäumen?\b|\barbres\b|\bárboles\b|(?<=\d)\s*棵树"),
    ("patience ", r"\bgeduld\b|\bpaciencia\b|耐心值?"),
    ("max depth ", r"\b(?:maximale |max\.? )?(?:baum)?tiefe\b|\bprofondeur(?: maximale)?\b|(?:最大|树)?深度"),
    ("max depth ", r"\bprofundidad(?: máxima)?\b"),
    (" epochs ", r"(?<=\d)\s*个?\s*epochs?\b"),
    (" rounds ", r"\btours\b|\bdurchläufen?\b"),
    (" leaves ", r"\bblättern?\b|\bfeuilles\b|\bhojas\b|(?<=\d)\s*个?叶子?"),
    (" gpus ", r"(?<=\d)\s*[张块个]?\s*(?:gpus?|显卡)(?!\w)|\bgrafikkarten?\b"),
    (" gpus ", r"\bcartes? graphiques?\b|\btarjetas? gráficas?\b"),
    (" to ", r"(?:改成|改为|设为|设成|设置为|换成|调成|调到|变成)(?=\s*\d)|\bauf(?= \d)|\ba(?= \d+(?:[.,]\d+)?\b)"),
    (" at most ", r"\b(?:nicht (?:länger|mehr) als|allerhöchstens|max\.|no más de|pas plus d[e'’])\s*"),
    (" at most ", r"不要超过|限时|限制在"),
    (" the card ", r"\bdie (?:lauf|live-?)?karte\b|\bla carte\b|\bla tarjeta\b|卡片"),
    ("on ", r"\bonto\s+(?:host\s+)?(?=[a-z][\w.-]*\d)"),
    (" log scale ", r"\b(?:on |in |with )?(?:an? |the )?log(?:arithmic)?[- ](?:y[- ]?)?(?:ax[ie]s|y)\b"),
)
_REPLACED = Replacements([*_HALVES, *((pattern, english) for english, pattern in _ELSEWHERE)])


def with_amounts(words: str, *, keep: Sequence[str] = ()) -> str:
    """A sentence whose amounts and settings stand in the form that the readers know; `keep` are names of columns."""
    names = "".join(rf"|(?<!\w){re.escape(name)}(?!\w)" for name in keep if name)
    parts = re.split(rf"({_QUOTED}{names})", words, flags=re.DOTALL | re.IGNORECASE)
    return "".join(part if at % 2 else _plainly(part) for at, part in enumerate(parts))


@lru_cache(maxsize=1_000)  # several readers ask for the same sentence
def _plainly(part: str) -> str:
    part = re.sub(r"(?<=\S) {2,}", " ", in_english(_REPLACED(part)))
    part = _AND_A_HALF.sub(_with_half, part)
    part = _COUNTED.sub(lambda word: str(_WORD_OF[_word(word.group())]), part)
    return re.sub(r"(?<=\S) {2,}", " ", _BOTH.sub(_in_hours, part))


def _word(said: str) -> str:
    """The key of a number in words."""
    said = said.lower()
    return said if said in _WORD_OF else next(word for word in _WORD_OF if re.fullmatch(word, said))


def _with_half(found: re.Match[str]) -> str:
    before, counted, unit, whole = found.groups()
    if before:
        return f"{_plus_half(before)} "
    return f"{_plus_half(counted)} {unit}" if counted else _plus_half(whole)


def _plus_half(said: str) -> str:
    number = float(said.replace(",", ".")) if said[0].isdigit() else float(_WORD_OF[_word(said)])
    return f"{number + 0.5:g}"


def _in_hours(found: re.Match[str]) -> str:
    hours, minutes = (found.group(1), found.group(2)) if found.group(1) else (found.group(3), found.group(4))
    return f"{float(hours.replace(',', '.')) + int(minutes) / 60:.6g} hours"
