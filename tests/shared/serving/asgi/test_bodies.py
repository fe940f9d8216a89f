"""Bytes of a client's request bodies, which wait on disk."""

import gzip
from contextlib import closing

import pytest

from shared.api.errors import ApiError
from shared.serving.asgi import bodies
from shared.serving.asgi.bodies import DeadlineBody, GzipDecoder, SpooledBody
from shared.serving.asgi.types import Event

pytestmark = pytest.mark.no_database


def body_of(content: bytes, client: str = "user:1", max_bytes: int = 100) -> DeadlineBody:
    async def receive() -> Event:
        return {"type": "http.request", "body": content, "more_body": False}

    return DeadlineBody(receive, client=client, max_bytes=max_bytes)


async def test_n11_the_bodies_of_a_client_have_so_many_bytes_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "MAX_CLIENT_BYTES", 1000)
    with closing(body_of(b"x" * 600)) as first, closing(body_of(b"x" * 600)) as second:
        await first()
        with pytest.raises(ApiError, match="Send fewer at once") as refused:
            await second()
        assert refused.value.problem.status == 429
        with closing(body_of(b"x" * 600, client="user:2")) as other, closing(body_of(b"x" * 400)) as small:
            await other()
            await small()
    with closing(body_of(b"x" * 600)) as after:
        await after()


async def test_n11_four_of_the_largest_bodies_are_never_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "MAX_CLIENT_BYTES", 1000)
    with (
        closing(body_of(b"x" * 1500, max_bytes=1500)) as first,
        closing(body_of(b"x" * 1500, max_bytes=1500)) as second,
    ):
        await first()
        await second()


async def test_n11_the_content_of_an_encoded_body_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "MAX_CLIENT_BYTES", 10_000)
    with closing(body_of(gzip.compress(bytes(20_000)))) as body:
        spooled = SpooledBody(body, GzipDecoder(), client="user:1", address="address:one", count=body.count)
        with closing(spooled), pytest.raises(ApiError, match="Send fewer at once"):
            await spooled.read(max_bytes=10**6)
