"""Archives of small real images for tests: digits of scikit-learn as PNG files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from PIL import Image


def png(pixels: Any) -> bytes:
    """Grey pixels of 0 to 16, or an image, as a PNG."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray((np.asarray(pixels) * 15.9).astype(np.uint8))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def archive(files: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items() if isinstance(files, Mapping) else files:
            file.writestr(name, data)
    return out.getvalue()


def digits(count: int) -> list[tuple[int, bytes]]:
    """The first digits: what they are, and their PNG."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return [(int(label), png(image)) for label, image in zip(found.target[:count], found.images[:count], strict=True)]


def turned_digits(count: int) -> list[tuple[float, bytes]]:
    """Digits turned by a known angle of -45 to 45 degrees: the angle, and the PNG."""
    from sklearn.datasets import load_digits

    random = np.random.default_rng(0)
    found = []
    for image in load_digits().images[:count]:
        angle = float(random.uniform(-45, 45))
        large = Image.fromarray((image * 15.9).astype(np.uint8)).resize((32, 32), Image.Resampling.BICUBIC)
        found.append((round(angle, 2), png(large.rotate(angle, Image.Resampling.BICUBIC))))
    return found
