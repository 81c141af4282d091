"""`python -m worker`: one GPU host. The environment is set before Celery is imported, which reads it then."""

from worker.settings import remap_sigterm

remap_sigterm()

from worker.app import main  # noqa: E402 - see above

if __name__ == "__main__":
    main()
