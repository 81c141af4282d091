"""The cards of runs, hosts and the queue, and how a live card is kept up to date."""
