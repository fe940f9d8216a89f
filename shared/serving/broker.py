"""Celery's broker: the Redis-protocol server of REDIS_URL, or the one of STOA_BROKER_URL, as RabbitMQ is.

The database knows what is to be done, and a broker may forget all that it was told: nobody waits for one that hangs, or
is gone, for longer than their project's settings say.
"""

from typing import Any
from urllib.parse import parse_qs, urlsplit

CONNECT_S = 2


def broker_url(redis_url: str, own: str = "") -> str:
    """`own` if there is one, else the Redis, as Celery names it: a Unix socket has a scheme of its own, and its
    database another name."""
    parts = urlsplit(own or redis_url)
    if parts.scheme != "unix":
        return own or redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"


def queue_type(url: str) -> str:
    """RabbitMQ keeps a quorum queue's messages through the loss of a machine; others have one kind of queue."""
    return "quorum" if _is_amqp(url) else "classic"


def transport_options(url: str, *, prefix: str, most_seconds: float) -> dict[str, Any]:
    """prefix: of keys, since the two projects' workers may share the Redis. most_seconds: that a call may take."""
    if _is_amqp(url):
        timeouts = {"connect_timeout": CONNECT_S, "read_timeout": most_seconds, "write_timeout": most_seconds}
        return {"confirm_publish": True, **timeouts}
    return {
        "global_keyprefix": prefix,
        "visibility_timeout": 300,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": most_seconds,
        "socket_connect_timeout": CONNECT_S,
        "socket_keepalive": not url.startswith("redis+socket:"),
        "health_check_interval": 25,
    }


def last_of_all(url: str, task: str) -> dict[str, Any]:
    """CELERY_TASK_ROUTES by which a task that takes long waits for all that take moments. With a Redis 9 is the last;
    RabbitMQ counts the other way round, and in a quorum queue nothing comes after the ordinary."""
    return {} if _is_amqp(url) else {task: {"priority": 9}}


def _is_amqp(url: str) -> bool:
    return urlsplit(url).scheme in ("amqp", "amqps", "pyamqp")
