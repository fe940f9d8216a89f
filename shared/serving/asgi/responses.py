"""Headers of every response, and the JSON body of errors that never reach Django."""

from django.conf import settings

from shared.api.errors import ApiError, Problem, error_body_bytes
from shared.serving.asgi.types import Event, Headers, Send

DRAIN_RETRY_AFTER_SECONDS = 5
# Nothing but an HTML page may be treated as one.
DATA_POLICY = b"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
# The admin and the API documentation ship their own scripts, some inline or evaluated; nothing loads from elsewhere.
PAGE_POLICY = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def draining_error() -> ApiError:
    """Return the 503 of a server that is shutting down."""
    headers = {"Retry-After": str(DRAIN_RETRY_AFTER_SECONDS)}
    return ApiError(503, "This server is about to stop. Try again.", headers=headers)


def with_security_headers(headers: Headers, request_id: str) -> Headers:
    """Return the headers with the security headers that the application has not set itself."""
    present = {name.lower(): value for name, value in headers}
    is_html = present.get(b"content-type", b"").startswith(b"text/html")
    defaults = {
        b"x-request-id": request_id.encode(),
        b"x-content-type-options": b"nosniff",
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"same-origin",
        b"content-security-policy": PAGE_POLICY if is_html else DATA_POLICY,
        b"cache-control": b"no-store",
    }
    return [*headers, *((name, value) for name, value in defaults.items() if name not in present)]


def problem_response_parts(problem: Problem, *, path: str, request_id: str) -> tuple[Headers, bytes]:
    """Return headers and body of an error that never reaches Django. The connection closes after it."""
    body = error_body_bytes(problem, path=path, request_id=request_id)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    return with_security_headers(headers, request_id), body


def cors_headers(origin: str) -> Headers:
    """Return the CORS headers of a response that Django's CORS middleware never saw.

    Without them a browser shows a page of an allowed origin a network error in place of a 429.
    """
    if origin not in getattr(settings, "CORS_ALLOWED_ORIGINS", ()):
        return []
    exposed = ", ".join(settings.CORS_EXPOSE_HEADERS).encode()
    return [
        (b"access-control-allow-origin", origin.encode()),
        (b"access-control-expose-headers", exposed),
        (b"vary", b"origin"),
    ]


class ResponseSender:
    """The `send` callable of a request. `status` is 0 until the response has started.

    `headers` are added to every response to this request that does not set them itself. `client` is a key for who
    sent it, and `held_seconds` is how long it was held back, see `refusals`.
    """

    def __init__(self, send: Send, *, path: str, request_id: str, origin: str = "") -> None:
        self._send = send
        self._path = path
        self._request_id = request_id
        self._origin = origin
        self.status = 0
        self.headers: dict[str, str] = {}
        self.client = ""
        self.held_seconds = 0.0

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            event = {**event, "headers": self._add_headers(list(event["headers"]))}
        await self._send(event)

    async def send_problem(self, problem: Problem) -> None:
        """Send an error response. Nothing may have been sent before."""
        headers, body = problem_response_parts(problem, path=self._path, request_id=self._request_id)
        self.status = problem.status
        headers = self._add_headers([*headers, *cors_headers(self._origin)])
        await self._send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _add_headers(self, headers: Headers) -> Headers:
        present = {name.lower() for name, _ in headers}
        added = ((name.lower().encode(), value.encode()) for name, value in self.headers.items())
        headers = [*headers, *((name, value) for name, value in added if name not in present)]
        return with_security_headers(headers, self._request_id)
