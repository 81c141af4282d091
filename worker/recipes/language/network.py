"""The causal language model before training: a pretrained one where a model is named, else a small one from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.recipes.common.job import BadSettings, Setting, usable_cpus
from worker.recipes.texts.encoder import tokenizer_threads

SCRATCH = {
    "hidden_size": Setting(128, 8, 8192),
    "layers": Setting(4, 1, 96),
    "heads": Setting(4, 1, 128),
    "vocabulary": Setting(2000, 257, 200_000, ("vocab_size",)),
}
END = "<|end|>"
_MOST_THREADS = 16
_SMALL = 300_000  # below this many parameters a second thread costs more than it gives


@dataclass(frozen=True)
class Language:
    """A causal network with its tokenizer, how many tokens it looks at, and where it comes from, in words."""

    network: Any
    tokenizer: Any
    longest: int
    origin: str

    @property
    def device(self) -> str:
        return str(self.network.device.type)

    def save(self, folder: Path) -> None:
        """Write safetensors, configuration and tokenizer; nothing pickled."""
        self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def check_shape(settings: dict[str, Any]) -> None:
    """Raises: BadSettings where width and heads of a network from scratch do not fit together."""
    wide, heads = settings["hidden_size"], settings["heads"]
    if not settings["model"] and wide % (2 * heads):
        raise BadSettings(f"hidden_size ({wide}) must be a multiple of twice the heads ({heads}).")


def build(texts: Sequence[str], settings: dict[str, Any], *, longest: int, seed: int, **loading: Any) -> Language:
    """The model to train; `longest` is how many tokens it shall look at. Raises: BadSettings."""
    import torch
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # the log is for people
    torch.manual_seed(seed)
    named = settings["model"]
    network, tokenizer = _pretrained(named, loading) if named else _from_scratch(texts, settings, longest)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    count = sum(parameter.numel() for parameter in network.parameters())
    torch.set_num_threads(1 if count < _SMALL else min(_MOST_THREADS, usable_cpus()))
    origin = f"{named or 'a small Llama from scratch'} ({count / 1e6:.2f} M parameters, {len(tokenizer):,} tokens)"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    known = int(getattr(network.config, "max_position_embeddings", longest) or longest)
    return Language(network if loading else network.to(device), tokenizer, min(longest, known), origin)


def _pretrained(name: str, loading: dict[str, Any]) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        network = AutoModelForCausalLM.from_pretrained(name, **{"dtype": torch.float32, **loading})
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise BadSettings(
            f"The model “{name}” cannot be loaded here ({reason}). Name a folder on the host or a Hub model that the "
            "run may reach, or leave `model` out to train a small one from scratch."
        ) from error
    if tokenizer.eos_token_id is None:
        raise BadSettings(f"The tokenizer of “{name}” has no token that ends a text, so it is no language model's.")
    return network, tokenizer


def _from_scratch(texts: Sequence[str], settings: dict[str, Any], longest: int) -> tuple[Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = learned_tokenizer(texts, settings["vocabulary"])
    wide = settings["hidden_size"]
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=wide, intermediate_size=3 * wide,
        num_hidden_layers=settings["layers"], num_attention_heads=settings["heads"],
        num_key_value_heads=settings["heads"], max_position_embeddings=longest, tie_word_embeddings=True,
        bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    return LlamaForCausalLM(config), tokenizer


def learned_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """A byte-level BPE tokenizer of these texts, which gives every text back as it was."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=2, special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
    )  # fmt: skip
    with tokenizer_threads(texts):
        tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)
