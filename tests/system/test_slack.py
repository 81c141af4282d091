"""The main job in a Slack thread, and what it must survive. Every fault is the real one."""

import re
import shutil
from pathlib import Path

from bot.app import last_alive
from tests.fakes import START
from tests.platforms.slack_server import SlackServer
from tests.system.conftest import EXAMPLES, LONG_RUN, Yard, approved, cards, seen, settled


def run_id(slack: SlackServer, ts: str) -> str:
    found = re.search(r"r-[0-9a-z]{6}", "\n".join(message.shown for message in slack.thread(ts)))
    assert found
    return found.group(0)


async def test_from_a_csv_to_a_measured_model_and_its_predictions(
    yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes
) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        asked = await approved(slack, visits)
        await seen(slack, asked.ts, "Result of", "ROC AUC")
        await seen(slack, asked.ts, "succeeded")
        (card,) = cards(slack, asked.ts, "succeeded")
        assert card.pictures, slack.transcript()
        assert len(card.edits) >= 2  # one card, edited in place
        fresh = slack.file("new_visits.csv", (EXAMPLES / "new_visits.csv").read_bytes())
        slack.user("alice").mention("predict on this", thread=asked.ts, files=[fresh])
        await seen(slack, asked.ts, "Predictions of", "probability")
        slack.user("alice").slash("runs")
        await slack.wait_for(lambda: any("succeeded" in message.shown for message in slack.whispers))


async def test_kill_9_of_the_worker_in_mid_run(yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        asked = await approved(slack, visits, "with learning rate 0.002 and 1500 rounds and patience 9999")
        await seen(slack, asked.ts, "running", "of 1,500")
        yard.kill_worker()
        try:
            await seen(slack, asked.ts, "Result of")
            await seen(slack, asked.ts, "succeeded")
        finally:
            yard.start_worker()


async def test_kill_9_of_the_bot_in_mid_run(yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes) -> None:
    async with yard.bot(slack, tmp_path / "bot.db") as bot:
        asked = await approved(slack, visits, "with learning rate 0.002 and 1500 rounds and patience 9999")
        await seen(slack, asked.ts, "running", "Step")
        await bot.kill()
        before = len(slack.thread(asked.ts))
        await bot.start()
        await seen(slack, asked.ts, "Result of")
        await seen(slack, asked.ts, "succeeded")
        await settled()
        assert len(slack.thread(asked.ts)) <= before + 2, (
            slack.transcript()
        )  # the result, and “Started …” if it was due
        assert len(cards(slack, asked.ts, "succeeded")) == 1
        assert len(cards(slack, asked.ts, "Started")) == 1


async def test_after_a_restart_a_missed_question_a_click_a_second_click_and_a_strangers_click(
    yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes
) -> None:
    async with yard.bot(slack, tmp_path / "bot.db") as bot:
        alice = slack.user("alice")
        asked = alice.mention("train a model that predicts visited_doctor", files=[slack.file("v.csv", visits)])
        await seen(slack, asked.ts, "Approve")
        await bot.kill()
        died = last_alive(yard.home)
        slack.silent = True
        missed = alice.mention("help")
        slack.silent = False
        await bot.start()
        await seen(slack, missed.ts, "What I can do")
        assert (last_alive(yard.home) or START) > (died or START)
        (card,) = [message for message in slack.thread(asked.ts) if message.buttons]
        slack.user("mallory").click(card, "Approve")
        await slack.wait_for(lambda: any("Only the person who asked" in message.shown for message in slack.whispers))
        assert cards(slack, asked.ts, "Started") == []
        alice.click(card, "Approve")
        alice.click(card, "Approve")
        await slack.wait_for(lambda: any("nothing was done twice" in message.shown for message in slack.whispers))
        await seen(slack, asked.ts, "Result of")
        assert len(cards(slack, asked.ts, "Started")) == 1


async def test_three_deliveries_and_twins_are_one_turn(yard: Yard, slack: SlackServer, tmp_path: Path) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        asked = slack.user("alice").mention("help")
        await seen(slack, asked.ts, "What I can do")
        for delivery in slack.deliveries_of(asked):
            for _ in range(3):
                slack.redeliver(delivery)
        await settled()
        assert len(slack.thread(asked.ts)) == 2, slack.transcript()


async def test_a_crash_is_failed_with_its_traceback(
    yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes
) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        asked = await approved(slack, visits, "with learning rate 0.002 and 1500 rounds and patience 9999")
        await seen(slack, asked.ts, "running", "Step")
        folder = yard.home / "hosts" / "gpu-1" / "runs" / run_id(slack, asked.ts)
        shutil.rmtree(folder / "artifacts", ignore_errors=True)
        (folder / "artifacts").write_text("in the way")  # of what the script writes after its last round
        await seen(slack, asked.ts, "failed", "FileExistsError")


async def test_stop_in_mid_training(yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        asked = await approved(slack, visits, LONG_RUN + " and patience 99999")
        await seen(slack, asked.ts, "running", "Step")
        (card,) = [m for m in slack.thread(asked.ts) if "Stop" in m.buttons]
        slack.user("alice").click(card, "Stop")
        await seen(slack, asked.ts, "stopped")


async def test_what_a_run_uses_and_how_fast_it_goes(
    yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes
) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        alice = slack.user("alice")
        asked = await approved(slack, visits, LONG_RUN + " and patience 99999")
        await seen(slack, asked.ts, "running", "train loss", "cores")  # rows came, and a heartbeat
        alice.mention("how busy is the GPU?", thread=asked.ts)
        await seen(slack, asked.ts, "GPU use of", "has no GPU", "processors on average", "Throughput")
        (card,) = cards(slack, asked.ts, "processors on average")  # words about it follow in a message of their own
        assert card.pictures, slack.transcript()
        alice.click(card, "Throughput")
        await slack.wait_for(lambda: any("rounds/s at last" in message.shown for message in slack.whispers))
        (run,) = [message for message in slack.thread(asked.ts) if "Stop" in message.buttons]
        alice.click(run, "Stop")
        await seen(slack, asked.ts, "stopped")


async def test_bad_input_gets_a_clear_sentence(yard: Yard, slack: SlackServer, tmp_path: Path, visits: bytes) -> None:
    async with yard.bot(slack, tmp_path / "bot.db"):
        alice = slack.user("alice")
        cases = {
            "predicts `nope`": ("visits.csv", visits, "visited_doctor"),
            "predicts visited": ("broken.csv", b"a,b\n1,2\n1,2,3,4\n", "line 3"),
            "predicts something": ("empty.csv", b"", "empty"),
            "predicts a thing": ("photo.csv", b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "PNG"),
        }
        for words, (name, data, expected) in cases.items():
            asked = alice.mention(f"train a model that {words}", files=[slack.file(name, data)])
            await seen(slack, asked.ts, expected)
