"""How an image network learns: squares of pixels in, classes or one quantity out, in the loop of `networks`."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.images.network import Network
from worker.recipes.images.squares import Squares, checksum
from worker.recipes.networks.losses import weighted_loss


@dataclass
class ImageLearner:
    """A network, its training images (n, S, S, 3), what each should give, and how to score the held-out ones.

    `wanted` are class numbers, or values of which mean and spread were taken out. `shift` and `flip` are settings.
    `weights` say how much an image of each class counts; None: all alike.
    """

    made: Network
    images: Squares
    wanted: NDArray[Any]
    held: Squares
    score: Callable[[NDArray[np.float64]], dict[str, float]]
    shift: float
    flip: bool
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        self.network, self.device = self.made.network, self.made.device
        self.count = len(self.images)
        self.key = str(zlib.crc32(self.wanted.tobytes(), checksum(self.images, 0)))

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """Cross-entropy of classes, mean squared error of a quantity."""
        import torch

        batch = self._moved(self.made.look.normal(torch.from_numpy(self.images[rows]))).to(self.device)
        wanted = torch.from_numpy(self.wanted[rows]).to(self.device)
        logits = self.network(pixel_values=batch).logits.float()  # (B, n_outputs)
        if wanted.is_floating_point():
            return torch.nn.functional.mse_loss(logits[:, 0], wanted)
        return weighted_loss(logits, wanted, self.weights)

    def measure(self) -> dict[str, float]:
        """The scores of the held-out images."""
        return self.score(self.made.model().logits(self.held))

    def _moved(self, batch: Any) -> Any:
        """Each image shifted by its own random distance, its edge repeated, and mirrored where that is asked for."""
        import torch

        most = round(self.shift * batch.shape[-1])
        if most:
            wide = torch.nn.functional.pad(batch, (most, most, most, most), mode="replicate")
            size, rows = batch.shape[-1], []
            for image, (down, right) in zip(
                wide, torch.randint(0, 2 * most + 1, (len(batch), 2)).tolist(), strict=True
            ):
                rows.append(image[:, down : down + size, right : right + size])
            batch = torch.stack(rows)
        if self.flip:
            turned = torch.rand(len(batch)) < 0.5
            batch = torch.where(turned[:, None, None, None], batch.flip(-1), batch)
        return batch
