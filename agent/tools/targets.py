"""Reads which column a request wants predicted, and which it wants left out. Called with the columns of the data."""

import difflib
import re
from collections.abc import Sequence

from agent.tools.languages import by_code

# Not the apostrophes of don't and what's; a Chinese sign may stand beside a mark.
QUOTE = r"(?<![^\W\u3400-\u9fff])[`\"“']([\w .\-/]{1,80})[`\"”'](?![^\W\u3400-\u9fff])"
_QUOTED = re.compile(QUOTE)
_NOT_USED = (
    r"(?:minus|(?:everything|anything|all|every column)\s+(?:but|except|other than|besides)|without|drop(?:ping)?"
    r"|ignor(?:e[rz]?|ing|iere?n?|ar?|ando)|exclud(?:e|ing)|skip(?:ping)?|omit(?:ting)?|except(?: for)?|(?:apart"
    r"|aside) from|but not"
    r"|hid(?:e|ing)"
    r"|get(?:ting)? rid of|remov(?:e|ing)|toss(?:ing)?|ditch(?:ing)?|throw(?:ing)? (?:out|away)|hands off"
    r"|forget(?: about)?|leav(?:e|ing) out|(?:not|never|\w+n['’]t|dont|doesnt)"
    r"(?: (?:need|get to|to|be allowed to|let (?:it|the model)))*"
    r" (?:use|include|look at|consider|see|touch|need|read)|(?:not|never|\w+n['’]t) using"
    r"|ohne|lass(?:e|en)?|schmei(?:ß|ss)\w*|streiche?n?|entferne?n?"
    r"|sans|n['’]utilise[rz]? pas|vire[rz]?|enl[èe]ve[rz]?|retire[rz]?|exclu(?:s|re)"
    r"|sin|no (?:uses|usar|mires)|quitar?|saca(?:r|ndo)?|excluye(?:ndo)?|elimina(?:r|ndo)?|fuera"
    r"|(?:不要|别|不)(?:使用|用|看)|去掉|忽略)"
)
# What follows the verb, up to where something else is asked for.
_LEFT_OUT = re.compile(
    rf"(?<![^\W\u3400-\u9fff]){_NOT_USED}\s*([^.;!?\n。；！？]*?)"
    rf"(?=[.;!?\n。；！？，]|(?:,|\band\b|\bund\b|\bet\b|\by\b)?\s*(?<![^\W\u3400-\u9fff]){_NOT_USED}"
    r"|(?:,|\band\b|\bthen\b|\bbut\b)?\s*\b(?:to |then )?"
    r"(?:predict|train|classify|regress|weg|aus"
    r"|forecast|use|build|fit|make|tell|guess|estimate|split|hold"
    r"|(?:the |das |la |el )?(?:target|ziel|cible|objetivo)|with|for|at most|up to)\b|$)"
    r"|\b(?:leav|keep|tak|kick)(?:e|ing)?\s+([^.;!?\n]{1,80}?)\s+(?:out|aside|off|away)\b"
    r"|(?:\bwith|[,;])\s+([^.,;!?\n]{1,80}?)\s+(?:left out|excluded|removed|dropped)\b",
    re.IGNORECASE,
)
# What is said behind a column that is to be left out.
_UNWANTED = (
    r"[\s-]+(?:(?:columns?|spalten?|lines?|texts?|fields?)\s+)?(?:leaks?\b|(?:is|are) (?:(?:just|only|all"
    r"|complete|pure)"
    r" )?(?:leak|cheat|useless|irrelevant|noise|garbage|junk|trash|rubbish|crap|nonsense|worthless|off limits"
    r"|not (?:needed|used|allowed))\w*"
    r"|(?:must|should|may|might|can|could|shall|will|would|is|are|does|do|has|have)(?: ?not|n['’]?t)"
    r"(?: (?:supposed|meant|allowed))?(?: to)?(?: (?:be|get|go|come|enter|end up))*(?: (?:an?|the|any))?"
    r" (?:parts?|among|in|into|inside|used|inputs?|features?|included|considered|taken|fed)\b"
    r"|(?:is|are) (?:off the table|out of bounds|taboo|forbidden|banned|tabu|interdite?s?|prohibid[oa]s?)\b"
    r"|ne (?:doi(?:t|vent)|peu(?:t|vent)) (?:surtout )?pas (?:entrer|être|servir|figurer)\b"
    r"|no (?:deben?|pueden?|debería\w*) (?:entrar|usarse|ser|estar)\b"
    r"|gives? (?:it|the answer) away|(?:brauch\w*|darf|soll)\b[^.,;!?]*\bnicht\b|no (?:hace falta|sirve|se usa)\b"
    r"|(?:ne sert|n['’]est) [^.,;]*\b(?:à rien|pas)\b|不要|不用|去掉"
    r"|(?:(?:(?!and\b|or\b|with|but\b|und\b|et\b|y\b)\w+) ){0,5}?(?:(?:left|kept|keep|stays?|leave|taken?|goes?"
    r"|be) out|excluded|dropped|ignored"
    r"|removed|weg(?:ge)?lass\w*|auslassen|ausschlie\w+|raus(?!f)\w*|beiseite|außen vor|ignorieren|fuera|aparte"
    r"|de lado|dehors|de côté)\b"
    r"|[^,;.!?\n]{0,40}[,;]?\s*(?:so|and|then|please)?\s*(?:drop|ignore|skip|exclude|remove|leave|take|throw) (?:it"
    r"|that(?: one)?|this)\b)"
    r"|\s*(?:那|这|此)?[一个]?列[^，。；,;]{0,8}?without"
    r"|\s*(?:那|这)?一?列?[^，。；,;]{0,8}?(?:不要|不用|别用|别带|去掉|忽略|排除|扔掉|删掉)"
)
_JOINED = re.compile(
    r"\W*(?:and|or|und|et|y|e|和|与|跟|及|以及|、|&)\W*(?:(?:the|die|der|das|la|le|les|el|los|las) )?", re.IGNORECASE
)
_ONLY = re.compile(  # “only use age and plan”, “with age and plan only”
    r"\b(?:only|just|nur|uniquement|seulement|solo|solamente)\s+(?:use|using|with|from|the columns?|mit|aus|avec"
    r"|con|utilise\w*|usa\w*)"
    r"\s+([^.;!?]+)|\b(?:use|using|with|from|mit|aus|avec|con)\s+([^.;!?,]+?)\s+(?:only|alone|nothing else"
    r"|allein|uniquement|solamente)\b"
    r"|只[用看]([^。；，]+)",
    re.IGNORECASE,
)
_KEPT = (
    r"\b(?:keep|leave in|retain|behalt\w*|garde[rz]?|conserv\w*|mant[eé]n\w*)\s+(?:(?:the|die|la|le|el)\s+)?{0}\b"
    r"(?!.*\b(?:out|aside|back|together)\b)|\b{0}\b[^.;]{{0,40}}\b(?:keep|leave) (?:it|that)(?: in)?\b(?! (?:out"
    r"|aside))"
)
_FILE = re.compile(r"\b[\w.-]+\.(?:csv|tsv|parquet|jsonl?|xlsx?|txt|zip|gz|npz)\b", re.IGNORECASE)
_COLUMN = re.compile(
    rf"{QUOTE}|\b(?:columns?|features?|fields?)\s+(?:called\s+|named\s+)?(\w+)|\b(?!the\b)(\w+)\s+(?:column|feature"
    rf"|field)\b|\b(\w*\w_\w+)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?<!text )(?<!input )(?<!date )(?<!time )(?<!id )(?<!feature )"
    r"(?:\b(?:target|column|label|ziel(?:spalte)?|spalte|cible|colonne|objetivo|columna)\b|目标列?)\s*(?:column\s*)?"
    r"(?:(?:(?:is|heißt|s['’]appelle|se llama) ?(?:named|called)?|named|called|should be|ist|est|es"
    r"|to(?= \w+\W*$))\b|=|:|是|叫)?\s*([^\W\d\u3400-\u9fff](?:[\w.\-]*\w)?)",
    re.IGNORECASE,
)
# What stands behind a column, or before it, that is declared the target.
_IS_TARGET = re.compile(
    r"\s*(?:column\s+)?(?:(?:is|are|as|=)\s+(?:(?:my|the|our|a)\s+)?(?:target|label|goal|y\b|outcome|answer|what\b)"
    r"|is (?:to be|what)|(?:soll|möchte|will) [^.;]*vorher|ist (?:das )?ziel|(?:est|sera) (?:la |le )?(?:cible|but)"
    r"|es (?:el |la )?(?:objetivo|meta)|(?:是|作为|当作?|做)\s*(?:目标|标签|target)|(?:als|comme"
    r"|como) (?:ziel\w*|label|cible|objetivo|target)\b)",
    re.IGNORECASE,
)
# What stands before a column that is read, not predicted.
_READ = re.compile(
    r"(?:\b(?:texts?|inputs?|features?|dates?|time|id)(?: columns?)?(?: is| are| in| from| of)?(?: the)?(?: column)?"
    r"|\b(?:using|based on|given)\b[^.;!?]*"
    r"|\b(?:from|read|reads|reading"
    r"|in)(?: the)?(?: texts?)?(?: columns?)?(?: in)?|文本(?:列)?(?:是|用|取)?)\s*$",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(?:\b(?:predict(?:s|ing|or)?|classif(?:y|ies|ying)|forecast(?:s|ing)?|tells?|guess(?:es)?|estimat(?:e|es|ing)"
    r"|regress(?:es|ing)?|detects?|spots?|recogni[sz]es?|identif(?:y|ies)|determines?|figures? out|works? out"
    r"|(?:model|classifier|regressor|regression) (?:for|of)|pr[ée]di(?:re|t|ce|cir|ciendo|ga|s|se)"
    r"|vorherzusagen|estime[rz]?"
    r"|estimar?|devine[rz]?|adivinar?|schätzt?e?n?|erkenn(?:e|t|en)|reconna\w+|reconoce\w*|pronostica\w*)\b"
    r"|\bsage?n?\b(?=.*\b(?:voraus|vorher)\b)|预测|估计|估算|判断|识别)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_PAIR = (
    r"(?<![^\W\u3400-\u9fff])(?<!-)[`“\"]?({0})[`”\"]?\s*(?:->|=>|→|➜|\b(?:into|to|nach|ins?|vers|a|al|au)\b|à l['’]"
    r"|到|翻?译[成为]?|翻成)\s*(?:the )?[`“\"]?({0})(?![\w-])"
)
# What stands behind the target: what it is read from.
_FROM = re.compile(r"\b(?:from|using|given|based on|out of|by means of)\b", re.IGNORECASE)
_INTO = re.compile(
    r"\b(?:classif(?:y|ies|ying)|sort(?:s|ing|ier\w*)?|label|rout(?:e|es|ing)|assign|group|trier?|class(?:e[rz]?|ify)"
    r"|clasific\w+|ordena\w*)\b.*?\b(?:into|by|as|to|nach|par|por|en|selon|según)\b(.*)"
    r"|按\s*(\w+?)\s*(?:列\s*)?(?:给[^，。]{0,6})?(?:自动)?(?:分流|分类|归类|分派|派单)",
    re.IGNORECASE | re.DOTALL,
)
# What stands before a column that parts the rows and is not predicted.
_EACH = re.compile(
    r"\b(?:per|by|each|every|for (?:each|every)|split|same|within|across|pro|je|par|chaque|por|cada)"
    r"[\s(]+(?:the\s+)?$|[按每]个?\s*$",
    re.IGNORECASE,
)
# What stands before the things that are told apart, in the plural: “which machines will fail” predicts no machine.
_WHICH = re.compile(
    r"(?:\b(?:which|welche[rn]?|quel(?:le)?s|cu[aá]les|qu[eé])(?: (?:of )?(?:the|our|my|these|der|des|de los))?\s+"
    r"|哪些)$",
    re.IGNORECASE,
)
_DO = re.compile(
    r"\s+(?:will|would|are|were|might|may|could|can|should|do|did|have|had|get|go|need|werden|wird|sind|haben|könnten"
    r"|vont|sont|ont|risquent|van|son|han|pueden)\b|(?:会|将|要|可能)",
    re.IGNORECASE,
)
# One thing in several languages, as columns and people call it.
_SAME = tuple(
    frozenset(words.split())
    for words in (
        "price prices cost costs worth expensive teuer cher caro precio precios prix preis preise 价格 售价 房价",
        "age ages old edad âge alter 年龄",
        "customer_id kundennummer kundennummern kunden-id kundenid 客户编号 客户号",
        "patient_id patientennummer patienten-id 患者编号 病人编号",
        "ticket_id ticketnummer ticket-id 工单号",
        "subject betreff betreffzeile asunto objet",
        "year_built baujahr",
        "sales ventas ventes umsatz verkäufe 销量 销售额",
        "units sell sold 销量 unidades unités einheiten stückzahl",
        "income ingresos revenu revenus einkommen 收入",
        "rating stars star estrellas étoiles sterne bewertung 评分 星级",
        "sentiment stimmung sentimiento 情感 情绪",
        "topic tema thema sujet 主题",
        "category kategorie categoría catégorie 类别",
        "label etikett étiquette etiqueta 标签",
        "summary zusammenfassung résumé resumen 摘要",
        "city stadt ville ciudad 城市",
        "salary gehalt salaire salario sueldo 工资",
        "language lang sprache langue idioma 语言",
        "quality qualität qualité calidad 质量",
        "temperature temperatur température temperatura 温度",
        "species art espèce especie 物种",
        "demand nachfrage demande demanda 需求",
    )
)

_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on for from to and or is are be will would by with this that these those who what which "
        "whether if csv file data dataset model column attached please new can you me my our train predict "
        "should must has have not i it says them they their there all every rows row lines table people now pls "
        "use again instead "
        "der die das den dem des ein eine einen mit auf für von im bitte mir diese dieser diesen dieses datei daten "
        "ob wer voraus vorher "
        "values value werte wert valeurs valores outcome outcomes everything alles "
        "y e et und con como comme als "
        "records entries zeile zeilen einträge ligne lignes enregistrements fila filas registros "
        "le la les l un une de du des ce cet cette ces avec sur pour fichier données qui si "
        "el los las con este esta estos estas para del archivo datos quién por favor",
    )
)
# What may follow a column's name: a number, a word after a sign or “is”, or a word that ends the clause.
_VALUE = re.compile(
    rf"\s*(?:(?:=|:|\b(?:is|ist|est|es|vale)\b|是|\bof\b)\s*(?:{QUOTE}|([\w.+-]*\w))|{QUOTE}|([-+]?\d+(?:\.\d+)?)"
    r"|(?!(?:and|or|for|from|with|the|on|by|using)\b)([a-z][\w-]*)(?=\s*(?:,|，|-?>|→|\?|？|[.;!]|-\s|\band\b"
    r"|\bplease\b|$)))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.=-])[-+]?\d+(?:\.\d+)?(?!\w)")
_NUMBER_BEFORE = re.compile(r"(?<![=:\w.-])([-+]?\d+(?:\.\d+)?)\s+$")
_YEARS_OLD = re.compile(r"\b(\d{1,3})[ -]years?[ -]old\b", re.IGNORECASE)
_ALSO_VERBS = frozenset({"plan", "rate", "score", "order", "use", "test", "label", "rank", "grade"})
_WORD = r"[^\W\u3400-\u9fff]"  # Chinese has no spaces
_CLOSE = 0.8  # how alike two words must be to count as one (visit, visited)


def quoted_target(asked: str) -> str | None:
    """A column that the person named beyond doubt: quoted, or after the word target or column."""
    words = _LEFT_OUT.sub(" ", asked)
    for quoted in _QUOTED.finditer(words):
        if not _READ.search(words[: quoted.start()]):
            return quoted.group(1)
    named = _NAMED.search(words)
    return named.group(1) if named and named.group(1).lower() not in _STOP_WORDS else None


def other_target(asked: str, names: Sequence[str]) -> str | None:
    """The column that a copy of a run is to predict instead of its own: declared, or named behind the verb."""
    words = _LEFT_OUT.sub(" ", asked)
    verb = _VERB.search(words)
    named = _declared(names, words) or (_first_named(names, verb.group(1)) if verb else None)
    said = quoted_target(asked)
    return named or (said if said and (said in names or not names) else None)


def said_to_predict(asked: str) -> list[str]:
    """The words that say what is to be predicted, as they were written; names of files are none."""
    verb = _VERB.search(_LEFT_OUT.sub(" ", asked))
    words = [word.strip(".-") for word in re.findall(r"[\w.-]+", verb.group(1))] if verb else []
    return [word for word in words if word and "." not in word and word.lower() not in _STOP_WORDS]


def names_a_target(asked: str, *, but: str | None = None) -> bool:
    """Whether the words say what is to be predicted, and that is not the column `but`."""
    verb = _VERB.search(_FILE.sub(" ", asked))
    spoken = _tokens(verb.group(1)) if verb else []
    known = _tokens(but.replace("_", " ")) if but else []
    if but and not known:
        return False
    return bool(spoken) and not any(difflib.get_close_matches(part, spoken, 1, _CLOSE) for part in known)


def left_out(asked: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Columns that the person does not want to be used: quoted ones, and `names` as they are spoken."""
    found = [name for name in names if _is_unwanted(name, asked, names)]
    found = _with_joined(found, asked, names)
    if only := _only_used(asked, names):
        found += [name for name in names if name not in only and not _is_target(name, asked)]
    for part in (next(filter(None, parts), "") for parts in _LEFT_OUT.findall(asked)):
        known = [name for name in names if _spoken(name, part) or _only_part(name, part, names)]
        said = [next(filter(None, groups)) for groups in _COLUMN.findall(part)]
        found += known + [name for name in said if not any(_spoken(name, one) or _spoken(one, name) for one in known)]
    return tuple(dict.fromkeys((*(name for name in names if name in found), *found)))


def put_back(asked: str, names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Columns that a plan is to have once more, “the same but with the column sqm”, and the request without them."""
    ways = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    if not ways:
        return (), asked
    article, noun = r"(?:(?:the|die|der|das|la|le|les|el)\s+)?", r"(?:(?:columns?|spalten?|colonnes?|columnas?)\s+)?"
    one = rf"{article}{noun}[`“\"]?({ways})[`”\"]?"
    said = re.compile(
        r"\b(?:with|including|incl\.?|plus|mit|inklusive|avec|y compris|con|incluyendo)\s+"
        rf"{one}(?:\s*(?:,|and|und|et|y)\s*{one})*(?!\w)(?!\s+(?:as|als|comme|como|only|alone)\b)",
        re.IGNORECASE,
    )
    spoken = {name.lower(): name for name in names}
    named = re.findall(ways, " ".join(part.group() for part in said.finditer(asked)), re.IGNORECASE)
    return tuple(dict.fromkeys(spoken[name.lower()] for name in named)), said.sub(" ", asked)


def kept(asked: str, names: Sequence[str]) -> tuple[str, ...]:
    """Columns that the person wants to keep although they look like the answer."""
    unwanted = left_out(asked, names)
    ways = ((name, _KEPT.format(re.escape(name))) for name in names if name not in unwanted)
    return tuple(name for name, way in ways if re.search(way, asked, re.IGNORECASE))


def _only_used(asked: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of which it is said that only they are used."""
    found = _ONLY.search(asked)
    said = next(filter(None, found.groups()), "") if found else ""
    return tuple(name for name in names if _spoken(name, said))


def _with_joined(unwanted: Sequence[str], asked: str, names: Sequence[str]) -> list[str]:
    """What is not wanted, and what stands before it with an “and” and is not what the verb predicts."""
    verb = _VERB.search(asked)
    wanted = _first_named(names, verb.group(1)) if verb else None
    places = {name: at for name in names if (at := _spoken(name, asked))}
    found = list(unwanted)
    for name in sorted(places, key=lambda name: -places[name].start()):
        behind = asked[places[name].end() :]
        joined = (places[other].start() - places[name].end() for other in found if other in places)
        if name not in {*found, wanted} and any(at > 0 and _JOINED.fullmatch(behind[:at]) for at in joined):
            found.append(name)
    return found


def _is_target(name: str, asked: str) -> bool:
    """Whether a column is named that is not among those that are used."""
    return _spoken(name, _ONLY.sub(" ", asked)) is not None


def _only_part(name: str, part: str, names: Sequence[str]) -> bool:
    """Whether a word of a column's name is said that no other column has, such as “the id” of customer_id."""
    spoken = set(_tokens(part))
    said = {word for word in _tokens(name.replace("_", " ")) if {word, f"{word}s"} & spoken}
    others = {word for other in names if other != name for word in _tokens(other.replace("_", " "))}
    return bool(said - others) and "_" in name


def values_in(asked: str, names: Sequence[str]) -> dict[str, str]:
    """The values that are stated for columns: "age 30, plan pro", "age is 30", "age=30", "3 rooms"."""
    found: dict[str, str] = {}
    places = {name: at for name in names if (at := _stated(name, asked, names))}
    number = _NUMBER.search(asked)
    first = number and places and number.start() < min(at.start() for at in places.values())  # “3 rooms, age 30”
    for name in names:
        at = places.get(name)
        before = _NUMBER_BEFORE.search(asked[: at.start()]) if at else None
        behind = _VALUE.match(asked, at.end()) if at else None
        if before and (first or not behind):
            found[name] = before.group(1)
        elif behind:
            found[name] = next(filter(None, behind.groups()))
        elif name.lower() == "age" and (old := _YEARS_OLD.search(asked)):
            found[name] = old.group(1)
    return found


def _stated(name: str, asked: str, names: Sequence[str]) -> re.Match[str] | None:
    """Where a column stands that may have a value: before a sign, by its name, or by a word of it."""
    sign = re.search(rf"(?<!{_WORD})\b{re.escape(name)}(?=\s*=)", asked, re.IGNORECASE)
    return sign or _spoken(name, asked) or _part_spoken(name, asked, names)


def _part_spoken(name: str, words: str, names: Sequence[str]) -> re.Match[str] | None:
    """Where a word of a column's name stands that no other column has, such as “fee” of monthly_fee."""
    others = {word for other in names if other != name for word in _tokens(other.replace("_", " "))}
    parts = [part for part in _tokens(name.replace("_", " ")) if part not in others and len(part) > 2]
    has_parts = "_" in name and not name.lower().endswith("_id")  # “the customer is 45” states no id
    return next((at for part in parts if (at := _spoken(part, words))), None) if has_parts else None


def target_in(asked: str, names: Sequence[str]) -> tuple[str | None, bool]:
    """The column that a request wants predicted, and whether the person named it."""
    said = quoted_target(asked)
    if said is not None and not _is_unwanted(said, asked):
        known = next((name for name in names if name.lower() == said.lower()), None)
        if known or "_" in said or _QUOTED.search(asked):
            return known or said, True
    words = _ONLY.sub(" ", _LEFT_OUT.sub(" ", asked))
    used = _only_used(asked, names)
    names = [name for name in names if not _is_unwanted(name, asked) and name not in used]
    verb = _INTO.search(words) or _VERB.search(words)
    said = next(filter(None, verb.groups()), "") if verb else ""
    behind = _FROM.split(said, maxsplit=1)[0]
    for one in (
        _declared(names, words),
        pair_in(asked, names)[1],
        _first_named(names, behind),
        _only_named(names, words),
    ):
        if one:
            return one, True
    names = [
        name for name in names if not (_spoken(name, words) or name.lower() in _ALSO_VERBS)
    ]  # those are read, or part the rows
    best, sure = _alike(_tokens(said if verb else words), names)
    return (best, sure) if sure or verb else (None, False)  # half a name that nobody wanted predicted is none


def pair_in(asked: str, names: Sequence[str]) -> tuple[str | None, str | None]:
    """What is read and what is predicted of it, where both stand together: “body -> queue”, “from de into en”."""
    ways = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    found = re.search(_PAIR.format(ways), by_code(asked, names), re.IGNORECASE) if names else None
    said = {name.lower(): name for name in names}
    return (said[found[1].lower()], said[found[2].lower()]) if found else (None, None)


def mentions(name: str, asked: str) -> bool:
    """Whether a column is named that is not to be left out."""
    return _spoken(name, asked) is not None and name not in left_out(asked, (name,))


def _declared(names: Sequence[str], words: str) -> str | None:
    """The column that is said to be the target."""
    return next((name for name in names if (at := _spoken(name, words)) and _IS_TARGET.match(words, at.end())), None)


def _first_named(names: Sequence[str], behind: str) -> str | None:
    """The first column that is named behind the verb."""
    found = {name: at.start() for name in names if (at := _to_learn(name, behind))}
    return min(found, key=lambda name: (found[name], -len(name))) if found else None


def _only_named(names: Sequence[str], words: str) -> str | None:
    """The only column that is named and not read."""
    named = [name for name in names if _to_learn(name, words)]
    return named[0] if len(named) == 1 else None


def _to_learn(name: str, words: str) -> re.Match[str] | None:
    """Where a column is named that may be the target: it is not read, parts no rows, and is not what is told apart."""
    at = _spoken(name, words)
    before = words[: at.start()] if at else ""
    plural = at and at.group().lower().endswith("s") and not name.lower().endswith("s")
    told_apart = at and plural and _WHICH.search(before) and _DO.match(words, at.end())
    return None if told_apart or _READ.search(before) or _EACH.search(before) else at


def _is_unwanted(name: str, words: str, names: Sequence[str] = ()) -> bool:
    """Whether it is said behind a column that it is to be left out."""
    at = _spoken(name, words) or _part_spoken(name, words, names)
    no = at and re.search(r"\bno\s+(?:columns?\s+)?$", words[: at.start()], re.IGNORECASE)
    return bool(at and (no or re.match(_UNWANTED, words[at.end() :], re.IGNORECASE)))


def _spoken(name: str, words: str) -> re.Match[str] | None:
    """Where a column's name stands among words, also in the plural or in another language."""
    spelled = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[\s_-]+", name) if part)
    same = next((group for group in _SAME if name.lower() in group), frozenset())
    ways = "|".join((spelled, f"{spelled}s", *map(re.escape, same - {name.lower()})))
    noun = r"(?!\s+(?:an?|another|the|it|this)\b)" if name.lower() in _ALSO_VERBS else ""  # “plan a new one”
    return re.search(rf"(?<!{_WORD})(?<!-)(?:{ways})(?!{_WORD})(?!-(?!spalte|column)){noun}", words, re.IGNORECASE)


def _alike(spoken: Sequence[str], names: Sequence[str]) -> tuple[str | None, bool]:
    """The column whose words are most like those that were spoken, and whether all of them are."""
    best, score = None, 0.0
    for name in names:
        parts = _tokens(name.replace("_", " "))
        alike = sum(1 for part in parts if _is_close(part, spoken))
        share = alike / len(parts) if parts else 0.0
        if share > score:
            best, score = name, share
    return (best, True) if score == 1.0 else (best if score >= 0.5 else None, False)


def _is_close(part: str, spoken: Sequence[str]) -> bool:
    """Whether a word is spoken, or one that is like it: visit and visited, readmitted and readmission."""
    stems = len(part) > 7 and any(word[:6] == part[:6] for word in spoken if len(word) > 7)
    return stems or bool(difflib.get_close_matches(part, spoken, 1, _CLOSE))


def _tokens(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W_\u3400-\u9fff]+", text.lower()) if word not in _STOP_WORDS]
