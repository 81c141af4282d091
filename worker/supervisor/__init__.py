"""One process per attempt, detached from everything: it lives as long as the training, and tells how that went."""
