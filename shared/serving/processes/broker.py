"""Celery broker settings: the Redis server of REDIS_URL, or the broker of STOA_BROKER_URL, such as RabbitMQ.

The database holds all jobs, so a broker may lose its messages. Timeouts keep callers from waiting for a broker that
hangs or is unreachable.
"""

import socket
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

CONNECT_TIMEOUT_SECONDS = 2
LOWEST_REDIS_PRIORITY = 9


def broker_url(redis_url: str, own: str = "") -> str:
    """Return `own`, or else the Redis URL as Celery writes it, which differs for Unix sockets."""
    parts = urlsplit(own or redis_url)
    if parts.scheme != "unix":
        return own or redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"


def demo_redis_url(run_dir: Path) -> str:
    """Return the URL of the Redis of a demo that has its sockets in this folder, or an empty text if none answers."""
    path = run_dir / "redis" / "redis.sock"
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_TIMEOUT_SECONDS)
        try:
            probe.connect(str(path))
        except OSError:  # none runs, or it is too busy
            return ""
    return f"unix://{path}?db=0"


def queue_type(url: str) -> str:
    """Return "quorum" for RabbitMQ, whose quorum queues survive the loss of a machine, else "classic"."""
    return "quorum" if _is_amqp(url) else "classic"


def transport_options(url: str, *, prefix: str, max_seconds: float) -> dict[str, Any]:
    """Return CELERY_BROKER_TRANSPORT_OPTIONS.

    Args:
        prefix: of Redis keys, since the workers of both projects may share a server.
        max_seconds: time limit of a call to the broker.
    """
    if _is_amqp(url):
        timeouts = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "read_timeout": max_seconds}
        return {"max_retries": 0, "confirm_publish": True, **timeouts, "write_timeout": max_seconds}
    return {
        "max_retries": 0,  # kombu would have the sender of a task wait 6 s for a broker that refuses its connection
        "global_keyprefix": prefix,
        "visibility_timeout": 300,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": max_seconds,
        "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "socket_keepalive": not url.startswith("redis+socket:"),
        "health_check_interval": 25,
    }


def lowest_priority_routes(url: str, task: str) -> dict[str, Any]:
    """Return CELERY_TASK_ROUTES that run a long task after all short ones.

    RabbitMQ's priorities count the other way round, and a quorum queue has none below the default: no route there.
    """
    return {} if _is_amqp(url) else {task: {"priority": LOWEST_REDIS_PRIORITY}}


def _is_amqp(url: str) -> bool:
    return urlsplit(url).scheme in ("amqp", "amqps", "pyamqp")
