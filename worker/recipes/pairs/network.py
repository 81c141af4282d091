"""The network of pairs before training: a pretrained one where a model is named, else a small one from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.recipes.common.job import BadSettings, Setting, usable_cpus
from worker.recipes.networks.loop import SETTINGS as LOOP
from worker.recipes.networks.loop import rows_per_step, total_steps
from worker.recipes.pairs.writing import Limits, NetworkWriter
from worker.recipes.texts.encoder import tokenizer_threads, transformer_settings

SETTINGS = {
    "model": Setting(None, also=("backbone", "base_model")),
    **LOOP,
    "epochs": Setting(30, 1, 1000),
    "early_stopping_patience": Setting(5, 1, 1000, ("patience",)),
    "max_source_tokens": Setting(256, 8, 16_384, ("max_tokens", "max_length", "max_input_tokens")),
    "max_target_tokens": Setting(64, 4, 4096, ("max_summary_tokens", "max_new_tokens", "max_output_tokens")),
    "beams": Setting(1, 1, 32, ("num_beams", "beam_size")),
    "hidden_size": Setting(128, 8, 4096),
    "layers": Setting(2, 1, 48),
    "heads": Setting(4, 1, 64),
    "vocabulary": Setting(4000, 300, 200_000, ("vocab_size",)),
    "prefix": Setting(None),  # such as “summarize: ” of T5
    "source_language": Setting(None, also=("source_lang", "src_lang")),  # for models of many languages
    "target_language": Setting(None, also=("target_lang", "tgt_lang")),
}
_SCRATCH_RATE, _PRETRAINED_RATE = 1e-3, 5e-5
_NAMED_MODEL = 60.0  # how much more a step of a usual pretrained model (6 + 6 layers of 512) takes than the small one's
_SPECIAL = ("<pad>", "</s>", "<unk>")
_MOST_THREADS = 8
_SMALL = 300_000  # below this many parameters a second thread costs more than it gives


@dataclass
class Network:
    """A network with its tokenizer, how it reads and writes, and what a person should know of where it comes from."""

    network: Any
    tokenizer: Any
    limits: Limits
    origin: str
    device: str
    languages: dict[str, str] = field(default_factory=dict)

    def writer(self, *, beams: int) -> NetworkWriter:
        """What it writes with so many beams."""
        limits = Limits(**{**vars(self.limits), "beams": beams})
        return NetworkWriter(self.network, self.tokenizer, limits, self.device)

    def save(self, folder: Path) -> None:
        """Write safetensors, the configuration and the tokenizer."""
        self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def network_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each setting. Raises: BadSettings."""
    return transformer_settings(given, SETTINGS)


def work(settings: dict[str, Any], rows: int) -> float:
    """How much there is to do: texts that pass through the layers."""
    size = _NAMED_MODEL if settings["model"] else settings["layers"] * settings["hidden_size"] / 256
    tokens = settings["max_source_tokens"] + settings["max_target_tokens"]
    return float(total_steps(settings, rows) * rows_per_step(settings) * size * tokens / 320)


def build(texts: Sequence[str], settings: dict[str, Any], *, seed: int) -> Network:
    """The network to train; `texts` are those that a tokenizer is learned from. Raises: BadSettings.

    Sets the learning rate where nobody said one.
    """
    import torch

    torch.manual_seed(seed)
    named = settings["model"]
    settings["learning_rate"] = settings["learning_rate"] or (_PRETRAINED_RATE if named else _SCRATCH_RATE)
    network, tokenizer, languages = _pretrained(named, settings) if named else _from_scratch(texts, settings)
    longest = getattr(network.config, "max_position_embeddings", None) or settings["max_source_tokens"]
    begins = tokenizer.convert_tokens_to_ids(languages["tgt_lang"]) if "tgt_lang" in languages else None
    limits = Limits(
        min(settings["max_source_tokens"], longest), min(settings["max_target_tokens"], longest),
        settings["beams"], settings["prefix"] or "", begins,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in network.parameters())
    torch.set_num_threads(1 if size < _SMALL else min(_MOST_THREADS, usable_cpus()))
    origin = f"{named or 'a small T5 from scratch'} ({size / 1e6:.1f} M parameters)"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Network(network.to(device), tokenizer, limits, origin, device, languages)


def _pretrained(name: str, settings: Mapping[str, Any]) -> tuple[Any, Any, dict[str, str]]:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    said = {"src_lang": settings["source_language"], "tgt_lang": settings["target_language"]}
    languages = {key: str(value) for key, value in said.items() if value}
    try:
        network = AutoModelForSeq2SeqLM.from_pretrained(name)
        tokenizer = AutoTokenizer.from_pretrained(name, **languages)
    except (OSError, ValueError, AttributeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise BadSettings(
            f"The model “{name}” cannot be loaded here ({reason}). Name a folder on the host, or a Hub model such "
            "as T5, BART or Marian that the run may reach, or leave `model` out to train a small one from scratch."
        ) from error
    return network, tokenizer, languages


def _from_scratch(texts: Sequence[str], settings: Mapping[str, Any]) -> tuple[Any, Any, dict[str, str]]:
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = learned_tokenizer(texts, settings["vocabulary"])
    size = settings["hidden_size"]
    config = T5Config(
        vocab_size=len(tokenizer), d_model=size, d_kv=size // settings["heads"], d_ff=4 * size,
        num_layers=settings["layers"], num_heads=settings["heads"], feed_forward_proj="gated-gelu", dropout_rate=0.1,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    return T5ForConditionalGeneration(config), tokenizer, {}


def learned_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """A byte-level BPE tokenizer learned from these texts, which writes every text back as it was."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106 - a token of text, not a secret
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max(vocabulary, 256 + len(_SPECIAL)), min_frequency=2, special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
    )  # fmt: skip
    with tokenizer_threads(texts):
        tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",  # noqa: S106
    )  # fmt: skip
