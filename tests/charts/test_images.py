"""Images of results are drawn where they are sound, and are empty frames that say so where they are not."""

import io

import pytest
from PIL import Image

from agent.domain.pictures import Box, Images, PictureSpec, Tile
from charts_render.render import render
from charts_render.results.images import decode
from charts_render.scene import Line as Stroke
from tests.charts.picture_cases import BROKEN, drawn, notes, png, said, shape


@pytest.mark.parametrize("data", BROKEN)
def test_broken_images_are_empty_frames(data: bytes) -> None:
    images = Images("i", (Tile(data, "caption"), Tile(png(8, 8))))
    sheet = drawn(images)
    cause = "too large" if data in BROKEN[5:7] else "broken image"
    assert said(sheet, "broken") == [cause]
    assert "1 cannot be shown" in notes(images)
    assert len(sheet.photos) == 1


def test_more_pixels_than_can_be_decoded_in_time_are_left_out_and_said() -> None:
    large = Tile(png(6000, 6000, "1"))
    images = Images("i", (large, large, Tile(png(8, 8))))
    sheet = drawn(images)
    assert said(sheet, "broken") == ["too large"]
    assert len(sheet.photos) == 2
    assert "1 cannot be shown" in notes(images)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_becomes_three_channels(mode: str) -> None:
    found = decode(png(5, 3, mode), "#ffffff")
    assert found is not None
    assert found.shape == (3, 5, 3)


def test_large_images_are_reduced() -> None:
    found = decode(png(4000, 50), "#ffffff")
    assert found is not None
    assert max(found.shape) == 1200


def test_the_pixels_of_an_image_are_in_the_picture() -> None:
    out = io.BytesIO()
    Image.new("RGB", (40, 40), (200, 30, 190)).save(out, "PNG")
    picture = Image.open(io.BytesIO(render(PictureSpec("t", (Images("i", (Tile(out.getvalue()),)),))))).convert("RGB")
    counts = {colour: n for n, colour in picture.getcolors(100_000) or []}
    near = [n for (r, g, b), n in counts.items() if abs(r - 200) < 8 and abs(g - 30) < 8 and abs(b - 190) < 8]
    assert sum(near) > 100_000


def test_a_name_that_was_found_is_said_once() -> None:
    truth, found = Box("cat", 0.1, 0.1, 0.5, 0.5, truth=True), Box("cat", 0.2, 0.3, 0.6, 0.6, score=0.9)
    sheet = drawn(Images("i", (Tile(png(90, 90), boxes=(truth, found)),)))
    assert said(sheet, "box-name") == ["cat 0.90"]
    dashed, solid = shape(sheet, "box:0:0-0"), shape(sheet, "box:0:0-1")
    assert isinstance(dashed, Stroke)
    assert isinstance(solid, Stroke)
    assert (bool(dashed.pen.dash), bool(solid.pen.dash)) == (True, False)
