"""The text provider: any OpenAI-compatible server, reached within bounds and left alone while it is down.

One call takes at most `DEADLINE_S` over at most two tries, reads at most a megabyte, follows no redirect, and passes a
circuit breaker. Every way in which a provider can fail comes out as ProviderError, whose text is ours alone: no key,
prompt or word of the provider's is in it.
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

from commerce.descriptions.breaker import BreakerOpen, CircuitBreaker
from commerce.descriptions.transport import http_client
from shared.observability import tracing
from shared.observability.metrics import Counter

DEADLINE_S = 19.5  # the answer to our own client is out within 20
DRAWS = 3
TRIES = 2
FAILURES_TO_OPEN = 5
REST_S = 30.0
AT_ONCE = 32  # calls of one process: a slow provider must not hold everything else up
LONGEST_PAUSE_S = 5.0
SAMPLING = {"temperature": 0.7, "top_p": 0.9}

CALLS = Counter("stoa_provider_calls_total", "Texts that were asked of the text provider, by outcome.", "outcome")

FAILED = "The text provider did not give a description. Try again in a moment."
REFUSED = "The text provider refused the request: it is too long for the model, or the model is not loaded."
RESTING = "The text provider failed several times in a row. Try again in half a minute."

log = structlog.get_logger(__name__)


class ProviderError(Exception):
    """The provider gave no usable text. The message is fixed and safe to show."""


class ProviderBusy(Exception):
    """As many calls as may run at once are running; nothing was asked."""


class CutShort(Exception):
    """The provider's stream ended before it said that the text is complete."""


class NoDescription(Exception):
    """The provider ended as it meant to, without words or by its own filter: the next request may fare better."""


class Provider:
    """One provider and one model of it. Used within one event loop at a time."""

    def __init__(self, *, base_url: str, api_key: str, model: str) -> None:
        self._model = model
        self._base_url = base_url
        self._api_key = api_key or "none"  # the client insists on one; a provider that needs one will refuse this
        self._breaker = CircuitBreaker(failures=FAILURES_TO_OPEN, rest_s=REST_S)
        self._running = 0

    async def write(self, messages: list[dict[str, str]], *, max_tokens: int, accept: Callable[[str], bool]) -> str:
        """A whole text: of up to three draws the first that `accept` takes, else the first. Outer blanks are dropped,
        nothing else is touched. Raises ProviderError, ProviderBusy."""
        deadline = _now() + DEADLINE_S
        first = ""
        for _ in range(DRAWS):
            try:
                text = await self._draw(messages, max_tokens, deadline, tries=1 if first else TRIES)
            except (ProviderError, ProviderBusy):
                if first:
                    break  # a second draw would have been better, the first is still a text
                raise
            if accept(text):
                return text
            first = first or text
        return first

    async def _draw(self, messages: list[dict[str, str]], max_tokens: int, deadline: float, *, tries: int) -> str:
        pieces = self.stream(messages, max_tokens=max_tokens, deadline=deadline, tries=tries)
        async with aclosing(pieces):
            return "".join([piece async for piece in pieces]).strip()

    async def stream(
        self, messages: list[dict[str, str]], *, max_tokens: int, deadline: float | None = None, tries: int = TRIES
    ) -> AsyncGenerator[str, None]:
        """The pieces of one text as they are written. `deadline` is in the event loop's time; by default it is
        `DEADLINE_S` away. Closing the generator ends the provider's stream. Raises ProviderError, ProviderBusy."""
        with self._one_call() as headers:
            pieces = self._tries(messages, max_tokens, deadline or _now() + DEADLINE_S, tries, headers)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

    @contextmanager
    def _one_call(self) -> Iterator[dict[str, str]]:
        """Around a call: lets it through or not, and learns from how it ends. Gives what tells the provider of which
        trace it is a part."""
        if self._running >= AT_ONCE:
            raise ProviderBusy
        try:
            self._breaker.admit()
        except BreakerOpen:
            raise ProviderError(RESTING) from None
        self._running += 1
        verdict, outcome = self._breaker.abandoned, "left"
        span = tracing.start("provider", kind=tracing.SpanKind.CLIENT, alone=True)
        try:
            yield tracing.headers(span)
            verdict, outcome = self._breaker.succeeded, "answered"
        # A provider that refuses one request, or has nothing to say to it, is well: whoever sends such requests must
        # not have it shut off for everybody else.
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            verdict, outcome = self._breaker.succeeded, "refused"
            raise self._error(error, REFUSED) from None
        except NoDescription as error:
            verdict, outcome = self._breaker.succeeded, "empty"
            raise self._error(error, FAILED) from None
        except Exception as error:  # whatever the provider made the client stumble over
            verdict, outcome = self._breaker.failed, "failed"
            raise self._error(error, FAILED) from None
        finally:
            self._running -= 1
            verdict()
            CALLS.add(1, outcome)
            tracing.end(
                span, {"gen_ai.request.model": self._model, "stoa.outcome": outcome}, failed=outcome == "failed"
            )

    def _error(self, error: Exception, told: str) -> ProviderError:
        """Logs a failure by its kind and status, never its text, which quotes the provider."""
        status = error.status_code if isinstance(error, openai.APIStatusError) else None
        log.warning("description_provider_failed", reason=type(error).__name__, status=status, model=self._model)
        return ProviderError(told)

    async def _tries(
        self, messages: list[dict[str, str]], max_tokens: int, deadline: float, tries: int, headers: dict[str, str]
    ) -> AsyncGenerator[str, None]:
        """Asks, and asks once more when the first try failed early in a way that may heal."""
        for tries_left in reversed(range(tries)):
            written = False
            pieces = self._ask(messages, max_tokens, headers)
            try:
                async with aclosing(pieces):
                    while (piece := await _next(pieces, deadline)) is not None:
                        written = written or not piece.isspace()
                        yield piece
                if not written:
                    raise NoDescription
                return
            except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
                if written or not tries_left:
                    raise
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(_pause(error))

    async def _ask(
        self, messages: list[dict[str, str]], max_tokens: int, headers: dict[str, str]
    ) -> AsyncGenerator[str, None]:
        """One request. A client of its own: event loops come and go, and a call is long beside a connection."""
        asked: Any = {"model": self._model, "messages": messages, "max_tokens": max_tokens, "stream": True, **SAMPLING}
        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            max_retries=0,
            http_client=http_client(self._ssl_context, limit_s=DEADLINE_S),
        )
        finish_reason = None
        asked |= {"seed": secrets.randbelow(2**31), "extra_headers": headers}
        async with client, await client.chat.completions.create(**asked) as chunks:
            async for chunk in chunks:
                for choice in chunk.choices[:1]:
                    finish_reason = choice.finish_reason or finish_reason
                    if choice.delta.content:
                        yield choice.delta.content
        if finish_reason is None:
            raise CutShort
        if finish_reason not in ("stop", "length"):
            raise NoDescription

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


@cache
def provider_for(*, base_url: str, api_key: str, model: str) -> Provider:
    """This process's one Provider, with its breaker, for an address, a key and a model."""
    return Provider(base_url=base_url, api_key=api_key, model=model)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _next(pieces: AsyncGenerator[str, None], deadline: float) -> str | None:
    """The next piece, None at the end. Raises TimeoutError at the deadline. The time limit never spans a yield: whoever
    consumes the stream may do so from another task."""
    async with asyncio.timeout_at(deadline):
        return await anext(pieces, None)


def _pause(error: openai.APIError) -> float:
    """Seconds to wait before the second try: what the provider asks for, within reason."""
    asked = error.response.headers.get("Retry-After", "") if isinstance(error, openai.APIStatusError) else ""
    return min(float(asked), LONGEST_PAUSE_S) if asked.isdecimal() else 0.2
