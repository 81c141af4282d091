"""Runs from request to end: the service, the reconciliation with hosts, the hints that are sent to them."""
