"""A line of the log: one an event, with its fields, and without what looks like a token."""

import logging

import pytest

from bot.logs import Line


def line(message: str, error: BaseException | None = None, **fields: object) -> str:
    """What the log shows for an event."""
    raised = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("bot.app", logging.WARNING, __file__, 1, message, (), raised)
    vars(record).update(fields)
    return Line().format(record)


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
def test_secrets_are_replaced_in_fields_and_tracebacks_and_words_are_not(secret: str) -> None:
    told = line("said", ValueError(f"with {secret}"), cause=f"the key {secret} was refused", count=3)
    assert secret not in told
    assert "the key [secret: " in told
    assert "] was refused" in told
    assert " said  " in told
    assert "count=3" in told


def test_a_field_with_line_breaks_stays_on_its_line() -> None:
    told = line("went on", cause='a "b"\nc', empty="")
    assert told.splitlines() == [told]
    assert told.endswith(r'warning went on  logger=bot.app cause="a \"b\"\nc" empty=""')


def test_ids_and_digests_stay() -> None:
    words = "run r-abc123 digest " + "ab12" * 16
    assert words in line(words)
