"""Images as tensors, and a network that answers for them. Copied beside the model; needs Pillow, torch, transformers.

It owns how an image becomes numbers, so that training and prediction cannot differ. Needs no torchvision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.estimators import read_estimator
from worker.recipes.common.images import opened
from worker.recipes.common.table import BadData

_BATCH = 64
LINEAR_PX = 16  # of the grey picture that the linear baseline looks at


@dataclass(frozen=True)
class Look:
    """The square that every image is resized to, in pixels, and the mean and spread of each colour in 0 to 1."""

    size_px: int
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    spread: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def normal(self, pixels: Any) -> Any:
        """Bytes (B, H, W, 3) as a float tensor (B, 3, H, W)."""
        import torch

        mean, spread = torch.tensor(self.mean), torch.tensor(self.spread)
        return ((pixels.float() / 255.0 - mean) / spread).permute(0, 3, 1, 2)


def pixels(paths: Sequence[str | Path], size_px: int) -> NDArray[np.uint8]:
    """The images, resized to squares: (n_images, size_px, size_px, 3). Raises: BadData naming the image."""
    from PIL import Image

    found = np.empty((len(paths), size_px, size_px, 3), dtype=np.uint8)
    for at, path in enumerate(paths):
        try:
            found[at] = np.asarray(opened(Path(path)).resize((size_px, size_px), Image.Resampling.BILINEAR))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise BadData(f"The image {Path(path).name} cannot be read: {error}.") from error
    return found


def grey(paths: Sequence[str | Path]) -> NDArray[np.float64]:
    """What the linear baseline sees: grey pictures of 16 by 16 pixels, 0 to 1. (n_images, 256)"""
    small = pixels(paths, LINEAR_PX).astype(np.float64).mean(axis=3) / 255.0
    return np.asarray(small.reshape(len(paths), -1))


class NetworkModel:
    """A transformers image network. Its raw answers are `logits` (n_images, n_outputs)."""

    def __init__(self, network: Any, look: Look, device: str) -> None:
        self._network, self._look, self._device = network.to(device), look, device

    def logits(self, images: Any) -> NDArray[np.float64]:
        """Raw outputs of pictures (n_images, size_px, size_px, 3)."""
        import torch

        self._network.eval()
        found = []
        with torch.inference_mode():
            for at in range(0, len(images), _BATCH):
                batch = self._look.normal(torch.from_numpy(images[at : at + _BATCH])).to(self._device)
                found.append(self._network(pixel_values=batch).logits.float().cpu().numpy())
        return np.concatenate(found).astype(np.float64)

    def outputs(self, paths: Sequence[str | Path]) -> NDArray[np.float64]:
        """Raw outputs of image files, read a batch at a time."""
        parts = [pixels(paths[at : at + _BATCH], self._look.size_px) for at in range(0, len(paths), _BATCH)]
        return np.concatenate([self.logits(part) for part in parts])


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities (n, n_classes)."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def load_network(folder: Path, description: Mapping[str, Any]) -> NetworkModel:
    """The network that training left in `folder`."""
    import torch
    from transformers import AutoModelForImageClassification

    network = AutoModelForImageClassification.from_pretrained(folder / description["file"])
    look = Look(description["size_px"], tuple(description["mean"]), tuple(description["spread"]))
    return NetworkModel(network, look, "cuda" if torch.cuda.is_available() else "cpu")


def load_linear(folder: Path, description: Mapping[str, Any]) -> Any:
    """The sklearn pipeline over `grey` that training left in `folder`."""
    return read_estimator(folder / description["file"], trusted=description.get("trusted", []))
