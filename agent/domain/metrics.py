"""Which way a metric is better, by the words of its name. The one table of known names; pure.

What the evaluator of a run says of its decisive metric goes before it. A name that is not known has no better way.
"""

import re
from typing import Final, Literal

Direction = Literal["", "lower", "higher"]

_WORD: Final = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*(?![a-z])|\d+")  # of `valLoss`, `ROC_AUC`, `mAP50-95`, `r2`
_LOWER: Final = frozenset({
    "loss", "logloss", "error", "err", "mse", "rmse", "msle", "rmsle", "mae", "mape", "smape", "mase", "perplexity",
    "ppl", "nll", "deviance", "brier", "hinge", "crossentropy", "wer", "cer", "ter", "eer", "ece", "fid", "bpb",
    "bpc", "lpips",
})  # fmt: skip
_HIGHER: Final = frozenset({
    "accuracy", "acc", "auc", "auroc", "auprc", "prauc", "rocauc", "ap", "map", "iou", "miou", "dice", "jaccard",
    "f1", "fbeta", "precision", "recall", "sensitivity", "specificity", "r2", "bleu", "sacrebleu", "rouge",
    "meteor", "chrf", "bertscore", "ndcg", "mrr", "mcc", "kappa", "psnr", "ssim", "silhouette", "ari", "nmi",
    "reward", "likelihood", "elbo",
})  # fmt: skip
_NOT_OF_A_SCORE: Final = frozenset({
    "scale", "scaling", "norm", "weight", "weights", "coef", "ratio", "lr", "rate", "lambda", "threshold", "std",
    "var", "variance", "time", "seconds", "steps", "count", "num", "samples", "grad",
})  # fmt: skip
_TURNED: Final = frozenset({"neg", "negative", "minus"})
_TABLE: Final[dict[str, Direction]] = {**dict.fromkeys(_LOWER, "lower"), **dict.fromkeys(_HIGHER, "higher")}


def better(name: str) -> Direction:
    """Which way a metric of this name is better; empty where its name does not say.

    Words are whole: `layer2/grad_norm` is no R², `loss_scale` no loss. The last one that is known decides, so that a
    `dice_loss` is a loss. What was negated (`neg_mean_squared_error`) is better the other way round.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    known = [(at, found) for at in range(len(words)) if (found := _known(words, at))]
    if not known:
        return ""
    at, found = known[-1]
    allowed = {"rate"} if words[at] in {"error", "err"} else set()
    if set(words) & _NOT_OF_A_SCORE - allowed:
        return ""
    return found if not _TURNED & set(words[:at]) else "lower" if found == "higher" else "higher"


def _known(words: list[str], at: int) -> Direction:
    """What a word says, also with the one before it (`cross_entropy`) or without its number (`rouge1`, `acc5`)."""
    word = words[at]
    spelled = (word, word.rstrip("0123456789"), words[at - 1] + word if at else "")
    return next((_TABLE[one] for one in spelled if one in _TABLE), "")
