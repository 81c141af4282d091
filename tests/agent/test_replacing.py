"""What is left out of trying finds nothing: the same sentences come out as with every pattern tried."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.slots import glossary, idioms
from agent.llm.slots.replacing import Replacements, needed

TABLES = {
    "idioms": [*idioms._HALVES, *((pattern, english) for english, pattern in idioms._ELSEWHERE)],
    "glossary": [(pattern, english) for english, pattern in glossary._SAYS],
}
TRIED = {name: [(re.compile(pattern, re.IGNORECASE), english) for pattern, english in table]
         for name, table in TABLES.items()}  # fmt: skip
QUICK = {name: Replacements(table) for name, table in TABLES.items()}
SENTENCES = [
    json.loads(line)["say"]
    for line in (Path(__file__).parent / "blind_sentences.jsonl").read_text(encoding="utf-8").splitlines()
]
PIECES = sorted({piece for table in TABLES.values() for pattern, _ in table for piece in re.findall(r"\w+", pattern)})


def tried(name: str, text: str) -> str:
    """Each pattern is tried."""
    for pattern, english in TRIED[name]:
        text = pattern.sub(english, text)
    return text


@pytest.mark.parametrize("name", list(TABLES))
def test_sentences_come_out_the_same(name: str) -> None:
    assert len(SENTENCES) > 1000
    assert [text for text in SENTENCES if QUICK[name](text) != tried(name, text)] == []


@pytest.mark.parametrize("name", list(TABLES))
@given(words=st.lists(st.sampled_from([*PIECES, "2", "0,5", "gpu-1", "`a b`", "%"]), max_size=8), upper=st.booleans())
def test_so_do_rows_of_words_out_of_the_patterns(name: str, words: list[str], upper: bool) -> None:
    text = " ".join(words).upper() if upper else " ".join(words)
    assert QUICK[name](text) == tried(name, text)


@pytest.mark.parametrize("name", list(TABLES))
def test_few_patterns_are_tried_for_a_sentence_in_english(name: str) -> None:
    pieces = {"what is it"[at : at + size] for size in (1, 2, 3) for at in range(10)}
    left = [pattern for pattern, _ in TABLES[name] if (needs := needed(pattern)) is None or needs & pieces]
    assert len(left) < len(TABLES[name]) / 4


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        (r"\bmaximal\b", {"max"}),
        ("Ärger", {"ärg"}),
        (r"\b(?:früh(?:zeitig)? abbrechen|stop early)\s+(?=\d)", {"frü", "sto"}),
        (r"a(?:bc)?\d+defg", {"def"}),
        ("[别不]用", {"用"}),
        ("(?:xy)+", {"xy"}),
        (r"\d(?=\s*层)", {"层"}),
        (r"(?:ab)*c?", None),
        (r"\w+|abc", None),
        (r"(?!abc)\d", None),
    ],
)
def test_what_a_pattern_needs(pattern: str, pieces: set[str] | None) -> None:
    assert needed(pattern) == pieces
