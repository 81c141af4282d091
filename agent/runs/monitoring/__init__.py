"""Rules over live runs, and what is said about them."""
