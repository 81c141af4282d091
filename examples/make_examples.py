"""Make the example files again: `python examples/make_examples.py [--randhie randhie.csv]`.

`doctor_visits.csv` and `new_visits.csv` come from statsmodels' copy of the RAND data (give its path, or have
statsmodels installed); `docstrings.csv` from the docstrings of the libraries in this environment.
Same input, same files.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import inspect
import pkgutil
import random
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
LIBRARIES = ("numpy", "scipy", "pandas", "sklearn")
_FROM_LIBRARY, _SEED = 700, 7
_NAMES = re.compile(
    r"(?i)\b(numpy|np|scipy|pandas|pd|scikit-?learn|sklearn|scikit|ndarrays?|series|dataframes?|sp|ufuncs?|estimators?)\b"
    r"|\b(numpy|scipy|pandas|sklearn|np|pd)[\w.]*"
)
_NEW_ROWS = 12


def visits(source: Path) -> None:
    """Readable names, one health column, and `visited_doctor` in place of the number of visits."""
    with source.open(encoding="utf-8", newline="") as file:
        rows = [_visit(row) for row in csv.DictReader(file)]
    _write(HERE / "doctor_visits.csv", rows)
    picked = random.Random(_SEED).sample(rows, _NEW_ROWS)
    _write(HERE / "new_visits.csv", [{k: v for k, v in row.items() if k != "visited_doctor"} for row in picked])


def _visit(row: dict[str, str]) -> dict[str, str]:
    health = {"hlthg": "good", "hlthf": "fair", "hlthp": "poor"}
    return {
        "log_coinsurance": row["lncoins"],
        "individual_deductible_plan": "yes" if row["idp"] == "1" else "no",
        "log_participation_incentive": row["lpi"],
        "log_max_expenditure": row["fmde"],
        "physical_limitation": row["physlm"],
        "chronic_diseases": row["disea"],
        "health": next((word for name, word in health.items() if row[name] == "1"), "excellent"),
        "visited_doctor": "yes" if float(row["mdvis"]) > 0 else "no",
    }


def docstrings() -> None:
    """First paragraphs of public docstrings; names that give the library away are masked."""
    rows: list[dict[str, str]] = []
    seen: set[str] = set()
    for library in LIBRARIES:
        texts = sorted(_texts(library) - seen)
        seen |= set(texts)
        picked = random.Random(_SEED).sample(texts, min(_FROM_LIBRARY, len(texts)))
        rows += [{"text": text, "library": library.replace("sklearn", "scikit-learn")} for text in picked]
    random.Random(_SEED).shuffle(rows)
    _write(HERE / "docstrings.csv", rows)


def _texts(library: str) -> set[str]:
    found = set()
    for module in _modules(library):
        for name, member in vars(module).items():
            if not name.startswith("_") and (inspect.isclass(member) or inspect.isroutine(member)):
                found.update(_paragraphs(member, library))
    return found


def _paragraphs(member: object, library: str) -> Iterator[str]:
    if not str(getattr(member, "__module__", "") or "").startswith(library):
        return
    own = vars(member).items() if inspect.isclass(member) else ()
    for part in (member, *(value for name, value in own if not name.startswith("_") and inspect.isroutine(value))):
        doc = inspect.getdoc(part) or ""
        first = " ".join(doc.strip().split("\n\n")[0].split())
        masked = re.sub(r"\s+", " ", _NAMES.sub("LIB", re.sub(r"[`*]+|:[a-z]+:|\.\. \S+", "", first))).strip()
        if 8 <= len(masked.split()) <= 80 and not masked.startswith((">>>", "LIB(", "Parameters")):
            yield masked


def _modules(library: str) -> Iterator[ModuleType]:
    root = importlib.import_module(library)
    yield root
    for info in pkgutil.walk_packages(root.__path__, f"{library}.", onerror=lambda _: None):
        parts = info.name.split(".")
        if any(part.startswith("_") or part in {"tests", "conftest", "setup", "f2py", "distutils"} for part in parts):
            continue
        try:
            yield importlib.import_module(info.name)
        except Exception as error:  # noqa: BLE001 - optional parts of these libraries fail in many ways
            print(f"left out {info.name}: {error}", file=sys.stderr)  # noqa: T201


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{path.name}: {len(rows)} rows")  # noqa: T201


def _randhie() -> Path:
    spec = importlib.util.find_spec("statsmodels")
    if spec is None or spec.origin is None:
        sys.exit("Give --randhie, or pip install statsmodels.")
    return Path(spec.origin).parent / "datasets/randhie/randhie.csv"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--randhie", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    visits(given.randhie or _randhie())
    docstrings()
