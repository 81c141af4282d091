"""Takes out of a request what is only said to be polite, so that no reader takes it for a condition or a wish.

Short forms are written out.
"""

import re

_SAID = (
    r"\bif (?:you don['’]?t mind|(?:that|it)(?:['’]?s| is) (?:ok(?:ay)?|fine|possible)|(?:at all )?possible"
    r"|you (?:can|could|have (?:an? (?:minute|moment|sec(?:ond)?)|time)))",
    r"\bwhen(?:ever)? you (?:have|get|find) (?:an? (?:minute|moment|sec(?:ond)?|chance)|(?:some )?time)",
    r"\b(?:many )?(?:thanks|thank you|thx|cheers)(?: (?:in advance|a (?:lot|bunch|million)|so much|very much|again))?",
    r"\b(?:that |this |it |which )?would be (?:great|nice|lovely|awesome|super|cool|perfect)(?: thanks)?",
    r"\b(?:stp|svp|pls|plz)\b",
    r"\bsorry (?:to (?:bother|nag|be a (?:pain|nuisance|bother))(?: you)?|for (?:the )?(?:noise|trouble|bother))"
    r"(?:,? but)?|\bmuch appreciated",
    r"\b(?:wenn|falls)(?:['’]?s| es)? (?:geht|möglich(?: ist)?|(?:dir|euch|ihnen) nichts ausmacht|passt|okay ist)",
    r"\b(?:danke|vielen dank|besten dank)(?: (?:dir|euch|schon mal|im voraus|schön))?|\b(?:das )?wäre (?:super"
    r"|toll|nett|prima)",
    r"\bsi (?:possible|tu peux|vous pouvez|(?:ça|cela) (?:ne )?te dérange pas)|\bmerci(?: (?:d['’]avance|bien"
    r"|beaucoup))?",
    r"\bce serait (?:top|super|génial|bien|sympa)|\bdésolée? (?:du|pour le) dérangement|\bs['’]il (?:te|vous) pla[iî]t",
    r"\bsi (?:puedes|se puede|es posible|no te importa)|\b(?:muchas |mil )?gracias(?: de antemano)?|\bpor favor",
    r"\bsería (?:genial|estupendo|perfecto)|\bperdón por la molestia",
)
_SHORT = re.compile(r"(?<!\S)w/(o(?:ut)?)?(?=\s)", re.IGNORECASE)
_QUOTED = re.compile(r"([“\"«„].*?[”\"»“]|`[^`]*`)", re.DOTALL)
_POLITE = re.compile(
    rf"[\s,;–-]*(?:{'|'.join(_SAID)})(?=\s*(?:$|[.,;:!?)])|(?<=but)\s)[!]?|[，,]?(?:麻烦了|谢谢[啦了]?|多谢|辛苦了|可以的话|方便的话)",
    re.IGNORECASE,
)


def written_out(words: str) -> str:
    """The request without short forms: “w/o the id” is without it."""
    return _SHORT.sub(lambda short: "without" if short[1] else "with", words)


def without_courtesy(words: str) -> str:
    """The request without it; all of it where nothing else is said. What stands in quotation marks stays."""
    parts = _QUOTED.split(words)
    rest = "".join(part if at % 2 else _POLITE.sub(" ", part) for at, part in enumerate(parts))
    return words if rest == words or not re.search(r"\w", rest) else re.sub(r"^[\s,;:.!]+", "", rest).strip()
