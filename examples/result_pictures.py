"""Small real models on data that comes with scikit-learn, each with the picture that its kind of result wants.

    python examples/result_pictures.py        # writes pictures/*.json and metrics.jsonl into this folder

Shows what a training script of your own can log with `TrainingRuntime`: images of mistakes, residuals, a map of
clusters, a forecast with its interval, boxes of a detector, lengths and samples of a generator. Takes some 10 seconds
on one core; every part is seeded. In a run, the pictures stand in the chat while it trains (`results r-abc123`).
"""

import math
import random
from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_fscore_support
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from trainyard import TrainingRuntime

Floats = NDArray[np.float64]
PARTS = 6


def mistakes(rt: TrainingRuntime) -> float:
    """A linear classifier of handwritten digits: what it gets wrong, and what it takes for what."""
    data = load_digits()
    fit, held, fit_labels, labels, _, images = train_test_split(
        data.data, data.target, data.images, test_size=0.4, random_state=7, stratify=data.target
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01)).fit(fit, fit_labels)
    shares = model.predict_proba(held)
    said = shares.argmax(1)
    wrong = np.flatnonzero(said != labels)
    surest = wrong[np.argsort(-shares[wrong, said[wrong]])][:12]
    rt.log_images(
        "digit mistakes",
        [images[i] for i in surest],
        captions=[f"{labels[i]}, taken for {said[i]} ({shares[i, said[i]]:.0%} sure)" for i in surest],
        right=[False] * len(surest),
        title=f"The surest of {len(wrong)} mistakes on {len(labels)} digits",
    )
    names = [str(name) for name in data.target_names]
    rt.log_matrix("digit confusion", confusion_matrix(labels, said), rows=names, title="Digits, held out")
    precision, recall, f1, _ = precision_recall_fscore_support(labels, said)
    rt.log_bars("digit scores", names, {"precision": precision, "recall": recall}, most=1, title="Scores of each digit")
    return float(f1.mean())


def residuals(rt: TrainingRuntime) -> float:
    """A ridge regression of how diabetes went on a year later: where it is wrong, and by how much."""
    inputs, target = load_diabetes(return_X_y=True)
    said = cross_val_predict(make_pipeline(StandardScaler(), Ridge(alpha=10.0)), inputs, target, cv=10)
    left = target - said
    rt.log_scatter(
        "residuals",
        said,
        left,
        guide="zero",
        x_label="predicted progression",
        y_label="actual - predicted",
        title="Residuals, ten folds",
    )
    rt.log_histogram("residual sizes", np.abs(left), bins=24, x_label="how far off", unit="patients")
    return float(1 - (left**2).sum() / ((target - target.mean()) ** 2).sum())


def clusters(rt: TrainingRuntime) -> float:
    """Wines by what is dissolved in them, on the two axes along which they differ most."""
    data = load_wine()
    scaled = StandardScaler().fit_transform(data.data)
    found = KMeans(3, n_init=10, random_state=7).fit_predict(scaled)
    pca = PCA(2, random_state=7)
    place = pca.fit_transform(scaled)
    usual = {number: Counter(data.target[found == number]).most_common(1)[0][0] for number in range(3)}
    rt.log_scatter(
        "wine clusters",
        place[:, 0],
        place[:, 1],
        groups=[f"like cultivar {usual[number]}" for number in found],
        x_label=f"first component ({pca.explained_variance_ratio_[0]:.0%} of the variance)",
        y_label=f"second ({pca.explained_variance_ratio_[1]:.0%})",
        title="178 wines in three clusters",
    )
    return float(np.mean([usual[number] == true for number, true in zip(found, data.target, strict=True)]))


def mackey_glass(count: int, *, tau: int = 17) -> Floats:
    """A chaotic series (Mackey and Glass, Science 1977), one value a unit of time, by Euler steps of a tenth."""
    x = [1.2] * (10 * tau + 1)
    for _ in range(10 * (count + 100)):
        late = x[-1 - 10 * tau]
        x.append(x[-1] + 0.1 * (0.2 * late / (1 + late**10) - 0.1 * x[-1]))
    return np.array(x[-10 * count :: 10])


def forecast(rt: TrainingRuntime) -> float:
    """A linear model of the last 24 values, 40 ahead; its interval is how far off it was on values it had not seen."""
    series, lags, ahead = mackey_glass(1400), 24, 40
    rows = np.stack([series[i : i + lags] for i in range(900 - lags)])
    model = Ridge(alpha=1e-6).fit(rows, series[lags:900])

    def runs_on(last: Floats) -> Floats:
        known = list(last)
        for _ in range(ahead):
            known.append(float(model.predict(np.array(known[-lags:])[None])[0]))
        return np.array(known[lags:])

    starts = range(900, 1300)
    off = np.stack([series[i : i + ahead] - runs_on(series[i - lags : i]) for i in starts])
    low, high = np.quantile(off, [0.05, 0.95], axis=0)
    now = len(series) - ahead
    said = runs_on(series[now - lags : now])
    x = np.arange(now, len(series))
    rt.log_lines(
        "forecast",
        {
            "measured": {"x": np.arange(now - 80, len(series)), "y": series[now - 80 :]},
            "forecast, 90 %": {"x": x, "y": said, "low": said + low, "high": said + high},
        },
        since=now - 0.5,
        x_label="time",
        y_label="x",
        title="Mackey-Glass series, 40 ahead",
    )
    return float(np.abs(series[now:] - said).mean())


def scene(images: Floats, rng: np.random.Generator) -> tuple[Floats, list[tuple[int, int, int, int]]]:
    """Four digits and pieces of others over noise; and where the digits are."""
    dim = rng.uniform(0, 0.35, (48, 64))
    boxes: list[tuple[int, int, int, int]] = []
    while len(boxes) < 4:
        x, y = int(rng.integers(0, 56)), int(rng.integers(0, 40))
        if all(abs(x - left) > 9 or abs(y - top) > 9 for left, top, _, _ in boxes):
            digit = images[rng.integers(len(images))] * rng.uniform(0.7, 1)
            dim[y : y + 8, x : x + 8] = np.maximum(dim[y : y + 8, x : x + 8], digit)
            boxes.append((x, y, x + 8, y + 8))
    for _ in range(4):  # pieces of digits, which are none
        x, y, piece = (
            int(rng.integers(0, 60)),
            int(rng.integers(0, 44)),
            images[rng.integers(len(images)), 2:6, 2:6],
        )
        dim[y : y + 4, x : x + 4] = np.maximum(dim[y : y + 4, x : x + 4], piece)
    return dim, boxes


def detections(rt: TrainingRuntime) -> float:
    """Digits strewn over a dim scene, found by a classifier of digit or not that slides over it."""
    rng = np.random.default_rng(7)
    digits = load_digits().images / 16
    train, held = digits[:1200], digits[1200:]

    crops, is_digit = [], []
    for _ in range(60):
        image, boxes = scene(train, rng)
        for _ in range(40):
            x, y = int(rng.integers(0, 57)), int(rng.integers(0, 41))
            crops.append(image[y : y + 8, x : x + 8].ravel())
            is_digit.append(any(abs(x - left) + abs(y - top) <= 1 for left, top, _, _ in boxes))
        for left, top, right, bottom in boxes:
            crops.append(image[top:bottom, left:right].ravel())
            is_digit.append(True)
    model = make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=300)).fit(np.array(crops), is_digit)
    shown, hits, scores = [], [], []
    for _ in range(4):
        image, boxes = scene(held, rng)
        spots = [(x, y) for y in range(41) for x in range(57)]
        sure = model.predict_proba(np.array([image[y : y + 8, x : x + 8].ravel() for x, y in spots]))[:, 1]
        found: list[tuple[int, int, float]] = []
        for at in np.argsort(-sure):
            x, y = spots[at]
            if sure[at] > 0.7 and all(abs(x - a) > 6 or abs(y - b) > 6 for a, b, _ in found):
                found.append((x, y, float(sure[at])))
                hits.append(any(abs(x - left) <= 2 and abs(y - top) <= 2 for left, top, _, _ in boxes))
                scores.append(float(sure[at]))
        truth = [{"box": box, "truth": True} for box in boxes]
        shown.append((image, [{"box": (x, y, x + 8, y + 8), "score": p} for x, y, p in found] + truth))
    rt.log_images(
        "detections",
        [image for image, _ in shown],
        boxes=[boxes for _, boxes in shown],
        captions=[f"{sum('score' in box for box in boxes)} found, 4 there" for _, boxes in shown],
        title="Digits in scenes it has not seen",
    )
    return float(average_precision_score(hits, scores))


def samples(rt: TrainingRuntime) -> float:
    """A generator of text, letter by letter, from the descriptions of these data sets."""
    order, rng = 6, random.Random(7)
    texts = [" ".join(load().DESCR.split()) for load in (load_digits, load_diabetes, load_wine, load_iris)]
    follows: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for i in range(order, len(text)):
            follows[text[i - order : i]][text[i]] += 1
    rows, sure = [], []
    for prompt in ("The data set", "This is a copy", "Number of ", "features are"):
        text, total = prompt, 0.0
        while len(text) < 160 and (known := follows.get(text[-order:])):
            letter = rng.choices(list(known), list(known.values()))[0]
            total += math.log2(sum(known.values()) / known[letter])
            text += letter
        sure.append(total / max(1, len(text) - len(prompt)))
        rows.append((prompt, text[len(prompt) :], f"{sure[-1]:.2f}"))
    rt.log_table("samples", ["prompt", "goes on", "bits a letter"], rows, title=f"Samples, order {order}")
    words = {
        name: [len(word) for word in text.split()] for name, text in zip(("digits", "diabetes"), texts, strict=False)
    }
    rt.log_histogram("word lengths", words, unit="words", x_label="letters", title="Length of words")
    return sum(sure) / len(sure)


def main() -> None:
    """Train each, log its picture and one number of it."""
    rt = TrainingRuntime()
    rt.start("six small models", total_steps=PARTS)
    parts = (mistakes, residuals, clusters, forecast, detections, samples)
    names = ("digits_f1", "diabetes_r2", "wine_purity", "forecast_error", "detection_ap", "bits_a_letter")
    for step, (part, name) in enumerate(zip(parts, names, strict=True), 1):
        rt.log_metrics(step=step)
        reached = part(rt)
        rt.log_metrics(step=step, **{name: reached})
        rt.log(f"{name}: {reached:.3f}")
    rt.finish()


main()
