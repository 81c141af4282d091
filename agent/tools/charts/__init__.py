"""Tools that draw curves, usage and experiments."""
