"""Allowed destinations of webhooks: servers on the public internet, never our own network (SSRF protection).

One regular expression parses a URL, and its groups are what is resolved and connected to: no second parser can disagree
with it. Every IP address of the host must be public.
"""

import re
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from django.core.exceptions import ImproperlyConfigured

MAX_URL_LENGTH = 2048
PORTS = {"http": 80, "https": 443}
MAX_CONCURRENT_LOOKUPS = 256  # in one process: each may block a thread until the name server times out

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][A-Za-z0-9._~!$&'()*+,;=:@/?%-]*)?",
    re.IGNORECASE | re.ASCII,  # without ASCII, `s` and `k` would also match U+017F and U+212A
)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+):[0-9]{1,5}")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")  # resolvers read a host with such a last label as a number
_DOTTED_QUAD = re.compile(r"[0-9]+(\.[0-9]+){3}")
_PRIVATE_SUFFIXES = frozenset(
    {"localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "arpa"}
)

# https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, and 168.63.129.16, a
# cloud's metadata service on a public address.
_NOT_PUBLIC_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")  # other ranges that embed IPv4 addresses lie outside, except 2002::/16
_NOT_PUBLIC_6 = [IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]


def read_webhook_receivers(entries: Iterable[str], name: str = "STOA_WEBHOOK_ALLOW") -> frozenset[str]:
    """Return the receivers as `host:port` in lower case. Raise ImproperlyConfigured for a wrong entry."""
    receivers = frozenset(entry.strip().lower() for entry in entries)
    for entry in receivers:
        if not _AUTHORITY.fullmatch(entry) or int(entry.rpartition(":")[2]) > 65535:
            raise ImproperlyConfigured(
                f"{name} holds {entry!r}: give host:port, as in shop.example:8000, with commas between."
            )
    return receivers


class InvalidDestination(Exception):
    """The URL is not allowed. The message says what it must be, and follows the name of the field."""


class PrivateDestination(InvalidDestination):
    """The URL is of a private network, which only the operator can allow."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message} The operator can allow it as host:port in STOA_WEBHOOK_ALLOW, for webhooks of the shop in "
            "STOA_SHOP_WEBHOOK_ALLOW."
        )


class LookupFailed(Exception):
    """The host could not be resolved; a later lookup may succeed."""


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The parts of a URL. host: a name or a canonical IP address, without brackets. is_allowlisted: may be private."""

    scheme: str
    host: str
    port: int
    target: str
    is_allowlisted: bool

    @property
    def authority(self) -> str:
        """Return `host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Return the Host header, without the scheme's default port."""
        is_default = self.port == PORTS[self.scheme]
        return self.authority.removesuffix(f":{self.port}") if is_default else self.authority


def parse_destination(url: str, *, allowlist: frozenset[str]) -> Destination:
    """Return the parts of an allowed URL. Raises InvalidDestination."""
    match = _URL.fullmatch(url)
    if len(url) > MAX_URL_LENGTH:
        raise InvalidDestination(f"must have at most {MAX_URL_LENGTH} characters.")
    if match is None:
        raise InvalidDestination(_syntax_error(url))
    scheme = match["scheme"].lower()
    port = int(match["port"] or PORTS[scheme])
    target = match["target"] or "/"
    target = target if target.startswith("/") else f"/{target}"
    is_allowlisted = f"{match['host'].lower()}:{port}" in allowlist
    host = match["host"].lower().strip("[]") if is_allowlisted else _require_public_host(match["host"].lower())
    if not is_allowlisted and port not in PORTS.values():
        raise PrivateDestination(f"must have the port 80 or 443, not {port}.")
    return Destination(scheme=scheme, host=host, port=port, target=target, is_allowlisted=is_allowlisted)


def require_public(destination: Destination, addresses: Iterable[str]) -> list[str]:
    """Return the resolved addresses without duplicates. Raises InvalidDestination unless all of them are public."""
    unique = list(dict.fromkeys(addresses))
    if not destination.is_allowlisted and not all(is_public(ip_address(address)) for address in unique):
        raise PrivateDestination(
            f"must have a public host, and {destination.host} resolves to an address that is not public."
        )
    return unique


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether the address is reachable on the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address.scope_id is None and address in _PUBLIC_6 and not any(address in net for net in _NOT_PUBLIC_6)


Resolver = Callable[[str, int], "Future[list[str]]"]
_lookup_slots = threading.BoundedSemaphore(MAX_CONCURRENT_LOOKUPS)


def resolve(host: str, port: int) -> "Future[list[str]]":
    """Return a future with all addresses of a host. It raises LookupFailed.

    Resolves in a daemon thread, since the system's resolver has no timeout.
    """
    future: Future[list[str]] = Future()
    future.set_running_or_notify_cancel()  # a caller that stops waiting cannot cancel it: the thread continues
    if not _lookup_slots.acquire(blocking=False):
        future.set_exception(LookupFailed("Too many lookups are running."))
        return future
    threading.Thread(target=_resolve, args=(host, port, future), name="dns-lookup", daemon=True).start()
    return future


def _resolve(host: str, port: int, future: "Future[list[str]]") -> None:
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        future.set_result([str(address[0]) for *_, address in results])
    except (OSError, UnicodeError) as error:
        future.set_exception(LookupFailed(f"{host} could not be resolved: {type(error).__name__}."))
    finally:
        _lookup_slots.release()


def _require_public_host(host: str) -> str:
    """Return the host if it is a public IP address or may be a public name. Raises InvalidDestination."""
    if host.startswith("["):
        return _require_public_literal(host.strip("[]"))
    if _DOTTED_QUAD.fullmatch(host):
        return _require_public_literal(host)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        raise InvalidDestination("must have an IPv4 address of four decimal numbers without leading zeros.")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidDestination(f"must have a valid host name, not {host[:100]!r}.")
    if len(labels) < 2 or labels[-1] in _PRIVATE_SUFFIXES:
        raise PrivateDestination(f"must have a public host name, and {host} is a name of a private network.")
    return host


def _require_public_literal(text: str) -> str:
    with suppress(ValueError):
        address = ip_address(text)
        if not is_public(address):
            raise PrivateDestination(f"must have a public address, and {text} is not public.")
        return str(address)
    raise InvalidDestination(f"must have a valid IP address, not {text[:100]!r}.")


def _syntax_error(url: str) -> str:
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "must be printable ASCII without spaces and backslashes. Write a host name in its xn-- form."
    if not re.match("https?://", url, re.IGNORECASE):
        return "must begin with https:// or http://."
    if "@" in re.split("[/?#]", url.partition("://")[2])[0]:
        return "must not contain a user name or password. Receivers authenticate messages by their signature."
    if "#" in url:
        return "must not contain a fragment. Remove the part from # on."
    return "must have the form https://example.com/path."
