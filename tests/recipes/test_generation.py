"""Text generation: texts and their parts, what costs how many bits, and a small model from file to continuation."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.domain.orders import TextPrediction
from agent.domain.results import Results
from agent.domain.runs import Scorecard
from tests.recipes.folders import Make, RunFolder, make_run
from worker.recipes.common.job import BadSettings, Job
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import BadData, read_table
from worker.recipes.inspect import audit
from worker.recipes.language.compressing import lzma_bits, zlib_bits
from worker.recipes.language.documents import of_texts, read_documents
from worker.recipes.language.memory import FILE, load_memory
from worker.recipes.language.ngrams import ByteNgrams
from worker.recipes.networks.loop import Trained
from worker.recipes.text_generation.settings import generation_settings
from worker.recipes.text_generation.train import _judged

if TYPE_CHECKING:
    import torch

TINY = {"max_steps": 12, "hidden_size": 32, "layers": 1, "heads": 2, "block_length": 64, "vocabulary": 300,
        "batch_size": 8, "max_new_tokens": 12}  # fmt: skip
PROSE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def pieces(count: int = 60) -> list[str]:
    """Paragraph by paragraph, with line ends, quotes and an umlaut."""
    found = [part for part in PROSE.split("\n\n") if len(part) > 40]
    return [f'{part}\r\n"Größe"' for part in found[:count]]


def jsonl(texts: list[str]) -> str:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def job(**settings: Any) -> Job:
    return Job("", Path(), "", "text_generation", "text", None, (), settings, 7, 0.2, "data.txt", "")


def test_one_text_keeps_its_order_and_every_character(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text(PROSE, newline="")
    documents = read_documents(tmp_path / "data.txt", job())
    assert documents.one
    kept, apart = documents.split(0.2, seed=7)
    assert "".join(documents.texts) == PROSE
    assert documents.joined(kept)[0] + documents.joined(apart)[0] == PROSE
    assert 0.15 < len(documents.joined(apart)[0]) / len(PROSE) < 0.25


def test_equal_documents_stay_on_one_side() -> None:
    documents = of_texts([text for text in pieces(40) for _ in range(2)])
    kept, apart = documents.split(0.3, seed=1)
    assert not {documents.texts[at] for at in kept} & {documents.texts[at] for at in apart}


def test_the_end_of_a_single_text_costs_a_compressor_what_it_adds() -> None:
    known, texts = PROSE[:8000].encode(), [PROSE[8000:11000].encode(), PROSE[:3000].encode()]
    new, again = lzma_bits(known, texts)
    assert 2.0 < new / 3000 < 5.0
    assert again < new / 10  # it was all there before
    assert zlib_bits(known, texts)[1] < zlib_bits(known, texts)[0] / 5


def test_counted_sequences_are_probabilities_and_learn() -> None:
    model = ByteNgrams([PROSE.encode()])
    assert model.bits(PROSE[:2000].encode()) < 8 * 2000 * 0.25
    noise = bytes(random.Random(3).randrange(1, 256) for _ in range(2000))
    assert model.bits(noise) > 8 * 2000
    assert model.continuation(b"The bot", 20, seed=1) == model.continuation(b"The bot", 20, seed=1)


@pytest.mark.parametrize(
    ("texts", "said"),
    [(["short"] * 30, "only 150 characters of text"), (["again " * 100] * 30, "the same text again and again")],
)
def test_too_little_text_gets_a_sentence(texts: list[str], said: str) -> None:
    with pytest.raises(BadData, match=said):
        of_texts(texts)


def test_a_setting_that_does_not_fit_gets_a_sentence() -> None:
    with pytest.raises(BadSettings, match="multiple of twice the heads"):
        generation_settings({"hidden_size": 36, "heads": 8})
    with pytest.raises(BadSettings, match="Did you mean “block_length”"):
        generation_settings({"block_lenght": 36})


def test_a_text_file_suggests_a_language_model(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(PROSE)
    report = audit(read_table(tmp_path / "book.txt"))
    assert (report["suggested_target"], report["suggested_task"]) == ("text", "text_generation")
    assert "characters to learn to write" in report["target"]["about"]
    assert any("its last part is sealed" in warning for warning in report["warnings"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run on paragraphs. Read only."""
    run = make_run(tmp_path_factory.mktemp("written"), jsonl(pieces()), "text", recipe="text_generation", settings=TINY)
    run.all_steps_here()
    return run


def test_bits_per_byte_are_measured_beside_compressors(written: RunFolder) -> None:
    card = Scorecard.model_validate(written.json("scorecard.json"))
    assert (card.metric, card.higher_is_better) == ("bits_per_byte", False)
    assert {score.name for score in card.baselines} == {"lzma", "zlib", "byte_ngrams"}
    (alone,) = card.not_kept
    assert alone.name == "network_alone"
    assert 1.5 < card.model.value < card.best_baseline.value < alone.value < 8.0
    assert card.interval is not None
    assert card.interval[0] < card.model.value < card.interval[1]
    rows = [row["values"] for row in written.metrics()]
    assert any("baseline/lzma/valid_bits_per_byte" in row for row in rows)
    assert any("valid_bits_per_byte" in row for row in rows)
    config = written.json("artifacts/config.json")
    assert "is kept with a memory" in config["chosen"]
    assert not config["notes"]  # that LZMA is ahead


def test_a_network_behind_the_compressor_says_so() -> None:
    scores = {"network": {"bits_per_byte": 3.0}, "lzma": {"bits_per_byte": 2.0}}
    why, (note,) = _judged(scores, Trained(3.0, 4, 4, False), 9)
    assert "is kept, without a memory" in why
    assert note.startswith("The compressor LZMA is ahead on the held-out texts")


def test_no_sealed_text_lies_in_the_run_and_nothing_is_pickled(written: RunFolder) -> None:
    sealed = [row["label"] for row in RunFolder(written.sealed, written.sealed).rows("labels.csv")]
    assert set(sealed) <= set(pieces())  # as they were, line ends included
    assert set(written.rows("data/test.csv")[0]) == {"row_id"}
    left = b"".join(path.read_bytes() for path in written.dir.rglob("*") if path.suffix in {".csv", ".jsonl"})
    assert not any(json.dumps(text)[1:50].encode() in left or text[:50].encode() in left for text in sealed[:3])
    endings = {path.suffix for path in (written.dir / "artifacts").rglob("*") if path.is_file()}
    assert endings <= {".json", ".safetensors", ".txt", ".md", ".py"}


def test_pictures_show_what_both_write_after_the_same_beginning(written: RunFolder) -> None:
    found = Results.model_validate(written.json("results.json")).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures] == ["samples", "scores"]
    assert "costs the model" in found.words


def test_the_finished_model_continues_a_prompt(
    written: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts = written.dir / "artifacts"
    (tmp_path / "rows.json").write_text(json.dumps([{"text": "The bot"}, {"text": ""}]))
    assert predict_here(["--json", str(tmp_path / "rows.json")], artifacts) == 0
    found = [TextPrediction.model_validate(one) for one in json.loads(capsys.readouterr().out)]
    assert len(found) == 2
    (tmp_path / "prompts.txt").write_text("The bot\nA worker is\n")
    assert predict_here([str(tmp_path / "prompts.txt"), "--out", str(tmp_path / "out.csv")], artifacts) == 0
    assert read_table(tmp_path / "out.csv", delimiter=",").names == ["text", "prediction"]


def test_it_writes_with_its_memory_and_without_one(
    written: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the file, the network writes alone, as transformers loads it."""
    artifacts = written.copy(tmp_path).dir / "artifacts"
    (tmp_path / "rows.json").write_text(json.dumps([{"text": "A worker holds"}] * 4))
    said = []
    for _ in range(2):
        assert predict_here(["--json", str(tmp_path / "rows.json")], artifacts) == 0
        said.append(capsys.readouterr().out)
        (artifacts / "language_model" / FILE).unlink(missing_ok=True)
    assert said[0] != said[1]


def test_without_its_memory_a_model_is_the_network_alone(written: RunFolder, tmp_path: Path) -> None:
    run = written.copy(tmp_path)
    (run.dir / "predictions/model" / FILE).unlink()
    assert run.evaluate_here() == 0
    card = Scorecard.model_validate(run.json("scorecard.json"))
    assert card.not_kept == ()
    assert card.model.value == written.json("scorecard.json")["not_kept"][0]["value"]


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ({"weights": np.full((10, 9), 1.5)}, "must lie between 0 and 1"),
        ({"weights": np.full((10, 9), np.nan)}, "must lie between 0 and 1"),
        ({"weights": np.ones(10)}, "must lie between 0 and 1"),
        ({"tokens": np.array([300], dtype=np.int32)}, "tokens of the model's vocabulary"),
        ({"tokens": np.array([], dtype=np.int32)}, "tokens of the model's vocabulary"),
        ({"tokens": np.ones(9)}, "tokens of the model's vocabulary"),
    ],
)
def test_a_forged_memory_is_refused(forged: dict[str, Any], said: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    whole = {"tokens": np.arange(9, dtype=np.int32), "weights": np.zeros((10, 9))}
    save_file(whole | forged, tmp_path / FILE)
    with pytest.raises(BadData, match=said):
        load_memory(tmp_path, vocabulary=300)
    (tmp_path / FILE).write_bytes(b"no tensors")
    with pytest.raises(BadData, match="cannot be read"):
        load_memory(tmp_path, vocabulary=300)


def test_a_forged_model_gains_nothing(written: RunFolder, tmp_path: Path) -> None:
    """A tokenizer that swallows the text costs eight bits a byte; a network that looks ahead is refused."""
    from transformers import BertConfig, BertLMHeadModel

    run = written.copy(tmp_path)
    file = run.dir / "predictions/model/tokenizer.json"
    forged = json.loads(file.read_text())
    forged["normalizer"] = {"type": "Replace", "pattern": {"Regex": "[^a]"}, "content": ""}
    file.write_text(json.dumps(forged))
    assert run.evaluate_here() == 0
    assert run.json("scorecard.json")["model"]["value"] >= 8.0
    shutil.copy(written.dir / "predictions/model/tokenizer.json", file)
    both_ways = BertLMHeadModel(BertConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        initializer_range=1.0,
    ))  # fmt: skip
    both_ways.save_pretrained(run.dir / "predictions/model")
    assert run.evaluate_here() == 65
    assert "looks ahead" in run.json("error.json")["text"]


def test_an_interrupted_training_ends_with_the_same_weights(written: RunFolder, make: Make) -> None:
    import torch

    run = make(jsonl(pieces()), "text", recipe="text_generation", settings=TINY)
    assert run.prepare_here() == 0
    assert run.stop_here_after(4) == 0
    assert run.json("meta.json")["status"] == "stopped"
    assert run.train_here() == 0

    def weights(folder: RunFolder) -> dict[str, torch.Tensor]:
        newest = max(folder.dir.glob("checkpoints/step_*/state.pt"))
        return torch.load(newest, weights_only=True)["parts"]["network"]  # type: ignore[no-any-return]

    ours, theirs = weights(run), weights(written)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    kept = Path("artifacts/language_model") / FILE
    assert (run.dir / kept).read_bytes() == (written.dir / kept).read_bytes()
