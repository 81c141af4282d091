"""The table's arithmetic and the choice of measurements; the measuring itself is `make bench`."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench.__main__ import NAMES, Measure, chosen, main
from tests.bench.logging_overhead import difference
from tests.bench.model_server import WORDS, pieces_of
from tests.bench.processes import clean_environment, first_line, python
from tests.bench.rows import Row, alone, compared, limited, median, within, write
from tests.bench.turn import SHORT, TEN_CALLS, WITH_TOOL
from tests.bench.turn_ours import ready


def test_a_ratio_says_how_many_times_better_we_are() -> None:
    row = compared("turn", ours=0.5, peer=3.0, peer_name="p", unit="ms", at_least=5.0)
    assert (row.ratio, row.holds) == (6.0, True)
    assert not compared("turn", ours=0.5, peer=2.4, peer_name="p", unit="ms", at_least=5.0).holds


def test_a_goal_below_one_allows_us_to_be_slower() -> None:
    row = compared("reply", ours=9.0, peer=3.0, peer_name="p", unit="ms", at_least=1 / 3)
    assert row.holds
    assert row.ratio == pytest.approx(1 / 3)
    assert not compared("reply", ours=9.1, peer=3.0, peer_name="p", unit="ms", at_least=1 / 3).holds


def test_an_absolute_goal_does_not_ask_the_peer() -> None:
    assert limited("start", ours=1.9, peer=0.1, peer_name="p", unit="s", at_most=2.0).holds
    assert not limited("start", ours=2.1, peer=9.0, peer_name="p", unit="s", at_most=2.0).holds


def test_a_row_without_a_peer_shows_its_limit() -> None:
    row = alone("lost", ours=0, unit="of 9", at_most=0)
    assert (row.peer, row.peer_name, row.ratio, row.holds) == (0, "the limit", 1.0, True)
    assert not alone("lost", ours=1, unit="of 9", at_most=0).holds
    assert alone("late", ours=0.25, unit="s", at_most=1.0).ratio == 4.0


def test_a_difference_goal_counts_what_we_add() -> None:
    assert within("step", ours=4.0, peer=1.5, peer_name="p", unit="s", more=2.5).holds
    assert not within("step", ours=4.1, peer=1.5, peer_name="p", unit="s", more=2.5).holds


def test_the_median_ignores_one_slow_round() -> None:
    assert median([1.0, 900.0, 2.0]) == 2.0


def test_rows_are_stored_with_every_field(tmp_path: Path) -> None:
    write([limited("start", ours=1.0, peer=0.5, peer_name="bolt", unit="s", at_most=2.0)], tmp_path / "bench.json")
    (row,) = json.loads((tmp_path / "bench.json").read_text())
    assert row == {
        "name": "start", "ours": 1.0, "peer": 0.5, "peer_name": "bolt", "unit": "s",
        "ratio": 0.5, "goal": "≤ 2 s", "holds": True,
    }  # fmt: skip


def test_only_chooses_and_keeps_the_order() -> None:
    assert chosen([]) == NAMES
    assert chosen(["turn"]) == ("turn",)
    assert chosen(["dispatch", "reply"]) == ("reply", "dispatch")
    with pytest.raises(ValueError, match=r"tunr.*there are"):
        chosen(["tunr"])


def test_only_turn_measures_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def find(name: str) -> Measure:
        def measure() -> Sequence[Row]:
            asked.append(name)
            return [compared(f"{name} row", ours=1.0, peer=6.0, peer_name="p", unit="ms", at_least=5.0)]

        return measure

    path = tmp_path / "rows.json"
    assert main(["--only", "turn", "--output", str(path)], find=find) == 0
    assert asked == ["turn"]
    assert [row["name"] for row in json.loads(path.read_text())] == ["turn row"]
    shown = capsys.readouterr()
    assert "turn row" in shown.out
    assert "measuring: turn" in shown.err


def test_the_model_server_varies_its_words_and_calls_the_tool_once() -> None:
    user = {"role": "user", "content": "please add 2 and 3"}
    tools = [{"type": "function", "function": {"name": "add"}}]
    called = pieces_of({"messages": [user], "tools": tools})
    assert called[0]["tool_calls"][0]["function"]["name"] == "add"
    after = {"messages": [user, {"role": "tool", "content": "5"}], "tools": tools}
    first, second = pieces_of(after), pieces_of(after)
    assert len(first) == WORDS + 1
    assert len({piece["content"] for piece in (*first[1:], *second[1:])}) == 2 * WORDS


@pytest.mark.parametrize("durable", [False, True])
async def test_our_side_of_a_turn_is_the_bots_own(tmp_path: Path, *, durable: bool) -> None:
    with python("-m", "tests.bench.model_server", log=tmp_path / "server.log", env=clean_environment()) as server:
        async with ready(tmp_path, f"http://127.0.0.1:{first_line(server)}/v1", durable=durable) as ours:
            for words in (SHORT, WITH_TOOL, TEN_CALLS):
                assert await ours.take(words) > 0


def test_an_overhead_is_told_from_the_controls_own_noise() -> None:
    rounds = [{"control": 3.0, "again": 3.0 + noise, "ours": 3.1 + noise / 2} for noise in (-0.2, -0.1, 0.0, 0.1, 0.2)]
    control, added, spread = difference(rounds)
    assert control == pytest.approx(3.0)
    assert added == pytest.approx(0.1)
    assert spread == pytest.approx(0.15)
