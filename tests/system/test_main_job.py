"""The main job in threads of Slack and Discord, and what it must survive. Every fault is the real one.

One bot serves both for all tests; each has a thread of its own, and brings back what it killed.
"""

import re
import shutil
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from bot.app import last_alive
from examples.number_words import english, french
from tests.fakes import START
from tests.platforms.discord_server import DiscordServer
from tests.platforms.slack_server import SlackServer
from tests.platforms.slack_world import Message
from tests.recipes.folders import sklearn_csv
from tests.recipes.pictures_of import archive, digits
from tests.recipes.test_object_detection import squares
from tests.system.conftest import EXAMPLES, HANG_S, LONG_RUN, Bot, Yard, approved, cards, seen, settled, whispered

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def discord() -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def bot(
    yard: Yard, slack: SlackServer, discord: DiscordServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bot]:
    """A bot that serves both."""
    of_discord = {
        "TRAINYARD_DISCORD_EDIT_GAP_S": "0.5",
        "DISCORD_TOKEN": discord.token,
        "DISCORD_API_URL": discord.api_base,
        "DISCORD_GATEWAY_URL": str(discord.gateway_url),
    }
    async with yard.bot(slack, tmp_path_factory.mktemp("bot") / "bot.db", **of_discord) as bot:
        await discord.connected()
        yield bot


def run_id(slack: SlackServer, ts: str) -> str:
    found = re.search(r"r-[0-9a-z]{6}", "\n".join(message.shown for message in slack.thread(ts)))
    assert found
    return found.group(0)


async def test_from_a_csv_to_a_measured_model_and_its_predictions(slack: SlackServer, visits: bytes) -> None:
    asked = await approved(slack, visits)
    await seen(slack, asked.ts, "Result of", "ROC AUC")
    await seen(slack, asked.ts, "succeeded")
    (card,) = cards(slack, asked.ts, "succeeded")
    assert card.pictures, slack.transcript()
    assert len(card.edits) >= 2  # one card, edited in place
    fresh = slack.file("new_visits.csv", (EXAMPLES / "new_visits.csv").read_bytes())
    slack.user("alice").mention("predict on this", thread=asked.ts, files=[fresh])
    await seen(slack, asked.ts, "Predictions of", "probability")
    before = len(slack.whispers)
    slack.user("alice").slash("runs")
    await whispered(slack, "succeeded", since=before)


async def test_from_a_csv_to_a_measured_model_and_its_predictions_in_discord(
    discord: DiscordServer, visits: bytes
) -> None:
    alice = discord.user("alice")
    asked = await alice.mention(
        discord.general, "train a model that predicts visited_doctor", files=[("visits.csv", visits)]
    )
    thread = await discord.thread_of(asked)
    card = await discord.wait_for(lambda: discord.last(thread, contains="Train a model"), within_s=HANG_S)
    await alice.click(card, "Approve")
    result = await discord.wait_for(lambda: discord.last(thread, contains="Result of"), within_s=HANG_S)
    assert "ROC AUC" in result.text
    run_card = discord.last(thread, contains="succeeded")
    assert run_card is not None
    assert run_card.edits
    fresh = ("new_visits.csv", (EXAMPLES / "new_visits.csv").read_bytes())
    await alice.mention(thread, "predict on this", files=[fresh])
    await discord.wait_for(lambda: discord.last(thread, contains="Predictions of"), within_s=HANG_S)
    used = await alice.slash("train runs")
    await discord.wait_for(lambda: any("succeeded" in reply.text for reply in used.replies), within_s=HANG_S)


async def test_a_finished_model_is_measured_on_other_data_asked_for_every_row_and_kept_up(slack: SlackServer) -> None:
    header, *rows = sklearn_csv("iris").splitlines(keepends=True)
    alice = slack.user("alice")
    april = slack.file("april.csv", "".join((header, *rows[::2])).encode())
    asked = alice.mention("train a model that predicts kind", files=[april])
    await approve(slack, asked.ts, "Approve")
    await seen(slack, asked.ts, "Result of")
    trained = run_id(slack, asked.ts)
    may = slack.file("may.csv", "".join((header, *rows[1::2])).encode())
    alice.mention(f"please evaluate {trained} on this file", thread=asked.ts, files=[may])
    await approve(slack, asked.ts, f"Measure the model of {trained} on may.csv?")
    await seen(
        slack, asked.ts, "Better than the best constant answer", "on 75 rows of `may.csv`", "When it was trained"
    )
    alice.mention(f"predict every row of may.csv with {trained} as a job", thread=asked.ts)
    await approve(slack, asked.ts, f"Predict every row with the model of {trained} on may.csv?")
    await seen(slack, asked.ts, "75 rows were predicted")
    handed = [slack.files[file].name for said in slack.thread(asked.ts) for file in said.files]
    assert any(name.startswith("predictions-r-") for name in handed)
    alice.mention(f"download {trained}", thread=asked.ts)
    await seen(slack, asked.ts, f"{trained}.tar", "README.md")
    await _is_kept_up_and_answers_until_it_is_stopped(slack, asked, trained)


async def _is_kept_up_and_answers_until_it_is_stopped(slack: SlackServer, asked: Message, trained: str) -> None:
    alice, before = slack.user("alice"), len(slack.whispers)
    alice.mention(f"serve {trained} hours=1", thread=asked.ts)
    await seen(slack, asked.ts, f"Keep the model of {trained} up?")
    (card,) = cards(slack, asked.ts, "Keep the model of")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "It answers at http://127.0.0.1:")
    (live,) = cards(slack, asked.ts, "It answers at")
    address = re.search(r"http://127\.0\.0\.1:\d+", live.shown)
    await whispered(slack, "curl -H", since=before)
    token = re.search(r"Bearer ([\w-]{43})", "".join(message.shown for message in slack.whispers[before:]))
    assert address
    assert token
    assert all(token.group(1) not in message.shown for message in slack.thread(asked.ts))
    row = {"sepal_length_(cm)": 5.1, "sepal_width_(cm)": 3.5, "petal_length_(cm)": 1.4, "petal_width_(cm)": 0.2}
    async with httpx.AsyncClient(base_url=address.group(0), timeout=HANG_S) as client:
        refused = await client.post("/predict", json={"rows": [row]})
        answered = await client.post(
            "/predict", json={"rows": [row]}, headers={"Authorization": f"Bearer {token.group(1)}"}
        )
    assert refused.status_code == 401
    assert answered.json()["answers"][0]["label"] == "setosa", answered.text
    words = " ".join(f"{name}={value}" for name, value in row.items())
    alice.mention(f"predict {trained} {words}", thread=asked.ts)
    await seen(slack, asked.ts, "Predictions of", "setosa")
    served = re.search(r"r-[0-9a-z]{6}", live.shown)
    assert served
    alice.mention(f"stop {served.group(0)}", thread=asked.ts)
    await seen(slack, asked.ts, served.group(0), "stopped")
    assert "was asked again" not in slack.transcript()  # it ended at once, and nothing started it again


async def approve(slack: SlackServer, ts: str, words: str) -> None:
    """Click Approve on the newest card with these words."""
    await seen(slack, ts, words)
    slack.user("alice").click(cards(slack, ts, words)[-1], "Approve")


async def test_a_search_of_settings_is_one_run_with_one_card(slack: SlackServer, visits: bytes) -> None:
    words = "train a model that predicts visited_doctor with 4 trials and 30 rounds"
    alice = slack.user("alice")
    asked = alice.mention(words, files=[slack.file("visits.csv", visits)])
    await seen(slack, asked.ts, "Approve", "Search settings on the training part", "trials = 4")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "ROC AUC")
    (result,) = cards(slack, asked.ts, "Result of")
    assert "LightGBM (this run)" not in result.shown or "Settings found" in result.shown
    await seen(slack, asked.ts, "succeeded", "of 4")
    alice.mention("show the pictures", thread=asked.ts)
    await seen(slack, asked.ts, "search of settings")


@pytest.mark.builds
async def test_from_images_to_a_classifier_and_what_it_says_of_one(slack: SlackServer) -> None:
    found = digits(160)
    files = archive([(f"digits/{label}/{at}.png", image) for at, (label, image) in enumerate(found)])
    alice = slack.user("alice")
    asked = alice.mention("train an image classifier on these with 2 epochs", files=[slack.file("digits.zip", files)])
    await seen(slack, asked.ts, "Approve", "image classification")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "macro F1")
    alice.mention("predict on this", thread=asked.ts, files=[slack.file("seven.png", found[7][1])])
    await seen(slack, asked.ts, "Predictions of", "seven.png")
    (said,) = [one.shown for one in slack.thread(asked.ts) if "Predictions of" in one.shown]
    assert said.count("seven.png") > 1, said  # in the title, and as the row's own name


async def test_from_a_series_to_a_forecast_of_the_months_to_come(slack: SlackServer) -> None:
    months = [f"{2005 + at // 12}-{at % 12 + 1:02d}-01,{100 + at + 20 * (at % 12 == 6)}\n" for at in range(72)]
    sales = slack.file("sales.csv", ("month,sales\n" + "".join(months)).encode())
    alice = slack.user("alice")
    asked = alice.mention("forecast sales for 6 months", files=[sales])
    await seen(slack, asked.ts, "Approve", "time series forecasting", "horizon")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "MASE", "95 % interval")
    alice.mention("predict 4", thread=asked.ts)
    await seen(slack, asked.ts, "Predictions of", "2011-01-01", "90 % interval")


async def test_from_a_table_to_clusters_and_where_new_rows_belong(slack: SlackServer) -> None:
    rows = slack.file("iris.csv", sklearn_csv("iris").encode())
    alice = slack.user("alice")
    asked = alice.mention("cluster iris.csv in 3 clusters by k-means, labels are in kind", files=[rows])
    await seen(slack, asked.ts, "Approve", "clustering", "k = 3, method = kmeans, labels = kind")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "silhouette", "ARI", "Scores")
    alice.mention("predict on this", thread=asked.ts, files=[slack.file("new.csv", sklearn_csv("iris").encode())])
    await seen(slack, asked.ts, "Predictions of", "cluster 1", "cluster 3")


@pytest.mark.builds
async def test_from_a_text_to_a_language_model_and_what_it_writes(slack: SlackServer) -> None:
    book = slack.file("book.txt", (EXAMPLES.parent / "ARCHITECTURE.md").read_bytes())
    alice = slack.user("alice")
    words = "train a language model on this with 4 max steps, batch size 4, block length 64, hidden size 32"
    asked = alice.mention(words, files=[book])
    await seen(slack, asked.ts, "Approve", "text generation", "LZMA")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "bits per byte", "95 % interval")
    alice.mention("predict “The bot ”", thread=asked.ts)
    await seen(slack, asked.ts, "Predictions of")


@pytest.mark.builds
async def test_from_boxes_to_a_detector_and_what_it_finds_on_an_image(slack: SlackServer) -> None:
    alice = slack.user("alice")
    words = "train an object detector on this with 15 epochs, width 8 and batch size 8"
    asked = alice.mention(words, files=[slack.file("shapes.zip", squares(60))])
    await seen(slack, asked.ts, "Approve", "object detection")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "mAP")
    alice.mention("predict on this", thread=asked.ts, files=[slack.file("new.zip", squares(2))])
    await seen(slack, asked.ts, "Predictions of", "new.zip")
    (answer,) = cards(slack, asked.ts, "Predictions of")
    assert answer.pictures


@pytest.mark.builds
async def test_from_tagged_sentences_to_a_tagger_and_the_spans_of_a_sentence(slack: SlackServer) -> None:
    people, places = ["Ada", "Grace", "Alan"], ["Paris", "Oslo", "Rome", "Bonn"]
    rows = [f"{who} B-PER\nsaw O\n{where} B-LOC\n{at} O\n\n" for at in range(5) for who in people for where in places]
    alice = slack.user("alice")
    words = "train a token classifier on this with max steps 30, hidden size 32, heads 2 and layers 1"
    asked = alice.mention(words, files=[slack.file("trips.conll", "".join(rows).encode())])
    await seen(slack, asked.ts, "Approve", "token classification")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "span F1", "95 % interval")
    alice.mention("predict “Ada saw Rome”", thread=asked.ts)
    await seen(slack, asked.ts, "Predictions of", "Rome", "LOC")
    (answer,) = cards(slack, asked.ts, "Predictions of")
    assert answer.pictures


@pytest.mark.builds
async def test_from_pairs_of_texts_to_a_translator(slack: SlackServer) -> None:
    rows = "".join(f"{english(number)},{french(number)}\n" for number in range(1000, 1120))
    pairs = slack.file("numbers.csv", f"english,french\n{rows}".encode())
    alice = slack.user("alice")
    asked = alice.mention("translate english to french with 6 max steps, hidden size 32", files=[pairs])
    await seen(slack, asked.ts, "Approve", "translation", "a learned dictionary")
    (card,) = cards(slack, asked.ts, "Approve")
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "Result of", "chrF", "95 % interval")
    alice.mention("predict “one thousand and two”", thread=asked.ts)
    await seen(slack, asked.ts, "Predictions of")


async def test_bad_input_gets_a_clear_sentence(slack: SlackServer, visits: bytes) -> None:
    alice = slack.user("alice")
    cases = {
        "predicts `nope`": ("visits.csv", visits, "visited_doctor"),
        "predicts visited": ("broken.csv", b"a,b\n1,2\n1,2,3,4\n", "line 3"),
        "predicts something": ("empty.csv", b"", "empty"),
        "predicts a thing": ("photo.csv", b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "image"),
    }
    for words, (name, data, expected) in cases.items():
        asked = alice.mention(f"train a model that {words}", files=[slack.file(name, data)])
        await seen(slack, asked.ts, expected)


async def test_three_deliveries_and_twins_are_one_turn(slack: SlackServer) -> None:
    asked = slack.user("alice").mention("help")
    await seen(slack, asked.ts, "What I can do")
    for delivery in slack.deliveries_of(asked):
        for _ in range(3):
            slack.redeliver(delivery)
    await settled()
    assert len(slack.thread(asked.ts)) == 2, slack.transcript()


async def test_what_a_run_uses_and_how_fast_it_goes_until_it_is_stopped(slack: SlackServer, visits: bytes) -> None:
    alice = slack.user("alice")
    asked = await approved(slack, visits, LONG_RUN + " and patience 99999")
    await seen(slack, asked.ts, "running", "train loss", "cores")  # rows came, and a heartbeat
    alice.mention("how busy is the GPU?", thread=asked.ts)
    await seen(slack, asked.ts, "GPU use of", "has no GPU", "processors on average", "Throughput")
    (card,) = cards(slack, asked.ts, "processors on average")  # words about it follow in a message of their own
    assert card.pictures, slack.transcript()
    before = len(slack.whispers)
    alice.click(card, "Throughput")
    await whispered(slack, "rounds/s at last", since=before)
    (run,) = [message for message in slack.thread(asked.ts) if "Stop" in message.buttons]
    alice.click(run, "Stop")
    await seen(slack, asked.ts, "stopped")


async def test_a_crash_is_failed_with_its_traceback(yard: Yard, slack: SlackServer, visits: bytes) -> None:
    asked = await approved(slack, visits, "with learning rate 0.002 and 1500 rounds and patience 9999")
    await seen(slack, asked.ts, "Started")
    folder = yard.home / "hosts" / "gpu-1" / "runs" / run_id(slack, asked.ts)
    await slack.wait_for((folder / "metrics.jsonl").exists, timeout=HANG_S)
    shutil.rmtree(folder / "artifacts", ignore_errors=True)
    (folder / "artifacts").write_text("in the way")  # of what the script writes after its last round
    await seen(slack, asked.ts, "failed", "FileExistsError")


async def test_kill_9_of_the_bot_in_mid_run(bot: Bot, slack: SlackServer, visits: bytes) -> None:
    asked = await approved(slack, visits, "with learning rate 0.002 and 1500 rounds and patience 9999")
    await seen(slack, asked.ts, "running", "Step")
    await bot.kill()
    before = len(slack.thread(asked.ts))
    await bot.start()
    await seen(slack, asked.ts, "Result of")
    await seen(slack, asked.ts, "succeeded")
    await settled()
    # the result, and “Started …” if it was due
    assert len(slack.thread(asked.ts)) <= before + 2, slack.transcript()
    assert len(cards(slack, asked.ts, "succeeded")) == 1
    assert len(cards(slack, asked.ts, "Started")) == 1


async def test_after_a_restart_a_missed_question_a_click_a_second_click_and_a_strangers_click(
    yard: Yard, bot: Bot, slack: SlackServer, visits: bytes
) -> None:
    alice, words = slack.user("alice"), "train a model that predicts visited_doctor with 30 rounds"
    asked = alice.mention(words, files=[slack.file("v.csv", visits)])
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
    before = len(slack.whispers)
    slack.user("mallory").click(card, "Approve")
    await whispered(slack, "Only the person who asked", since=before)
    assert cards(slack, asked.ts, "Started") == []
    alice.click(card, "Approve")
    alice.click(card, "Approve")
    await whispered(slack, "nothing was done twice", since=before)
    await seen(slack, asked.ts, "Result of")
    assert len(cards(slack, asked.ts, "Started")) == 1


async def test_kill_9_of_the_worker_in_mid_run(yard: Yard, slack: SlackServer, visits: bytes) -> None:
    """The last one: what a new worker has loaded nobody here would use."""
    asked = await approved(slack, visits, "with learning rate 0.002 and 1500 rounds and patience 9999")
    await seen(slack, asked.ts, "running", "of 1,500")
    yard.kill_worker()
    try:
        await seen(slack, asked.ts, "Result of")
        await seen(slack, asked.ts, "succeeded")
    finally:
        yard.start_worker()
