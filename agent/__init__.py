"""The brain: knows no chat platform, no Celery, no matplotlib."""
