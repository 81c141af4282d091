"""How other languages say what the readers know in English: settings, limits, units, parts and scales of a chart.

The rest of a sentence stays as it is, and so does what stands in quotation marks or is the name of a column.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from agent.llm.slots.replacing import Replacements

_QUOTED = r"[“\"].*[”\"]|`[^`]*`"
_HAN = r"[\u3400-\u9fff]"
_BETWEEN_SCRIPTS = re.compile(rf"(?<={_HAN})(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?={_HAN})")
_HAN_DIGITS = {"一": 1, "两": 2} | {digit: value for value, digit in enumerate("二三四五六七八九", start=2)}
_HAN_NUMBER = re.compile(
    r"(?:([一二两三四五六七八九])?(十|百))?([一二两三四五六七八九])?(?=\s*(?:个?半?小时|个半钟头|分钟|轮"
    r"|[个块张]?(?:GPU|显卡)"
    r"|行|周|天|年|个月|个?[类组簇群堆]|倍|成(?!为|功)|次试验|步|个?周期|个epoch|[块张]卡(?!片)))"
    r"|(?<=[乘除]以)([一二两三四五六七八九十])",
    re.IGNORECASE,
)
_COUNT = r"\d+|(?!(?:de|des|del|les|las|los|la|le|el|en|sur|sobre|para|pour)\b)\w+"  # before “dernières”
_ORDINAL_LAST = r"(?:derni[eè]re?s|[uú]ltim[ao]s)"
_ORDINAL_NEXT = r"(?:prochaine?s|pr[oó]xim[ao]s)"
_PERIOD = r"(?:quartal|jahr|monat|woche|tag|trimestre|an|année|mois|semaine|jour|año|mes|semana|d[ií]a)"
_SAYS = (  # English, and how it is said elsewhere; the first line that fits a place counts
    (", ", rf"(?<={_HAN}),(?=\S)|(?<=\S),(?={_HAN})"),
    (r"“\1”", r"„([^“”\"]{1,200})[“”\"]"),
    ("log lines", r"\blog-?zeilen\b"),
    (r"“\1”", r"«\s*([^»]{1,200}?)\s*»"),
    (
        "run ",
        r"\b(?:ejecuta|corre|lanza|exécute|lance|démarre|starte|führe?)\s(?=[^.;!?]{0,30}(?:\bs[ck]ript\b|\bprogram"
        r"|\.py\b))"
        r"|(?:运行|执行|跑)(?=[^。；！？]{0,15}(?:脚本|程序|\.py))",
    ),
    (r"\1 and a half hours", r"\b(zwei|drei|vier|fünf|sechs)einhalb stunden\b"),
    (r" \1 and a half hours ", r"(\d+)\s*个半(?:小时|钟头)"),
    ("1 and a half hours", r"\b(?:(?:eine )?(?:anderthalb|eineinhalb|einundhalb)e? stunden)\b"),
    (" and a half", r"\s(?:et demie|y media)\b"),
    (" half an hour ", r"半个?(?:小时|钟头)"),
    ("1 ", r"\b(?:un seul|une seule|una sola|un solo|eine[rn]? einzige[nr]?|nur eine[rn]?)\s(?=gpu)"),
    (r"\1 more \2", r"\b(\d+)\s+(?:weitere|zusätzliche|mehr)\s+(epochen?|runden|schritte)\b"),
    (
        r"\1 more \2",
        r"\b(\d+)\s+(epochs?|époques?|rounds?|tours|épocas|rondas)\s+(?:de plus|supplémentaires|más|adicionales)\b",
    ),
    (
        r"\1 \2 less",
        r"\b(\d+)\s+(runden|epochen?|rounds?|epochs?|époques?|tours|rondas|épocas)\s+(?:weniger|de moins|menos)\b",
    ),
    (r"\1 \2 more", r"\b(\d+)\s+(runden|epochen?|tours|rondas)\s+(?:mehr|de plus|más)\b"),
    (
        " for the test set ",
        r"\b(?:zum testen|für (?:den|die) tests?|pour (?:le |les )?tests?|para (?:la |las |el )?(?:pruebas?|tests?))\b"
        r"|(?:做|用于|用来|作为|当)测试集?",
    ),
    ("test set ", r"(?<=% )de tests?\b"),
    (
        " test set ",
        r"\btest(?:anteil|daten|menge|satz)\b|\b(?:données|part) de test\b|\bdatos de (?:prueba|test)\b"
        r"|测试(?:集|数据)",
    ),
    ("seed", r"\b(?:startwert|zufallssaat|graine(?: aléatoire)?|semilla(?: aleatoria)?)\b"),
    (" seed ", r"(?:随机)?种子数?"),
    ("max", r"\bmax\.(?=\s+\d)"),
    (" to ", r"\s*(?:改成|改为|改到|设为|设成|调到|调成|换成|变成)\s*(?=\d)"),
    (r" steps \1 to \2 ", r"第?\s*(\d+)\s*(?:到|至|-)\s*第?\s*(\d+)\s*步"),
    (
        r"steps \1 to \2",
        r"\b(?:(?:zwischen|entre|von)\s)?(?:(?:den|die|les|los)\s)?(?:schritten?|pas|étapes?|pasos"
        r"|etapas)\s(\d+)\s(?:bis|und|à|et|a|y|hasta)\s(\d+)",
    ),
    ("steps", r"(?<=derniers )pas\b|(?<=premiers )pas\b"),
    (r" \1 epochs less ", r"少(?:跑|练)?\s*(\d+)\s*轮"),
    (r" \1 epochs more ", r"多(?:跑|练)?\s*(\d+)\s*轮"),
    ("learning rate ", r"\b(?:der |die |eine[rn]? )?lernrate\b|\b(?:le |du |un )?taux d['’ ]apprentissage\b"),
    ("learning rate ", r"\b(?:la |una )?tasa de aprendizaje\b|学习率"),
    ("batch size ", r"\bbatch-?gr(?:ö|oe)ße\b|\btaille d[eu] (?:lot|batch)\b|\btamaño de(?:l)? lote\b|批(?:次)?大小"),
    (r"last \1 ", rf"\b(?:les |las |los )?({_COUNT}) {_ORDINAL_LAST}\s"),
    (r"next \1 ", rf"\b(?:les |las |los )?({_COUNT}) {_ORDINAL_NEXT}\s"),
    (
        "last ",
        rf"\b(?:(?:die|den|der) )?letzten\b|\b(?:(?:les|las|los) )?{_ORDINAL_LAST}(?= \w+ )|(?:最后|最近)(?=\s*\d)",
    ),
    (r"next \1", rf"\b(?:l[ea] |du |el |del )?({_PERIOD}) (?:prochaine?|pr[oó]xim[oa]|que viene)\b"),
    (
        "next ",
        rf"\b(?:(?:die|den|der|das|le|la|el) )?(?:nächste[snrm]?|kommende[snrm]?|prochaine?|pr[oó]xim[oa])"
        rf"\s(?={_PERIOD}\b)",
    ),
    ("next ", rf"\b(?:(?:die|den|der) )?nächsten\b|\b(?:(?:les|las|los) )?{_ORDINAL_NEXT}\b|未来|接下来的?"),
    ("quarter", r"(?<=next )(?:quartal|trimestre)\b"),
    ("year", r"(?<=next )(?:jahr|an|année|año)\b"),
    ("month", r"(?<=next )(?:monat|mois|mes)\b"),
    ("week", r"(?<=next )(?:woche|semaine|semana)\b"),
    ("day", r"(?<=next )(?:tag|jour|d[ií]a)\b"),
    (r" next \1 ", r"下(?:一)?个?(季度|月|周|年)"),
    ("epochs", r"\bepochen?\b|\b[ée]po(?:que|ca)s?\b"),
    (" epochs ", r"(?<=\d)\s*(?:轮|个?周期|个\s*epochs?)"),
    ("rounds", r"\bdurchgängen?\b|\brunden\b|\brondas\b"),
    ("trials", r"(?<=\d )(?:versuchen?|essais|pruebas|intentos)\b"),
    (" trials ", r"(?<=\d)\s*次试验"),
    (
        "at most ",
        r"\b(?:höchstens|maximal|(?:au )?maximum(?: de)?|au plus|como (?:máximo|mucho))(?!\w)"
        r"|(?:最多|不超过)(?:跑|用|训练|运行)?"
        r"|\b(?:für|pendant|durante|por)\s+(?=(?:\d+|\w+)\s*(?:stund|heur|hora))",
    ),
    (
        "half an hour",
        r"\b(?:eine[rn]? |der |die )?halben? stunde\b|\b(?:une )?petite demi-heure\b"
        r"|\b(?:una )?media hora\b|\bdemi-heure\b",
    ),
    ("last hour", r"\b(?:la |der |in der )?(?:[uú]ltima|derni[eè]re|letzten?) (?:hora|heure|stunde)\b"),
    (" 1 hours", r"\b(?:une petite heure|una horita|ein stündchen)\b"),
    ("hours", r"\bstunden?\b|\bheures?\b|\bhoras?\b"),
    (" hours ", r"(?<=\d)\s*个?小时"),
    ("minutes", r"\bminuten\b|\bminutos\b"),
    (" minutes ", r"(?<=\d)\s*分钟"),
    ("weeks", r"\bwochen\b|\bsemaines\b|\bsemanas\b"),
    ("days", r"\btagen?\b|\bjours\b|\bd[ií]as\b"),
    ("months", r"\bmonaten?\b|\bmois\b|\bmeses\b"),
    (" weeks ", r"(?<=\d)\s*周"),
    (" days ", r"(?<=\d)\s*天"),
    (" months ", r"(?<=\d)\s*个月"),
    (r"test set \1", r"留\s*(\d+\s*(?:%|成))\s*(?:做|作为?|当|用于|给)?\s*测试集?"),
    (r"\g<1>0%", r"([1-9])\s*成(?!为|功)"),
    (r" \1 trials ", r"(?:自动)?(?:(?:调参|搜索|搜参)\s*(?=\d)|试\s*(?=\d\d))(\d+)\s*次"),
    (" gpus ", r"(?<=\d)\s*[块张]\s*(?:显卡|卡(?!片))"),
    (r"num generations \1", r"\b(\d+)\s+g[eé]n[eé]ra(?:ciones|tions|tionen)\b"),
    ("test set ", r"test set\s*(?:留|占|取|用|为)\s*(?=\d)"),
    (" for test", r"(?<=%)\s*(?:pour|für|para|zum|als|como|comme)\s+(?:(?:le|la|den|das|el)\s+)?test(?:en|s)?\b"),
    (r"image size \1", r"\b(\d{2,4})er[- ]?auflösung\b"),
    ("image size ", r"\bauflösung\b|\brésolution\b|\bresolución\b|分辨率"),
    ("last ", r"(?:过去|近)(?=\s*\d)"),
    (
        "last ",
        r"\b(?:la |el |les? )?(?:[uú]ltim[ao]|derni[eè]re?)\s(?=(?:hours?|minut|half|demi|media|d[ií]a"
        r"|jour|semana|semaine|quart|cuarto)\b)",
    ),
    (" groups ", r"(?<=\d )(?:paquets?|paquetes|pakete|p[äa]ckchen|montones|haufen)\b|(?<=\d)\s*个?[群堆]"),
    (" lines ", r"(?<=\d)\s*行"),
    (" steps ", r"\bschritten?\b|\bpasos\b|\bétapes?\b|\betapas?\b|(?<=\d)\s*步"),
    ("clusters", r"(?<=\d )clustern\b"),
    ("clustering", r"\bclustern\b"),
    (" groups ", r"\bgruppen\b|\bgroupes\b|\bgrupos\b|(?<=\d)\s*个?(?:类|组|簇)"),
    (
        " log scale ",
        r"\b(?:in |auf )?(?:logarithmisch\w*(?: skala| achse)?|log-skala)\b"
        r"|\b(?:en |sur une |con |a )?(?:échelle|escala) log\w*"
        r"|(?:用|以)?对数(?:坐标|刻度|尺度|轴)?|\blogarithmic(?: scale)?\b",
    ),
    (
        " smoothed ",
        r"\b(?:geglättet|glätte|glatter)\w*|\bliss(?:ée?s?|e[rz]?)\b|\bsuaviza(?:d[ao]s?|r?)\b|\bmás suaves?\b|平滑",
    ),
    (
        " train loss ",
        r"\btrainings-?verlust\b|\bperte d['’]entra[iî]nement\b|\bpérdida de entrenamiento\b|训练损失",
    ),
    (" valid loss ", r"\bvalidierungs-?verlust\b|\bperte de validation\b|\bpérdida de validación\b|验证损失"),
    ("recall", r"\btrefferquote\b|\brappel\b(?!l)|\bexhaustividad\b|召回率"),
    ("precision", r"\bpräzision\b|\bprécision\b|\bprecisión\b|精确率"),
    ("warnings", r"\bwarnungen\b|\bavertissements?\b|\b(?:avisos|advertencias)\b|警告"),
    (
        " all metrics ",
        r"\balle metriken\b|\btoutes les métriques\b|\btodas las métricas\b|(?:所有|全部)的?指标",
    ),
    (
        " all curves ",
        r"\balle kurven\b|\btoutes les courbes\b|\btodas las curvas\b|(?:所有|全部)的?曲线",
    ),
    (" both curves ", r"\bbeiden? kurven\b|\bles deux courbes\b|\b(?:las dos|ambas) curvas\b|(?:两条|两个)曲线"),
    (
        " gpu usage ",
        r"\bgpu-auslastung\b|\bauslastung der gpus?\b|\butilisation (?:du|des) gpus?\b|\buso de (?:la|las) gpus?\b"
        r"|gpu\s*(?:的)?(?:利用率|使用率)",
    ),
    ("loss", r"\bverlust(?:kurve)?\b|\bperte\b|\bpérdida\b|损失"),
    ("accuracy", r"\bgenauigkeit\b|\bexactitude\b|\bexactitud\b|准确率"),
    ("errors", r"\bfehler(?:meldungen)?\b|\berreurs?\b|\berror(?:es)\b|错误|报错"),
    ("importance", r"\bimportancia\b|\bwichtig(?:keit|ste[nrs]?|e[nr]?)?\b|\b(?:les plus|más) importantes\b|重要"),
    (" clustering ", r"\b(?:fais|mach|bilde|haz|forma|crea)\w*(?= (?:\w+ )?(?:groupes|gruppen|grupos|segment\w*)\b)"),
    (
        " clustering ",
        r"\b(?:um)?gruppier\w*|\bregroup(?:e|er|ez)\b|\bagr[uú]pa(?:r|me|l[oa]s)?\b|\bgroupes-les\b|聚(?:成|类成?|为|[个下]类)",
    ),
    ("forecast", r"\bprognos\w*|\bprévisions?\b|\bpronóstic\w*"),
    ("confusion", r"\bkonfusions?\w*\b|\bconfusión\b|混淆"),
    (
        "high priority",
        r"\bhohe[rn]? prio(?:rität)?\b|\bprio(?:rität)? (?:auf )?(?:hoch|haute|alta)\b|优先级(?:设为|设|调)?高"
        r"|\bpriorité haute\b|\bhaute priorité\b|\bprioridad alta\b|\balta prioridad\b"
        r"|高优先级|优先级(?:设为|设成|为|是|调)?高",
    ),
    (
        "low priority",
        r"\bniedrige[rn]? prio(?:rität)?\b|\bprio(?:rität)? (?:auf )?(?:niedrig|basse|baja)\b|优先级(?:设为|设|调)?低"
        r"|\bpriorité basse\b|\bbasse priorité\b|\bprioridad baja\b"
        r"|\bbaja prioridad\b|低优先级|优先级(?:设为|设成|为|是|调)?低",
    ),
    ("half ", r"\b(?:deux fois|moitié) moins (?:de |d['’])"),
    (
        "triple ",
        r"\b(?:le )?triple de\b|\btrois fois plus (?:de |d['’])|\bdreimal so viele?\b|\bdie dreifachen?\b|三倍的?",
    ),
    ("third of ", r"\b(?:ein(?:em)?|un) (?:drittel|tiers)(?: der| d[eu])?\b|\bun tercio de(?: la|l)?\b|三分之一的?"),
    (
        "quarter of ",
        r"\b(?:ein(?:em)?|un) (?:viertel|quart)(?: der| d[eu])?\b|\b(?:un cuarto|una cuarta parte) de(?: la|l)?\b",
    ),
    (
        "fifth of ",
        r"\b(?:ein(?:em)?|un) (?:fünftel|cinquième)(?: der| d[eu])?\b|\b(?:un quinto|una quinta parte) de(?: la|l)?\b",
    ),
    (
        "tenth of ",
        r"\b(?:ein(?:em)?|un) (?:zehntel|dixième)(?: der| d[eu])?\b|\b(?:un décimo|una décima parte) de(?: la|l)?\b",
    ),
    (" tenth of ", r"十分之一的?"),
    (" doubled ", r"\s*(?:调大|加大|提高|增加|翻|调高)\s*1\s*倍"),
    (" halved ", r"\s*(?:调小|减少?|降低?|砍)了?一半"),
    ("half ", r"\b(?:der |die )?halbe[rn]?\b|\b(?:la )?moiti[ée](?: d[eu])?\b|\b(?:la )?mitad de(?:l)?\b|一半的?"),
    ("double ", r"\b(?:der |die )?doppelten?\b|\b(?:le |el )double de\b|\bel doble de\b|两倍的?"),
    (" halved ", r"\b(?:halbiert|halbier\w*)\b|减半"),
    (" doubled ", r"\bverdoppel\w*\b|\bdeux fois plus (?:grande?|élevée?|de)\b|\bdos veces mayor\b|加倍|翻倍"),
    ("with this file", r"\bmit (?:dieser|der) datei\b|\bavec ce fichier\b|\bcon este (?:archivo|fichero)\b"),
    (" with this file ", r"用(?:这个|这份|该)?文件"),
    (" target ", r"(?:目标|标签|要预测的?)列?(?:是|为|用)?\s*(?=[A-Za-z_`])"),
    (" column ", r"(?:那一)?列(?:名?是|叫)\s*(?=[A-Za-z_`])"),
    ("without ", r"\b(?:ohne|sans|sin)\s(?=[`\w])"),
    (" without ", r"(?:去掉|别用|不用|不要用|排除)\s*(?=[`A-Za-z_])"),
    (
        "on ",
        r"(?:放到?|丢到?|扔到?|在|用|上)\s*(?=(?:gpu|node|host|box|server|worker)-?\d)|\bauf\s+(?=[a-z]+-?\d)|\b(?:en"
        r"|sur)\s+(?=gpu-?\d|[a-z]+-\d)",
    ),
)
_REPLACED = Replacements((pattern, english) for english, pattern in _SAYS)


def in_english(asked: str, *, keep: Sequence[str] = ()) -> str:
    """A sentence whose settings, limits and the like stand in English; `keep` are the names of columns."""
    return "".join(_parts(asked, keep))


def _parts(asked: str, keep: Sequence[str]) -> Iterator[str]:
    names = "".join(rf"|(?<!\w){re.escape(name)}(?!\w)" for name in keep if name)
    for at, part in enumerate(re.split(rf"({_QUOTED}{names})", asked, flags=re.DOTALL | re.IGNORECASE)):
        yield part if at % 2 else _translated(part)


@lru_cache(maxsize=1_000)  # several readers ask for the same sentence
def _translated(part: str) -> str:
    part = _HAN_NUMBER.sub(_figures, part)
    part = _BETWEEN_SCRIPTS.sub(" ", part)
    return _BETWEEN_SCRIPTS.sub(" ", _REPLACED(part))


def _figures(number: re.Match[str]) -> str:
    """A number in Chinese signs, up to 999 without tens beside hundreds; an empty match stays empty."""
    times, unit, ones, alone = number.groups()
    if not number.group():
        return ""
    if alone:
        return str({"十": 10}.get(alone) or _HAN_DIGITS[alone])
    tens = {"十": 10, "百": 100}.get(unit or "", 0) * (_HAN_DIGITS[times] if times else 1)
    return str(tens + (_HAN_DIGITS[ones] if ones else 0))
