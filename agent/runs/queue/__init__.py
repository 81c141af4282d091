"""Who goes next, where, and why the others wait."""
