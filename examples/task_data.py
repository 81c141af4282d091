"""Real data for each task type, out of what the installed dependencies bring, and the sentence that trains on it.

    python examples/task_data.py time_series_forecasting /tmp    # writes the file, prints the sentences

One function a task type, which writes a file into a folder and returns its path. Used by `make demo TASK=…` and by
`make test-builds`.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import inspect
import io
import json
import keyword
import random
import sys
import sysconfig
import tokenize
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LIBRARIES = (
    "numpy", "scipy.stats", "scipy.signal", "scipy.optimize", "scipy.linalg", "sklearn.linear_model",
    "sklearn.ensemble", "sklearn.metrics", "sklearn.preprocessing", "sklearn.cluster", "sklearn.decomposition",
    "sklearn.model_selection", "sklearn.datasets", "sklearn.svm", "sklearn.utils", "pandas",
)  # fmt: skip
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from examples import number_words  # noqa: E402 - the folder above has to be on the path where this runs alone


@dataclass(frozen=True)
class Example:
    """A request (`{file}` is the data's path), and what is asked of the model afterwards; empty: the data again.

    `reference` is the score of the decisive metric that is known of these data, `source` where it is known from. It
    is None where nothing is known but the baseline. One that is the mean over folds is compared with the mean over
    `splits`; `also` has what is known of other metrics, of which more is better. `lasts` are settings under
    which a training that is over at once takes long enough to be paused in its middle.
    """

    write: Callable[[Path], Path]
    request: str
    then: str = "predict on this @{file}"
    reference: float | None = None
    source: str = ""
    splits: int = 1
    lasts: str = ""
    also: Mapping[str, float] = field(default_factory=dict)


def tabular_classification(folder: Path) -> Path:
    """569 tumours with 30 measures (scikit-learn): malignant or benign."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [*map(str, data.feature_names), "tumour"]
    rows = [[*row, str(data.target_names[kind])] for row, kind in zip(data.data.tolist(), data.target, strict=True)]
    return _table(folder / "tumours.csv", names, rows)


def tabular_regression(folder: Path) -> Path:
    """442 people with diabetes, ten measures (scikit-learn): how far it was a year later."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    rows = [[*row, value] for row, value in zip(data.data.tolist(), data.target.tolist(), strict=True)]
    return _table(folder / "diabetes.csv", [*data.feature_names, "progression"], rows)


def text_classification(_folder: Path) -> Path:
    """2,545 docstrings of four libraries, whose names are masked: which library it is."""
    return HERE / "docstrings.csv"


def image_classification(folder: Path) -> Path:
    """1,797 written digits of 8 × 8 pixels (scikit-learn), a folder for each."""
    from sklearn.datasets import load_digits

    data = load_digits()
    files = [(f"digits/{kind}/{at}.png", _png(image * 15.9)) for at, (kind, image) in enumerate(_pairs(data))]
    return _archive(folder / "digits.zip", files)


def image_regression(folder: Path) -> Path:
    """1,200 digits turned by a known angle of -45 to 45 degrees (scikit-learn), and a csv of the angles."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    chance = np.random.default_rng(0)
    files: list[tuple[str, bytes]] = []
    rows = []
    for at, (_, image) in enumerate(_pairs(load_digits())[:1200]):
        angle = float(chance.uniform(-45, 45))
        large = Image.fromarray((image * 15.9).astype(np.uint8)).resize((32, 32), Image.Resampling.BICUBIC)
        files.append((f"{at}.png", _png(np.asarray(large.rotate(angle, Image.Resampling.BICUBIC)))))
        rows.append([f"{at}.png", round(angle, 2)])
    table = _table(folder / "angles.csv", ["image", "angle"], rows)
    return _archive(folder / "turned.zip", [*files, ("angles.csv", table.read_bytes())])


def time_series_forecasting(folder: Path) -> Path:
    """Carbon dioxide over Mauna Loa, monthly from 1958 to 2001, with holes (statsmodels)."""
    from statsmodels.datasets import co2

    found = co2.load_pandas().data["co2"].resample("MS").mean()
    rows = [[f"{at:%Y-%m-%d}", "" if value != value else value] for at, value in found.items()]
    return _table(folder / "co2.csv", ["date", "co2"], rows)


def sunspots(folder: Path) -> Path:
    """Sunspots by year from 1700 to 2008 (statsmodels), in a cycle of about eleven years."""
    from statsmodels.datasets import sunspots

    rows = [[int(year), spots] for year, spots in sunspots.load_pandas().data.to_numpy().tolist()]
    return _table(folder / "sunspots.csv", ["year", "sunspots"], rows)


def el_nino(folder: Path) -> Path:
    """The temperature of the sea off Peru by month from 1950 to 2010 (statsmodels)."""
    from statsmodels.datasets import elnino

    years = elnino.load_pandas().data.to_numpy().tolist()
    rows = [[f"{int(year)}-{month:02d}-01", value] for year, *values in years for month, value in enumerate(values, 1)]
    return _table(folder / "el_nino.csv", ["month", "temperature"], rows)


def clustering(folder: Path) -> Path:
    """178 wines of three growers with 13 measures (scikit-learn)."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    names = [*(str(name).replace("/", "_") for name in wine.feature_names), "grower"]
    rows = [[*row, f"grower {code + 1}"] for row, code in zip(wine.data.tolist(), wine.target, strict=True)]
    return _table(folder / "wine.csv", names, rows)


def iris(folder: Path) -> Path:
    """150 irises of three kinds with four measures (scikit-learn)."""
    from sklearn.datasets import load_iris

    data = load_iris()
    kinds = [str(data.target_names[kind]) for kind in data.target]
    rows = [[*row, kind] for row, kind in zip(data.data.tolist(), kinds, strict=True)]
    return _table(folder / "iris.csv", [*map(str, data.feature_names), "kind"], rows)


def text_generation(folder: Path, *, most_bytes: int = 1_200_000) -> Path:
    """Files of Python's standard library of at most 30 kB, in a fixed random order, as JSON lines."""
    library = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "test", "tests", "idle_test"}
    files = [
        path
        for path in sorted(library.rglob("*.py"))
        if not left_out & set(path.parts) and path.stat().st_size < 30_000
    ]
    random.Random(7).shuffle(files)
    path = folder / "stdlib.jsonl"
    left = most_bytes
    with path.open("w", encoding="utf-8") as out:
        for file in files:
            text = file.read_text(encoding="utf-8", errors="ignore")
            left -= len(text.encode())
            if left < 0:
                break
            if text.strip():
                out.write(json.dumps({"file": str(file.relative_to(library)), "text": text}) + "\n")
    return path


def token_classification(folder: Path, *, lines: int = 4_000) -> Path:
    """Lines of Python's own library and what `tokenize` finds in them: names, strings, comments and others."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    programs = [_tokenized(file.read_text(encoding="utf-8", errors="replace")) for file in files]
    found: dict[str, list[dict[str, Any]]] = {}
    for at in range(max(map(len, programs))):  # a line of each file in turn, so that many styles are seen
        for program in programs:
            if at < len(program) and len(found) < lines:
                text, spans = program[(at * 7919) % len(program)]
                found.setdefault(text, spans)
    path = folder / "code.jsonl"
    rows = (json.dumps({"text": text, "spans": spans}, ensure_ascii=False) for text, spans in found.items())
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _tokenized(source: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """The lines of a program that hold whole tokens, of at most 160 characters, with these tokens."""
    kinds = {tokenize.STRING: "string", tokenize.NUMBER: "number", tokenize.COMMENT: "comment", tokenize.OP: "operator"}
    lines: dict[int, tuple[str, list[dict[str, Any]]]] = {}
    broken: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (first, start), (last, end) = token.start, token.end
        if first != last:
            broken.update(range(first, last + 1))
        elif token.type in kinds or token.type == tokenize.NAME:
            kind = kinds.get(token.type) or ("keyword" if keyword.iskeyword(token.string) else "name")
            spans = lines.setdefault(first, (token.line.rstrip("\n"), []))[1]
            spans.append({"start": start, "end": end, "label": kind})
    return [found for line, found in lines.items() if line not in broken and len(found[0]) <= 160]


def llm_finetuning(folder: Path) -> Path:
    """400 of the docstrings as prompts, and the library that each belongs to as the answer."""
    with (HERE / "docstrings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:400]
    path = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": row["text"], "completion": row["library"]}) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def summarization(folder: Path) -> Path:
    """What the documentation of numpy, scipy and scikit-learn says, and the summary line of each entry."""
    return _table(folder / "documentation.csv", ["text", "summary"], documented(*_LIBRARIES))


def documented(*libraries: str) -> list[tuple[str, str]]:
    """What the documentation of these packages' public members says below its summary line, and that line."""
    found: dict[str, str] = {}
    for library in libraries:
        module = importlib.import_module(library)
        for name in sorted(name for name in dir(module) if not name.startswith("_")):
            member = getattr(module, name, None)
            of_class = sorted(dir(member)) if inspect.isclass(member) else []
            for told in (member, *(getattr(member, one, None) for one in of_class if not one.startswith("_"))):
                text = "" if inspect.ismodule(told) else inspect.getdoc(told) or ""
                summary, body = (" ".join(part.split()) for part in text.partition("\n\n")[::2])
                if 3 <= len(summary.split()) <= 30 and len(body) >= 100:
                    found.setdefault(body[:1500], summary)
    return list(found.items())


def translation(folder: Path) -> Path:
    """3,000 numbers below 100,000 in English and in French words (generated)."""
    numbers = random.Random(1).sample(range(1, 100_000), 3000)
    rows = [(number_words.english(number), number_words.french(number)) for number in numbers]
    return _table(folder / "numbers.csv", ["english", "french"], rows)


def object_detection(folder: Path, *, images: int = 400) -> Path:
    """Written digits (scikit-learn) at known places on noisy ground, with COCO annotations."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    chance, digits = np.random.default_rng(0), _pairs(load_digits())
    files: list[tuple[str, bytes]] = []
    notes: list[dict[str, Any]] = []
    for number in range(images):
        ground = chance.integers(0, 70, (96, 96)).astype(np.uint8)
        taken = np.zeros((96, 96), dtype=bool)
        for _ in range(int(chance.integers(1, 5))):
            kind, image = digits[int(chance.integers(len(digits)))]
            rows, columns = np.flatnonzero(image.max(axis=1) > 4), np.flatnonzero(image.max(axis=0) > 4)
            inner = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            scale = chance.uniform(2.5, 4.5)
            width, height = (round(side * scale) for side in inner.shape[::-1])
            left, top = int(chance.integers(0, 96 - width)), int(chance.integers(0, 96 - height))
            place = np.s_[top : top + height, left : left + width]
            if taken[place].any():
                continue
            taken[place] = True
            large = Image.fromarray((inner * 15.9).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
            ground[place] = np.maximum(ground[place], np.asarray(large))
            notes.append({"id": len(notes) + 1, "image_id": number, "category_id": kind,
                          "bbox": [left, top, width, height]})  # fmt: skip
        files.append((f"images/{number}.png", _png(ground)))
    about = {
        "images": [{"id": number, "file_name": f"{number}.png"} for number in range(images)],
        "categories": [{"id": kind, "name": str(kind)} for kind in range(10)],
        "annotations": notes,
    }
    return _archive(folder / "scattered.zip", [("annotations.json", json.dumps(about).encode()), *files])


def _pairs(digits: Any) -> list[tuple[int, Any]]:
    return list(zip(map(int, digits.target), digits.images, strict=True))


def _table(path: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    return path


def _png(pixels: Any) -> bytes:
    import numpy as np
    from PIL import Image

    made = io.BytesIO()
    Image.fromarray(np.asarray(pixels).astype(np.uint8)).save(made, "png")
    return made.getvalue()


def _archive(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files:
            archive.writestr(name, data)
    return path


# References are measured or published; `shared` settings of the recipes reach or pass them, see BENCHMARKS.md.
EXAMPLES: dict[str, Example] = {
    "tabular_classification": Example(
        tabular_classification,
        "train a model that predicts tumour @{file}",
        lasts="rounds=5000 lr=0.003",
        reference=0.99,
        splits=5,
        source="logistic, ten folds: 0.995",
    ),
    "tabular_regression": Example(
        tabular_regression,
        "train a model that predicts progression @{file}",
        lasts="rounds=10000 lr=0.001",
        reference=55.0,
        splits=5,
        source="linear, ten folds: 53 to 55",
    ),
    "text_classification": Example(
        text_classification, "classify text into library @{file}", reference=0.74, source="TF-IDF with logistic"
    ),
    "token_classification": Example(
        token_classification, "train a token classifier on this @{file}", then="predict “x = max(1, len(name))  # why”"
    ),
    "image_classification": Example(
        image_classification, "train an image classifier @{file}", reference=0.97, source="scikit-learn's example"
    ),
    "image_regression": Example(image_regression, "train an image model that predicts angle @{file}"),
    "object_detection": Example(object_detection, "train an object detector @{file}"),
    "time_series_forecasting": Example(
        time_series_forecasting,
        "forecast co2 for 24 months @{file}",
        lasts="windows=6",
        then="predict 12",
        reference=0.25,
        source="AutoARIMA",
    ),
    "summarization": Example(summarization, "summarize text with 1 epochs @{file}", reference=0.161, source="LEAD-1"),
    "translation": Example(translation, "translate english to french with 15 epochs @{file}"),
    "clustering": Example(
        clustering, "cluster the wines, labels are in grower @{file}", lasts="resamples=20", also={"ari": 0.897}
    ),
    "text_generation": Example(
        text_generation,
        "train a language model on this with 4 epochs @{file}",
        then="predict “import ”",
        reference=1.587,
        source="LZMA",
    ),
    "llm_finetuning": Example(
        llm_finetuning,
        "fine-tune an llm on these with max length 128, 2 epochs @{file}",
        then="predict “Compute the mean of an array.”",
    ),
}


# Further data of a task type, by a name of their own.
FURTHER: dict[str, tuple[str, Example]] = {
    "sunspots": (
        "time_series_forecasting",
        Example(sunspots, "forecast sunspots for 33 years @{file}", then="predict 11", reference=1.16,
                source="seasonal naive of 11 years: AR(30) has 1.690"),
    ),
    "iris": (
        "clustering",
        Example(iris, "cluster these flowers into 3 clusters with method=gmm, labels are in kind @{file}",
                also={"ari": 0.904}, source="Gaussian mixture, on all rows"),
    ),
    "el_nino": (
        "time_series_forecasting",
        Example(el_nino, "forecast temperature for 24 months @{file}", then="predict 12", reference=0.613,
                source="Holt-Winters; seasonal naive has 0.622"),
    ),
}  # fmt: skip


def main() -> None:
    """Write one, and say how to train on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(EXAMPLES))
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    example = EXAMPLES[asked.task]
    path = example.write(asked.folder)
    told = {"file": str(path), "request": example.request.format(file=path), "then": example.then.format(file=path)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
