"""The documents: links lead somewhere, what they name exists, and the map of the folders is whole."""

import re
from pathlib import Path

import pytest

from agent.commands.registry import COMMANDS
from agent.domain.tasks import TASKS
from tests.bench.__main__ import NAMES
from tests.deploy.files import ROOT

PACKAGES = ("agent", "bot", "worker", "charts_render", "trainyard")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
MOST_WORDS = 2000
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"")
_MAPPED = re.compile(r"^\| `([\w/<>]+)/` \|", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_MODULE = re.compile(r"(?:agent|bot|worker|charts_render)(?:\.\w+)+")  # trainyard.… names Celery tasks too
_PATH = re.compile(rf"(?:{'|'.join((*PACKAGES, 'tests', 'deploy', 'docs', 'examples'))})/[\w./-]*")


def _documents() -> list[Path]:
    """Those of the repository, without what is installed into it."""
    folders = ("docs", "examples", "deploy", "tests", *PACKAGES)
    found = [*ROOT.glob("*.md"), *(path for name in folders for path in (ROOT / name).rglob("*.md"))]
    return sorted(path for path in found if "node_modules" not in path.parts)


def _packages() -> set[str]:
    """Folders with code, named from the root; the recipe of a task type is `<task>`."""
    folders = {path.parent.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    return {str(folder.with_name("<task>") if folder.name in TASKS else folder) for folder in folders}


@pytest.mark.parametrize("document", _documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(document: Path) -> None:
    links = [found[1] or found[2] for found in _LINK.finditer(_FENCED.sub("", document.read_text()))]
    local = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]

    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", _documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_and_path_that_it_names_exists(document: Path) -> None:
    words = _CODE.findall(_FENCED.sub("", document.read_text()))
    modules = [word for word in words if _MODULE.fullmatch(word)]
    paths = [word for word in words if _PATH.fullmatch(word)]

    assert [word for word in modules if not _is_there(word)] == []
    assert [word for word in paths if not (ROOT / word).exists()] == []


def test_every_promise_of_the_loop_has_its_test() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/loop.md").read_text())

    assert len(named) > 10
    assert [test for path, test in named if f"def {test}(" not in (ROOT / path).read_text()] == []


def _is_there(name: str) -> bool:
    """Whether there is a module of this name, or one in which its last word stands."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    return module.is_file() and re.search(rf"\b{path.name}\b", module.read_text()) is not None


def test_the_architecture_is_read_in_ten_minutes() -> None:
    assert len(ARCHITECTURE.split()) <= MOST_WORDS


def test_the_map_lists_every_folder_and_no_other() -> None:
    mapped = _MAPPED.findall(ARCHITECTURE)

    assert set(mapped) == _packages()
    assert len(mapped) == len(set(mapped))


def test_every_decision_is_listed_where_they_lie() -> None:
    decisions = ROOT / "docs/decisions"
    numbered = sorted(path.name for path in decisions.glob("[0-9]*.md"))

    assert re.findall(r"\]\((\d{3}-[\w-]+\.md)\)", (decisions / "README.md").read_text()) == numbered
    assert [name[:3] for name in numbered] == [f"{number:03}" for number in range(1, len(numbered) + 1)]


def test_the_readme_names_every_command_and_task_type() -> None:
    text = (ROOT / "README.md").read_text()
    first_cells = "\n".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))

    assert [name for name in COMMANDS if not re.search(rf"`{name}\b", first_cells)] == []
    assert [task.label for task in TASKS.values() if task.label not in first_cells] == []


def test_every_measurement_stands_in_the_table() -> None:
    table = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "BENCHMARKS.md").read_text(), re.MULTILINE))

    assert table == set(NAMES)
