"""Training programs, one per task type, and the steps around them. Each also runs alone from a bundle."""
