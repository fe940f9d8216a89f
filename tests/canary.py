"""A canary word for all request data, and searches for it in logs, traces, metrics and brokers (row O3)."""

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx2
import redis


class Canary:
    """A random word of lower-case letters and digits, which no normalization changes."""

    def __init__(self) -> None:
        self.word = "canary" + secrets.token_hex(8)

    def email(self) -> str:
        return f"{self.word}@example.com"

    def marked(self, value: Any, unchanged: Iterable[str] = ()) -> Any:
        """Return the JSON value with the word in each string, except in the fields named in `unchanged`."""
        if isinstance(value, dict):
            return {name: each if name in unchanged else self.marked(each, unchanged) for name, each in value.items()}
        if isinstance(value, list):
            return [self.marked(each, unchanged) for each in value]
        if not isinstance(value, str):
            return value
        return self.email() if "@" in value else f"{value} {self.word}"

    def find_in(self, text: str, *others: str) -> list[str]:
        """Return the context of each occurrence in the text, also of other secrets, such as keys."""
        words = "|".join(map(re.escape, (self.word, *others)))
        return [text[max(0, match.start() - 200) : match.end() + 50] for match in re.finditer(words, text)]


def dump_redis(redis_url: str) -> str:
    """Return all keys and values of a Redis server, as text."""
    store = redis.Redis.from_url(redis_url, decode_responses=True, encoding_errors="replace")
    read: dict[str, Callable[[str], Any]] = {
        "string": store.get,
        "list": lambda key: store.lrange(key, 0, -1),
        "hash": store.hgetall,
        "set": store.smembers,
        "zset": lambda key: store.zrange(key, 0, -1),
    }
    with contextlib.closing(store):
        return "\n".join(f"{key} {read[str(store.type(key))](key)}" for key in store.scan_iter())


def example_requests(document: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and an example body (or None) of every operation of an OpenAPI document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method not in ("get", "post", "put", "patch", "delete"):
                continue
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            bodies = [example["value"] for example in content.get("examples", {}).values()] or [content.get("example")]
            for body in bodies:
                yield method.upper(), re.sub(r"{\w+}", "1", path), body


def send_everything(
    client: httpx2.Client, document: dict[str, Any], canary: Canary, unchanged: Iterable[str] = ()
) -> set[int]:
    """Send every operation with marked bodies, with marked values for every field, and with invalid JSON.

    Return the statuses of the responses.
    """
    statuses = set()
    for method, path, body in example_requests(document):
        for sent in (canary.marked(body, unchanged), canary.marked(body), {"canary": canary.word}, [canary.word]):
            response = client.request(method, path, json=sent, params={"q": canary.word, "search": canary.word})
            statuses.add(response.status_code)
        broken = f'{{"prompt": "{canary.word}'.encode()
        headers = {"Content-Type": "application/json", "X-Api-Key-Of": canary.word, "Cookie": f"a={canary.word}"}
        statuses.add(client.request(method, path, content=broken, headers=headers).status_code)
    return statuses
