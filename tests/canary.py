"""Row O3: marked words, for all that is said, and where they must not turn up."""

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx2
import redis


class Canary:
    """A word that is nowhere else. In lower case and digits, so that nothing changes it on its way."""

    def __init__(self) -> None:
        self.word = "canary" + secrets.token_hex(8)

    def email(self) -> str:
        return f"{self.word}@example.com"

    def marked(self, value: Any, kept: Iterable[str] = ()) -> Any:
        """The same JSON with the word in each text, but in those of `kept` names and in addresses of webhooks."""
        if isinstance(value, dict):
            return {name: each if name in kept else self.marked(each, kept) for name, each in value.items()}
        if isinstance(value, list):
            return [self.marked(each, kept) for each in value]
        if not isinstance(value, str):
            return value
        return self.email() if "@" in value else f"{value} {self.word}"

    def found_in(self, text: str, *further: str) -> list[str]:
        """Where in the text it is, with what stands around it; so for `further` secrets, as keys."""
        words = "|".join(map(re.escape, (self.word, *further)))
        return [text[max(0, found.start() - 200) : found.end() + 50] for found in re.finditer(words, text)]


def kept_by(redis_url: str) -> str:
    """All that a Redis holds, as text."""
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
    """Method, path and a body of every operation of an OpenAPI page: its examples, or none."""
    for path, methods in page["paths"].items():
        for method, described in methods.items():
            if method not in ("get", "post", "put", "patch", "delete"):
                continue
            content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
            bodies = [one["value"] for one in content.get("examples", {}).values()] or [content.get("example")]
            for body in bodies:
                yield method.upper(), re.sub(r"{\w+}", "1", path), body


def say_everything(client: httpx2.Client, page: dict[str, Any], canary: Canary, kept: Iterable[str] = ()) -> set[int]:
    """Each operation with its own bodies marked, with marked texts for all of it, and with what is no JSON. Answers the
    statuses."""
    statuses = set()
    for method, path, body in said(page):
        for sent in (canary.marked(body, kept), canary.marked(body), {"canary": canary.word}, [canary.word]):
            answer = client.request(method, path, json=sent, params={"q": canary.word, "search": canary.word})
            statuses.add(answer.status_code)
        broken = f'{{"prompt": "{canary.word}'.encode()
        headers = {"Content-Type": "application/json", "X-Api-Key-Of": canary.word, "Cookie": f"a={canary.word}"}
        statuses.add(client.request(method, path, content=broken, headers=headers).status_code)
    return statuses
