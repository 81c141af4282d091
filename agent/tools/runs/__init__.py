"""Tools over runs: their state, logs, metrics, results, and control."""
