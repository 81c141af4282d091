"""What a training script imports: `from trainyard import TrainingRuntime`.

Part of every bundle, beside the recipes, and a package of its own elsewhere. Imports nothing but the standard library:
the helpers for torch, transformers and LightGBM are loaded when one is asked for, and its library when it is used.
"""

from typing import TYPE_CHECKING, Any

from trainyard.runtime import ResumeInfo, TrainingRuntime

if TYPE_CHECKING:
    from trainyard.adapters import (
        LightGBMCallback,
        SavedBooster,
        TorchState,
        last_checkpoint,
        resume_booster,
        sampled_anew,
        trainer_callback,
    )

__all__ = [
    "LightGBMCallback",
    "ResumeInfo",
    "SavedBooster",
    "TorchState",
    "TrainingRuntime",
    "last_checkpoint",
    "resume_booster",
    "sampled_anew",
    "trainer_callback",
]


def __getattr__(name: str) -> Any:
    """A name of `trainyard.adapters`. Raises: AttributeError."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trainyard import adapters

    return getattr(adapters, name)
