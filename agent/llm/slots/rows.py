"""Reads the cells of a row that somebody describes in words, and the column of an amount that is asked for."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.tools.targets import values_in

# Words that ask for an amount, and those in the names of columns that hold it.
_AMOUNTS = (
    (
        r"\b(?:costs?|prices?|worth|expensive|kosten?|kostet|preise?|wert|teuer|prix|co[uû]te\w*|vaut|cuestan?"
        r"|precios?|vale)\b|多少钱|价格|房价",
        {"price", "prices", "cost", "value", "rent", "preis", "kosten", "prix", "precio", "coste", "价格"},
    ),
    (
        r"\b(?:how long|duration|wie lange|dauern?|dur[ée]e|combien de temps|cu[aá]nto tiempo)\b|多久|多长时间",
        {"duration", "minutes", "hours", "days", "seconds", "dauer", "duree", "durée", "duracion", "duración"},
    ),
    (
        r"\b(?:how many|sales?|sells?|sold|demand|wie viele|verkauf\w*|absatz|ventes?|ventas?)\b|销量",
        {"sales", "sold", "units", "quantity", "demand", "orders", "umsatz", "absatz", "ventes", "ventas", "销量"},
    ),
)
# A unit behind a number, and how the names of columns call it.
_UNITS = (
    (
        r"square (?:met(?:er|re)s?|m)|m²|m2|sqm|qm|quadratmetern?|m[eè]tres carr[ée]s|metros cuadrados|平方米|平米",
        {"m2", "sqm", "qm"},
    ),
    (r"square (?:feet|foot)|sq ?ft|ft²", {"sqft", "ft2"}),
    (r"kg|kilos?|kilograms?|kilogramm|公斤", {"kg"}),
    (r"km|kilomet(?:er|re)s?|公里", {"km"}),
    (r"cm|centimet(?:er|re)s?|厘米", {"cm"}),
)
# An amount of money: behind its unit or a word of paying; columns that hold one.
_MONEY = re.compile(
    r"[$€£]\s*(?P<after>\d[\d.]*)|(?P<before>\d[\d.]*)\s*(?:[$€£]|(?:euros?|eur|dollars?|usd|bucks|pounds?|quid"
    r"|pesos|francs?)\b|块钱?|元|欧元|美元)"
    r"|(?:\b(?:fee|cuota|tarif|abonnement|mensualité|beitrag|gebühr|monatlich)|月费|每月|费用)\s*(?:de|von|of|is|=|:|是|为)?\s*"
    r"(?P<fee>\d[\d.]*)|\b(?P<monthly>\d[\d.]*)\s*(?:per|a|par|pro|im|al|por)\s+(?:months?|mois|monat|mes)\b"
    r"|\b(?:pay(?:s|ing)?|paid|zahlt|bezahlt|paie|payant|paga(?:ndo)?)\s+(?P<paid>\d[\d.]*)(?!\s*(?:times|years|months))",
    re.IGNORECASE,
)
_OF_MONEY = {
    *("fee", "price", "cost", "costs", "charge", "charges", "amount", "bill", "salary", "income", "spend", "rent"),
    *("preis", "gehalt", "prix", "precio", "salaire", "salario", "revenue", "budget"),
}
# The age of somebody: “aged 23”, “60-year-old”, “who is 45”, “a 60-Jährige”.
_AGED = re.compile(
    r"\baged?\s+(?:of\s+)?(?P<aged>\d{1,3})\b"
    r"|\b(?P<old>\d{1,3})(?:[ -]?(?:years?|yrs?)[ -]?olds?\b|[ -]?yo\b|[ -]?jährig\w*"
    r"|[ -]jahre alt\b|\s+ans\b|\s+años\b|\s*岁)"
    r"|\b(?:who|she|he|someone|somebody)(?:['’]s|\s+is|\s+of)\s+(?P<who>\d{1,3})\b(?!\s*(?:[%.,]\d|percent|months|days))",
    re.IGNORECASE,
)
_BESIDE = r"(?:on|in|im|with|the|plan|tarif|tariff|forfait|type|en|con|avec|mit|of|a|an|el|le|la|der|die|das)"
_THERE = re.compile(r"\b(?:with|has|having|mit|hat|avec|con)\b", re.IGNORECASE)
_AND_THERE = re.compile(rf"(?:{_THERE.pattern}|\b(?:and|und|et|y)(?=\s+(?:an?|eine\w*|une?|una?)\b))", re.IGNORECASE)
_NOT_THERE = re.compile(r"\b(?:without|no|ohne|kein\w*|sans|sin)\b", re.IGNORECASE)
_ARTICLE = r"(?:(?:an?|the|any|eine\w*|de[rnm]|die|das|une?|la|le|una?|el)\s+)?"
_YES_NO = (("yes", "no"), ("true", "false"), ("1", "0"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("oui", "non"))


def amount_in(asked: str, names: Sequence[str]) -> str | None:
    """The only column of the amount that is asked for in other words, as in “what would a flat cost?”."""
    for pattern, words in _AMOUNTS:
        fitting = [name for name in names if words & _words(name)]
        if len(fitting) == 1 and re.search(pattern, asked, re.IGNORECASE):
            return fitting[0]
    return None


def cells_in(asked: str, columns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The cells of a row by the name of their column: beside it, by their unit, as a known value, or as there or not.

    “rooms 3”, “80 square metres”, “in the centre”, “with a balcony”. `columns` are those of a data report.
    """
    found = values_in(asked, [str(column["name"]) for column in columns if "name" in column])
    for column in columns:
        name, kind = str(column.get("name")), column.get("kind")
        example, values = str(column.get("example")), column.get("values") or ()
        said = _measured(name, asked) if kind == "number" else _there(name, example, asked) or _one_of(values, asked)
        if said is None and kind == "number" and name not in found:
            said = _of_person_or_money(name, asked)
        if said is not None:
            found[name] = said
    return found


def _measured(name: str, asked: str) -> str | None:
    """The number with the unit that a column is named by."""
    for unit, called in _UNITS:
        if called & _words(name) and (said := re.search(rf"([\d.]+)\s*(?:{unit})(?!\w)", asked, re.IGNORECASE)):
            return said.group(1)
    return None


def _of_person_or_money(name: str, asked: str) -> str | None:
    """The age of somebody, or an amount of money, where a column holds one."""
    words = _words(name)
    way = _AGED if words & {"age", "alter", "edad"} else _MONEY if words & _OF_MONEY else None
    found = way.search(asked) if way else None
    return next(filter(None, found.groups()), "").rstrip(".") or None if found else None


def _there(name: str, example: str, asked: str) -> str | None:
    """Yes or no as the column writes it, where its name stands behind “with” or “without”."""
    for yes, no in _YES_NO:
        if example.lower() not in {yes, no}:
            continue
        spoken = re.escape(name.replace("_", " "))
        there = _THERE if _NOT_THERE.search(asked) else _AND_THERE  # “no garage and a balcony” says no more
        for pattern, value in ((_NOT_THERE, no), (there, yes)):
            if re.search(rf"{pattern.pattern}\s+{_ARTICLE}{spoken}\b", asked.replace("_", " "), re.IGNORECASE):
                return value.upper() if example.isupper() else value.title() if example.istitle() else value
    return None


def _one_of(values: Sequence[str], asked: str) -> str | None:
    """The only one of some values that is spoken; short ones, which are words of any sentence, behind a word of it."""
    said = [value for value in values if re.search(rf"(?<!\w){re.escape(value.strip())}(?!\w)", asked, re.IGNORECASE)]
    if len(said) != 1:
        return None
    value = said[0].strip()
    beside = rf"\b{_BESIDE}\s+[`\"“]?{re.escape(value)}(?!\w)"
    plain = len(value) > 3 or (len(value) > 1 and re.search(beside, asked, re.IGNORECASE))
    return said[0] if plain else None


def _words(name: str) -> set[str]:
    """The words of a column's name in lower case: `SalePrice`, `area_m2`."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return set(re.split(r"[\W_]+", apart))
