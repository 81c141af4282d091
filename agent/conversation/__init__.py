"""Sessions, turns, approvals, and what people are told meanwhile."""
