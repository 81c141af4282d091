"""This machine without Celery and Redis, for a laptop and for quick tests: supervisors as local processes."""
