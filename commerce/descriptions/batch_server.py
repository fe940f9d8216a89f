"""The batches of Stoa's model server, over HTTP. Knows no database. Answers are read within bounds, and errors have no
word of the server's in them.

One call is one request; each has a client of its own, as the provider's have.
"""

import asyncio
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import httpx2
import msgspec

from commerce.descriptions.transport import AnswerTooLarge, http_client

T = TypeVar("T")
# What is written down, or becomes part of an address.
Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]

CALL_S = 20.0
PAGE = 25  # results: of the longest texts that may be asked for they are far from the most that is read
REFUSED = "The model server refused the batch: look whether the model is loaded and the key may use it."
UNKNOWN = "The model server does not know the batch, or runs none."
NO_SENSE = "The model server's answer makes no sense."


class BatchServerError(Exception):
    """It will not do this, now or later. The message is fixed and safe to show."""


class BatchServerAway(Exception):
    """It did not answer, or not yet: the same may be asked again later."""


class BatchServerSilent(BatchServerAway):
    """It did not answer at all, mostly after as long as a call may take."""


class _Accepted(msgspec.Struct):
    batch_id: Name


class _Choice(msgspec.Struct):
    text: str


class _Error(msgspec.Struct):
    code: Name


class Result(msgspec.Struct):
    """What came of one request: choices, or an error, or neither of them yet."""

    id: str
    status: str
    choices: list[_Choice] | None = None
    error: _Error | None = None

    @property
    def text(self) -> str:
        return self.choices[0].text if self.choices else ""


class ResultPage(msgspec.Struct):
    """Results in the order of the requests, without a gap. `next`: null when the batch has ended and these are all."""

    status: str
    results: list[Result]
    next: int | None


@dataclass(frozen=True, kw_only=True)
class BatchServer:
    """Where it is: `url` without a slash at its end."""

    url: str
    api_key: str

    def submit(self, body: dict[str, Any], *, key: str) -> str:
        """The id of the batch. Sent again with the same key, it is the same batch."""
        answer = self._call("POST", "/batch", headers={"Idempotency-Key": key}, json=body)
        return _decoded(answer, _Accepted).batch_id

    def results(self, batch_id: str, *, after: int) -> ResultPage:
        """Those that follow the request with the index `after`, a page at most."""
        query = {"after": after, "limit": PAGE}
        return _decoded(self._call("GET", f"/batch/{batch_id}/results", params=query), ResultPage)

    def cancel(self, batch_id: str) -> None:
        self._call("POST", f"/batch/{batch_id}/cancel")

    def _call(self, method: str, path: str, *, headers: dict[str, str] | None = None, **sent: Any) -> bytes:
        """The body of a good answer. Raises BatchServerError, BatchServerAway."""
        authorized = ({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}) | (headers or {})
        try:
            return asyncio.run(_answer(method, self.url + path, headers=authorized, **sent))
        except (httpx2.TransportError, TimeoutError) as error:
            if isinstance(error, AnswerTooLarge):
                raise BatchServerError(NO_SENSE) from None
            raise BatchServerSilent from None


async def _answer(method: str, url: str, **sent: Any) -> bytes:
    async with asyncio.timeout(CALL_S), http_client(_ssl_context(), limit_s=CALL_S) as client:
        answer = await client.request(method, url, **sent)
    if answer.status_code == 404:
        raise BatchServerError(UNKNOWN)
    if answer.status_code in (409, 429) or answer.status_code >= 500:
        raise BatchServerAway
    if answer.status_code != 200:
        raise BatchServerError(REFUSED)
    return answer.content


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BatchServerError(NO_SENSE) from None


@cache
def _ssl_context() -> ssl.SSLContext:
    return ssl.create_default_context()
