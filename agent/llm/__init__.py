"""Language models: LiteLLM in a process of its own, fail-over down a chain, and the planner that needs none."""
