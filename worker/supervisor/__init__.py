"""One process per attempt, detached from everything: it lives as long as the training does, and tells the truth about it."""
