"""The gallery in the repository is what the code draws."""

import re
from pathlib import Path

import pytest

from charts_render.gallery import examples, page
from charts_render.samples import results
from tests.charts.golden import difference

_STORED = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    page(folder)
    return folder


def test_it_shows_every_picture_it_writes_in_both_themes(made: Path) -> None:
    shown = set(re.findall(r'src="gallery/([^"]+)"', (made / "gallery.md").read_text()))
    assert shown == {file.name for file in (made / "gallery").iterdir()}
    names = {name.rsplit("-", 1)[0] for name in shown}
    assert len(shown) == 2 * len(names) >= 40
    assert names <= examples("light").keys() | results("light").keys()


def test_the_stored_one_is_new(made: Path) -> None:
    assert (_STORED / "gallery.md").read_text() == (made / "gallery.md").read_text(), "run `make gallery`"
    files = {file.name: file.read_bytes() for file in (_STORED / "gallery").iterdir()}
    fresh = {file.name: file.read_bytes() for file in (made / "gallery").iterdir()}
    assert files.keys() == fresh.keys()
    old = [name for name, data in files.items() if not difference(data, fresh[name]).small]
    assert old == [], "run `make gallery` and look at these"
