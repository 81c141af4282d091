"""The image network before training: a pretrained one where a model is named, else a small one from scratch."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common.images import opened
from worker.recipes.common.job import BadSettings, Setting, read_settings, usable_cpus
from worker.recipes.images.encoding import Look, NetworkModel
from worker.recipes.networks.fitting import SEARCHED, budget_of
from worker.recipes.networks.loop import rows_per_step, total_steps

SETTINGS = {
    "model": Setting(None, also=("backbone", "base_model")),
    **SEARCHED,
    "epochs": Setting(30, 1, 1000),
    "early_stopping_patience": Setting(8, 1, 1000, ("patience",)),
    "image_size": Setting(0, 0, 1024, ("size", "resolution")),  # 0: as the images are, 32 to 96; of a model, its own
    "shift": Setting(0.08, 0.0, 0.5, ("augment",)),  # how far images are shifted at random, as a part of their size
    "flip": Setting(0, 0, 1),  # 1: mirror images at random; wrong for digits, letters and directions
}
_SCRATCH_RATE, _PRETRAINED_RATE = 3e-3, 5e-5
_NAMED_MODEL, _NAMED_PX = 300.0, 224
_SMALLEST_PX, _LARGEST_PX, _GRID_PX = 32, 96, 8
_LOOKED_AT = 200
_MOST_THREADS = 8
_LITTLE = 4_000_000  # pixels; below, several threads gain little and wait for each other on a busy machine


@dataclass
class Network:
    """A network with how it sees images, and what a person should know about where it comes from."""

    network: Any
    look: Look
    origin: str
    device: str

    def model(self) -> NetworkModel:
        return NetworkModel(self.network, self.look, self.device)


def network_settings(given: Mapping[str, Any], more: Mapping[str, Setting]) -> dict[str, Any]:
    """The value of each setting, and of `more` that a recipe has. Raises: BadSettings."""
    settings = read_settings(given, {**SETTINGS, **more})
    if _is_of_timm(settings["model"]) and importlib.util.find_spec("timm") is None:
        raise BadSettings(
            f"The model “{settings['model']}” needs the package timm, which this host lacks. Install it beside the "
            "worker, or name a model of transformers."
        )
    return settings


def _is_of_timm(model: str | None) -> bool:
    return bool(model) and str(model).startswith("timm/")


def work(settings: dict[str, Any], rows: int) -> float:
    """How much there is to do: images that pass through the layers."""
    per_image = (
        _NAMED_MODEL if settings["model"] else (settings["image_size"] / 32) ** 2 if settings["image_size"] else 1.0
    )
    return float(total_steps(settings, rows) * rows_per_step(settings) * per_image) * budget_of(settings).work


def build(paths: Sequence[str], outputs: Sequence[str], settings: dict[str, Any], *, seed: int, mse: bool) -> Network:
    """The network to train, with an output for each of `outputs`. Sets size and learning rate where nobody said one.

    Raises: BadSettings.
    """
    import torch

    torch.manual_seed(seed)
    named = settings["model"]
    settings["learning_rate"] = settings["learning_rate"] or (_PRETRAINED_RATE if named else _SCRATCH_RATE)
    size = settings["image_size"] or (_NAMED_PX if named else _usual_px(paths))
    kind = "regression" if mse else "single_label_classification"
    network, look = _pretrained(named, outputs, size, kind) if named else _from_scratch(outputs, size, kind)
    settings["image_size"] = look.size_px
    count = sum(parameter.numel() for parameter in network.parameters())
    little = not named and len(paths) * look.size_px**2 < _LITTLE
    torch.set_num_threads(1 if little else min(_MOST_THREADS, usable_cpus()))
    origin = f"{named or 'a small residual network from scratch'} ({count / 1e6:.2f} M parameters, {look.size_px} px)"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Network(network.to(device), look, origin, device)


def _usual_px(paths: Sequence[str]) -> int:
    """The middle of the images' shorter sides, between 32 and 96 and a multiple of 8."""
    every = max(1, len(paths) // _LOOKED_AT)
    sides = [min(opened(Path(path)).size) for path in paths[::every]]
    usual = round(float(np.median(sides)) / _GRID_PX) * _GRID_PX
    return int(min(_LARGEST_PX, max(_SMALLEST_PX, usual)))


def _pretrained(name: str, outputs: Sequence[str], size: int, kind: str) -> tuple[Any, Look]:
    from transformers import AutoModelForImageClassification

    try:
        network = AutoModelForImageClassification.from_pretrained(
            name, num_labels=len(outputs), id2label=dict(enumerate(outputs)), problem_type=kind,
            ignore_mismatched_sizes=True,
        )  # fmt: skip
        return network, _look_of(network, name, size)
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise BadSettings(
            f"The model “{name}” cannot be loaded here ({reason}). Name a folder on the host or a Hub model that the "
            "run may reach, or leave `model` out to train a small network from scratch."
        ) from error


def _look_of(network: Any, name: str, size: int) -> Look:
    """How a pretrained network sees images. A processor of timm's would need torchvision; its configuration says it."""
    if _is_of_timm(name):
        known = network.config.pretrained_cfg
        return Look(int(known["input_size"][-1]), tuple(known["mean"]), tuple(known["std"]))
    from transformers import AutoImageProcessor

    seen = AutoImageProcessor.from_pretrained(name)
    fixed = getattr(network.config, "image_size", size)  # of a network that takes one size only
    return Look(int(fixed if isinstance(fixed, int) else size), tuple(seen.image_mean), tuple(seen.image_std))


def _from_scratch(outputs: Sequence[str], size: int, kind: str) -> tuple[Any, Look]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=32, hidden_sizes=[32, 64, 128], depths=[1, 1, 1], layer_type="basic",
        downsample_in_first_stage=False, num_labels=len(outputs), id2label=dict(enumerate(outputs)), problem_type=kind,
    )  # fmt: skip
    return ResNetForImageClassification(config), Look(size)
