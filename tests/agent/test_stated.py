"""That what people state beside a request is part of its call: each line names a context, words, a tool and arguments.

The sentences were written while the planner was mended, so they hold what it reads and measure nothing.
"""

import json
from collections import Counter
from pathlib import Path

from agent.llm.offline import OfflinePlanner
from tests.agent.heldout import Said, judged_of

TABLE = Path(__file__).with_name("stated_sentences.tsv")


def stated() -> list[Said]:
    """The sentences; one without a tool asks for nothing that changes anything."""
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return [
        Said(f"{at}", language, words, context, () if tool == "-" else ((tool, json.loads(arguments)),))
        for at, (context, language, words, tool, arguments) in enumerate(rows, start=1)
    ]


async def test_what_is_stated_beside_a_request_is_in_its_call() -> None:
    verdicts = await judged_of(OfflinePlanner(), stated())
    found = Counter(verdict.kind for verdict in verdicts)
    assert not [verdict.said.words for verdict in verdicts if verdict.kind == "act"]
    assert found["right"] >= 0.95 * found.total(), [one.said.words for one in verdicts if one.kind != "right"]
    assert found["look"] + found["plan"] <= 0.02 * found.total(), found
