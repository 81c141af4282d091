"""Which columns look like personal data: by what their cells hold, or by their names. Pure."""

from __future__ import annotations

import re

from worker.recipes.common.table import Table, is_missing

_LOOKED_AT = 1000  # cells of a column
_LEAST = 0.02  # of the cells
_CELLS = {
    "e-mail addresses": re.compile(r"[\w.+-]+@[\w-]+\.[A-Za-z]{2,}"),
    "bank accounts (IBAN)": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"),
    "telephone numbers": re.compile(r"(?<![\w.-])(?:\+|00)\d[\d ()/-]{7,16}\d\b"),
    "social security numbers": re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"),
}
_CARD = re.compile(r"(?<![\w.-])(?:\d[ -]?){13,18}\d(?![\w.-])")
_NAMES = {
    "names": re.compile(r"(?:first|last|given|family|full|sur)_?names?|vorname|nachname|customer_?name|patient_?name"),
    "addresses": re.compile(r"(?:street|home|postal|mailing)?_?address(?:_?line)?_?\d?|street|strasse|straße"),
    "dates of birth": re.compile(r"(?:date_?of_?birth|birth_?da(?:te|y)|dob|geburtsdatum)"),
}


def personal(table: Table) -> dict[str, str]:
    """What each column that looks personal seems to hold."""
    found = {}
    for name in table.names:
        kind = _by_name(name) or _by_cells([cell for cell in table.columns[name][:_LOOKED_AT] if not is_missing(cell)])
        if kind:
            found[name] = kind
    return found


def _by_name(name: str) -> str | None:
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return next((kind for kind, pattern in _NAMES.items() if pattern.fullmatch(plain)), None)


def _by_cells(cells: list[str]) -> str | None:
    least = max(1.0, _LEAST * len(cells))
    for kind, pattern in _CELLS.items():
        if sum(pattern.search(cell) is not None for cell in cells) >= least:
            return kind
    cards = sum(any(_is_card(match.group()) for match in _CARD.finditer(cell)) for cell in cells)
    return "numbers of payment cards" if cells and cards >= max(least, 0.5 * len(cells)) else None


def _is_card(text: str) -> bool:
    """Whether its check digit is right (Luhn), which is so by chance for one number in ten."""
    digits = [int(sign) for sign in text if sign.isdigit()][::-1]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
