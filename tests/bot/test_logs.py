"""What looks like a token never reaches the log."""

import pytest

from bot.logs import scrub


@pytest.mark.parametrize(
    "secret",
    [
        "xoxb-1234-5678-abcdef",
        "xapp-1-A0123456789-99-abcdef",
        "sk-ant-api03-abcdefghijklmnop",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_" + "a1" * 25,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-DEF_123",
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_secrets_are_replaced_and_words_are_not(secret: str) -> None:
    event = scrub(None, "info", {"event": "said", "cause": f"the key {secret} was refused", "count": 3})
    assert event["cause"].startswith("the key [secret: ")
    assert event["cause"].endswith("] was refused")
    assert (event["event"], event["count"]) == ("said", 3)


def test_ids_and_digests_stay() -> None:
    words = "run r-abc123 digest " + "ab12" * 16
    assert scrub(None, "info", {"event": words}) == {"event": words}
