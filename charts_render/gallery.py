"""Every kind of chart and picture for the eye: `make gallery` writes `docs/gallery.md` and its pictures anew.

Seeded, so only the look can change. `python -m charts_render.gallery FOLDER` writes to another folder. Results that
look like real ones are in `samples`; those that are real were logged by `examples/result_pictures.py` and lie in
`real/`.
"""

import json
import math
import sys
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series, Theme
from agent.domain.pictures import PictureSpec, Reported
from charts_render.alt_text import describe
from charts_render.render import render
from charts_render.samples import results

_STEPS = 2400
_THEMES: tuple[Theme, Theme] = ("light", "dark")


def _decay(seed: int, start: float, end: float, *, noise: float, every: int = 1) -> Series:
    rng = np.random.default_rng(seed)
    x = np.arange(0, _STEPS, every)
    y = end + (start - end) * np.exp(-x / 420) + rng.normal(0, noise, x.size) * (0.4 + np.exp(-x / 700))
    return Series("train", x.tolist(), y.tolist())


def _loss() -> Panel:
    train, valid = _decay(1, 2.3, 0.34, noise=0.05), _decay(2, 2.2, 0.46, noise=0.015, every=120)
    rise = [v + 0.00006 * max(0, x - 1500) for x, v in zip(valid.x, valid.y, strict=True)]
    marks = (Mark(800, "checkpoint"), Mark(1560, "kept"), Mark(1900, "restart"))
    return Panel("loss", (train, Series("valid", valid.x, rise)), "nats", (), marks, better="lower")


def _accuracy() -> Panel:
    curve = _decay(3, 0.31, 0.914, noise=0.006, every=60)
    baselines = (Baseline("majority", 0.48), Baseline("linear", 0.83))
    marks = (Mark(1560, "kept"),)
    series = (Series("valid", curve.x, curve.y),)
    return Panel("validation accuracy", series, "", baselines, marks, better="higher")


def _rate() -> Panel:
    x = np.arange(_STEPS)
    y = np.minimum(x / 200, 1) * 3e-4 * (0.02 + 0.98 * (0.5 + 0.5 * np.cos(np.pi * x / _STEPS)))
    return Panel("learning rate", (Series("lr", x.tolist(), y.tolist()),))


def _throughput() -> Panel:
    rng = np.random.default_rng(4)
    y = 18_400 + rng.normal(0, 240, _STEPS)
    y[900:1100] = np.nan
    y[1500] = 1_900_000
    return Panel("throughput", (Series("gpu", range(_STEPS), y.tolist()),), "tokens/s")


def _gradients() -> Panel:
    curve = _decay(5, 40, 0.6, noise=0.0)
    rng = np.random.default_rng(6)
    y = np.array(curve.y) * np.exp(rng.normal(0, 0.25, _STEPS))
    y[1700] = np.inf
    return Panel("gradient norm", (Series("norm", curve.x, y.tolist()),), log_scale=True)


def _overlay(count: int) -> Panel:
    runs = [_decay(10 + i, 2.4, 0.3 + 0.07 * i, noise=0.012, every=20) for i in range(count)]
    named = tuple(Series(f"run {chr(65 + i)} lr 3e-{i + 2}", r.x, r.y) for i, r in enumerate(runs))
    return Panel("validation loss", named, "nats", (Baseline("last week's model", 0.62),), better="lower")


def _used(cards: int) -> tuple[Panel, ...]:
    """What a run used over six hours: it was paused for half an hour and went on as another attempt."""
    rng = np.random.default_rng(21)
    x = np.linspace(0.02, 6.4, 220)
    paused, restarted = (x > 2.9) & (x < 3.4), (Mark(3.4, "attempt 2"),)
    warm = np.where(x < 3.4, x, x - 3.4) < 0.12

    def line(name: str, usual: float, noise: float, cold: float, *, digits: int = 2) -> Series:
        y = np.where(warm, cold, usual + rng.normal(0, noise, x.size)).round(digits)
        return Series(name, x.tolist(), np.where(paused, np.nan, y).tolist())

    busy = tuple(line(f"GPU {n}", 95 - 6 * n, 0.8, 2.0, digits=0) for n in range(cards))
    memory = tuple(line(f"GPU {n}", 61.5 - 5 * n, 0.12, 0.6) for n in range(cards))
    own = line("memory", 21.4, 0.3, 6.2)
    return (
        Panel("GPU busy", busy, "%", (), restarted, floor=0.0, ceiling=100.0),
        Panel("GPU memory", memory, "GiB", (Baseline("the card has", 79.6),), restarted, floor=0.0),
        Panel("processors", (line("cores", 6.3, 0.3, 1.1),), "cores", (), restarted, floor=0.0),
        Panel("memory", (own,), "GiB", (), restarted, floor=0.0),
    )


def _multiples(count: int) -> tuple[Panel, ...]:
    """What a training of a language model logs, as small multiples."""
    marks = (Mark(800, "checkpoint"), Mark(1900, "restart"))

    def lone(seed: int, title: str, start: float, end: float, *, unit: str = "", every: int = 60) -> Panel:
        curve = _decay(seed, start, end, noise=abs(end - start) * 0.01, every=every)
        return Panel(title, (Series("valid", curve.x, curve.y),), unit, better="higher" if end > start else "lower")

    names = (("calibration error", 0.31, 0.042), ("top-5 accuracy", 0.4, 0.97), ("F1 of billing", 0.2, 0.88))
    scores = (*(lone(30 + i, *name) for i, name in enumerate(names)), lone(35, "perplexity", 9.9, 1.58))
    memory = _decay(36, 4.0, 61.4, noise=0.3, every=20)
    held_out = _decay(39, 5.1, 2.2, noise=0.02, every=120)
    panels = (
        _loss(), _accuracy(), _rate(), _throughput(), _gradients(), scores[0],
        Panel("GPU memory", (replace(memory, name="gpu"),), "GiB", (Baseline("the card has", 79.6),)),
        *scores[1:],
        Panel("step time", (replace(_decay(37, 310, 214, noise=6), name="gpu"),), "ms"),
        Panel("loss of the auxiliary head", (_decay(38, 5.2, 1.9, noise=0.2), replace(held_out, name="valid"))),
    )  # fmt: skip
    return tuple(replace(panel, marks=marks) for panel in (*panels[: count - 1], panels[-1]))


def _compared(count: int) -> tuple[Panel, ...]:
    """The same runs in each panel; one run did not log everything."""
    runs = ("r-7f3k2m", "r-b81x0q", "r-c44d9z")

    def panel(number: int, title: str, end: float) -> Panel:
        found = [_decay(50 + 3 * number + i, 2.4, end + 0.06 * i, noise=0.01, every=30) for i in range(len(runs))]
        lines = tuple(Series(run, curve.x, curve.y) for run, curve in zip(runs, found, strict=True))
        return Panel(title, lines[1:2] if number == 3 else lines, better="lower")

    titles = ("train loss", "valid loss", "error of billing", "error of returns", "error of account", "test loss")
    return tuple(panel(i, title, 0.3 + 0.1 * i) for i, title in enumerate(titles[:count]))


def examples(theme: Theme) -> dict[str, ChartSpec]:
    """Charts by name, from one panel to twelve and from empty to crowded."""
    title, subtitle = "Ticket classifier", "run 7F3K · attempt 1 · step 2,400 of 4,000 · gpu-1"
    few = Panel("accuracy", (Series("valid", (1,), (0.62,)),), "", (Baseline("majority", 0.48),), better="higher")
    odd = Panel("損失 / خسارة / loss 🚀", (Series("基準", range(6), (1, 2, math.nan, 4, math.nan, 3)),))
    panels: dict[str, tuple[Panel, ...]] = {
        "one": (_loss(),),
        "two": (_loss(), _accuracy()),
        "three": (_loss(), _accuracy(), _throughput()),
        "four": (_loss(), _accuracy(), _rate(), _throughput()),
        "four-busy": (_overlay(4), _gradients(), _throughput(), _accuracy()),
        "six": _compared(6),
        "nine": _multiples(9),
        "twelve": _multiples(12),
        "overlay-eight": (_overlay(10),),
        "log": (_gradients(),),
        "smoothed": (replace(_loss(), smooth=0.6), replace(_accuracy(), smooth=0.6)),
        "first-point": (few,),
        "odd": (odd, Panel("nothing yet", ())),
    }
    used = {"gpus": _used(2)[:2], "usage": _used(1)}
    found = {name: ChartSpec(title, group, subtitle, theme=theme) for name, group in panels.items()}
    return found | {
        name: ChartSpec("r-7f3k2m · what it used", group, "ticket classifier · gpu-1", "hours", theme=theme)
        for name, group in used.items()
    }


_REAL = {"forecast": "forecast", "residuals": "residuals", "clusters": "wine-clusters", "detections": "detections"}


def real(theme: Theme) -> dict[str, PictureSpec]:
    """Pictures that a training has logged, by the names of those that look like them."""
    found = {}
    for name, file in _REAL.items():
        data = (Path(__file__).parent / f"real/{file}.json").read_text(encoding="utf-8")
        reported = Reported.model_validate(json.loads(data))
        subtitle = f"reported by train.py at step {reported.step}"
        found[name] = PictureSpec("examples/result_pictures.py", (reported.picture,), subtitle, theme)
    return found


# What the page says about each picture, in its order.
_CHARTS = {
    "one": "One metric: all values behind their mean, the best ringed, restarts and checkpoints marked.",
    "two": "Two metrics over one axis, with baselines to beat.",
    "four": "Four panels. A gap stays a gap, one wild value is marked at the edge and does not flatten the rest.",
    "six": "Small multiples of several runs: one legend for all, a run keeps its colour where it is alone.",
    "nine": "More than four panels: every column ends with its axis; marks are named at its top.",
    "twelve": "All metrics of a run on one sheet, at most twelve.",
    "overlay-eight": "Many runs over each other: colour and marker say the same; what is left out is said.",
    "log": "A log scale, an infinite value.",
    "smoothed": "Smoothed on request: the values stay faintly behind, labels and the best are theirs.",
    "gpus": "How busy GPUs are, from 0 to 100, and their memory below what the card has; a pause is a gap.",
    "usage": "Everything a run uses, by time; axes begin at zero.",
    "first-point": "The first value of a run.",
    "odd": "Names of other scripts, gaps, a metric without values.",
}
_RESULTS = {
    "matrix": "Confusion matrix: counts, shares of the row; right in blue, wrong in orange; recall and precision.",
    "matrix-large": "More than twenty classes: the most frequent, and the others as one.",
    "classifier": "Matrix, ROC, precision and recall, calibration on one sheet.",
    "scores": "Scores of each class from zero; a missing one is said.",
    "importance": "Importance with its spread; one input does harm.",
    "forecast": "A forecast with its interval, and what came; logged by a training script.",
    "residuals": "Residuals of a regression; logged by a training script.",
    "histograms": "Lengths of texts of two groups; one group as columns.",
    "regression": "Residuals with one far off; accuracy against cost with the front that nothing beats.",
    "clusters": "A map of clusters, named in place; logged by a training script.",
    "mistakes": "Samples as a table.",
    "samples": "Long texts side by side: below each other, so that they can be read on a phone.",
    "entities": "Sentences with what a model marked: right, wrong, and in dashes what it missed.",
    "progress": "Experiments in their order, the best so far as steps; crashed ones stand on the axis.",
    "tree": "Experiments below the one they came from.",
    "images": "Images a classifier was right or wrong about; a broken one is an empty frame.",
    "detections": "Boxes: found ones solid, true ones dashed; logged by a training script.",
}
_PAGE_PX = 800  # enough for half of a page, and small files
_HEAD = """# Gallery

Every kind of chart and picture of results, light and dark, as chats show them. Made by `make gallery` from made-up
data, and from what `examples/result_pictures.py` logged of real models; the sentence below each is the text that goes
with the picture for those who do not see it.
"""


def page(out: Path) -> None:
    """Write `gallery.md` and the pictures it shows into a folder."""
    (out / "gallery").mkdir(parents=True, exist_ok=True)
    for old in (out / "gallery").glob("*.png"):
        old.unlink()
    parts = [_HEAD]
    specs: dict[Theme, dict[str, ChartSpec | PictureSpec]] = {
        theme: {**examples(theme), **results(theme), **real(theme)} for theme in _THEMES
    }
    for title, texts in (("Curves", _CHARTS), ("Results", _RESULTS)):
        parts.append(f"\n## {title}\n")
        for name, text in texts.items():
            said = ""
            for theme in _THEMES:
                spec = replace(specs[theme][name], width_px=_PAGE_PX)
                (out / "gallery" / f"{name}-{theme}.png").write_bytes(render(spec))
                said = describe(spec)
            alts = {"light": escape(text), "dark": "The same on a dark ground."}
            pictures = [f'<img src="gallery/{name}-{theme}.png" width="49%" alt="{alts[theme]}">' for theme in _THEMES]
            parts.append(f"\n{text}\n\n" + "\n".join(pictures) + f"\n\n> {said}\n")
    (out / "gallery.md").write_text("".join(parts))


if __name__ == "__main__":
    page(Path(sys.argv[1]))
