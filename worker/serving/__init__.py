"""Serves the model of an artifact folder over HTTP: loaded once, asked with JSON."""
