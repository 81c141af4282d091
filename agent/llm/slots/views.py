"""Reads which picture of a result, or of what a run used, is wanted. Text in, names of views out."""

import re

# A class, or the model, of which the reason is asked.
WHY_BAD = (
    r"(?:\bwhy (?:is|does|do) (?:it|they|the model|\w+)\b[^.?!]*\b(?:bad(?:ly)?|worse|weak|struggle)\b"
    r"|\bwarum (?:ist|sind)\b[^.?!]*\bschlecht\w*|\bpourquoi\b[^.?!]*\bmauvais\w*|\bpor qu[ée]\b[^.?!]*\bfalla\w*"
    r"|为什么[^。？]*差)"
)
# Pictures of a result, by what people call them; the first that fits.
_RESULTS = (
    (
        r"\bconfusion\b|\b(?:false|true) (?:positives?|negatives?|alarms?)\b|\bfalse alarms?\b|\bcr(?:y|ies) wolf\b"
        r"|\b(?:predicted|predictions?) (?:and|vs\.?|versus|against) (?:the )?(?:true|actual|truth|real)\w*\b"
        r"|\b(?:true|actual) (?:vs\.?|versus|against) predicted\b|\bhits and misses\b|\bmix(?:es"
        r"|ed)?[ -](?:\w+ )?ups?\b|\bconfuses\b|\bconfused?\b|\bverwechse?l\w*|\bconfond\w*"
        r"|\bconfunde\w*"
        r"|混淆|搞混|分不清",
        "confusion",
    ),
    (r"\b(?:residual|residu|residuo)\w*\b|残差", "residuals"),
    (r"\b(?:histogram|distribution|spread|density|verteilung|répartition|distribución)\b.*\bscores?\b", "scores"),
    (r"\broc\b", "roc"),
    (
        r"\d+ ?(?:%|percent|prozent|pour ?cent|por ciento)[^.;]*\b(?:really|right|true|correct|stimmt|wirklich"
        r"|vraiment|acierta"
        r"|de verdad)\b",
        "calibration",
    ),
    (
        r"\bprecision(?:[ -]|/|, )(?:(?:and|vs\.?|over|gegen|und|contre|et|contra|y|和) )?recall\b"
        r"|\bpr[ -](?:curve|kurve)\b|\b(?:courbe|curva) pr\b|\bpr\s*曲线",
        "pr",
    ),
    (
        r"\bhow (?:sure|confident|certain)\b|\bwie sicher\b|\bcalibr\w+\b|\breliability\b|\bkalibr\w+|校准"
        r"|\b(?:trust\w*|reliable|honest|verlässlich|zuverlässig"
        r"|fiables?)\b"
        r".*\b(?:probabilit\w+|wahrscheinlichkeit\w*|probabilidad\w*)\b",
        "calibration",
    ),
    (
        r"\bimportances?\b|\bshap\b|\b(?:factors?|drivers?|reasons?)\b|\bdoes (?:it|the model) (?:look at|rely)\b"
        r"|\b(?:what|(?:features?|columns?|variables?|inputs?)) does (?:it|the model) use\b"
        r"|\bwhat (?:signals?|columns?) \w+ (?:it|the model)\b|\bis it (?:actually |really )?(?:using|looking at)\b"
        r"|\b(?:top|best|key) (?:features?|columns?|variables?|inputs?)\b"
        r"|\b(?:most )?important (?:features?|columns?|variables?)\b"
        r"|\b(?:features?|columns?|variables?)\b.*\bmatter(?:s|ed)?\b|\bmatter(?:s|ed)? most\b"
        r"|\b(?:leans?|rel(?:y|ies)) (?:most |mostly )?on\b|\bbase[sd]? its (?:decisions?|predictions?) on\b"
        r"|\b(?:features?|columns?|inputs?|variables?|what)\b.*\b(?:drives?|driving|weighs?|carr(?:y"
        r"|ies) the most weight"
        r"|looks? at most)\b"
        r"|\bstützt\b|\bachtet (?:es|das modell)\b|\bs['’]appuie\b|\b(?:pèsent?|comptent|compte) le plus\b"
        r"|\bzählen am meisten\b|\b(?:cuentan|influyen) más\b|\bse (?:apoya|fija)\b|\bpesan más\b"
        r"|\b(?:which|what|welche\w*|quel(?:le)?s|qu[ée]|cu[áa]les) (?:\w+ )?(?:features|columns|variables|inputs"
        r"|spalten"
        r"|merkmale|colonnes|columnas|características)\b(?!.*\b(?:missing|null|nan|have|has|are there|gibt)\b)"
        r"|哪些?(?:特征|列|变量)|看重|[靠看].{0,3}(?:特征|列)|影响最大|最关键的?(?:特征|列)",
        "importance",
    ),
    (
        rf"{WHY_BAD}|\bweak(?:ness(?:es)?| spots?)\b|\b(?:find|finds) (?:it )?hard\b|\bfaiblesses?\b"
        r"|\bmistakes?\b|\bmess(?:es|ed)? up\b|\bscrew(?:s|ed)? up\b|\bmisjudged?\b|\b(?:it['’]s|(?:it|model) (?:was|is"
        r"|went)) (?:wrong|off)\b|\bjudge[ds]? \w* ?wrong\w*\b"
        r"|\berror analysis\b|\bfailures\b|\bwhere (?:does|did) it fail\b|\b(?:get|got|gets"
        r"|getting)\b[^.?!]{0,20}\bwrong\b|\bmisclassif\w+"
        r"|\bwrong (?:predictions|answers)\b|\bgo(?:es)? wrong\b|\b(?:most|is it) (?:often )?wrong\b"
        r"|\berrors (?:des|of the|du|del) (?:modell?s?|mod[eè]l[eo]?)\b|\berrors\b.*\b(?:makes?|fait|commet|comete"
        r"|macht)\b"
        r"|\b(?:makes?|macht)\b.*\berrors\b|\bmispredict\w*|\bwhere it fails\b|\bfails? on\b"
        r"|\bsagt\b.*\bfalsch\b|\bdaneben\b|\bse trompe\b|\b(?:mal prédits?|ratés)\b|\bse equivoca\b"
        r"|\b(?:falló|predijo mal|la pifió|equivocaciones|fallos)\b|\bfalsche?n? (?:vorhersagen|beispiele)\b"
        r"|\btromp(?:é|ée|és|ées|ent?)\b|\bse tromper\b|\bequivoc\w+|\bmal (?:class|clasif|pr[ée]d|pred|[ée]tiquet)\w*"
        r"|\bclasific\w+ mal\b|\bclass\w+ mal\b|\birrt (?:sich|es|er)\b|\blag (?:es|er|das modell) falsch\b"
        r"|\bfalsch (?:klassif|eingeord|vorherges|erkann|zugeord)\w*|(?:搞|弄|认|猜|识别)错|错例"
        r"|\bhat (?:er|es|das modell) falsch\b|\boù\b.*\bse plante\b|(?:预测|分|判断?)错|出错",
        "mistakes",
    ),
    (
        r"\b(?:per|each|every|by|which|worst|best)[ -]class(?:es)?\b|\bboth classes\b|\b(?:rare|minority"
        r"|positive) class(?:es)?\b|\bequally (?:well|good)\b"
        r"|\b(?:pro|je|jeder|welche) klassen?\b"
        r"|\b(?:par|chaque|quelles?) classes?\b|\b(?:por|cada|qué) clases?\b|(?:每个?|各|哪个?)(?:类别?|类)",
        "classes",
    ),
    (r"\btext lengths?\b|\blengths? of (?:the )?texts?\b", "lengths"),
    (
        r"\b(?:pictures?|charts?|plots?|graphs?|draw)\b.*\bresults?\b|\bresults?\b.*\b(?:pictures?|charts?|plots?)\b",
        "overview",
    ),
)

_SPEED = re.compile(
    r"\bthroughput\b|\bdurchsatz\b|\bdébit\b|\bcaudal\b|吞吐|\bsteps?\s*/\s*s(?:ec)?\b|\b(?:speed"
    r"|pace) of (?:the )?(?:training|run|it)\b|\b(?:vitesse|geschwindigkeit|velocidad)\b"
    r"|速度|\b(?:steps?|iterations?|samples?|batches|rows) (?:per|a|par|pro|por) (?:sec|second|seconde|minute"
    r"|hour)\b|\btraining speed\b"
    r"|\b(?:schritte|steps) pro sekunde\b|\b(?:étapes|pas) par seconde\b|\b(?:pasos|steps) por segundo\b|每秒"
    r"|^\W*(?:(?:the|its|training|current) )*speed\W*$|\bspeed (?:chart|curve|plot|over time)\b"
    r"|\b(?:chart|plot|graph|curve|draw|show|see)\b[^.;]{0,15}\bspeed\b"
    r"|\bhow (?:fast|quick\w*) (?:is|was|does|did|do) (?:it|this|that|the (?:run|training)|r-)",
    re.IGNORECASE,
)
# What is no use of a machine: a place, an error, an amount of time.
_NO_USE = re.compile(r"\bout of (?:gpu )?memory\b|\bon (?:\w+ )?gpus?\b|\bgpu[ -](?:hours?|\d+)\b", re.IGNORECASE)
_GPU = re.compile(r"\bgpus?(?:['’]s)?(?:[ -](?:memory|ram|mem))?\b|\bvram\b|显卡|显存", re.IGNORECASE)
_MACHINE = re.compile(
    r"\b(?:resources?|cpus?|processors?|cores|memory|ram|mem|prozessor\w*|(?:arbeits|haupt)?speicher\w*"
    r"|processeurs?|mémoire"
    r"|procesador\w*|memoria)\b|内存|处理器",
    re.IGNORECASE,
)
# Pictures that a training logged, by words that are often their names; whoever says `show` wants to see one.
REPORTED = (
    r"\b(?:script|code|program|training|run|it) (?:has )?(?:itself )?(?:plot\w+|dr[ae]w\w*|log\w+|saved)"
    r"\b[^.?!]{0,20}?\b(?:itself|by itself|so far|on its own)\b|"
    r"\b(?:show|see|draw|plot|look at|where are|log(?:ged|s)?|saved?|any)\b[^.?!]{0,40}?"
    r"\b(pictures?|residuals?|forecasts?|clusters|samples?|generations?|detections?|token[ -]lengths?)\b"
)


def result_in(words: str) -> str | None:
    """The picture of a result that is named."""
    return next((view for pattern, view in _RESULTS if re.search(pattern, words, re.IGNORECASE)), None)


def used_in(words: str) -> str | None:
    """The picture of what a run used that is named: of its GPUs, or of all of the machine."""
    if _SPEED.search(words):
        return "throughput"
    said = _NO_USE.sub(" ", words)
    return "usage" if _MACHINE.search(_GPU.sub(" ", said)) else "gpu" if _GPU.search(said) else None
