"""Pictures of results: measured by an evaluation, or reported by a training; and files that messages carry."""
