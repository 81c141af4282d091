"""Results that look like real ones, for the gallery and for tests. Seeded, so only the look can change."""

import functools
import io
import math

import numpy as np
from PIL import Image

from agent.domain.charts import Theme
from agent.domain.pictures import (
    BarGroup,
    Bars,
    Box,
    Histogram,
    Images,
    Line,
    Lines,
    Matrix,
    Passage,
    PictureSpec,
    Points,
    Progress,
    ResultPicture,
    Scatter,
    Span,
    Table,
    Texts,
    Tile,
    Tree,
    Trial,
    TrialState,
)


def confusion(names: tuple[str, ...], *, seed: int = 1, size: int = 320) -> Matrix:
    """Mostly right; neighbours are taken for each other."""
    rng = np.random.default_rng(seed)
    count = len(names)
    rows = []
    for i in range(count):
        shares = np.array([0.3 ** abs(i - j) * rng.uniform(0.1, 0.7) if j != i else 3.2 for j in range(count)])
        rows.append(tuple(float(n) for n in rng.multinomial(int(size * rng.uniform(0.3, 1.3)), shares / shares.sum())))
    return Matrix("Confusion matrix", names, names, tuple(rows))


def roc() -> Lines:
    """The model and what it has to beat."""
    x = np.linspace(0, 1, 200)
    lines = (
        Line("model", x.tolist(), (x ** (1 / 6)).tolist(), "AUC 0.91"),
        Line("linear", x.tolist(), (x ** (1 / 3)).tolist(), "AUC 0.78"),
    )
    return Lines("ROC", lines, "false positive rate", "true positive rate", (0.0, 1.0), (0.0, 1.0), "rising")


def precision_recall() -> Lines:
    """Precision falls as recall rises."""
    x = np.linspace(1, 0, 200)
    model, linear = 1 - 0.72 * x**5, 0.95 - 0.67 * x**1.6
    lines = (
        Line("model", x.tolist(), model.tolist(), "AP 0.88"),
        Line("linear", x.tolist(), linear.tolist(), "AP 0.69"),
    )
    return Lines("Precision and recall", lines, "recall", "precision", (0.0, 1.0), (0.0, 1.0))


def calibration() -> Lines:
    """A model that is too sure of itself."""
    x = np.linspace(0.05, 0.95, 10)
    y = 1 / (1 + np.exp(-3.1 * (x - 0.5) / 0.62))
    lines = (Line("model", x.tolist(), y.tolist(), "ECE 0.041", dots=True),)
    return Lines("Calibration", lines, "said probability", "share that is true", (0.0, 1.0), (0.0, 1.0), "rising")


def forecast() -> Lines:
    """Hourly demand, and two days beyond what is known."""
    rng = np.random.default_rng(5)
    hours = np.arange(0, 216.0)
    daily = 420 + 130 * np.sin((hours - 7) / 24 * 2 * math.pi) + 0.4 * hours
    seen = daily[:168] + rng.normal(0, 22, 168)
    ahead, guess = hours[167:], daily[167:] + 6
    half = 20 + 3.2 * np.sqrt(ahead - 167) * 3
    actual = daily[167:] + rng.normal(0, 20, ahead.size)
    lines = (
        Line("actual", np.append(hours[:168], ahead).tolist(), np.append(seen, actual).tolist()),
        Line("forecast", ahead.tolist(), guess.tolist(), "", (guess - half).tolist(), (guess + half).tolist()),
    )
    moments = [f"{1 + hour // 24} June {hour % 24:02}:00" for hour in range(216)]
    return Lines("Demand, 48 hours ahead", lines, "", "MW", since=167.0, moments=moments)


def importance() -> Bars:
    """What the model looks at; one input that harms it."""
    names = (
        "title (words)",
        "days since last purchase",
        "country",
        "device",
        "price",
        "session length",
        "weekday",
    )
    values = (0.312, 0.187, 0.094, 0.061, 0.038, 0.012, -0.006)
    return Bars(
        "Importance", names, (BarGroup("model", values, (0.02, 0.014, 0.01, 0.009, 0.006, 0.004, 0.004)),), "loss"
    )


def class_scores() -> Bars:
    """Three scores a class."""
    names = ("billing", "delivery", "returns", "account", "other")
    groups = (
        BarGroup("precision", (0.94, 0.88, 0.81, 0.9, math.nan)),
        BarGroup("recall", (0.91, 0.93, 0.74, 0.86, 0.0)),
        BarGroup("F1", (0.925, 0.904, 0.773, 0.88, 0.0)),
    )
    return Bars("Scores of each class", names, groups, most=1.0)


def lengths() -> Histogram:
    """Long-tailed, as texts are."""
    rng = np.random.default_rng(8)
    edges = np.linspace(0, 512, 33)
    train, test = (np.histogram(np.clip(rng.lognormal(4.6, 0.55, n), 0, 511), edges)[0] for n in (6000, 1800))
    groups = (BarGroup("train", train.tolist()), BarGroup("test", test.tolist()))
    return Histogram("Length of texts", tuple(edges.tolist()), groups, "tokens", "rows")


def confidences() -> Histogram:
    """One group."""
    rng = np.random.default_rng(9)
    edges = np.linspace(0, 1, 21)
    counts = np.histogram(rng.beta(5, 1.2, 1204), edges)[0]
    group = BarGroup("rows", counts.tolist())
    return Histogram("How sure it was", tuple(edges.tolist()), (group,), "probability", "rows")


def residuals() -> Scatter:
    """Wider for larger values, and one that is far off."""
    rng = np.random.default_rng(10)
    x = rng.uniform(20, 420, 900)
    y = rng.normal(0, 4 + x * 0.05)
    y[5] = 900
    return Scatter("Residuals", (Points("", x.tolist(), y.tolist()),), "predicted price", "actual - predicted", "zero")


def clusters() -> Scatter:
    """Four groups, two of which touch."""
    rng = np.random.default_rng(11)
    middles = {"billing": (-6, 3), "delivery": (4, 5), "returns": (5.5, -2), "account": (-2, -5)}
    groups = []
    for name, (x, y) in middles.items():
        xs, ys = rng.normal(x, 1.5, 240), rng.normal(y, 1.2, 240)
        groups.append(Points(name, xs.tolist(), ys.tolist()))
    return Scatter("Map of tickets", tuple(groups), "", "")


def pareto() -> Scatter:
    """What accuracy costs."""
    rng = np.random.default_rng(12)
    cost = rng.uniform(0.4, 9, 40)
    reached = 0.93 - 0.25 * np.exp(-cost / 2.2) - rng.exponential(0.03, 40)
    order = np.argsort(cost)
    best = np.maximum.accumulate(reached[order])
    front = order[reached[order] >= best]
    rest = np.setdiff1d(order, front)
    names = [f"#{i + 1}" for i in front]
    groups = (
        Points("front", cost[front].tolist(), reached[front].tolist(), names),
        Points("others", cost[rest].tolist(), reached[rest].tolist()),
    )
    return Scatter("Accuracy against cost", groups, "GPU hours", "accuracy", front="front")


def mistakes() -> Table:
    """What the model got wrong."""
    rows = (
        (
            "Where is my parcel? It was due on Monday and has not moved since.",
            "delivery",
            "returns",
            "0.71",
        ),
        ("I was charged twice for the same order, please refund one.", "billing", "returns", "0.64"),
        ("Cannot log in after changing my e-mail address", "account", "account", "0.98"),
        ("The jacket is too small, how do I get the larger one instead of the money?", "returns", "delivery", "0.52"),
    )
    return Table("Samples", ("text", "true", "predicted", "p"), rows, ("bad", "bad", "good", "bad"))


def _search(count: int, *, seed: int = 13) -> tuple[Trial, ...]:
    """A search that gets better in steps; some trials crash, one still runs."""
    rng = np.random.default_rng(seed)
    ideas = (
        "wider layer",
        "dropout 0.2",
        "cosine schedule",
        "longer texts",
        "class weights",
        "char n-grams",
        "lr 3e-4",
    )
    best, parent, found = 0.71, None, list[Trial]()
    for number in range(1, count + 1):
        value = best + float(rng.normal(-0.012, 0.016)) if number > 1 else best
        state: TrialState = "kept" if value > best or number == 1 else "discarded"
        if rng.random() < 0.1 and number > 1:
            value, state = math.nan, "crashed"
        name = "baseline" if number == 1 else ideas[int(rng.integers(len(ideas)))]
        found.append(Trial(number, value, state, name, parent, float(rng.uniform(0.2, 3))))
        if state == "kept":
            best, parent = value, number
    return (*found, Trial(count + 1, math.nan, "running", ideas[0], parent))


def progress(count: int = 48) -> Progress:
    """Best so far."""
    return Progress("Search", _search(count), "higher", "validation accuracy")


def tree(count: int = 22) -> Tree:
    """Where each experiment came from."""
    return Tree("Experiments", _search(count), "higher", "validation accuracy")


@functools.cache
def _drawing(seed: int, wide: int = 320, high: int = 240) -> tuple[bytes, tuple[float, float, float, float]]:
    """A made-up photo: sky, ground and a ball; and where the ball is."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:high, 0:wide] / np.array([high, wide]).reshape(2, 1, 1)
    sky = np.stack([120 + 80 * y, 160 + 60 * y, 230 - 20 * y], axis=-1)
    earth = np.stack([90 + 60 * y, 130 - 30 * y, 60 + 0 * y], axis=-1)
    pixels = np.where((y > 0.62 + 0.05 * np.sin(9 * x + seed))[..., None], earth, sky)
    cx, cy, radius = rng.uniform(0.3, 0.7), rng.uniform(0.35, 0.6), rng.uniform(0.1, 0.18)
    distance = np.hypot((x - cx) * wide / high, y - cy) / radius
    colour = np.array([(214, 69, 65), (240, 190, 60), (120, 80, 190)][seed % 3], dtype=float)
    shade = (1.15 - 0.6 * np.clip(distance, 0, 1))[..., None] * colour
    pixels = np.where((distance < 1)[..., None], shade, pixels) + rng.normal(0, 1.2, (high, wide, 1))
    out = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(out, "PNG")
    across = radius * high / wide
    return out.getvalue(), (cx - across, cy - radius, cx + across, cy + radius)


def wrong_images() -> Images:
    """What a classifier took for something else."""
    captions = (
        "red, not violet (0.81)",
        "yellow, not red (0.77)",
        "violet (0.99)",
        "red (0.98)",
        "yellow, not violet (0.6)",
    )
    rights = (False, False, True, True, False)
    tiles = [Tile(_drawing(i)[0], text, right) for i, (text, right) in enumerate(zip(captions, rights, strict=True))]
    return Images("Mistakes", (*tiles, Tile(b"no image", "lost on the way", None)))


def detections() -> Images:
    """What a detector found, and what is there."""
    tiles = []
    for i in range(4):
        data, (left, top, right, bottom) = _drawing(20 + i)
        truth = Box("ball", left, top, right, bottom, truth=True)
        found = Box("ball", left - 0.02, top + 0.03, right + 0.04, bottom + 0.02, score=0.93 - 0.1 * i)
        false = Box("bird", 0.06, 0.08, 0.2, 0.22, score=0.41)
        tiles.append(Tile(data, f"IoU {0.86 - 0.06 * i:.2f}", None, (truth, found) if i else (truth, found, false)))
    return Images("Detections", tuple(tiles))


def entities() -> Texts:
    """What a tagger found in sentences: right ones, wrong ones, and one it missed."""

    def passage(text: str, found: dict[str, str], there: dict[str, str], caption: str) -> Passage:
        marked = [(text.index(words), words, name, truth) for of, truth in ((found, False), (there, True))
                  for words, name in of.items()]  # fmt: skip
        spans = tuple(Span(at, at + len(words), name, truth) for at, words, name, truth in marked)
        return Passage(text, spans, caption, found == there)

    first = {"Ada Lovelace": "person", "London": "place", "Analytical Engine": "work"}
    return Texts("Entities", (
        passage(
            "Ada Lovelace was born in London and wrote the first program for the Analytical Engine.",
            first, first, "row 17",
        ),
        passage(
            "In 1969 Margaret Hamilton led the team at MIT that wrote the flight software of Apollo 11, which NASA had "
            "ordered eight years before.",
            {"Margaret Hamilton": "person", "MIT": "place", "Apollo": "work", "NASA": "organisation"},
            {"Margaret Hamilton": "person", "MIT": "organisation", "Apollo 11": "work", "NASA": "organisation"},
            "row 203",
        ),
        passage(
            "東京の大学で山田太郎が発表した。", {"東京": "place"}, {"東京": "place", "山田太郎": "person"}, "row 340"
        ),
    ))  # fmt: skip


def summaries() -> Table:
    """Texts side by side: what was given, and what was made of it."""
    rows = (
        (
            "The council agreed on Tuesday to close the northern bridge for eight months from March while its bearings "
            "are replaced, sending lorries over a forty kilometre detour that shop owners fear will cost them a third "
            "of their trade.",
            "The council agreed on Tuesday to close the northern bridge for eight months from March while its bearings "
            "are replaced,",
            "The northern bridge closes for eight months from March; shops fear losing a third of their trade.",
            "Northern bridge to close for eight months; businesses warn of losses.",
        ),
        (
            "A teenager who taught herself to code during a stay in hospital has won a national prize for an app which "
            "tells patients in plain words what their test results mean.",
            "A teenager who taught herself to code during a stay in hospital has won a national prize",
            "A teenager won a hospital for an app that explains test results.",
            "Self-taught teenager wins award for app explaining hospital results.",
        ),
    )
    return Table("Summaries", ("text", "baseline", "this model", "reference"), rows, ("good", "bad"))


_TOPICS = (
    "numpy", "scipy", "pandas", "matplotlib", "keras", "pytorch", "sklearn", "django", "flask", "fastapi", "celery",
    "redis", "postgres", "sqlite", "docker", "kubernetes", "ansible", "terraform", "linux", "bash", "git", "ssh",
    "nginx", "haproxy", "rust",
)  # fmt: skip


def results(theme: Theme, width_px: int = 1200) -> dict[str, PictureSpec]:
    """Sheets by name: every kind of picture, alone or as a task shows them together."""
    subtitle = "run 7F3K · measured on 1,204 sealed rows"
    few = confusion(("billing", "delivery", "returns", "account"))
    two = confusion(("no", "yes"), seed=4)
    sheets: dict[str, tuple[ResultPicture, ...]] = {
        "matrix": (few,),
        "matrix-large": (confusion(_TOPICS, seed=2),),
        "classifier": (two, roc(), precision_recall(), calibration()),
        "roc": (roc(),),
        "scores": (class_scores(),),
        "importance": (importance(),),
        "importance-scores": (importance(), class_scores()),
        "forecast": (forecast(),),
        "lengths": (lengths(),),
        "histograms": (lengths(), confidences()),
        "residuals": (residuals(),),
        "clusters": (clusters(),),
        "regression": (residuals(), pareto()),
        "pareto": (pareto(),),
        "mistakes": (mistakes(),),
        "samples": (summaries(),),
        "entities": (entities(),),
        "progress": (progress(),),
        "tree": (tree(),),
        "images": (wrong_images(),),
        "detections": (detections(),),
    }
    return {name: PictureSpec("Ticket classifier", group, subtitle, theme, width_px) for name, group in sheets.items()}
