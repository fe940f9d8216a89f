"""Bytes of a client's request bodies, which wait on disk."""

import asyncio
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


def body_by_rate(length: int, *, is_unverified: bool = False) -> DeadlineBody:
    """Return an endless body of which so many bytes arrive every 0.05 s."""

    async def receive() -> Event:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x" * length, "more_body": True}

    return DeadlineBody(receive, client="user:1", max_bytes=10**6, is_unverified=is_unverified)


async def types_of(body: DeadlineBody, count: int) -> set[str]:
    return {(await body())["type"] for _ in range(count)}


async def test_n9_a_body_that_is_slower_than_the_minimum_rate_ends_after_the_grace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "MIN_RATE_GRACE_SECONDS", 0.3)
    with closing(body_by_rate(1)) as body:
        assert await types_of(body, 3) == {"http.request"}
        assert not body.has_timed_out
        assert "http.disconnect" in await types_of(body, 10)  # 0.65 s in all, of a deadline of 60 s
        assert body.has_timed_out


async def test_n9_a_body_at_the_minimum_rate_is_read_for_longer_than_the_grace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "MIN_RATE_GRACE_SECONDS", 0.3)
    with closing(body_by_rate(100)) as body:
        assert await types_of(body, 20) == {"http.request"}
        assert not body.has_timed_out


async def test_n9_the_grace_of_an_unverified_client_is_shorter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "UNVERIFIED_GRACE_SECONDS", 0.1)
    with closing(body_by_rate(1)) as verified, closing(body_by_rate(1, is_unverified=True)) as unverified:
        assert await types_of(verified, 5) == {"http.request"}
        assert "http.disconnect" in await types_of(unverified, 5)


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
