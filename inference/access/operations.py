"""One operation of the API as a plain async view: method, credential, permission and body are checked before it runs.

A view holds no thread while it waits for the engine. What an operation declares is also what the OpenAPI page shows.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
import structlog
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from inference.access.idempotency import answer_once, has_key
from inference.engine import DeadlineExceeded, EngineError, HostUnavailable, ModelLoadFailed
from inference.protocol.errors import code_and_status
from inference.protocol.parameters import parse
from shared.accounts.authentication import Principal, aauthenticate, credential_from_headers
from shared.accounts.roles import Permission
from shared.api.errors import ApiError, Problem, problem_response
from shared.api.idempotent_requests import HEADER
from shared.api.json import LARGEST_CREDENTIALS_BYTES, parse_json, require_utf8
from shared.observability.request_id import current_request_id

BodyT = TypeVar("BodyT")
Parser = Callable[[Mapping[str, Any]], BodyT]
Reader = Callable[[bytes], BodyT]

# Larger bodies are parsed in a thread: this much JSON takes about a millisecond.
PARSED_ON_THE_LOOP_BYTES = 64 * 1024

# What a `reader` takes may be a hundred megabytes, and several times that once it is read: until it is its turn, a
# request's body waits on the disk.
_LONG_AT_ONCE = 2
_long_turns = asyncio.Semaphore(_LONG_AT_ONCE)
_turns_of_users: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

# They come out the same when they are asked the same again: time that was asked for is up, a model cannot be loaded.
_RETRY_IN_VAIN = (DeadlineExceeded, ModelLoadFailed)

_encoder = msgspec.json.Encoder()
logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Call(Generic[BodyT]):
    """One authorised request. `principal` is None on public routes only; `body` and `query` are parsed."""

    request: HttpRequest
    principal: Principal | None
    body: BodyT
    query: Any = None

    @property
    def caller(self) -> Principal:
        """Who asks, on routes that are not public."""
        if self.principal is None:
            raise LookupError("a public route knows nobody")
        return self.principal


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What one route takes and gives. `permission` None: public. `answer`: its JSON; `events`: what it streams;
    `content`: the type of what else it gives out. `form`: the schema of a multipart form that it reads itself. `keyed`:
    it heeds an Idempotency-Key."""

    method: str
    summary: str
    description: str
    permission: Permission | None
    body: type[Any] | None
    body_required: bool
    query: type[Any] | None
    form: Mapping[str, Any] | None
    answer: type[Any] | None
    events: tuple[type[Any], ...]
    content: str | None
    keyed: bool

    def streams(self, body: object) -> bool:
        """Whether a request with this body is answered by a stream."""
        return bool(self.events) and (self.answer is None or getattr(body, "stream", None) is True)


@asynccontextmanager
async def long_turn(principal: Principal) -> AsyncIterator[None]:
    """For what takes many seconds or much memory. A user has one turn at a time, so that whoever sends a hundred such
    requests makes nobody wait but themselves."""
    async with _turns_of_users.setdefault(principal.user.pk, asyncio.Lock()), _long_turns:
        yield


Handler = Callable[..., Awaitable[msgspec.Struct | HttpResponseBase]]
View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def operation(
    method: str,
    *,
    summary: str,
    permission: Permission | None,
    body: type[Any] | None = None,
    parser: Parser[Any] | None = None,
    reader: Reader[Any] | None = None,
    body_required: bool = True,
    query: type[Any] | None = None,
    form: Mapping[str, Any] | None = None,
    answer: type[Any] | None = None,
    events: tuple[type[Any], ...] = (),
    content: str | None = None,
    keyed: bool = False,
) -> Callable[[Handler], View]:
    """Make a view of `async handler(call, **from_the_path)`, which answers a wire struct or a response.

    body: the wire struct that the JSON body becomes, through `parser` when it needs more than its type; None: no body.
    reader: makes what is needed of a long body's bytes by itself, in a thread.
    query: the wire struct that the query string becomes; None: it is not looked at.
    keyed: a POST of which whole answers are kept for an Idempotency-Key: see `idempotency`. Not where an answer holds
        a secret.
    """

    def decorate(handler: Handler) -> View:
        declared = Operation(
            method=method,
            summary=summary,
            description=inspect.getdoc(handler) or "",
            permission=permission,
            body=body,
            body_required=body_required,
            query=query,
            form=form,
            answer=answer,
            events=events,
            content=content,
            keyed=keyed,
        )

        async def carry_out(
            request: HttpRequest, principal: Principal | None, path: dict[str, Any]
        ) -> HttpResponseBase:
            async with long_turn(principal) if reader and principal else nullcontext():
                return await answer_now(request, principal, path)

        async def answer_now(
            request: HttpRequest, principal: Principal | None, path: dict[str, Any]
        ) -> HttpResponseBase:
            value = await _body(request, declared, parser, reader)
            asked = parse(request.GET.dict(), query, strict=False) if query else None
            if keyed and has_key(request) and declared.streams(value):
                raise ApiError(400, f"A stream cannot be sent again: leave out {HEADER}, or ask for a whole answer.")
            result = await handler(Call(request, principal, value, asked), **path)
            return result if isinstance(result, HttpResponseBase) else json_response(result)

        async def view(request: HttpRequest, **from_the_path: Any) -> HttpResponseBase:
            try:
                _check_method(request, method)
                principal = await _authorised(request, permission) if permission else None
                if keyed and principal and has_key(request):
                    return await answer_once(request, principal, lambda: carry_out(request, principal, from_the_path))
                return await carry_out(request, principal, from_the_path)
            except (ApiError, EngineError) as error:
                problem = error.problem if isinstance(error, ApiError) else engine_problem(error)
                return problem_response(problem, path=request.path, request_id=current_request_id())

        view.operations = (declared,)  # type: ignore[attr-defined]
        view.__name__, view.__doc__, view.__module__ = handler.__name__, handler.__doc__, handler.__module__
        return csrf_exempt(view)

    return decorate


def by_method(**views: View) -> View:
    """The view of a route that several operations share: `by_method(GET=listing, POST=making)`."""

    async def view(request: HttpRequest, **from_the_path: Any) -> HttpResponseBase:
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method in views:
            return await views[method](request, **from_the_path)
        problem = _wrong_method([*views, "HEAD"] if "GET" in views else list(views)).problem
        return problem_response(problem, path=request.path, request_id=current_request_id())

    view.operations = tuple(declared for one in views.values() for declared in one.operations)  # type: ignore[attr-defined]
    return csrf_exempt(view)


def json_response(body: msgspec.Struct, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A wire struct as an answer."""
    return HttpResponse(_encoder.encode(body), content_type="application/json", headers=headers)


def engine_problem(error: EngineError) -> Problem:
    """An engine's error as the answer to a request."""
    code, status = code_and_status(error)
    details, message = dict(error.details), error.message
    if isinstance(error, HostUnavailable):  # its words are the operator's: they name folders of this machine
        logger.error("model_host_unavailable", reason=message)
        message = "No model can be reached just now. Try again in a moment."
    headers = {}
    if isinstance(error, _RETRY_IN_VAIN) and "retry_after" not in details:
        headers["X-Should-Retry"] = "false"  # OpenAI's clients would repeat it twice by themselves
    if status == 503:
        headers["Retry-After"] = str(max(1, round(details.pop("retry_after", 1))))
    return Problem(status=status, code=code, message=message, details=details or None, headers=headers)


def _whole(request: HttpRequest) -> bytes:
    """The body. The door has bounded it as this route wants it; Django's own bound is that of forms, whose fields it
    holds in memory whatever the route."""
    if not hasattr(request, "_body"):
        request._body = request.read()
    return request.body


def _check_method(request: HttpRequest, method: str) -> None:
    allowed = ["GET", "HEAD"] if method == "GET" else [method]
    if request.method not in allowed:
        raise _wrong_method(allowed)


def _wrong_method(allowed: list[str]) -> ApiError:
    allow = ", ".join(allowed)
    return ApiError(405, f"This address takes {allow} only.", headers={"Allow": allow})


async def _authorised(request: HttpRequest, permission: Permission) -> Principal:
    credential = credential_from_headers(request.headers)
    if credential is None:
        raise ApiError(
            401,
            "Send an API key or an access token in the Authorization header: `Authorization: Bearer ...`.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    principal = await aauthenticate(credential)
    if not principal.may(permission):
        raise ApiError(403, f"This needs the permission {permission}, which your user or key does not have.")
    return principal


async def _body(
    request: HttpRequest, declared: Operation, parser: Parser[Any] | None, reader: Reader[Any] | None
) -> Any:
    if declared.body is None:
        return None
    raw = _whole(request)
    if declared.permission is None and len(raw) > LARGEST_CREDENTIALS_BYTES:  # anybody may send it
        raise ApiError(413, f"The request body is larger than {LARGEST_CREDENTIALS_BYTES} bytes.")
    if not raw and not declared.body_required:
        return declared.body()
    if request.content_type not in ("application/json", ""):
        raise ApiError(415, "Send the body as JSON, with `Content-Type: application/json`.")
    require_utf8(request.content_params or {})
    if reader:
        return await asyncio.to_thread(reader, raw)
    kind = declared.body
    read = parser or (lambda value: parse(value, kind))
    if len(raw) > PARSED_ON_THE_LOOP_BYTES:
        return await asyncio.to_thread(lambda: read(parse_json(raw)))
    return read(parse_json(raw))
