"""Names of languages, as people say them, for columns that are called by a code."""

import re
from collections.abc import Sequence

_LANGUAGES = {  # columns that are called by a code, and how people call the language
    "en": r"\b(?:english|englisch\w*|anglais|ingl[ée]s)\b|英[语文]?(?![雄国])",
    "de": r"\b(?:german|deutsch\w*|allemand|alem[áa]n)\b|德[语文]?(?!国)",
    "fr": r"\b(?:french|französisch\w*|français|franc[ée]s)\b|法[语文]",
    "es": r"\b(?:spanish|spanisch\w*|espagnol|español)\b|西班牙[语文]",
    "zh": r"\b(?:chinese|chinesisch\w*|chinois|chino)\b|中文|汉语",
}


def by_code(asked: str, names: Sequence[str]) -> str:
    """A request in which languages stand by the codes that columns of the data are called by."""
    for name in (name for name in names if name.lower() in _LANGUAGES):
        asked = re.sub(_LANGUAGES[name.lower()], name, asked, flags=re.IGNORECASE)
    return asked
