"""Metric series of any length: columns with a pyramid over them, so that a window costs what is drawn of it."""
