"""Detectors: images in, boxes out. Copied beside the model; needs Pillow, torch and transformers.

Two kinds. `centre` is a small network of our own, which says for each cell of a grid whether the centre of a box lies
there and how large it is (as CenterNet, Zhou et al. 2019). `transformer` is any detection model of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.images.encoding import Look, pixels

MOST_BOXES = 100
_BATCH = 32
_LEAST = 0.02  # of a score; less is nothing

Found = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]  # boxes (n, 4), classes and scores (n,)


def centre_network(classes: int, width: int) -> Any:
    """For each cell: `classes` logits of a centre, then its place within the cell and the logarithm of its size."""
    from torch import nn

    def block(inside: int, outside: int, stride: int) -> Any:
        first = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        second = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        norms = [nn.GroupNorm(8, outside) for _ in range(2)]
        return nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1], nn.ReLU())

    class Centre(nn.Module):
        """Down to an eighth of the image for what surrounds a cell, and back to a quarter."""

        def __init__(self) -> None:
            super().__init__()
            self.fine = nn.Sequential(block(3, width, 2), block(width, 2 * width, 2))
            self.coarse = nn.Sequential(block(2 * width, 4 * width, 2), block(4 * width, 4 * width, 1))
            self.down = nn.Conv2d(4 * width, 2 * width, 1)
            self.up = nn.Upsample(scale_factor=2, mode="nearest")
            self.joined = block(2 * width, 2 * width, 1)
            self.head = nn.Conv2d(2 * width, classes + 4, 1)
            nn.init.constant_(self.head.get_parameter("bias")[:classes], -3.0)  # most cells hold no centre

        def forward(self, images: Any) -> Any:
            fine = self.fine(images)  # (B, 2 W, S / 4, S / 4)
            return self.head(self.joined(fine + self.up(self.down(self.coarse(fine)))))

    return Centre()


def centres(outputs: Any, classes: int) -> Found:
    """The boxes of one image (corners in 0 to 1) from its outputs (classes + 4, H, W)."""
    import torch

    heat = torch.sigmoid(outputs[:classes])
    peak = torch.nn.functional.max_pool2d(heat[None], 3, stride=1, padding=1)[0] == heat
    scores, at = (heat * peak).flatten().topk(min(MOST_BOXES, heat.numel()))
    high, wide = heat.shape[1:]
    kinds, cells = at // (high * wide), at % (high * wide)
    rows, columns = cells // wide, cells % wide
    dx, dy, log_w, log_h = outputs[classes:, rows, columns]
    x, y = (columns + torch.sigmoid(dx)) / wide, (rows + torch.sigmoid(dy)) / high
    w, h = log_w.clamp(-8, 1).exp(), log_h.clamp(-8, 1).exp()
    boxes = torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], dim=1).clamp(0, 1)
    return boxes.double().cpu().numpy(), kinds.cpu().numpy(), scores.double().cpu().numpy()


def queries(logits: Any, boxes: Any, classes: int) -> Found:
    """The boxes of one image from the queries of a transformer: logits (Q, C), boxes (Q, 4) by centre and size."""
    import torch

    nothing = logits.shape[-1] > classes  # DETR and YOLOS have a class for it
    shares = torch.softmax(logits, -1)[:, :classes] if nothing else torch.sigmoid(logits)
    scores, at = shares.flatten().topk(min(MOST_BOXES, shares.numel()))
    middle, size = boxes[at // classes].split(2, dim=1)
    corners = torch.cat([middle - size / 2, middle + size / 2], dim=1).clamp(0, 1)
    return corners.double().cpu().numpy(), (at % classes).cpu().numpy(), scores.double().cpu().numpy()


class Detector:
    """A network of either kind, how it sees images, and its classes."""

    def __init__(self, network: Any, look: Look, device: str, classes: Sequence[str], kind: str) -> None:
        self.network, self.look, self.device = network.to(device), look, device
        self.classes, self.kind = list(classes), kind

    def found(self, images: Any) -> list[Found]:
        """What is on pictures (n, S, S, 3)."""
        import torch

        self.network.eval()
        found: list[Found] = []
        with torch.inference_mode():
            for at in range(0, len(images), _BATCH):
                batch = self.look.normal(torch.from_numpy(images[at : at + _BATCH])).to(self.device)
                if self.kind == "centre":
                    found += [centres(one, len(self.classes)) for one in self.network(batch).float()]
                else:
                    said = self.network(pixel_values=batch)
                    pairs = zip(said.logits.float(), said.pred_boxes.float(), strict=True)
                    found += [queries(*pair, len(self.classes)) for pair in pairs]
        return found

    def boxes(self, paths: Sequence[str | Path]) -> list[list[dict[str, Any]]]:
        """The boxes on image files, in pixels of each, the surest first. Raises: BadData."""
        answers = []
        for at in range(0, len(paths), _BATCH):
            some = paths[at : at + _BATCH]
            for path, found in zip(some, self.found(pixels(some, self.look.size_px)), strict=True):
                answers.append(in_pixels(found, self.classes, size_of(path)))
        return answers


def size_of(path: str | Path) -> tuple[int, int]:
    """Width and height of an image, as it is held."""
    from worker.recipes.common.images import opened

    width, height = opened(Path(path)).size
    return int(width), int(height)


def in_pixels(found: Found, classes: Sequence[str], size: tuple[int, int]) -> list[dict[str, Any]]:
    """Boxes as [left, top, width, height] in pixels, each with label and score."""
    answers = []
    for (left, top, right, bottom), kind, score in zip(*found, strict=True):
        box = [left * size[0], top * size[1], (right - left) * size[0], (bottom - top) * size[1]]
        if score >= _LEAST and min(box[2:]) > 0:
            rounded = [round(float(side), 2) for side in box]
            answers.append({"label": classes[kind], "box": rounded, "score": round(float(score), 4)})
    return answers


def load_detector(folder: Path, description: Mapping[str, Any]) -> Detector:
    """The detector that training left in `folder`."""
    import torch

    classes, kind = description["classes"], description["kind"]
    if kind == "centre":
        from safetensors.torch import load_file

        about = json.loads((folder / description["file"] / "config.json").read_text(encoding="utf-8"))
        network = centre_network(len(classes), about["width"])
        network.load_state_dict(load_file(folder / description["file"] / "model.safetensors"))
    else:
        from transformers import AutoModelForObjectDetection

        network = AutoModelForObjectDetection.from_pretrained(folder / description["file"])
    look = Look(description["size_px"], tuple(description["mean"]), tuple(description["spread"]))
    return Detector(network, look, "cuda" if torch.cuda.is_available() else "cpu", classes, kind)


def mean_boxes(known: Sequence[Mapping[str, Any]], size: tuple[int, int]) -> list[dict[str, Any]]:
    """The baseline, which looks at no image: the usual box of each label, as a part of the image."""
    scales = (size[0], size[1], size[0], size[1])
    return [
        {**one, "box": [round(part * scale, 2) for part, scale in zip(one["box"], scales, strict=True)]}
        for one in known
    ]
