"""The run service: creation, placement, reconciliation, and the live card of each run."""
