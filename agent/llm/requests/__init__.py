"""Requests of people as the planner without a model takes them: a module for each kind."""
