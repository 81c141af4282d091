"""Measures Trainyard against its peers, side by side in one run. `python -m tests.bench`."""
