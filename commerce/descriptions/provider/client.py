"""Client of the text provider: any OpenAI-compatible server.

A call takes at most CALL_TIMEOUT_SECONDS over at most two attempts, reads at most a megabyte, follows no redirect and
passes a circuit breaker. Every failure is raised as ProviderError with a fixed message, which contains no key, prompt
or text of the provider.
"""

import asyncio
import secrets
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import cache, cached_property
from typing import Any

import openai
import structlog
from openai import AsyncOpenAI

from commerce.descriptions.provider.circuit_breaker import CircuitBreaker, CircuitOpen
from commerce.descriptions.provider.transport import http_client
from shared.observability import tracing
from shared.observability.metrics import Counter

CALL_TIMEOUT_SECONDS = 19.5  # so that our own client has its response within 20 seconds
MAX_DRAWS = 3
MAX_ATTEMPTS = 2
MAX_FAILURES = 5
COOLDOWN_SECONDS = 30.0
MAX_CONCURRENT_CALLS = 32  # per process: a slow provider must not block other requests
MAX_RETRY_DELAY_SECONDS = 5.0
SAMPLING_PARAMS = {"temperature": 0.7, "top_p": 0.9}

CALLS = Counter("stoa_provider_calls_total", "Texts requested from the text provider, by outcome.", "outcome")

FAILED = "The text provider did not return a description. Try again."
REFUSED = "The text provider refused the request: it is too long for the model, or the model is not loaded."
UNAVAILABLE = "The text provider failed several times in a row. Try again in 30 seconds."

log = structlog.get_logger(__name__)


class ProviderError(Exception):
    """A call without a usable text. The message is fixed and safe to show."""


class ProviderBusy(Exception):
    """The maximum number of concurrent calls is running, so no call was made."""


class TruncatedStream(Exception):
    """A stream that ended without a finish reason."""


class EmptyText(Exception):
    """A complete response without words, or one that the provider filtered. Another request may succeed."""


class Provider:
    """One model of one provider. An instance is used within one event loop at a time."""

    def __init__(self, *, base_url: str, api_key: str, model: str) -> None:
        self._model = model
        self._base_url = base_url
        self._api_key = api_key or "none"  # the library requires a key; a provider that needs one refuses this
        self._breaker = CircuitBreaker(max_failures=MAX_FAILURES, cooldown_seconds=COOLDOWN_SECONDS)
        self._call_count = 0

    async def write(self, messages: list[dict[str, str]], *, max_tokens: int, accept: Callable[[str], bool]) -> str:
        """Return the first of up to three texts that `accept` takes, or else the first text.

        Outer whitespace is stripped. Raises ProviderError, ProviderBusy.
        """
        deadline = _loop_time() + CALL_TIMEOUT_SECONDS
        first = ""
        for _ in range(MAX_DRAWS):
            try:
                text = await self._draw(messages, max_tokens, deadline, max_attempts=1 if first else MAX_ATTEMPTS)
            except (ProviderError, ProviderBusy):
                if first:
                    break
                raise
            if accept(text):
                return text
            first = first or text
        return first

    async def _draw(
        self, messages: list[dict[str, str]], max_tokens: int, deadline: float, *, max_attempts: int
    ) -> str:
        pieces = self.stream(messages, max_tokens=max_tokens, deadline=deadline, max_attempts=max_attempts)
        async with aclosing(pieces):
            return "".join([piece async for piece in pieces]).strip()

    async def stream(
        self,
        messages: list[dict[str, str]],
        *,
        max_tokens: int,
        deadline: float | None = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> AsyncGenerator[str, None]:
        """Yield the pieces of one text as they are written.

        `deadline` is a time of the event loop, by default CALL_TIMEOUT_SECONDS from now. Closing the generator ends the
        provider's stream. Raises ProviderError, ProviderBusy.
        """
        with self._track_call() as headers:
            deadline = deadline or _loop_time() + CALL_TIMEOUT_SECONDS
            pieces = self._attempt(messages, max_tokens, deadline, max_attempts, headers)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

    @contextmanager
    def _track_call(self) -> Iterator[dict[str, str]]:
        """Admit a call and record its outcome. Yield the headers that pass on the trace."""
        if self._call_count >= MAX_CONCURRENT_CALLS:
            raise ProviderBusy
        try:
            self._breaker.admit()
        except CircuitOpen:
            raise ProviderError(UNAVAILABLE) from None
        self._call_count += 1
        record, outcome = self._breaker.record_abandoned, "left"
        span = tracing.start_span("provider", kind=tracing.SpanKind.CLIENT, alone=True)
        try:
            yield tracing.propagation_headers(span)
            record, outcome = self._breaker.record_success, "answered"
        # A refused request or an empty text shows a healthy provider. Otherwise one shop's requests could open the
        # circuit for all shops.
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            record, outcome = self._breaker.record_success, "refused"
            raise self._provider_error(error, REFUSED) from None
        except EmptyText as error:
            record, outcome = self._breaker.record_success, "empty"
            raise self._provider_error(error, FAILED) from None
        except Exception as error:  # a malformed response can raise anything in the client library
            record, outcome = self._breaker.record_failure, "failed"
            raise self._provider_error(error, FAILED) from None
        finally:
            self._call_count -= 1
            record()
            CALLS.add(1, outcome)
            tracing.end_span(
                span, {"gen_ai.request.model": self._model, "stoa.outcome": outcome}, failed=outcome == "failed"
            )

    def _provider_error(self, error: Exception, message: str) -> ProviderError:
        """Log a failure by its type and status, and return its ProviderError. Its own text quotes the provider."""
        status = error.status_code if isinstance(error, openai.APIStatusError) else None
        log.warning("description_provider_failed", reason=type(error).__name__, status=status, model=self._model)
        return ProviderError(message)

    async def _attempt(
        self,
        messages: list[dict[str, str]],
        max_tokens: int,
        deadline: float,
        max_attempts: int,
        headers: dict[str, str],
    ) -> AsyncGenerator[str, None]:
        """Yield the pieces of a request, which is repeated if it fails before the first piece in a transient way."""
        for attempts_left in reversed(range(max_attempts)):
            has_text = False
            pieces = self._request(messages, max_tokens, headers)
            try:
                async with aclosing(pieces):
                    while (piece := await _next_piece(pieces, deadline)) is not None:
                        has_text = has_text or not piece.isspace()
                        yield piece
                if not has_text:
                    raise EmptyText
                return
            except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
                if has_text or not attempts_left:
                    raise
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(_retry_delay(error))

    async def _request(
        self, messages: list[dict[str, str]], max_tokens: int, headers: dict[str, str]
    ) -> AsyncGenerator[str, None]:
        """Yield the pieces of one request.

        Each request has a client of its own: a client belongs to an event loop, and connecting takes little time
        beside a call.
        """
        params: Any = {
            "model": self._model,
            "messages": messages,
            "max_tokens": max_tokens,
            "stream": True,
            "seed": secrets.randbelow(2**31),
            "extra_headers": headers,
            **SAMPLING_PARAMS,
        }
        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            max_retries=0,
            http_client=http_client(self._ssl_context, timeout_seconds=CALL_TIMEOUT_SECONDS),
        )
        finish_reason = None
        async with client, await client.chat.completions.create(**params) as chunks:
            async for chunk in chunks:
                for choice in chunk.choices[:1]:
                    finish_reason = choice.finish_reason or finish_reason
                    if choice.delta.content:
                        yield choice.delta.content
        if finish_reason is None:
            raise TruncatedStream
        if finish_reason not in ("stop", "length"):
            raise EmptyText

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


@cache
def get_provider(*, base_url: str, api_key: str, model: str) -> Provider:
    """Return this process's only Provider, with its breaker, for these arguments."""
    return Provider(base_url=base_url, api_key=api_key, model=model)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


async def _next_piece(pieces: AsyncGenerator[str, None], deadline: float) -> str | None:
    """Return the next piece, or None at the end. Raise TimeoutError at the deadline.

    The time limit does not span a yield, because the stream may be consumed from another task.
    """
    async with asyncio.timeout_at(deadline):
        return await anext(pieces, None)


def _retry_delay(error: openai.APIError) -> float:
    """Return the seconds before the second attempt: the provider's Retry-After up to the maximum, or 0.2."""
    retry_after = error.response.headers.get("Retry-After", "") if isinstance(error, openai.APIStatusError) else ""
    return min(float(retry_after), MAX_RETRY_DELAY_SECONDS) if retry_after.isdecimal() else 0.2
