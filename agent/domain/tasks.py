"""The task types: one record each, which everything reads that names a task type. Pure.

A new task type is a record here, a folder `worker/recipes/<name>/`, tests and docs. What a recipe does stands in its
folder; what people and planners have to know about it stands here.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from agent.domain.value import Value

Direction = Literal["lower", "higher"]


class Answer(StrEnum):
    """What a model of a task type answers for one row, text or image."""

    LABEL = "label"
    NUMBER = "number"
    TEXT = "text"
    SPANS = "spans"
    BOXES = "boxes"
    SERIES = "series"
    CLUSTER = "cluster"


class Metric(Value):
    """A metric that decides between models, as the evaluation names it, as people write it, and which way is better."""

    name: str
    label: str
    better: Direction = "higher"


class Pace(Value):
    """How long a training takes on two cores: seconds, and seconds for each row, and for each cell of the data.

    `on_gpu` is the part of the time for rows that a GPU needs.
    """

    base_s: float
    row_s: float = 0.0
    cell_s: float = 0.0
    on_gpu: float = 1.0


class Task(Value):
    """One task type.

    `metrics` are those that may decide; the data say which (two classes or more), the first is the usual one.
    `data` is what it learns from, `finds_target` that its recipe finds the column to learn by itself, so that only a
    quoted one is another, `needs_text` that one column holds the text. `unit` is what one step of its training is.
    `uses_gpu`: it is quicker on a GPU, and gets one where one is free. `warm` names the sets of libraries that its
    training starts from (`worker.warm`). `stages` are the steps that an approval card lists. `words` are the phrases,
    in lower case, by which people ask for it. `own_split` says how the test part is taken where people cannot choose
    that, with `{frac}` for its share.
    """

    name: str
    label: str
    data: Literal["table", "images"]
    answer: Answer
    metrics: tuple[Metric, ...] = Field(min_length=1)
    unit: str = "step"
    needs_target: bool = True
    finds_target: bool = False
    needs_text: bool = False
    uses_gpu: bool = False
    warm: tuple[str, ...] = ()
    stages: tuple[str, ...]
    pace: Pace
    words: tuple[str, ...] = ()
    own_split: str = ""

    @property
    def asks_for_target(self) -> bool:
        """Whether a request has to say what is predicted."""
        return self.needs_target and not self.finds_target


# "cluster these rows", "find clusters", "into 5 segments": who predicts a column of clusters says none of these.
CLUSTERED = (
    r"(?:k ?= ?\d+|group (?:the|my|our|these|all|them|it)(?! by)"
    r"|\d+ (?:clusters|segments)|(?:into|in|find|form|make|out) \d+ groups|groups? by similarity|similar \w+ together"
    r"|by similarity|k-?means|hdbscan|gaussian mixtures?"
    r"|(?:cluster|segment) (?:this|these|those|the|my|our|it|them|all|into|data|rows|[\w-]+\.\w+|\w+ers)"
    r"|(?:find|discover|into|in|natural) (?:the |any |similar |natural |\d+ )*(?:clusters|segments|groups)"
    r"|group (?:similar|(?:this|these|those|the|my|our|all) \w+ (?:by similarity|together)))"
)
# "find entities", "a named entity recogniser", "a part-of-speech tagger": who predicts a column of tags says none.
_TAGGED = (
    r"(?:token classif\w+|(?:named )?entit(?:y|ies)|ner|(?:part[- ]of[- ]speech|pos|word|sequence) tagg\w+|tagger)"
)
_SPLIT = "Split off a sealed test part that training never sees"
_SPLIT_TEXTS = f"{_SPLIT}; equal texts stay on one side"
_KEEP = "Keep whichever is better on the validation part, and measure it once on the sealed part"
_CLASSES = (Metric(name="roc_auc", label="ROC AUC"), Metric(name="macro_f1", label="macro F1"))

TASKS: Final[dict[str, Task]] = {
    task.name: task
    for task in (
        Task(
            name="tabular_classification",
            label="tabular classification",
            data="table",
            answer=Answer.LABEL,
            metrics=_CLASSES,
            unit="boosting round",
            warm=("tabular",),
            stages=(
                _SPLIT,
                "Train the baselines: majority class, logistic regression",
                "Train LightGBM with early stopping on a validation part",
                _KEEP,
            ),
            # Source of the paces: fitted to the files in `examples/` on 2 cores, meant within a factor of three.
            pace=Pace(base_s=8.0, cell_s=2.5e-5),
        ),
        Task(
            name="tabular_regression",
            label="tabular regression",
            data="table",
            answer=Answer.NUMBER,
            metrics=(Metric(name="rmse", label="RMSE", better="lower"),),
            unit="boosting round",
            warm=("tabular",),
            stages=(
                _SPLIT,
                "Train the baselines: mean, ridge regression",
                "Train LightGBM with early stopping on a validation part",
                _KEEP,
            ),
            pace=Pace(base_s=8.0, cell_s=2.5e-5),
            words=("regression", "regressor"),
        ),
        Task(
            name="text_classification",
            label="text classification",
            data="table",
            answer=Answer.LABEL,
            metrics=_CLASSES,
            needs_text=True,
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                _SPLIT,
                "Train the baselines: majority class, TF-IDF with logistic regression",
                "Train a transformer encoder",
                _KEEP,
            ),
            # The part of the time that a GPU takes is an assumption.
            pace=Pace(base_s=25.0, row_s=0.02, on_gpu=1 / 20),
            words=("text", "bert", "transformer", "encoder"),
        ),
        Task(
            name="token_classification",
            label="token classification",
            data="table",
            answer=Answer.SPANS,
            finds_target=True,
            metrics=(Metric(name="span_f1", label="span F1"),),
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                "Split off a sealed test part of whole sentences, equal ones on one side",
                "Count the baseline: the most frequent tag of each word",
                "Train a transformer encoder with a tag for each word",
                _KEEP,
            ),
            pace=Pace(base_s=25.0, row_s=0.004, on_gpu=1 / 20),
            words=(_TAGGED, "entitäten|entités|entidades|实体"),
        ),
        Task(
            name="time_series_forecasting",
            label="time series forecasting",
            data="table",
            answer=Answer.SERIES,
            metrics=(Metric(name="mase", label="MASE", better="lower"),),
            unit="window of a method",
            warm=("tabular",),
            stages=(
                "Seal the last steps of each series, which training never sees",
                "Forecast with the baselines: last value, seasonal naive",
                "Try ETS, ARIMA and LightGBM with lags by rolling origin",
                "Keep the simplest of the best, and measure it once on the sealed steps",
            ),
            own_split="the last steps of each series",
            pace=Pace(base_s=15.0, row_s=0.004),
            words=("forecast", "forecasting", "forecasts", "time series", "zeitreihe", "série temporelle", "时间序列"),
        ),
        Task(
            name="text_generation",
            label="text generation",
            data="table",
            answer=Answer.TEXT,
            finds_target=True,
            metrics=(Metric(name="bits_per_byte", label="bits per byte", better="lower"),),
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                "Split off sealed texts (of one text its end) that training never sees",
                "Measure the baselines on them: LZMA, zlib, byte n-grams",
                "Train a causal language model",
                "Measure it once on the sealed texts, by an evaluator that alone has them",
            ),
            own_split="{frac}, of one text its end",
            pace=Pace(base_s=40.0, row_s=1.4, on_gpu=1 / 20),
            words=(
                "language model",
                "text generation",
                "text generator",
                "generate text",
                "generates text",
                "gpt",
                "sprachmodell",
                "语言模型",
            ),
        ),
        Task(
            name="llm_finetuning",
            label="LLM fine-tuning",
            data="table",
            answer=Answer.TEXT,
            finds_target=True,
            metrics=(
                Metric(name="bits_per_byte", label="bits per byte", better="lower"),
                Metric(name="preference_accuracy", label="preference accuracy"),
                Metric(name="answer_accuracy", label="answers right"),
            ),
            needs_text=True,
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                "Split off sealed conversations that training never sees",
                "Measure the baseline: the base model as it is",
                "Train a LoRA adapter on the answers (SFT), on preferences (DPO) or by rewards (GRPO)",
                "Measure base and adapter once on the sealed part, by an evaluator that alone has it",
            ),
            pace=Pace(base_s=60.0, row_s=0.3, on_gpu=1 / 20),
            words=("llm", "lora", "qlora", "sft", "dpo", "grpo", "instruction tuning", "chat model", "chatbot"),
        ),
        Task(
            name="summarization",
            label="summarization",
            data="table",
            answer=Answer.TEXT,
            finds_target=True,
            metrics=(Metric(name="rouge_l", label="ROUGE-L"),),
            needs_text=True,
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                _SPLIT_TEXTS,
                "Measure the baseline: the first sentences of each text",
                "Train a sequence-to-sequence network",
                _KEEP,
            ),
            pace=Pace(base_s=40.0, row_s=0.5, on_gpu=1 / 20),
            words=(
                "summarize",
                "summarise",
                "summarizes",
                "summarises",
                "summarizer",
                "summariser",
                "summarization",
                "summarisation",
                "summary",
                "summaries",
                r"tl;?dr|zusammenfass\w*|résum\w+|resumen|resumir|resúmenes|摘要|总结",
            ),
        ),
        Task(
            name="translation",
            label="translation",
            data="table",
            answer=Answer.TEXT,
            finds_target=True,
            metrics=(Metric(name="chrf", label="chrF"),),
            needs_text=True,
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                _SPLIT_TEXTS,
                "Measure the baselines: a copy, a learned dictionary",
                "Train a sequence-to-sequence network",
                _KEEP,
            ),
            pace=Pace(base_s=40.0, row_s=0.25, on_gpu=1 / 20),
            words=(
                "translate",
                "translates",
                "translating",
                "translation",
                "translations",
                "translator",
                r"übersetz\w*|tradu\w+|翻译",
            ),
        ),
        Task(
            name="image_classification",
            label="image classification",
            data="images",
            answer=Answer.LABEL,
            metrics=_CLASSES,
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                _SPLIT,
                "Train the baselines: majority class, logistic regression on pixels",
                "Train a network",
                _KEEP,
            ),
            pace=Pace(base_s=25.0, row_s=0.06, on_gpu=1 / 20),
        ),
        Task(
            name="image_regression",
            label="image regression",
            data="images",
            answer=Answer.NUMBER,
            metrics=(Metric(name="rmse", label="RMSE", better="lower"),),
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                _SPLIT,
                "Train the baselines: mean, ridge regression on pixels",
                "Train a network",
                _KEEP,
            ),
            pace=Pace(base_s=25.0, row_s=0.06, on_gpu=1 / 20),
        ),
        Task(
            name="object_detection",
            label="object detection",
            data="images",
            answer=Answer.BOXES,
            finds_target=True,
            metrics=(Metric(name="map", label="mAP"),),
            uses_gpu=True,
            warm=("transformers",),
            stages=(
                _SPLIT,
                "Count the baseline: the mean box of each label",
                "Train a detector",
                _KEEP,
            ),
            pace=Pace(base_s=25.0, row_s=0.3, on_gpu=1 / 20),
            words=(r"object detect\w+", "detects? (?:the )?objects", "bounding box(?:es)?", "boxes around", "目标检测"),
        ),
        Task(
            name="clustering",
            label="clustering",
            data="table",
            answer=Answer.CLUSTER,
            metrics=(Metric(name="silhouette", label="silhouette"),),
            unit="candidate",
            needs_target=False,
            warm=("tabular",),
            stages=(
                "Split off a sealed test part, and with it the known groups where a column has some",
                "Cluster with the baselines: random groups, k-means",
                "Try Gaussian mixtures, Ward and HDBSCAN; k by silhouette, BIC and stability on resamples",
                "Keep the simplest of the best, and measure it once on the sealed part",
            ),
            own_split="{frac}",
            pace=Pace(base_s=5.0, row_s=0.012, cell_s=5e-5),
            words=(
                "clustering",
                CLUSTERED,
                r"agr[uú]pa\w*|cluster(?:e|n)|segmentier\w*|(?:en|in|dans|auf) \d+ (?:groups|segments)"
                r"|\w*segmentierung|\w*segmente|customer segments|segments? des?|segmentos? de"
                r"|segmentation|segmentaci[oó]n"
                r"|聚类|聚一下类|分[个几成一下]*[群组]"
                r"|分[成为]",
            ),
        ),
    )
}


def _known(name: str) -> str:
    if name not in TASKS:
        raise ValueError(f"there is no task type {name!r}; the task types are {', '.join(TASKS)}")
    return name


TaskType = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(TASKS)})]


_OTHERS: Final = {
    **{name: name.upper() for name in ("rmse", "mae", "mse", "ari", "nmi", "wql")},
    "r2": "R²",
    "smape": "sMAPE",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "bleu": "BLEU",
    "map50": "mAP50",
}
_ACRONYMS: Final = frozenset({"ets", "arima", "tfidf", "gmm", "hdbscan", "lightgbm"})


def metric_label(name: str) -> str:
    """A metric as people write it."""
    known = {metric.name: metric.label for task in TASKS.values() for metric in task.metrics}
    return known.get(name) or _OTHERS.get(name) or name.replace("_", " ")


def candidate_label(name: str) -> str:
    """A candidate of a run, such as `seasonal_naive`, as people write it."""
    known = {"tfidf": "TF-IDF", "lightgbm": "LightGBM"}
    words = name.split("_")
    return " ".join(known.get(word, word.upper()) if word in _ACRONYMS else word for word in words)
