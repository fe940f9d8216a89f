"""Operations: plain async views whose method, credential, permission and body are checked before they run.

A view holds no thread while it waits for the engine. The OpenAPI document is made from what an operation declares.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

import msgspec
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from inference.access.docs import OperationDocs
from inference.access.idempotency import run_idempotently
from inference.access.requests import (
    BodyParser,
    BodyReader,
    authorize,
    check_content_type,
    check_method,
    check_public_body,
    heavy_request_slot,
    method_not_allowed,
    parse_json_body,
    read_body,
)
from inference.access.responses import json_response, problem_from_engine_error
from inference.access.resumption import StreamKey, resume_stream
from inference.engine import EngineError
from inference.protocol.parsing import parse_struct
from shared.accounts.authentication import Principal
from shared.accounts.middleware.idempotency import KEY_HEADER, KeyedPost
from shared.accounts.roles import Permission
from shared.api.errors import ApiError, problem_response
from shared.observability.request_id import current_request_id
from shared.serving.asgi.threads import run_in_turn

WARNINGS_HEADER = "Warnings"  # names the fields of the body that have no effect

BodyT = TypeVar("BodyT")
Handler = Callable[..., Awaitable[msgspec.Struct | HttpResponseBase]]
View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


@dataclass(frozen=True)
class OperationCall(Generic[BodyT]):
    """One authorized request with its parsed body and query. `principal` is None on public routes only.

    stream_key: set if the response is a stream that has to be stored, so that the same request can resume it.
    """

    request: HttpRequest
    principal: Principal | None
    body: BodyT
    query: Any = None
    stream_key: StreamKey | None = None

    @property
    def caller(self) -> Principal:
        """The principal of a route that is not public."""
        if self.principal is None:
            raise LookupError("a public route has no caller")
        return self.principal


@dataclass(frozen=True)
class Operation:
    """One method of a route; as a decorator it makes the view.

    It decorates `async handler(call, **path)`, which returns a wire struct or a response.

    permission: None for a public route.
    body, query: the wire structs that the JSON body and the query string become; None for none.
    body_parser: returns the body of the parsed JSON, if the type of `body` is not enough. A body may have
        `ignored_fields`, names of fields without effect, which the response's `Warnings` header lists.
    body_reader: returns the body of its bytes; it runs in a thread, within `heavy_request_slot`.
    response, events, content_type: the JSON, the server-sent events and any other content of a response.
    form_schema: the OpenAPI schema of a multipart form that the handler reads by itself.
    idempotent: a POST whose responses are stored for their Idempotency-Key. Its handler stores streams under
        `OperationCall.stream_key`, and calls `store_keyed_response` for a response that is stored in its transaction or
        that has a secret.
    """

    method: str
    _: KW_ONLY
    docs: OperationDocs
    permission: Permission | None
    body: type[Any] | None = None
    body_parser: BodyParser | None = None
    body_reader: BodyReader | None = None
    body_required: bool = True
    query: type[Any] | None = None
    form_schema: Mapping[str, Any] | None = None
    response: type[Any] | None = None
    events: tuple[type[Any], ...] = ()
    content_type: str | None = None
    idempotent: bool = False

    def __call__(self, handler: Handler) -> View:
        async def view(request: HttpRequest, **path: Any) -> HttpResponseBase:
            return await self.handle(handler, request, path)

        view.operations = (self,)  # type: ignore[attr-defined]
        view.__name__, view.__module__ = handler.__name__, handler.__module__
        return csrf_exempt(view)

    def streams(self, body: object) -> bool:
        """Return whether a request with this body is answered by a stream."""
        return bool(self.events) and (self.response is None or getattr(body, "stream", None) is True)

    async def handle(self, handler: Handler, request: HttpRequest, path: dict[str, Any]) -> HttpResponseBase:
        """Check the request, run the handler and answer its errors."""
        try:
            check_method(request, self.method)
            principal = await authorize(request, self.permission) if self.permission else None
            if self.idempotent and principal and KEY_HEADER in request.headers:
                post = KeyedPost(request, principal)
                return await run_idempotently(post, lambda: self._run(handler, request, principal, path, post))
            return await self._run(handler, request, principal, path)
        except (ApiError, EngineError) as error:
            problem = error.problem if isinstance(error, ApiError) else problem_from_engine_error(error)
            return problem_response(problem, path=request.path, request_id=current_request_id())

    async def _run(
        self,
        handler: Handler,
        request: HttpRequest,
        principal: Principal | None,
        path: dict[str, Any],
        post: KeyedPost | None = None,
    ) -> HttpResponseBase:
        async with heavy_request_slot(principal) if self.body_reader and principal else nullcontext():
            body = await self._parse_body(request)
            query = parse_struct(request.GET.dict(), self.query, strict=False) if self.query else None
            key = StreamKey(post.scope, post.fingerprint) if post and self.streams(body) else None
            if key and principal and (stream := await resume_stream(request, principal, key)):
                return stream
            result = await handler(OperationCall(request, principal, body, query, key), **path)
        response = result if isinstance(result, HttpResponseBase) else json_response(result)
        if ignored := getattr(body, "ignored_fields", ()):
            response.headers[WARNINGS_HEADER] = f"Ignored fields: {', '.join(ignored)}"
        return response

    async def _parse_body(self, request: HttpRequest) -> Any:
        if self.body is None:
            return None
        raw, body_type = read_body(request), self.body
        if self.permission is None:
            check_public_body(raw)
        if not raw and not self.body_required:
            return body_type()
        check_content_type(request)
        if self.body_reader:
            return await run_in_turn(self.body_reader, raw)
        return await parse_json_body(raw, self.body_parser or (lambda value: parse_struct(value, body_type)))


operation = Operation  # how views spell the decorator


def by_method(**views: View) -> View:
    """Return the view of a route with several operations: `by_method(GET=list_batches, POST=create_batch)`."""

    async def view(request: HttpRequest, **path: Any) -> HttpResponseBase:
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method in views:
            return await views[method](request, **path)
        problem = method_not_allowed([*views, "HEAD"] if "GET" in views else list(views)).problem
        return problem_response(problem, path=request.path, request_id=current_request_id())

    view.operations = tuple(declared for one in views.values() for declared in one.operations)  # type: ignore[attr-defined]
    return csrf_exempt(view)
