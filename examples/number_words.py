"""Numbers in words, in English and in French: pairs of which it is known what is right."""

_ENGLISH = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_FRENCH = (
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze", "treize",
    "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
)  # fmt: skip
_FRENCH_TENS = (
    "", "", "vingt", "trente", "quarante", "cinquante", "soixante", "soixante", "quatre-vingt", "quatre-vingt",
)  # fmt: skip


def english(number: int) -> str:
    """A number below a million."""
    if number >= 1000:
        return f"{english(number // 1000)} thousand" + (f" {english(number % 1000)}" if number % 1000 else "")
    if number >= 100:
        return f"{_ENGLISH[number // 100]} hundred" + (f" and {english(number % 100)}" if number % 100 else "")
    if number < 20:
        return _ENGLISH[number]
    return _ENGLISH_TENS[number // 10] + (f"-{_ENGLISH[number % 10]}" if number % 10 else "")


def french(number: int) -> str:
    """A number below a million."""
    for size, word in ((1000, "mille"), (100, "cent")):
        if number >= size:
            many = "" if number // size == 1 else f"{french(number // size)} "
            return f"{many}{word}" + (f" {french(number % size)}" if number % size else "")
    if number < 20:
        return _FRENCH[number]
    tens, ones = divmod(number, 10)
    ones += 10 * (tens in {7, 9})
    if not ones:
        return _FRENCH_TENS[tens] + ("s" if tens == 8 else "")
    joint = " et " if ones in {1, 11} and tens < 8 else "-"
    return f"{_FRENCH_TENS[tens]}{joint}{_FRENCH[ones]}"
