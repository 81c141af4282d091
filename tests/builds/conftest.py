"""Somebody at a terminal."""

from tests.person import person

__all__ = ["person"]
