"""The text encoder before training: a pretrained one where a model is named, else a small one from scratch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from worker.recipes.classes.weights import SETTINGS as WEIGHTS
from worker.recipes.common.job import BadSettings, Setting, read_settings, usable_cpus
from worker.recipes.networks.fitting import SEARCHED
from worker.recipes.texts.encoding import EncoderModel

SETTINGS = {
    "model": Setting(None, also=("backbone", "base_model")),
    **SEARCHED,
    **WEIGHTS,
    "max_tokens": Setting(128, 8, 8192, ("max_length",)),
    "hidden_size": Setting(128, 8, 4096),
    "layers": Setting(2, 1, 48),
    "heads": Setting(4, 1, 64),
    "vocabulary": Setting(8000, 50, 200_000, ("vocab_size",)),
}
_SCRATCH_RATE, _PRETRAINED_RATE = 1e-3, 3e-5  # where nobody said another
_MOST_THREADS = 8
_SMALL = 5_000_000  # below this many parameters a second thread costs more than it gives
_FEW = 250_000  # with fewer characters to learn from, several threads take longer than one (two cores, measured)
Head = Literal["Sequence", "Token"]
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


@dataclass
class Encoder:
    """A network and its tokenizer, with what a person should know about where they come from."""

    network: Any
    tokenizer: Any
    origin: str
    device: str

    def model(self) -> EncoderModel:
        return EncoderModel(self.network, self.tokenizer, self.device)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has before it is cut to what the network takes."""
        from tokenizers import Tokenizer

        whole = Tokenizer.from_str(self.tokenizer.to_str())  # a copy: how texts are cut is part of what is saved
        whole.no_truncation()
        return [len(found.ids) for found in whole.encode_batch(list(texts))]

    @property
    def longest(self) -> int:
        """To how many tokens a text is cut."""
        return int(self.tokenizer.truncation["max_length"])

    def save(self, folder: Path) -> None:
        """Write safetensors, config.json and tokenizer.json."""
        self.network.save_pretrained(folder)
        self.tokenizer.save(str(folder / "tokenizer.json"))


def encoder_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each setting. Raises: BadSettings."""
    return transformer_settings(given, SETTINGS)


def transformer_settings(given: Mapping[str, Any], known: Mapping[str, Setting]) -> dict[str, Any]:
    """The value of each setting. Raises: BadSettings where one does not fit, alone or with another."""
    settings = read_settings(given, known)
    if not settings["model"] and settings["hidden_size"] % settings["heads"]:
        raise BadSettings(f"hidden_size ({settings['hidden_size']}) must be a multiple of heads ({settings['heads']}).")
    return settings


def build(
    texts: Sequence[str],
    classes: Sequence[str],
    settings: dict[str, Any],
    *,
    seed: int,
    head: Head = "Sequence",
    cased: bool = False,
) -> Encoder:
    """The encoder to train, with a class for each text or for each token. Sets the learning rate where nobody said one.

    `cased`: one from scratch tells upper case from lower case. Raises: BadSettings.
    """
    import torch

    torch.manual_seed(seed)
    named = settings["model"]
    settings["learning_rate"] = settings["learning_rate"] or (_PRETRAINED_RATE if named else _SCRATCH_RATE)
    network, tokenizer = (
        _pretrained(named, classes, head) if named else _from_scratch(texts, classes, settings, head, cased=cased)
    )
    longest = min(settings["max_tokens"], getattr(network.config, "max_position_embeddings", settings["max_tokens"]))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    size = sum(parameter.numel() for parameter in network.parameters())
    torch.set_num_threads(1 if size < _SMALL else min(_MOST_THREADS, usable_cpus()))
    origin = f"{named or 'a small encoder from scratch'} ({size / 1e6:.1f} M parameters)"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Encoder(network.to(device), tokenizer, origin, device)


def _pretrained(name: str, classes: Sequence[str], head: Head) -> tuple[Any, Any]:
    import transformers
    from transformers import AutoTokenizer

    try:
        network = getattr(transformers, f"AutoModelFor{head}Classification").from_pretrained(
            name, num_labels=len(classes), id2label=dict(enumerate(classes)), ignore_mismatched_sizes=True
        )
        tokenizer = AutoTokenizer.from_pretrained(name).backend_tokenizer
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise BadSettings(
            f"The model “{name}” cannot be loaded here ({reason}). Name a folder on the host or a Hub model that the "
            "run may reach, or leave `model` out to train a small encoder from scratch."
        ) from error
    if head == "Token" and hasattr(tokenizer.pre_tokenizer, "add_prefix_space"):
        tokenizer.pre_tokenizer.add_prefix_space = True  # words come one by one
    return network, tokenizer


def _from_scratch(
    texts: Sequence[str], classes: Sequence[str], settings: dict[str, Any], head: Head, *, cased: bool
) -> tuple[Any, Any]:
    import transformers
    from transformers import BertConfig

    tokenizer = learned_tokenizer(texts, settings["vocabulary"], cased=cased)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=settings["hidden_size"],
        num_hidden_layers=settings["layers"],
        num_attention_heads=settings["heads"],
        intermediate_size=2 * settings["hidden_size"],
        max_position_embeddings=settings["max_tokens"],
        pad_token_id=0,
        num_labels=len(classes),
        id2label=dict(enumerate(classes)),
    )
    return getattr(transformers, f"BertFor{head}Classification")(config), tokenizer


@contextlib.contextmanager
def tokenizer_threads(texts: Sequence[str]) -> Iterator[None]:
    """Lets tokenizers learn from many texts in several threads, from few in one; what they give is the same."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = str(sum(map(len, texts)) >= _FEW).lower()
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def learned_tokenizer(texts: Sequence[str], vocabulary: int, *, cased: bool = False) -> Any:
    """A byte-level BPE tokenizer learned from the training texts, lower-casing where it is not `cased`.

    Not WordPiece: its trainer numbers the pieces in hash order, so that no two trainings are alike.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))  # noqa: S106 - a token of text, not a secret
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max(vocabulary, 256 + len(_SPECIAL)), min_frequency=2, special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
    )  # fmt: skip
    with tokenizer_threads(texts):
        tokenizer.train_from_iterator(texts, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer
