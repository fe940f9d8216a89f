"""Checks of a request's head, and the client's address and scheme behind proxies."""

import ipaddress
import re

from shared.api.errors import ApiError
from shared.observability.tracing import HEADERS as TRACE_HEADERS
from shared.serving.asgi.types import Headers, Scope

MAX_HEADER_COUNT = 100
ALLOWED_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
SINGLE_HEADERS = frozenset({b"host", b"authorization", b"x-api-key", b"content-type", b"content-length"})
# Only a trusted proxy may set these; from any other client they are removed.
PROXY_HEADERS = (b"forwarded", b"x-forwarded-", b"x-real-ip")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def get_header(headers: Headers, name: bytes) -> bytes:
    """Return the value of the first header with this lower-case name, or b""."""
    return next((value for key, value in headers if key == name), b"")


def trace_headers(headers: Headers) -> dict[str, str]:
    """Return the W3C Trace Context headers of a request."""
    names = [name.encode() for name in TRACE_HEADERS]
    return {name.decode(): value.decode("latin-1") for name, value in headers if name in names}


def validate_request(scope: Scope) -> None:
    """Raise ApiError 400 for a head that parsers behind this one might read differently (request smuggling).

    Raise ApiError 405 for TRACE, which no route has: its response would repeat headers that scripts must not read.
    """
    if scope.get("method") == "TRACE":  # a WebSocket has no method
        raise ApiError(405, "No address takes TRACE.", headers={"Allow": ALLOWED_METHODS})
    headers: Headers = scope["headers"]
    if len(headers) > MAX_HEADER_COUNT:
        raise ApiError(400, f"The request has more than {MAX_HEADER_COUNT} headers.")
    names = [name for name, _ in headers]
    for name in SINGLE_HEADERS:
        if names.count(name) > 1:
            raise ApiError(400, f"The header {name.decode()} is there more than once.")
    for name, value in headers:
        if b"_" in name:  # WSGI-like environments merge X_Y with X-Y
            raise ApiError(400, "A header's name has an underscore; use a hyphen.")
        if not _is_plain_text(value):
            raise ApiError(400, "A header's value has control characters or is not UTF-8.")
    if get_header(headers, b"transfer-encoding").lower() not in (b"", b"chunked"):
        raise ApiError(400, "Transfer-Encoding may be chunked only.")
    if scope.get("http_version", "1.1") == "1.1" and not get_header(headers, b"host"):
        raise ApiError(400, "HTTP/1.1 needs a Host header.")
    if _CONTROL.search(scope["path"]) or "\t" in scope["path"] or b"%00" in scope["query_string"]:
        raise ApiError(400, "The address has control characters.")


def _is_plain_text(value: bytes) -> bool:
    try:
        return _CONTROL.search(value.decode()) is None
    except UnicodeDecodeError:
        return False


def apply_proxy_headers(scope: Scope, *, trusted_proxies: int) -> Scope:
    """Return the scope with the client's address and scheme from trusted proxies, and without proxy headers.

    Each of the `trusted_proxies` appends its client's address to X-Forwarded-For. The client is the entry that the
    outermost of them wrote, counted from the right. With 0 proxies these headers are ignored.
    """
    headers: Headers = scope["headers"]
    forwarded = [(name, value) for name, value in headers if not name.startswith(PROXY_HEADERS)]
    trusted = {**scope, "root_path": "", "headers": forwarded}
    if trusted_proxies:
        if address := _forwarded_address(headers, trusted_proxies):
            trusted["client"] = (address, 0)
        if _entries(headers, b"x-forwarded-proto")[-1].lower() == "https":
            trusted["scheme"] = "https"
    return trusted


def _entries(headers: Headers, name: bytes) -> list[str]:
    joined = b",".join(value for key, value in headers if key == name)
    return [entry.strip() for entry in joined.decode("latin-1").split(",")]


def _forwarded_address(headers: Headers, trusted_proxies: int) -> str | None:
    """Return the client's address; None if X-Forwarded-For has too few entries or the entry is not an IP address."""
    entries = _entries(headers, b"x-forwarded-for")
    if len(entries) < trusted_proxies:
        return None
    try:
        return str(ipaddress.ip_address(entries[-trusted_proxies]))
    except ValueError:
        return None
