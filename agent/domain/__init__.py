"""Frozen values that every package shares: standard library and pydantic only."""
