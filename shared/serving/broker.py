"""The Redis-protocol server of REDIS_URL as Celery's broker."""

from urllib.parse import parse_qs, urlsplit


def broker_url(redis_url: str) -> str:
    """The same server, as Celery names it: a Unix socket has a scheme of its own, and its database another name."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"
