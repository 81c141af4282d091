"""Tools that set what a live card shows."""
