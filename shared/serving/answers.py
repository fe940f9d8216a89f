"""What every answer carries: the request's id, the headers that keep browsers out of trouble, and JSON for errors."""

from django.conf import settings

from shared.api.errors import Problem, error_body_bytes
from shared.serving.asgi_types import Event, Headers, Send

# Nothing that is not a page may be treated as one.
DATA_POLICY = b"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
# The admin and the API's pages bring their own scripts, some of them inline or evaluated; nothing comes from elsewhere.
PAGE_POLICY = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def with_safe_headers(headers: Headers, request_id: str) -> Headers:
    """The headers, and those of ours that the application has not set itself."""
    present = {name.lower(): value for name, value in headers}
    is_page = present.get(b"content-type", b"").startswith(b"text/html")
    ours = {
        b"x-request-id": request_id.encode(),
        b"x-content-type-options": b"nosniff",
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"same-origin",
        b"content-security-policy": PAGE_POLICY if is_page else DATA_POLICY,
        b"cache-control": b"no-store",
    }
    return [*headers, *((name, value) for name, value in ours.items() if name not in present)]


def problem_answer(problem: Problem, *, path: str, request_id: str) -> tuple[Headers, bytes]:
    """Headers and body of an error that never reaches Django; the connection ends with it."""
    body = error_body_bytes(problem, path=path, request_id=request_id)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    return with_safe_headers(headers, request_id), body


def shown_to(origin: str) -> Headers:
    """What lets a page of a named host read an answer that Django's own middleware never saw: else its browser takes
    a 429 for a broken connection."""
    if origin not in getattr(settings, "CORS_ALLOWED_ORIGINS", ()):
        return []
    exposed = ", ".join(settings.CORS_EXPOSE_HEADERS).encode()
    return [
        (b"access-control-allow-origin", origin.encode()),
        (b"access-control-expose-headers", exposed),
        (b"vary", b"origin"),
    ]


class Answer:
    """The `send` that the application gets; remembers the status, 0 as long as nothing was sent."""

    def __init__(self, send: Send, *, path: str, request_id: str, origin: str = "") -> None:
        self._send = send
        self._path = path
        self._request_id = request_id
        self._origin = origin
        self.status = 0
        self.headers: dict[str, str] = {}  # that every answer to this request carries, unless it has its own

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            event = {**event, "headers": self._with_all(list(event["headers"]))}
        await self._send(event)

    async def refuse(self, problem: Problem) -> None:
        """Answer with this problem. Nothing may have been sent yet."""
        headers, body = problem_answer(problem, path=self._path, request_id=self._request_id)
        self.status = problem.status
        headers = self._with_all([*headers, *shown_to(self._origin)])
        await self._send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _with_all(self, headers: Headers) -> Headers:
        present = {name.lower() for name, _ in headers}
        ours = ((name.lower().encode(), value.encode()) for name, value in self.headers.items())
        return with_safe_headers(
            [*headers, *((name, value) for name, value in ours if name not in present)], self._request_id
        )
