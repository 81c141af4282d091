"""Where `TrainingRuntime` was before it moved to `trainyard`, for scripts that still import it here; goes with 0.2."""

from trainyard import TrainingRuntime

__all__ = ["TrainingRuntime"]
