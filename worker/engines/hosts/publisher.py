"""Sends tasks to hosts over Celery, from threads of its own, never on the event loop.

Owns the Celery application of the bot. Celery is loaded at the first task, so a start does not wait for it. Called by
`worker.engines.hosts.fleet`.
"""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from celery import Celery

_THREADS = 4
_LIMIT_S = 5.5  # a little more than the socket's own limit
EXPIRES_S = 60


class Publisher:
    """One for each Redis."""

    def __init__(self, redis_url: str) -> None:
        """Connects at the first task."""
        self._url = redis_url
        self._app: Celery | None = None
        self._making = threading.Lock()
        # Of its own: publishers that hang on a dead Redis must not use up the threads that others need.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="publish")

    async def close(self) -> None:
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._app is not None:
            await asyncio.to_thread(self._app.close)

    async def send(
        self, task: str, body: str, *, host: str, answered: bool = False, expires_s: float = EXPIRES_S
    ) -> str:
        """Send a task to a host, to any where `host` is empty; where its answer will be in Redis.

        Raises:
            OSError, TimeoutError, redis.RedisError: Redis does not answer.
        """
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(self._threads, self._send, task, body, host, answered, expires_s)
        return await asyncio.wait_for(sending, _LIMIT_S)

    def _send(self, task: str, body: str, host: str, answered: bool, expires_s: float) -> str:
        from kombu.exceptions import OperationalError  # noqa: PLC0415 - see above

        from worker.client.queue import control_queue, host_queue, make_app  # noqa: PLC0415

        with self._making:
            self._app = self._app or make_app("trainyard-client", self._url)
        task_id = uuid.uuid4().hex
        queue = host_queue(host) if host else control_queue()
        options = {"task_id": task_id, "expires": expires_s, "ignore_result": not answered}
        try:
            self._app.send_task(task, args=[body], queue=queue, **options)
        except OperationalError as error:
            raise redis.ConnectionError(str(error)) from error
        key: bytes = self._app.backend.get_key_for_task(task_id)
        return key.decode()
