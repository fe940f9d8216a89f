"""The `API-Version` header: added to every response, and checked on requests."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from shared.api.errors import Problem, problem_response
from shared.middleware import Middleware
from shared.observability.request_id import current_request_id

HEADER = "API-Version"
VERSION = "1.0"
RESPONSE_MESSAGES = ("http.response.start", "websocket.accept", "websocket.http.response.start")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class ApiVersionMiddleware(Middleware):
    """Rejects requests for another major version of the API."""

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        return self._refusal(request) or self.get_response(request)

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        return self._refusal(request) or await self.get_response(request)

    def _refusal(self, request: HttpRequest) -> HttpResponseBase | None:
        requested = request.headers.get(HEADER, VERSION)
        if requested.partition(".")[0] != VERSION.partition(".")[0]:
            message = f"`{HEADER}` must be {VERSION} or absent, not {requested[:20]}."
            problem = Problem(status=400, code="invalid_request", message=message, details={"supported": [VERSION]})
            return problem_response(problem, path=request.path, request_id=current_request_id())
        return None


def with_api_version(application: Application) -> Application:
    """Return the application with the header on all HTTP responses and handshakes, also outside Django."""
    header = (HEADER.lower().encode(), VERSION.encode())

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] in RESPONSE_MESSAGES:
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await application(scope, receive, send_with_header)

    return run
