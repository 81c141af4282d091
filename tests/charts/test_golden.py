"""Pictures look as they did, and the comparison notices when they do not."""

from dataclasses import replace

import pytest

from agent.domain.pictures import Line, Lines, Matrix, PictureSpec
from charts_render.render import render
from tests.charts.golden import FOLDER, difference, specs

_SPECS = specs()


@pytest.mark.parametrize("name", _SPECS)
def test_a_picture_looks_as_stored(name: str) -> None:
    found = difference(render(_SPECS[name]), (FOLDER / f"{name}.png").read_bytes())
    assert found.small, f"{name}: {found}. If this is meant, look at it and run `python -m tests.charts.golden`."


def test_nothing_else_is_stored_and_all_of_it_is_small() -> None:
    files = sorted(FOLDER.glob("*"))
    assert {file.stem for file in files} == set(_SPECS)
    assert sum(file.stat().st_size for file in files) < 600_000


def _matrix(name: str) -> tuple[PictureSpec, Matrix]:
    spec = _SPECS[name]
    assert isinstance(spec, PictureSpec)
    matrix = spec.pictures[0]
    assert isinstance(matrix, Matrix)
    return spec, matrix


def test_real_changes_are_noticed() -> None:
    spec, matrix = _matrix("matrix-light-1200")
    stored = (FOLDER / "matrix-light-1200.png").read_bytes()
    turned = replace(matrix, counts=tuple(zip(*matrix.counts, strict=True)))
    moved = replace(matrix, counts=(matrix.counts[1], matrix.counts[0], *matrix.counts[2:]))
    assert difference(render(spec), stored).small
    assert not difference(render(replace(spec, pictures=(moved,))), stored).small
    assert not difference(render(replace(spec, theme="dark")), stored).small
    assert not difference(render(replace(spec, width_px=400)), stored).small
    assert difference(render(replace(spec, pictures=(turned,))), stored).changed > 0  # only numbers changed places


def test_a_line_elsewhere_is_noticed() -> None:
    roc = Lines("ROC", (Line("model", (0, 0.1, 1), (0, 0.8, 1)),), "x", "y", (0, 1), (0, 1))
    worse = replace(roc, lines=(Line("model", (0, 0.3, 1), (0, 0.6, 1)),))
    one, other = (render(PictureSpec("t", (plane,), width_px=400)) for plane in (roc, worse))
    assert not difference(one, other).small
