"""Our own GPU hosts, each with a Celery worker, reached through Redis. Their events are pushed."""
