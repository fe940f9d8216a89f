"""Client of the model server's embeddings: any OpenAI-compatible server.

A call is one request with a time limit of its own and passes a circuit breaker. Failures have fixed messages, which
contain no key and no text.
"""

import base64
import binascii
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx2
import msgspec
import numpy as np
from numpy.typing import NDArray

from commerce.model_server.circuit_breaker import CircuitBreaker, CircuitOpen
from commerce.model_server.transport import sync_http_client

Vector = NDArray[np.float32]

MAX_FAILURES = 3
COOLDOWN_SECONDS = 30.0
MAX_CONCURRENT_CALLS = 8  # per process: half of what the model server allows an API key
MAX_RESPONSE_BYTES = 8 * 1024 * 1024  # base64 of 128 vectors of 8,192 dimensions is 5.6 MB
MAX_DIMENSIONS = 8192
OVERLOAD_STATUSES = (408, 429)
REFUSED_TEXT_STATUSES = (400, 413, 422)
MAX_TEXT_WEIGHT = 650  # about 230 of the 256 tokens that all-MiniLM-L6-v2 reads, in German: English is shorter
FIRST_WIDE_CHARACTER = 0x300  # above Latin letters, a character is about a token
WIDE_WEIGHT = 3
MIN_TEXT_LENGTH = 75  # a text that is refused is halved while it is longer
PLAIN_TEXT = "text"  # which every model embeds


class EmbeddingsUnavailable(Exception):
    """A call without vectors. The message is fixed and safe to show."""


class EmbeddingsRefused(EmbeddingsUnavailable):
    """The model server refuses a request, with a 4xx status. The circuit breaker does not count it."""


class TextsRefused(EmbeddingsRefused):
    """The model server refuses these texts: one of them may be too long for the model."""


_clients: dict[tuple[str, str, float, bool], "EmbeddingsClient"] = {}
_creation = threading.Lock()


class _Embedding(msgspec.Struct):
    index: int
    embedding: str | list[float]


class _Response(msgspec.Struct):
    data: list[_Embedding]


class EmbeddingsClient:
    """Client of one server for one purpose, whose calls share a time limit and a breaker. Threads may share it."""

    def __init__(self, *, base_url: str, api_key: str, timeout_seconds: float, is_background: bool = False) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        if is_background:
            self._headers["Priority"] = "u=7"  # RFC 9218: the lowest urgency
        self._http = sync_http_client(timeout_seconds=timeout_seconds, max_bytes=MAX_RESPONSE_BYTES)
        self._breaker = CircuitBreaker(max_failures=MAX_FAILURES, cooldown_seconds=COOLDOWN_SECONDS)
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_CALLS)

    def embed(self, model: str, texts: Sequence[str]) -> list[Vector]:
        """Return a vector of length 1 for each text. Raises EmbeddingsUnavailable."""
        with self._admitted():
            body = {"model": model, "input": list(texts), "encoding_format": "base64"}
            try:
                response = self._http.post(self._url, json=body, headers=self._headers)
            except httpx2.TransportError:
                raise EmbeddingsUnavailable("The model server did not answer in time.") from None
            if response.status_code != 200:
                message = (
                    f"The model server answered {response.status_code}. Is {model} loaded, and may the key use it?"
                )
                raise _failure(response.status_code)(message)
            return _read_vectors(response.content, len(texts))

    def embed_or_shorten(self, model: str, texts: Sequence[str]) -> list[Vector | None]:
        """Return a vector for each text, None for one that is refused even when it is short.

        Raises EmbeddingsUnavailable, also if the model server refuses every text.
        """
        try:
            return list(self.embed(model, texts))
        except TextsRefused:
            self.embed(model, [PLAIN_TEXT])
        return self._embed_parts(model, texts)

    def close(self) -> None:
        self._http.close()

    def _embed_parts(self, model: str, texts: Sequence[str]) -> list[Vector | None]:
        """Embed refused texts in halves; of a single one, its beginning."""
        if len(texts) > 1:
            middle = len(texts) // 2
            return [*self._embed_part(model, texts[:middle]), *self._embed_part(model, texts[middle:])]
        text = texts[0]
        return self._embed_part(model, [text[: len(text) // 2]]) if len(text) > MIN_TEXT_LENGTH else [None]

    def _embed_part(self, model: str, texts: Sequence[str]) -> list[Vector | None]:
        try:
            return list(self.embed(model, texts))
        except TextsRefused:
            return self._embed_parts(model, texts)

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            raise EmbeddingsUnavailable("Too many texts are being embedded.")
        try:
            with self._lock:
                self._breaker.admit()
            record = self._breaker.record_failure
            try:
                yield
                record = self._breaker.record_success
            except EmbeddingsRefused:
                record = self._breaker.record_abandoned
                raise
            finally:
                with self._lock:
                    record()
        except CircuitOpen:
            raise EmbeddingsUnavailable("The model server has failed several times in a row.") from None
        finally:
            self._slots.release()


def embeddings_client(
    *, base_url: str, api_key: str, timeout_seconds: float, is_background: bool = False
) -> EmbeddingsClient:
    """Return this process's only client, with its breaker and connections, for these arguments.

    is_background: nobody waits for the vectors. Stoa's model server then makes them on one core.
    """
    key = (base_url, api_key, timeout_seconds, is_background)
    with _creation:
        if key not in _clients:
            _clients[key] = EmbeddingsClient(
                base_url=base_url, api_key=api_key, timeout_seconds=timeout_seconds, is_background=is_background
            )
        return _clients[key]


def cut_text(text: str) -> str:
    """Return the beginning of a text that most encoders accept. Their tokens are what limits it."""
    weight = 0
    for position, character in enumerate(text):
        weight += WIDE_WEIGHT if ord(character) >= FIRST_WIDE_CHARACTER else 1
        if weight > MAX_TEXT_WEIGHT:
            return text[:position]
    return text


def close_clients() -> None:
    """Close the connections of all clients, and forget them with their breakers."""
    with _creation:
        while _clients:
            _clients.popitem()[1].close()


def _failure(status: int) -> type[EmbeddingsUnavailable]:
    if status in REFUSED_TEXT_STATUSES:
        return TextsRefused
    is_refused = 400 <= status < 500 and status not in OVERLOAD_STATUSES
    return EmbeddingsRefused if is_refused else EmbeddingsUnavailable


def _read_vectors(body: bytes, count: int) -> list[Vector]:
    try:
        rows = sorted(msgspec.json.decode(body, type=_Response).data, key=lambda row: row.index)
        vectors = [_normalize(_read_vector(row.embedding)) for row in rows]
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise EmbeddingsUnavailable("The model server sent an invalid response.") from None
    if [row.index for row in rows] != list(range(count)) or len({len(vector) for vector in vectors}) != 1:
        raise EmbeddingsUnavailable("The model server sent other vectors than were asked for.")
    return vectors


def _read_vector(embedding: str | list[float]) -> Vector:
    """Return a vector from base64 of little-endian 32-bit floats, or from numbers."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").astype(np.float32)
    with np.errstate(over="ignore"):  # a number that is too large becomes infinite, which `_normalize` refuses
        return np.array(embedding, np.float32)


def _normalize(vector: Vector) -> Vector:
    """Return the vector with length 1. Raises ValueError for one without a direction."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not 0 < len(vector) <= MAX_DIMENSIONS or not np.isfinite(length) or length == 0:
        raise ValueError("no direction")
    return vector / np.float32(length)
