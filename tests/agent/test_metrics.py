"""Which way a metric is better."""

import pytest

from agent.domain.metrics import better


@pytest.mark.parametrize(
    ("direction", "names"),
    [
        (
            "lower",
            "loss log_loss train/loss valLoss train_loss_epoch dice_loss mse rmse val_MAE perplexity neg_accuracy "
            "mean_squared_error error_rate cross_entropy eval/cer negative_log_likelihood top1_err",
        ),
        (
            "higher",
            "acc val_acc top5_acc acc5 accuracy testAccuracy roc_auc ROC_AUC macro_f1 f1 f1-score r2 val/R2 rouge1 "
            "rougeL metrics/mAP50-95(B) mean_average_precision neg_mean_squared_error neg_log_loss eval_reward",
        ),
        (
            "",
            "layer2/grad_norm loss_scale lr learning_rate lr2 loss_weight accuracy_std step_time throughput glossary "
            "terror accelerate epoch grad_acc_steps map_count entropy score",
        ),
    ],
)
def test_a_direction_is_that_of_whole_words(direction: str, names: str) -> None:
    assert {name: better(name) for name in names.split()} == dict.fromkeys(names.split(), direction)
