"""Results that look like real ones, for the gallery and for tests. Seeded, so only the look can change."""

import math

import numpy as np

from agent.domain.charts import Theme
from agent.domain.pictures import BarGroup, Bars, Line, Matrix, PictureSpec, Plane, ResultPicture


def confusion(names: tuple[str, ...], *, seed: int = 1, size: int = 320) -> Matrix:
    """Mostly right; neighbours are taken for each other."""
    rng = np.random.default_rng(seed)
    count = len(names)
    rows = []
    for i in range(count):
        shares = np.array([0.3 ** abs(i - j) * rng.uniform(0.1, 0.7) if j != i else 3.2 for j in range(count)])
        rows.append(tuple(float(n) for n in rng.multinomial(int(size * rng.uniform(0.3, 1.3)), shares / shares.sum())))
    return Matrix("Confusion matrix", names, names, tuple(rows))


def roc() -> Plane:
    """The model and what it has to beat."""
    x = np.linspace(0, 1, 200)
    lines = (
        Line("model", x.tolist(), (x ** (1 / 6)).tolist(), "AUC 0.91"),
        Line("linear", x.tolist(), (x ** (1 / 3)).tolist(), "AUC 0.78"),
    )
    return Plane("ROC", lines, "false positive rate", "true positive rate", (0.0, 1.0), (0.0, 1.0), "rising")


def precision_recall() -> Plane:
    """Precision falls as recall rises."""
    x = np.linspace(1, 0, 200)
    model, linear = 1 - 0.72 * x**5, 0.95 - 0.67 * x**1.6
    lines = (
        Line("model", x.tolist(), model.tolist(), "AP 0.88"),
        Line("linear", x.tolist(), linear.tolist(), "AP 0.69"),
    )
    return Plane("Precision and recall", lines, "recall", "precision", (0.0, 1.0), (0.0, 1.0))


def calibration() -> Plane:
    """A model that is too sure of itself."""
    x = np.linspace(0.05, 0.95, 10)
    y = 1 / (1 + np.exp(-3.1 * (x - 0.5) / 0.62))
    lines = (Line("model", x.tolist(), y.tolist(), "ECE 0.041", dots=True),)
    return Plane("Calibration", lines, "said probability", "share that is true", (0.0, 1.0), (0.0, 1.0), "rising")


def forecast() -> Plane:
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
    return Plane("Demand, 48 hours ahead", lines, "hour", "MW", since=167.0)


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
    }
    return {name: PictureSpec("Ticket classifier", group, subtitle, theme, width_px) for name, group in sheets.items()}
