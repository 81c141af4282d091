"""The detector before training, and how it learns: a pretrained one where a model is named, else a small one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.boxes.detecting import Detector, Found, centre_network, size_of
from worker.recipes.common.job import BadSettings, Setting, read_settings, usable_cpus
from worker.recipes.images.encoding import Look
from worker.recipes.images.squares import Squares, checksum
from worker.recipes.networks.loop import SETTINGS as LOOP
from worker.recipes.networks.loop import rows_per_step, total_steps

SETTINGS = {
    "model": Setting(None, also=("backbone", "base_model")),
    **LOOP,
    "epochs": Setting(30, 1, 1000),
    "batch_size": Setting(16, 1, 4096),
    "early_stopping_patience": Setting(10, 1, 1000, ("patience",)),
    "image_size": Setting(0, 0, 1024, ("size", "resolution")),  # 0: as the images are, 64 to 256
    "width": Setting(32, 8, 256),  # channels of the small network
    "shift": Setting(0.1, 0.0, 0.5, ("augment",)),
}
_SCRATCH_RATE, _PRETRAINED_RATE = 2e-3, 5e-5
_SMALLEST_PX, _LARGEST_PX, _GRID_PX, _NAMED_PX = 64, 256, 32, 512
_MOST_THREADS = 8
_LITTLE = 4_000_000  # pixels; below, several threads gain little and wait for each other on a busy machine
Boxes = tuple[NDArray[np.float64], NDArray[np.int64]]  # corners in 0 to 1 (n, 4), class numbers (n,)


def network_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each setting. Raises: BadSettings."""
    settings = read_settings(given, SETTINGS)
    if settings["width"] % 8:
        raise BadSettings(f"width ({settings['width']}) must be a multiple of 8.")
    return settings


def work(settings: dict[str, Any], rows: int) -> float:
    """How much there is to do: images that pass through the layers."""
    per_image = 300.0 if settings["model"] else ((settings["image_size"] or 96) / 96 * settings["width"] / 32) ** 2
    return float(total_steps(settings, rows) * rows_per_step(settings) * per_image)


def build(paths: Sequence[str], classes: Sequence[str], settings: dict[str, Any], *, seed: int) -> Detector:
    """The detector to train. Sets size and learning rate where nobody said one. Raises: BadSettings."""
    import torch

    torch.manual_seed(seed)
    named = settings["model"]
    settings["learning_rate"] = settings["learning_rate"] or (_PRETRAINED_RATE if named else _SCRATCH_RATE)
    settings["image_size"] = settings["image_size"] or (_NAMED_PX if named else _usual_px(paths))
    little = not named and len(paths) * settings["image_size"] ** 2 < _LITTLE
    torch.set_num_threads(1 if little else min(_MOST_THREADS, usable_cpus()))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if named:
        return _pretrained(named, classes, settings["image_size"], device)
    settings["image_size"] = max(_SMALLEST_PX, settings["image_size"] // _GRID_PX * _GRID_PX)
    network = centre_network(len(classes), settings["width"])
    return Detector(network, Look(settings["image_size"]), device, classes, "centre")


def _usual_px(paths: Sequence[str]) -> int:
    sides = [max(size_of(path)) for path in paths[:: max(1, len(paths) // 200)]]
    usual = round(float(np.median(sides)) / _GRID_PX) * _GRID_PX
    return int(min(_LARGEST_PX, max(_SMALLEST_PX, usual)))


def _pretrained(name: str, classes: Sequence[str], size: int, device: str) -> Detector:
    from transformers import AutoImageProcessor, AutoModelForObjectDetection

    try:
        network = AutoModelForObjectDetection.from_pretrained(
            name, num_labels=len(classes), id2label=dict(enumerate(classes)), ignore_mismatched_sizes=True
        )
        seen = AutoImageProcessor.from_pretrained(name)
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise BadSettings(
            f"The model “{name}” cannot be loaded here ({reason}). Name a folder on the host or a Hub model that the "
            "run may reach, or leave `model` out to train a small detector from scratch."
        ) from error
    plain = not getattr(seen, "do_normalize", True)  # such as RT-DETR
    look = Look(size, (0.0,) * 3, (1.0,) * 3) if plain else Look(size, tuple(seen.image_mean), tuple(seen.image_std))
    return Detector(network, look, device, classes, "transformer")


def save(detector: Detector, settings: Mapping[str, Any], folder: Path) -> None:
    """Write safetensors and config.json."""
    if detector.kind == "transformer":
        detector.network.save_pretrained(folder)
        return
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(detector.network.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"width": settings["width"]}), encoding="utf-8")


@dataclass
class BoxLearner:
    """A detector, its training images (n, S, S, 3) with their boxes, and how to score what it finds on others."""

    detector: Detector
    images: Squares | NDArray[np.uint8]
    wanted: Sequence[Boxes]
    held: Squares | NDArray[np.uint8]
    score: Callable[[list[Found]], dict[str, float]]
    shift: float
    key: str = field(init=False)

    def __post_init__(self) -> None:
        self.network, self.device = self.detector.network, self.detector.device
        boxes = b"".join(part.tobytes() for one in self.wanted for part in one)
        self.count = len(self.images)
        self.key = str(zlib.crc32(boxes, checksum(self.images, 0)))

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """The loss of the transformer itself, or focal loss of centres with the distances of places and sizes."""
        import torch

        images, boxes = zip(*(self._moved(self.images[row], self.wanted[row]) for row in rows), strict=True)
        batch = self.detector.look.normal(torch.from_numpy(np.stack(images))).to(self.device)
        if self.detector.kind == "centre":
            return centre_loss(self.network(batch).float(), boxes, len(self.detector.classes))
        labels = []
        for corners, kinds in boxes:
            low, high = np.split(corners, 2, axis=1)
            by_centre = np.concatenate([(low + high) / 2, high - low], axis=1).astype(np.float32)
            labels.append({"class_labels": torch.from_numpy(kinds).to(self.device),
                           "boxes": torch.from_numpy(by_centre).to(self.device)})  # fmt: skip
        return self.network(pixel_values=batch, labels=labels).loss

    def measure(self) -> dict[str, float]:
        """The scores of the held-out images."""
        return self.score(self.detector.found(self.held))

    def _moved(self, image: NDArray[np.uint8], boxes: Boxes) -> tuple[NDArray[np.uint8], Boxes]:
        """The image shifted by a random distance, its edge repeated; boxes whose centre leaves it are dropped."""
        import torch

        most, size = round(self.shift * len(image)), len(image)
        if not most:
            return image, boxes
        down, right = (int(value) for value in torch.randint(-most, most + 1, (2,)))
        wide = np.pad(image, ((most, most), (most, most), (0, 0)), mode="edge")
        moved = wide[most - down : most - down + size, most - right : most - right + size]
        corners = boxes[0] + np.array([right, down, right, down]) / size
        middle = (corners[:, :2] + corners[:, 2:]) / 2
        kept = ((middle > 0) & (middle < 1)).all(axis=1)
        return moved, (corners[kept].clip(0, 1), boxes[1][kept])


def centre_loss(outputs: Any, boxes: Sequence[Boxes], classes: int) -> Any:
    """Of outputs (B, classes + 4, H, W): CenterNet's focal loss, and L1 of place and log size at the centres."""
    import torch

    high, wide = outputs.shape[2:]
    heat = torch.zeros_like(outputs[:, :classes])
    rows, columns = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
    at: list[tuple[int, int, int]] = []
    places: list[list[float]] = []
    for number, (corners, kinds) in enumerate(boxes):
        for (left, top, right, bottom), kind in zip(corners.tolist(), kinds.tolist(), strict=True):
            x, y, w, h = (left + right) / 2 * wide, (top + bottom) / 2 * high, right - left, bottom - top
            column, row = min(int(x), wide - 1), min(int(y), high - 1)
            spread = max(0.6, min(w * wide, h * high) / 8)
            near = torch.exp(-((columns - column) ** 2 + (rows - row) ** 2) / (2 * spread**2)).to(heat.device)
            heat[number, kind] = torch.maximum(heat[number, kind], near)
            at.append((number, row, column))
            places.append([x - column, y - row, float(np.log(max(w, 1e-3))), float(np.log(max(h, 1e-3)))])
    share = torch.sigmoid(outputs[:, :classes]).clamp(1e-4, 1 - 1e-4)
    there = heat == 1
    focal = -(torch.log(share) * (1 - share) ** 2)[there].sum()
    focal = focal - (torch.log(1 - share) * share**2 * (1 - heat) ** 4)[~there].sum()
    if not at:
        return focal / len(boxes)
    numbers, row, column = torch.tensor(at, device=outputs.device).T
    said = outputs[numbers, classes:, row, column]  # (n, 4)
    said = torch.cat([torch.sigmoid(said[:, :2]), said[:, 2:]], dim=1)
    wanted = torch.tensor(places, device=outputs.device)
    distance = (said - wanted).abs() * torch.tensor([1.0, 1.0, 2.0, 2.0], device=outputs.device)
    return (focal + distance.sum()) / len(at)
