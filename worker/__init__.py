"""The muscle on GPU hosts: control tasks, the supervisor of one attempt, recipes."""
