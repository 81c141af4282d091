"""The parent of every value that crosses a package or a process.

Frozen, unknown keys refused, NaN and infinity kept through JSON (as the strings "NaN", "Infinity").
"""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """An immutable value, equal by content."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)
