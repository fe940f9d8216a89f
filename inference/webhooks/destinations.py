"""Where a webhook may go: to servers of the public internet, and not back into our own network.

One expression reads an address, and what it found is what is looked up and connected to: no second reading of it can
come to another end. Every address that the name has must be public, whatever its spelling.
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

LONGEST_URL = 2048
PORTS = {"http": 80, "https": 443}
MOST_LOOK_UPS = 256  # at once, in one process: a name server that never answers holds a thread for a while

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][A-Za-z0-9._~!$&'()*+,;=:@/?%-]*)?",
    re.IGNORECASE | re.ASCII,  # else `s` and `k` would also match two letters of Unicode
)
_ALLOWED = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+):[0-9]{1,5}")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")  # a last label like this makes resolvers read a name as a number
_FOUR_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+){3}")
_INSIDE = frozenset({"localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "arpa"})

# https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-, and a cloud's metadata on a public address.
_NOT_PUBLIC_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")  # whatever embeds an IPv4 address in another way lies outside, but for 2002::/16
_NOT_PUBLIC_6 = [IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]


class BadDestination(Exception):
    """No webhook may go there. The message says what is wrong with the address."""


class NameUnknown(Exception):
    """The name could not be looked up; it may be possible later."""


@dataclass(frozen=True, kw_only=True)
class Destination:
    """An address in its parts. `host` is a name or a canonical IP address, without brackets. `is_exempt`: the operator
    has named it, so that it may be anywhere."""

    scheme: str
    host: str
    port: int
    target: str
    is_exempt: bool

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        is_usual = self.port == PORTS[self.scheme]
        return self.authority.removesuffix(f":{self.port}") if is_usual else self.authority


def read_allowed(entries: Iterable[str]) -> frozenset[str]:
    """STOA_WEBHOOK_ALLOW as `host:port`s. Raises ImproperlyConfigured for what is none."""
    allowed = frozenset(entry.strip().lower() for entry in entries)
    for entry in allowed:
        if not _ALLOWED.fullmatch(entry) or int(entry.rpartition(":")[2]) > 65535:
            raise ImproperlyConfigured(
                f"STOA_WEBHOOK_ALLOW holds {entry!r}: give host:port, as in shop.example:8000, with commas between."
            )
    return allowed


def parse_destination(url: str, *, allowed: frozenset[str]) -> Destination:
    """The parts of an address that a webhook may have. Raises BadDestination."""
    found = _URL.fullmatch(url)
    if len(url) > LONGEST_URL:
        raise BadDestination(f"An address has at most {LONGEST_URL} characters.")
    if found is None:
        raise BadDestination(_what_is_wrong(url))
    scheme = found["scheme"].lower()
    port = int(found["port"] or PORTS[scheme])
    target = found["target"] or "/"
    target = target if target.startswith("/") else f"/{target}"
    spelled = f"{found['host'].lower()}:{port}"
    is_exempt = spelled in allowed
    host = found["host"].lower().strip("[]") if is_exempt else _public_host(found["host"].lower())
    if not is_exempt and port not in PORTS.values():
        raise BadDestination(f"Port {port} is not open to webhooks: use 80 or 443.")
    return Destination(scheme=scheme, host=host, port=port, target=target, is_exempt=is_exempt)


def public_addresses(destination: Destination, found: Iterable[str]) -> list[str]:
    """The addresses that a look-up has found, if all of them may be connected to. Raises BadDestination."""
    addresses = list(dict.fromkeys(found))
    if not destination.is_exempt and not all(is_public(ip_address(address)) for address in addresses):
        raise BadDestination(f"{destination.host} leads to an address that is not public.")
    return addresses


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether it belongs to some server on the internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address.scope_id is None and address in _PUBLIC_6 and not any(address in net for net in _NOT_PUBLIC_6)


LookUp = Callable[[str, int], "Future[list[str]]"]
_free_look_ups = threading.BoundedSemaphore(MOST_LOOK_UPS)


def look_up(host: str, port: int) -> "Future[list[str]]":
    """Every address of a host, asked for in a thread that nothing waits for: the system's resolver knows no time limit.
    The future raises NameUnknown."""
    future: Future[list[str]] = Future()
    future.set_running_or_notify_cancel()  # who gives up waiting cannot cancel it: its thread goes on
    if not _free_look_ups.acquire(blocking=False):
        future.set_exception(NameUnknown("Too many names are being looked up just now."))
        return future
    threading.Thread(target=_look_up, args=(host, port, future), name="look-up", daemon=True).start()
    return future


def _look_up(host: str, port: int, future: "Future[list[str]]") -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        future.set_result([str(address[0]) for *_, address in found])
    except (OSError, UnicodeError) as error:
        future.set_exception(NameUnknown(f"{host} could not be looked up: {type(error).__name__}."))
    finally:
        _free_look_ups.release()


def _public_host(host: str) -> str:
    if host.startswith("["):
        return _public_literal(host.strip("[]"))
    if _FOUR_NUMBERS.fullmatch(host):
        return _public_literal(host)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        raise BadDestination("Write an IPv4 address as four decimal numbers without leading zeros.")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadDestination(f"{host[:100]!r} is not a host name.")
    if len(labels) < 2 or labels[-1] in _INSIDE:
        raise BadDestination(f"{host} is a name of a private network: use one that the internet knows.")
    return host


def _public_literal(text: str) -> str:
    with suppress(ValueError):
        address = ip_address(text)
        if not is_public(address):
            raise BadDestination(f"{text} is not a public address.")
        return str(address)
    raise BadDestination(f"{text[:100]!r} is not an IP address.")


def _what_is_wrong(url: str) -> str:
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "An address has no blanks, backslashes or characters beyond ASCII: write a name in its xn-- form."
    if not re.match("https?://", url, re.IGNORECASE):
        return "An address begins with https:// or http://."
    if "@" in re.split("[/?#]", url.partition("://")[2])[0]:
        return "An address has no user name or password: the signature says who sends it."
    if "#" in url:
        return "An address has no fragment: remove what begins with #."
    return "This is not an address: write it as https://example.com/path."
