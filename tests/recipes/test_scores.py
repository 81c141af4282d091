"""How scores stand in the lines that people read."""

import pytest

from worker.recipes.common.scores import worded


@pytest.mark.parametrize(
    ("value", "sign", "words"),
    [
        (0.70016, False, "0.7002"),
        (-0.03, True, "-0.0300"),
        (57.1234, False, "57.12"),
        (9_999.5, True, "+9,999.50"),
        (372_056.8654, False, "372,057"),
        (float("nan"), False, "nan"),
    ],
)
def test_a_score_has_as_many_digits_as_say_something(value: float, sign: bool, words: str) -> None:
    assert worded(value, sign=sign) == words
