"""Client of the model server's batch API. Each call is one request with an HTTP client of its own.

Responses are limited in size, and errors contain no text of the server.
"""

import asyncio
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import httpx2
import msgspec

from commerce.model_server.transport import ResponseTooLarge, http_client

T = TypeVar("T")
# Batch ids become part of URLs, and error codes are stored.
Identifier = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]

CALL_TIMEOUT_SECONDS = 20.0
PAGE_SIZE = 25  # results; with the longest texts they stay far below the maximum size of a response
REFUSED = "The model server refused the batch. Check that the model is loaded and that the key may use it."
UNKNOWN = "The model server does not know the batch, or does not run batches."
INVALID_RESPONSE = "The model server sent an invalid response."


class BatchServerError(Exception):
    """A call that will never succeed. The message is fixed and safe to show."""


class BatchServerUnavailable(Exception):
    """A call that may succeed later."""


class BatchServerUnreachable(BatchServerUnavailable):
    """A call without any response, usually after the whole timeout."""


class _SubmitResponse(msgspec.Struct):
    batch_id: Identifier


class _Choice(msgspec.Struct):
    text: str
    finish_reason: str | None = None


class _ResultError(msgspec.Struct):
    code: Identifier


class DescriptionResult(msgspec.Struct):
    """The result of one request of a batch: choices, an error, or neither while it is pending."""

    id: str
    status: str
    choices: list[_Choice] | None = None
    error: _ResultError | None = None


class DescriptionResultPage(msgspec.Struct):
    """Results in the order of the requests, without gaps. `next` is null on the last page of an ended batch."""

    status: str
    results: list[DescriptionResult]
    next: int | None


@dataclass(frozen=True, kw_only=True)
class BatchClient:
    """Client of one server. `url` has no trailing slash."""

    url: str
    api_key: str

    def submit(self, body: dict[str, Any], *, key: str) -> str:
        """Submit a batch and return its id. The same key returns the same batch."""
        content = self._call("POST", "/batch", headers={"Idempotency-Key": key}, json=body)
        return _decode(content, _SubmitResponse).batch_id

    def results(self, batch_id: str, *, after: int) -> DescriptionResultPage:
        """Return a page of the results after the request with index `after`."""
        query = {"after": after, "limit": PAGE_SIZE}
        return _decode(self._call("GET", f"/batch/{batch_id}/results", params=query), DescriptionResultPage)

    def cancel(self, batch_id: str) -> None:
        """Cancel a batch."""
        self._call("POST", f"/batch/{batch_id}/cancel")

    def _call(self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any) -> bytes:
        """Return the body of a 200 response. Raise BatchServerError, BatchServerUnavailable."""
        authorization = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        try:
            return asyncio.run(_request(method, self.url + path, headers=authorization | (headers or {}), **options))
        except ResponseTooLarge:
            raise BatchServerError(INVALID_RESPONSE) from None
        except (httpx2.TransportError, TimeoutError, ssl.SSLError):
            raise BatchServerUnreachable from None


async def _request(method: str, url: str, **options: Any) -> bytes:
    async with (
        asyncio.timeout(CALL_TIMEOUT_SECONDS),
        http_client(_ssl_context(), timeout_seconds=CALL_TIMEOUT_SECONDS) as client,
    ):
        response = await client.request(method, url, **options)
    if response.status_code == 404:
        raise BatchServerError(UNKNOWN)
    if response.status_code in (409, 429) or response.status_code >= 500:
        raise BatchServerUnavailable
    if response.status_code != 200:
        raise BatchServerError(REFUSED)
    return response.content


def _decode(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BatchServerError(INVALID_RESPONSE) from None


@cache
def _ssl_context() -> ssl.SSLContext:
    return ssl.create_default_context()
