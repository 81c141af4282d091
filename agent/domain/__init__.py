"""Frozen values that every room shares: standard library and pydantic only."""
