"""Warm start: processes with the libraries already loaded, from which a step begins inside its sandbox."""
