"""What a request may look like before anyone believes it: its headers, its path, and who sent it."""

import ipaddress
import re

from shared.api.errors import ApiError
from shared.observability.tracing import HEADERS as TRACE_HEADERS
from shared.serving.asgi_types import Headers, Scope

MAX_HEADERS = 100
SINGLE_HEADERS = frozenset({b"host", b"authorization", b"x-api-key", b"content-type", b"content-length"})
# Said by a proxy about its client; from anyone else they are lies.
PROXY_HEADERS = (b"forwarded", b"x-forwarded-", b"x-real-ip")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def header(headers: Headers, name: bytes) -> bytes:
    """The value of the first header of this lower-case name; b"" when there is none."""
    return next((value for key, value in headers if key == name), b"")


def trace_headers(headers: Headers) -> dict[str, str]:
    """Which trace a request belongs to, as its sender says."""
    names = [name.encode() for name in TRACE_HEADERS]
    return {name.decode(): value.decode("latin-1") for name, value in headers if name in names}


def check_request(scope: Scope) -> None:
    """Raises ApiError 400 for what no honest client sends and what parsers behind us might read differently."""
    headers: Headers = scope["headers"]
    if len(headers) > MAX_HEADERS:
        raise ApiError(400, f"The request has more than {MAX_HEADERS} headers.")
    names = [name for name, _ in headers]
    for name in SINGLE_HEADERS:
        if names.count(name) > 1:
            raise ApiError(400, f"The header {name.decode()} is there more than once.")
    for name, value in headers:
        if b"_" in name:  # WSGI-like environments merge X_Y with X-Y
            raise ApiError(400, "A header's name has an underscore; use a hyphen.")
        if not _is_plain(value):
            raise ApiError(400, "A header's value has control characters or is not UTF-8.")
    if header(headers, b"transfer-encoding").lower() not in (b"", b"chunked"):
        raise ApiError(400, "Transfer-Encoding may be chunked only.")
    if scope["http_version"] == "1.1" and not header(headers, b"host"):
        raise ApiError(400, "HTTP/1.1 needs a Host header.")
    if _CONTROL.search(scope["path"]) or "\t" in scope["path"] or b"%00" in scope["query_string"]:
        raise ApiError(400, "The address has control characters.")


def _is_plain(value: bytes) -> bool:
    try:
        return _CONTROL.search(value.decode()) is None
    except UnicodeDecodeError:
        return False


def trusted_scope(scope: Scope, *, trusted_proxies: int) -> Scope:
    """The scope as the application may believe it, without the headers in which proxies speak.

    `trusted_proxies` proxies stand before us, and each appends its client's address to X-Forwarded-For: the client is
    the entry that the first of ours wrote, counted from the right. With none, what such headers say is not heard.
    """
    headers: Headers = scope["headers"]
    kept = [(name, value) for name, value in headers if not name.startswith(PROXY_HEADERS)]
    trusted = {**scope, "root_path": "", "headers": kept}
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
    """The client's address, or None when the chain is shorter than it must be or the entry is not an address."""
    entries = _entries(headers, b"x-forwarded-for")
    if len(entries) < trusted_proxies:
        return None
    try:
        return str(ipaddress.ip_address(entries[-trusted_proxies]))
    except ValueError:
        return None
