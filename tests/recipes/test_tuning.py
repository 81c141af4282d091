"""LLM fine-tuning: what files may look like, what is learned of them, and a small base from file to answer."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.domain.orders import TextPrediction
from agent.domain.results import Results
from agent.domain.runs import Scorecard
from tests.recipes.folders import Make, RunFolder, make_run, texts_csv
from trainyard import TrainingRuntime
from worker.recipes.common.job import BadSettings
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import BadData, Table, read_table
from worker.recipes.inspect import audit
from worker.recipes.language.chat import with_template
from worker.recipes.language.examples import Example, answer_column, examples_of, prompt_column, together
from worker.recipes.language.network import build, learned_tokenizer
from worker.recipes.llm_finetuning.fitting import fitted
from worker.recipes.llm_finetuning.settings import tuning_settings
from worker.recipes.llm_finetuning.trainers import _tokens, is_right, trainer_for

if TYPE_CHECKING:
    import torch

TINY = {"max_steps": 60, "hidden_size": 32, "layers": 1, "heads": 2, "max_length": 64, "vocabulary": 300,
        "batch_size": 4, "max_new_tokens": 6, "lora_r": 4}  # fmt: skip
DOCSTRINGS = [(row["text"], row["library"]) for row in csv.DictReader(io.StringIO(texts_csv(60)))]


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def pairs(prompt: str = "prompt", completion: str = "completion") -> str:
    return jsonl([{prompt: text, completion: library} for text, library in DOCSTRINGS])


def table_of(tmp_path: Path, text: str) -> Table:
    (tmp_path / "data.jsonl").write_text(text)
    return read_table(tmp_path / "data.jsonl")


def read(tmp_path: Path, text: str) -> list[Example]:
    table = table_of(tmp_path, text)
    target = answer_column(table, asked_for=False)
    assert target is not None
    return examples_of(table, target, prompt_column(table, target))


def test_every_answer_of_a_chat_is_an_example_and_a_conversation_stays_together(tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"},
        {"role": "assistant", "content": "Bye."},
    ]  # fmt: skip
    found = read(tmp_path, jsonl([{"messages": chat}] * 20))
    assert len(found) == 40
    assert [(len(one.prompt), one.answer) for one in found[:2]] == [(2, "Hello."), (4, "Bye.")]
    assert len(set(together(found))) == 1  # equal prompts too


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Why?", "chosen": "So.", "rejected": "No."},
        {"chosen": "\n\nHuman: Why?\n\nAssistant: So.", "rejected": "\n\nHuman: Why?\n\nAssistant: No."},
        {"prompt": [{"role": "user", "content": "Why?"}], "chosen": [{"role": "assistant", "content": "So."}],
         "rejected": [{"role": "assistant", "content": "No."}]},
        {"prompt": "Why?", "chosen": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}],
         "rejected": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "No."}]},
    ],
)  # fmt: skip
def test_preferences_are_read_however_they_are_written(row: dict[str, Any], tmp_path: Path) -> None:
    found = read(tmp_path, jsonl([row] * 20))
    assert found[0] == Example([{"role": "user", "content": "Why?"}], "So.", "No.", 0)


def test_an_empty_answer_is_left_out_and_said(tmp_path: Path) -> None:
    rows = jsonl([{"prompt": f"a{at}", "completion": "" if at == 7 else "b"} for at in range(40)])
    assert len(read(tmp_path, rows)) == 39
    warnings = audit(table_of(tmp_path, rows))["warnings"]
    assert "1 row without a prompt or an answer is left out (line 8)." in warnings


def test_chats_with_tools_and_one_without_an_answer(tmp_path: Path) -> None:
    call = {"function": {"name": "weather", "arguments": "{}"}}
    chat = [
        {"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "content": "dry"},
        {"role": "assistant", "content": "No."},
    ]  # fmt: skip
    table = table_of(tmp_path, jsonl([{"messages": chat}] * 20 + [{"messages": chat[:2]}]))
    found = examples_of(table, "messages", "messages")
    assert len(found) == 40
    assert (found[0].prompt[0]["role"], json.loads(found[0].answer), found[1].answer) == (
        "system", [call["function"]], "No.",
    )  # fmt: skip
    said = audit(table)["warnings"]
    assert "1 row without a prompt or an answer is left out (line 21)." in said


def test_columns_that_a_conversation_is_made_of_are_not_said_to_be_left_out(tmp_path: Path) -> None:
    rows = [{"prompt": f"Say{n}", "chosen": f"ok {n}", "rejected": "no"} for n in range(30)]
    assert not [said for said in audit(table_of(tmp_path, jsonl(rows)))["warnings"] if "Not used" in said]


def test_texts_of_a_message_may_stand_in_parts(tmp_path: Path) -> None:
    def said(role: str, *texts: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}

    found = read(tmp_path, jsonl([{"messages": [said("user", "Add.", "1 2"), said("assistant", "3")]}] * 20))
    assert found[0] == Example([{"role": "user", "content": "Add.\n1 2"}], "3", "", 0)


def test_an_instruction_has_its_input_below_it(tmp_path: Path) -> None:
    found = read(tmp_path, jsonl([{"instruction": "Add.", "input": "1 2", "output": "3"}] * 20))
    assert (found[0].prompt[0]["content"], found[0].answer) == ("Add.\n\n1 2", "3")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"prompt": "a", "completion": "b"}] * 19, "only 19 rows"),
        (
            [{"prompt": "a", "completion": "b"}] * 20 + [{"prompt": "", "completion": "b"}] * 5,
            "Line 21 has no prompt or no answer",
        ),
        ([{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}] * 20, '“content”: “a text”|"a text"'),
        (
            [{"messages": [{"role": "user", "content": "a"}]}] * 20,
            "Line 1 has no prompt or no answer, as 20 of 20 rows",
        ),
        (
            [{"prompt": "a", "chosen": "b", "rejected": "b"}] * 20,
            "no prompt, no answer or two equal ones, as 20 of 20 rows",
        ),
        ([{"messages": [{"role": "user", "content": None}]}] * 20, "and one has no text"),
        ([{"messages": [{"role": "robot", "content": "a"}]}] * 20, "not of “robot”"),
    ],
)
def test_bad_rows_get_a_sentence_with_their_line(rows: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=said):
        read(tmp_path, jsonl(rows))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "ppo"}, "one of auto, sft, dpo, grpo"),
        ({"method": "DPO"}, "needs the columns prompt, chosen and rejected"),
        ({"method": "grpo", "batch_size": 6}, "multiple of num_generations"),
        ({"quantization": "4bit"}, "name a Hub id or a folder"),
        ({"quantization": "4bit", "model": "org/name"}, "needs the package bitsandbytes"),
        ({"lora_rank": 4}, "Did you mean “lora_r”"),
    ],
)
def test_settings_that_do_not_fit_get_a_sentence(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        tuning_settings(settings, [Example([], "a", "", 0)])


def test_a_file_of_prompts_and_answers_suggests_to_tune(tmp_path: Path) -> None:
    report = audit(table_of(tmp_path, pairs("instruction", "output")))
    assert (report["suggested_target"], report["suggested_task"]) == ("output", "llm_finetuning")
    assert report["text_column"] == "instruction"


def test_only_the_answer_is_learned_and_the_template_marks_it() -> None:
    tokenizer = with_template(learned_tokenizer(["some words to learn from"] * 5, 300))
    chat = [{"role": "user", "content": "some words"}, {"role": "assistant", "content": "to learn"}]
    found = _tokens(tokenizer, Example(chat[:1], "to learn", "", 0), 64)
    learned = [token for token in found["labels"] if token != -100]
    assert tokenizer.decode(learned) == "to learn<|end|>"
    marked = tokenizer.apply_chat_template(chat, return_assistant_tokens_mask=True, return_dict=True)
    ours = [token for token, mask in zip(marked["input_ids"], marked["assistant_masks"], strict=True) if mask]
    assert tokenizer.decode(ours) == "to learn<|end|>"


def test_an_answer_is_right_by_its_words() -> None:
    assert is_right("It is  Paris.", "paris", "contains")
    assert not is_right("It is Paris.", "paris", "exact")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished supervised run. Read only."""
    at = tmp_path_factory.mktemp("tuned")
    run = make_run(
        at, pairs(), "completion", recipe="llm_finetuning", text_column="prompt", settings={**TINY, "merge": True}
    )
    run.all_steps_here()
    return run


def test_the_adapter_beats_its_base_on_sealed_answers(tuned: RunFolder) -> None:
    card = Scorecard.model_validate(tuned.json("scorecard.json"))
    assert (card.metric, card.higher_is_better) == ("bits_per_byte", False)
    (base,) = card.baselines
    assert base.name == "base"
    assert card.model.value < base.value - 0.2
    assert card.gain is not None
    assert card.gain[0] > 0
    assert {"token_perplexity", "answer_accuracy"} <= set(card.all_metrics)
    found = Results.model_validate(tuned.json("results.json")).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures] == ["samples", "scores"]
    kinds = [name for row in tuned.metrics() for name in row["values"]]
    assert {"baseline/base/valid_bits_per_byte", "loss", "learning_rate", "valid_bits_per_byte"} <= set(kinds)


def test_the_adapter_alone_is_left_and_equals_the_merged_model(tuned: RunFolder) -> None:
    import torch

    from worker.recipes.language.generating import load_causal
    from worker.recipes.llm_finetuning.predict import with_adapter

    artifacts = tuned.dir / "artifacts"
    assert not [path for path in artifacts.rglob("*") if path.suffix in {".bin", ".pt", ".pth", ".pkl"}]
    adapter, base = ((artifacts / name).stat().st_size for name in
                     ("adapter/adapter_model.safetensors", "base/model.safetensors"))  # fmt: skip
    assert adapter < base
    merged, tokenizer = load_causal(artifacts / "merged")
    apart = with_adapter(load_causal(artifacts / "base")[0], artifacts / "adapter")
    ids = torch.tensor([tokenizer("Return the sum of the elements")["input_ids"]])
    with torch.inference_mode():
        assert torch.allclose(merged(ids).logits, apart(ids).logits, atol=1e-4)


def test_the_finished_model_answers_a_prompt(
    tuned: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tuned.dir / "artifacts", tmp_path / "model")
    shutil.rmtree(tmp_path / "model/merged")  # then base and adapter
    asked, _, below = DOCSTRINGS[0][0].partition(" ")
    (tmp_path / "rows.json").write_text(json.dumps([{"prompt": asked, "input": below}]))
    for folder in (tuned.dir / "artifacts", tmp_path / "model"):
        assert predict_here(["--json", str(tmp_path / "rows.json")], folder) == 0
    first, second = capsys.readouterr().out.strip().splitlines()
    assert [TextPrediction.model_validate(one) for one in json.loads(first)]
    assert first == second


def test_preferences_are_learned_by_a_named_base(tuned: RunFolder, make: Make) -> None:
    rows = [{"prompt": text, "chosen": library, "rejected": "qqq zzz"} for text, library in DOCSTRINGS]
    named = {**TINY, "model": str(tuned.dir / "artifacts/base"), "max_steps": 4, "lr": 1e-3}
    run = make(jsonl(rows), "chosen", recipe="llm_finetuning", text_column="prompt", settings=named)
    card = run.all_steps_here()
    assert card["metric"] == "preference_accuracy"
    assert not (run.dir / "artifacts/base").exists()  # who named it has it
    assert "rewards/margins" in {name for row in run.metrics() for name in row["values"]}


def test_rewards_for_right_answers_are_learned_from(make: Make) -> None:
    rows = [{"prompt": text, "answer": "a"} for text, _ in DOCSTRINGS]
    settings = {**TINY, "method": "grpo", "max_steps": 2}
    run = make(jsonl(rows), "answer", recipe="llm_finetuning", text_column="prompt", settings=settings)
    card = run.all_steps_here()
    assert card["metric"] == "answer_accuracy"
    assert card["model"]["value"] == card["baselines"][0]["value"]  # nobody got an answer right, so the base is kept
    assert run.json("artifacts/config.json")["kind"] == "base"
    assert "the adapter that is left changes nothing" in run.json("artifacts/config.json")["notes"][0]
    assert "reward" in {name for row in run.metrics() for name in row["values"]}


def test_an_interrupted_tuning_ends_with_the_same_adapter(tuned: RunFolder, make: Make) -> None:
    from safetensors.torch import load_file

    run = make(pairs(), "completion", recipe="llm_finetuning", text_column="prompt", settings=TINY)
    assert run.prepare_here() == 0
    assert run.stop_here_after(5) == 0
    assert run.json("meta.json")["status"] == "stopped"
    shutil.rmtree(run.dir / "predictions")
    shutil.rmtree(run.dir / "artifacts")
    assert run.train_here() == 0

    def weights(folder: RunFolder) -> dict[str, torch.Tensor]:
        return dict(load_file(folder.dir / "artifacts/adapter/adapter_model.safetensors"))

    kept = "checkpoints/tuned/scores.json"
    assert run.json(kept) == tuned.json(kept)  # the stop itself is no measurement that patience counts
    ours, theirs = weights(run), weights(tuned)
    assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_a_tuning_that_makes_it_worse_ends_early_and_the_base_is_kept(make: Make) -> None:
    settings = {**TINY, "lr": 300.0, "max_steps": 60}
    run = make(pairs(), "completion", recipe="llm_finetuning", text_column="prompt", settings=settings)
    card = run.all_steps_here()
    said = run.json("artifacts/config.json")
    assert (said["kind"], card["model"]["value"]) == ("base", pytest.approx(card["baselines"][0]["value"]))
    assert "Training ended at step 18 of 60: it had got no better in 3 measurements." in said["notes"]
    readme = (run.dir / "artifacts/README.md").read_text()
    assert said["notes"][0] in readme
    assert "pipeline_tag: text-generation\n" in readme


def test_a_batch_that_does_not_fit_is_halved_and_the_steps_stay(tmp_path: Path) -> None:
    import torch
    from transformers import TrainerCallback

    class Small(TrainerCallback):  # type: ignore[misc]  # the parent ships no types
        def on_step_begin(self, args: Any, *_: Any, **__: Any) -> None:
            if args.per_device_train_batch_size > 2:
                raise torch.OutOfMemoryError("no memory")

    examples = [Example([{"role": "user", "content": text}], label, "", 0) for text, label in DOCSTRINGS[:16]]
    settings = tuning_settings({**TINY, "max_steps": 3, "batch_size": 8}, examples)
    language = build([text for text, _ in DOCSTRINGS], settings, longest=64, seed=1)
    with_template(language.tokenizer)
    runtime = TrainingRuntime(tmp_path)

    def make_trainer(settings: Mapping[str, Any]) -> Any:
        return trainer_for(language, examples, settings, tmp_path / "trainer", seed=1, callbacks=[Small()])

    trainer = fitted(make_trainer, settings, runtime)
    assert (settings["batch_size"], settings["gradient_accumulation_steps"]) == (2, 4)
    assert trainer.state.global_step == 3
    assert len([name for name, _ in trainer.model.named_modules() if name.endswith("q_proj")]) == 1  # no adapter twice
