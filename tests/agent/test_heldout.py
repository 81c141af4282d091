"""How well the planner without a model reads sentences that it never saw, and that it does nothing wrong."""

from collections import Counter

from agent.llm.offline import OfflinePlanner
from tests.agent.heldout import judged, words_of


async def test_of_blind_sentences_no_wrong_one_changes_anything() -> None:
    for blind, most_wrong, least_right in (
        *(
            ("A", 0.02, 0.95),
            ("B", 0.02, 0.95),
            ("C", 0.02, 0.9),
            ("D", 0.02, 0.9),
            ("J", 0.01, 0.93),
            ("K", 0.01, 0.93),
            ("P", 0.02, 0.94),
        ),
        *(("Q", 0.02, 0.93), ("R", 0.04, 0.85), ("S", 0.12, 0.7), ("T", 0.01, 0.95), ("U", 0.01, 0.95)),
        *(("V", 0.01, 0.95), ("W", 0.01, 0.95), ("X", 0.01, 0.95), ("Y", 0.02, 0.95), ("Z", 0.02, 0.92)),
    ):
        found = Counter(verdict.kind for verdict in await judged(OfflinePlanner(), blind))
        assert found["act"] == 0, blind
        assert found["look"] + found["plan"] <= most_wrong * found.total(), found
        assert found["right"] >= least_right * found.total(), found


async def test_of_unseen_sentences_most_are_right_and_no_wrong_one_changes_anything() -> None:
    verdicts = await judged(OfflinePlanner())
    assert not [verdict.said.words for verdict in verdicts if verdict.kind == "act"]
    found = Counter(verdict.kind for verdict in verdicts)
    assert found["look"] + found["plan"] <= 0.01 * len(verdicts), found
    from agent.llm.fit_intents import table

    learned = {words_of(sentence.words) for sentence in table()}
    new = [verdict.kind for verdict in verdicts if words_of(verdict.said.words) not in learned]
    assert len(new) > 100
    assert new.count("right") >= 0.95 * len(new), Counter(new)
