"""The splitter: what every piece must keep, over texts that nobody would write by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.markdown import split

PARSER = MarkdownIt("commonmark").enable("table").disable("html_block")


def size_bytes(text: str) -> int:
    return len(text.encode())


def fences(text: str) -> list[str]:
    return [token.content for token in PARSER.parse(text) if token.type == "fence"]


def has_open_fence(text: str) -> bool:
    lines = text.split("\n")
    return any(
        token.type == "fence"
        and token.map is not None
        and token.map[1] - token.map[0] - 1 == token.content.count("\n")
        and bool(lines)
        for token in PARSER.parse(text)
    )


def solid(text: str) -> str:
    """The characters that carry meaning; marks of lists, quotes and fences may be left out or repeated at a cut."""
    return "".join(character for character in text if character not in "\u200b`~>-*+1.\0" and not character.isspace())


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(character in rest for character in short)


words = st.text("abcdefgh äß漢字👩🏽‍🚀é.,", min_size=1, max_size=60).map(lambda s: "w" + " ".join(s.split()))
paragraphs = st.lists(words, min_size=1, max_size=6).map("\n".join)
code = st.lists(st.text("ab =():#\t\"'|-`", max_size=50), max_size=12).map(
    lambda lines: "```py\n" + "".join(f"x{line}\n" for line in lines) + "```",
)
lists = st.lists(words, min_size=1, max_size=8).map(lambda items: "\n".join(f"- {item}" for item in items))
listed_code = st.tuples(words, code).map(lambda pair: f"1. {pair[0]}\n\n   " + pair[1].replace("\n", "\n   "))
deep_code = code.map(lambda text: "- a\n  - b\n    - c\n\n      " + text.replace("\n", "\n      "))
quoted_code = code.map(lambda text: "\n".join("> " + line for line in text.split("\n")))
headings = words.map(lambda text: "## " + text)
tables = st.lists(st.tuples(words, words), min_size=1, max_size=10).map(
    lambda rows: "| name | value |\n|---|---|\n" + "\n".join(f"| {a} | {b} |" for a, b in rows),
)
documents = st.lists(
    st.one_of(paragraphs, code, lists, headings, tables, listed_code, deep_code, quoted_code),
    max_size=8,
).map("\n\n".join)
wild = st.text("`~-#>|*1. \n\tab<!é👩🏽‍🚀\r:", max_size=400)


@given(documents, st.integers(60, 400), st.sampled_from([len, size_bytes]))
def test_a_written_document_is_cut_within_its_limit_and_nothing_is_lost(text, limit, measure):
    parts = split(text, limit, measure)

    assert all(measure(part) <= limit for part in parts)
    assert not any(has_open_fence(part) for part in parts)
    assert is_subsequence(solid(text), solid("\n".join(parts)))
    assert all(part.strip() for part in parts)


@given(
    st.lists(st.one_of(paragraphs, code, listed_code, deep_code, quoted_code), max_size=6).map("\n\n".join),
    st.integers(100, 300),
)
def test_code_comes_out_of_its_fences_as_it_went_in(text, limit):
    before = "".join(fences(text)).replace("\n", "")
    after = "".join("".join(fences(part)) for part in split(text, limit)).replace("\n", "")

    assert after == before


@given(wild, st.integers(12, 120), st.sampled_from([len, size_bytes]))
def test_any_text_at_all_keeps_the_limit_and_leaves_no_fence_open(text, limit, measure):
    parts = split(text, limit, measure)

    assert all(measure(part) <= limit for part in parts)
    assert not any(has_open_fence(part) for part in parts)
    assert is_subsequence(solid(text), solid("\n".join(parts)))


def test_a_text_that_fits_is_left_alone():
    text = "# Title\n\nwords with **stress**\n\n- a\n- b\n"

    assert split(text, 1000) == [text]
    assert split("  \n ", 10) == []


def test_an_unfinished_fence_is_closed():
    assert split("look:\n```py\nx = 1", 100) == ["look:\n```py\nx = 1\n```"]


def test_a_long_fence_is_opened_again_with_its_language():
    text = "Here:\n\n```python\n" + "".join(f"line_{n} = {n}\n" for n in range(20)) + "```\n\nDone."

    parts = split(text, 120)

    assert len(parts) == 3
    assert parts[1] == "```python\n" + "".join(f"line_{n} = {n}\n" for n in range(9, 17)) + "```"
    assert parts[-1].endswith("```\n\nDone.")


def test_a_table_repeats_its_header():
    text = "| run | loss |\n|---|---|\n" + "\n".join(f"| r-{n:03} | 0.{n:03} |" for n in range(20))

    parts = split(text, 150)

    assert all(part.startswith("| run | loss |\n|---|---|\n| r-") for part in parts)


@pytest.mark.parametrize("more", ["", "\n| last | row |"])
def test_a_table_whose_first_row_is_larger_than_a_message_keeps_its_header(more):
    text = "| run | loss |\n|---|---|\n| " + "words " * 40 + "| end |" + more

    parts = split(text, 100)

    assert all(len(part) <= 100 for part in parts)
    assert parts[0].startswith("| run | loss |\n|---|---|\n| words words")
    assert solid("".join(parts)).count("end") == 1
    assert is_subsequence(solid(text), solid("\n".join(parts)))
    assert not more or parts[-1] == "| run | loss |\n|---|---|\n| last | row |"


def test_blocks_are_kept_whole_and_headings_stay_with_their_text():
    text = "\n\n".join(["a " * 40, "## Next", "b " * 40, "- one\n- two\n- three"])

    assert split(text, 130) == ["a " * 40, "## Next\n\n" + "b " * 40 + "\n\n- one\n- two\n- three"]


def test_an_emoji_of_several_code_points_is_not_torn():
    parts = split("👩🏽‍🚀" * 100, 90, size_bytes)

    assert all(part.startswith("👩") and part.endswith("🚀") for part in parts)
