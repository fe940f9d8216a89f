"""Row O3: a canary word in all request data, and searches for the places that it must not reach."""

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx2
import redis


class Canary:
    """A word that occurs nowhere else, of lower-case letters and digits, which no normalization changes."""

    def __init__(self) -> None:
        self.word = "canary" + secrets.token_hex(8)

    def email(self) -> str:
        return f"{self.word}@example.com"

    def marked(self, value: Any, kept: Iterable[str] = ()) -> Any:
        """Return the JSON value with the word in each string, except in the fields named in `kept`."""
        if isinstance(value, dict):
            return {name: each if name in kept else self.marked(each, kept) for name, each in value.items()}
        if isinstance(value, list):
            return [self.marked(each, kept) for each in value]
        if not isinstance(value, str):
            return value
        return self.email() if "@" in value else f"{value} {self.word}"

    def found_in(self, text: str, *further: str) -> list[str]:
        """Return the context of each occurrence in the text, also of `further` secrets, such as keys."""
        words = "|".join(map(re.escape, (self.word, *further)))
        return [text[max(0, found.start() - 200) : found.end() + 50] for found in re.finditer(words, text)]


def kept_by(redis_url: str) -> str:
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


def said(page: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and an example body (or None) of every operation of an OpenAPI document."""
    for path, methods in page["paths"].items():
        for method, described in methods.items():
            if method not in ("get", "post", "put", "patch", "delete"):
                continue
            content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
            bodies = [one["value"] for one in content.get("examples", {}).values()] or [content.get("example")]
            for body in bodies:
                yield method.upper(), re.sub(r"{\w+}", "1", path), body


def say_everything(client: httpx2.Client, page: dict[str, Any], canary: Canary, kept: Iterable[str] = ()) -> set[int]:
    """Send every operation with marked bodies, with marked values for every field, and with invalid JSON.

    Return the statuses of the responses.
    """
    statuses = set()
    for method, path, body in said(page):
        for sent in (canary.marked(body, kept), canary.marked(body), {"canary": canary.word}, [canary.word]):
            answer = client.request(method, path, json=sent, params={"q": canary.word, "search": canary.word})
            statuses.add(answer.status_code)
        broken = f'{{"prompt": "{canary.word}'.encode()
        headers = {"Content-Type": "application/json", "X-Api-Key-Of": canary.word, "Cookie": f"a={canary.word}"}
        statuses.add(client.request(method, path, content=broken, headers=headers).status_code)
    return statuses
