"""Outgoing messages: makes each thread show what the outbox says."""
