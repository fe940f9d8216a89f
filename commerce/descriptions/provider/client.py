"""Client of the text provider: any OpenAI-compatible server.

A call takes at most CALL_TIMEOUT_SECONDS over at most two attempts, reads at most a megabyte, follows no redirect and
passes a circuit breaker. Every failure is raised as ProviderError with a fixed message, which contains no key, prompt
or text of the provider.
"""

import asyncio
import secrets
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import structlog
from django.utils.functional import cached_property

from commerce.model_server.circuit_breaker import CircuitBreaker, CircuitOpen
from commerce.model_server.transport import http_client
from shared.api.errors import ApiError
from shared.observability import tracing
from shared.observability.metrics import Counter

if TYPE_CHECKING:
    import openai

CALL_TIMEOUT_SECONDS = 19.5  # so that our own client has its response within 20 seconds
MAX_ATTEMPTS = 2
MAX_FAILURES = 5
COOLDOWN_SECONDS = 30.0
MAX_CONCURRENT_CALLS = 32  # per process: a slow provider must not block other requests
MAX_RETRY_DELAY_SECONDS = 5.0
FINISHED = ("stop", "length")  # finish reasons of a text that may be shown
SAMPLING_PARAMS = {"temperature": 0.7, "top_p": 0.9}

CALLS = Counter("stoa_provider_calls_total", "Texts requested from the text provider, by outcome.", "outcome")

FAILED = "The text provider did not return a description. Try again."
REFUSED = "The text provider refused the request: it is too long for the model, or the model is not loaded."
UNAVAILABLE = "The text provider failed several times in a row. Try again in 30 seconds."

log = structlog.get_logger(__name__)


class ProviderError(ApiError):
    """A call without a usable text. The message is fixed and safe to show."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message, code="ai_provider_error")


class ProviderBusy(ApiError):
    """The maximum number of concurrent calls is running, so no call was made."""

    def __init__(self) -> None:
        super().__init__(
            503, "Too many descriptions are being written. Try again in a few seconds.", headers={"Retry-After": "5"}
        )


class TruncatedStream(Exception):
    """A stream that ended without a finish reason."""


class EmptyText(Exception):
    """A complete response without words, or one that the provider filtered. Another request may succeed."""


@dataclass(frozen=True)
class Draw:
    """One text of the provider. ended: the model ended it itself, not the limit of tokens."""

    text: str
    ended: bool


@dataclass(frozen=True)
class _Piece:
    """A piece of one of the texts of a stream. finish_reason: with the last one."""

    index: int
    text: str
    finish_reason: str | None


@dataclass
class _Call:
    """A call in progress. headers: those that pass on the trace. has_answer: whether one text has ended."""

    headers: dict[str, str]
    has_answer: bool = False


class Provider:
    """One model of one provider. An instance is used within one event loop at a time."""

    def __init__(self, *, base_url: str, api_key: str, model: str) -> None:
        self._model = model
        self._base_url = base_url
        self._api_key = api_key or "none"  # the library requires a key; a provider that needs one refuses this
        self._breaker = CircuitBreaker(max_failures=MAX_FAILURES, cooldown_seconds=COOLDOWN_SECONDS)
        self._call_count = 0

    async def draws(
        self, messages: list[dict[str, str]], *, max_tokens: int, count: int, deadline: float | None = None
    ) -> AsyncGenerator[Draw, None]:
        """Yield `count` texts for one prompt, each as it ends. A server that returns fewer at once is asked for one.

        Closing the generator ends the provider's work. Raises ProviderError, ProviderBusy.
        """
        texts: dict[int, str] = defaultdict(str)
        pieces = self._call(messages, max_tokens, count, deadline, MAX_ATTEMPTS)
        async with aclosing(pieces):
            async for piece in pieces:
                texts[piece.index] += piece.text
                if piece.finish_reason in FINISHED and texts[piece.index].strip():
                    yield Draw(texts[piece.index].strip(), ended=piece.finish_reason == "stop")

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
        pieces = self._call(messages, max_tokens, 1, deadline, max_attempts)
        async with aclosing(pieces):
            async for piece in pieces:
                if piece.text and piece.index == 0:
                    yield piece.text

    async def _call(
        self, messages: list[dict[str, str]], max_tokens: int, count: int, deadline: float | None, max_attempts: int
    ) -> AsyncGenerator[_Piece, None]:
        deadline = deadline or _loop_time() + CALL_TIMEOUT_SECONDS
        await asyncio.to_thread(import_module, "openai")  # with the first call: it takes most of a second
        with self._track_call() as call:
            params = {"messages": messages, "max_tokens": max_tokens, "extra_headers": call.headers}
            params |= {"n": count} if count > 1 else {}
            pieces = self._attempt(params, deadline, max_attempts)
            async with aclosing(pieces):
                async for piece in pieces:
                    call.has_answer = call.has_answer or piece.finish_reason in FINISHED
                    yield piece

    @contextmanager
    def _track_call(self) -> Iterator[_Call]:
        """Admit a call and record its outcome."""
        import openai

        if self._call_count >= MAX_CONCURRENT_CALLS:
            raise ProviderBusy
        try:
            self._breaker.admit()
        except CircuitOpen:
            raise ProviderError(UNAVAILABLE) from None
        self._call_count += 1
        record, outcome = self._breaker.record_abandoned, "left"
        span = tracing.start_span("provider", kind=tracing.SpanKind.CLIENT, alone=True)
        call = _Call(tracing.propagation_headers(span))
        try:
            yield call
            record, outcome = self._breaker.record_success, "answered"
        # A refused request or an empty text shows a healthy provider. Otherwise one shop's requests could open the
        # circuit for all shops.
        except (openai.BadRequestError, openai.NotFoundError, openai.UnprocessableEntityError) as error:
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
            if outcome == "left" and call.has_answer:  # one of several texts was enough
                record, outcome = self._breaker.record_success, "answered"
            record()
            CALLS.add(1, outcome)
            tracing.end_span(
                span, {"gen_ai.request.model": self._model, "stoa.outcome": outcome}, failed=outcome == "failed"
            )

    def _provider_error(self, error: Exception, message: str) -> ProviderError:
        """Log a failure by its type and status, and return its ProviderError. Its own text quotes the provider."""
        import openai

        status = error.status_code if isinstance(error, openai.APIStatusError) else None
        log.warning("description_provider_failed", reason=type(error).__name__, status=status, model=self._model)
        return ProviderError(message)

    async def _attempt(
        self, params: dict[str, Any], deadline: float, max_attempts: int
    ) -> AsyncGenerator[_Piece, None]:
        """Yield the pieces of a request, which is repeated if it fails before the first piece in a transient way.

        A request of several texts that is refused is repeated for one: some servers return only one.
        """
        import openai

        attempts_left = max_attempts
        while attempts_left:
            attempts_left -= 1
            has_text = False
            pieces = self._request(params)
            try:
                async with aclosing(pieces):
                    while (piece := await _next_piece(pieces, deadline)) is not None:
                        has_text = has_text or bool(piece.text.strip())
                        yield piece
                if not has_text:
                    raise EmptyText
                return
            except (openai.BadRequestError, openai.UnprocessableEntityError):
                if params.pop("n", None) is None:
                    raise
                attempts_left += 1
            except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
                if has_text or not attempts_left:
                    raise
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(_retry_delay(error))

    async def _request(self, params: dict[str, Any]) -> AsyncGenerator[_Piece, None]:
        """Yield the pieces of one request.

        Each request has a client of its own: a client belongs to an event loop, and connecting takes little time
        beside a call.
        """
        import openai

        client = openai.AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            max_retries=0,
            http_client=http_client(self._ssl_context, timeout_seconds=CALL_TIMEOUT_SECONDS),
        )
        create: Any = client.chat.completions.create
        seed = secrets.randbelow(2**31)
        finish_reasons: dict[int, str | None] = {}
        async with (
            client,
            await create(model=self._model, stream=True, seed=seed, **SAMPLING_PARAMS, **params) as chunks,
        ):
            async for chunk in chunks:
                for choice in chunk.choices:
                    reason = choice.finish_reason or finish_reasons.get(choice.index)
                    finish_reasons[choice.index] = reason
                    yield _Piece(choice.index, choice.delta.content or "", choice.finish_reason)
        if not finish_reasons or None in finish_reasons.values():
            raise TruncatedStream
        if not set(FINISHED) & set(finish_reasons.values()):
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


async def _next_piece(pieces: AsyncGenerator[_Piece, None], deadline: float) -> _Piece | None:
    """Return the next piece, or None at the end. Raise TimeoutError at the deadline.

    The time limit does not span a yield, because the stream may be consumed from another task.
    """
    async with asyncio.timeout_at(deadline):
        return await anext(pieces, None)


def _retry_delay(error: "openai.APIError") -> float:
    """Return the seconds before the second attempt: the provider's Retry-After up to the maximum, or 0.2."""
    import openai

    retry_after = error.response.headers.get("Retry-After", "") if isinstance(error, openai.APIStatusError) else ""
    return min(float(retry_after), MAX_RETRY_DELAY_SECONDS) if retry_after.isdecimal() else 0.2
