"""The Celery application and its settings, the same for those who send and those who work.

Owns queue names and every Celery setting. Knows no task. Called by `worker.app` and `worker.engines.hosts`.
Correctness never rests on Celery: a message is a hint, lost and doubled ones are harmless (docs/decisions/001).
"""

from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from worker.client.redis_url import PREFIX, for_celery, is_socket

CONTROL_QUEUE = "trainyard.control"
VISIBILITY_TIMEOUT_S = 300


def host_queue(host: str) -> Queue:
    """The queue that only `host` consumes."""
    return _queue(f"host.{host}")


def control_queue() -> Queue:
    """The queue that every host consumes."""
    return _queue(CONTROL_QUEUE)


def make_app(name: str, redis_url: str, *, queues: tuple[Queue, ...] = ()) -> Celery:
    """A Celery application; it connects at the first use."""
    app = Celery(name, set_as_current=False)
    app.conf.update(_settings(for_celery(redis_url)), task_queues=(control_queue(), *queues))
    return app


def _queue(name: str) -> Queue:
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


def _settings(url: str) -> dict[str, Any]:
    return {
        "broker_url": url,
        "result_backend": url,
        # JSON only: whoever can write to Redis must not be able to send objects that run on load.
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        # A task lasts seconds and is harmless when repeated, so it is acknowledged after it ran. A task that kills
        # its process is not run again at once: the bot's reconciler re-sends, which makes no poison loop.
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        # One message at a time: a slow inspection must not hold back a launch that another process could take.
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        # Nothing of a run lives inside a task, so every task is short (inspect and predict say their own limits).
        "task_soft_time_limit": 30,
        "task_time_limit": 45,
        # Results are used for inspect and predict only; what happens to runs travels on our own event streams.
        "task_ignore_result": True,
        "result_expires": 600,
        "task_track_started": False,
        "worker_send_task_events": False,
        # Nobody commands workers through Celery, and its subscription for that can freeze a whole worker: when Redis
        # closes it, redis-py connects anew inside of the read and then waits for the next message without a limit
        # (PubSub.parse_response, redis-py 8.1), in the only thread that consumes.
        "worker_enable_remote_control": False,
        # A mistyped queue is an error instead of a queue that nobody reads.
        "task_create_missing_queues": False,
        "task_default_queue": CONTROL_QUEUE,
        # A worker that lost its connection drops what it was doing: the message will be delivered again.
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        # SIGTERM (as SIGQUIT): running tasks get this long, then they go back to the queue. ETA is banned.
        "worker_soft_shutdown_timeout": 20,
        "worker_enable_soft_shutdown_on_idle": False,
        # Pool processes are replaced now and then; logging and standard output belong to us.
        "worker_max_tasks_per_child": 200,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        # Redis may come later and may go away: wait for it for ever.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # The shortest visibility timeout of all applications wins, so it stands in all three places.
        # Timeouts on every socket: a synchronous command on a dead connection would otherwise wait for ever.
        "visibility_timeout": VISIBILITY_TIMEOUT_S,
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "socket_timeout": 5,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "health_check_interval": 5,
            "retry_on_timeout": True,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "global_keyprefix": PREFIX,
        },
        "result_backend_transport_options": {
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "global_keyprefix": PREFIX,
            "retry_policy": {"timeout": 5.0},
        },
        "redis_socket_timeout": 5,
        "redis_socket_connect_timeout": 3,
        "redis_socket_keepalive": not is_socket(url),  # a unix socket has none
        "redis_backend_health_check_interval": 5,
        # Publishing fails after about a second; the caller owns the retry.
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
    }
