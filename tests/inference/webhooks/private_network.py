"""Script for a network namespace: send webhooks to every hostile URL, with listeners on all addresses.

Also sends to a name that resolves to another address at each lookup. Prints the outcomes and the addresses at which
listeners were contacted, as JSON.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import threading
from collections import Counter
from concurrent.futures import Future
from itertools import cycle
from urllib.parse import urlsplit

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.test")
django.setup()

from shared.webhooks.delivery.transport import DeliveryRequest, Transport  # noqa: E402
from shared.webhooks.destinations import Resolver  # noqa: E402 the models need what setup has made
from tests.inference.webhooks.hostile_urls import NAMES, REFUSED_WHEN_GIVEN  # noqa: E402

HERE = [
    "10.9.9.9/24", "169.254.169.254/16", "172.16.0.1/24", "192.168.1.1/24", "100.64.0.1/24", "100.100.100.200/24",
    "168.63.129.16/32", "93.184.216.34/32", "fd00:ec2::254/64", "fec0::1/64", "fc00::1/64", "64:ff9b::7f00:1/96",
    "2002:7f00:1::/64",
]  # fmt: skip
PORTS = (80, 443, 22, 25, 6379)
CONCURRENCY = 50
REBINDINGS = 1000
GOOD = {"http://good.example.com/": ["93.184.216.34"]}


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in HERE:
        subprocess.run(["ip", "address", "add", address, "dev", "lo"], check=":" not in address)
    connections: Counter[str] = Counter()
    threading.Thread(target=listen, args=(listeners(), connections), daemon=True).start()
    urls = [*REFUSED_WHEN_GIVEN, *NAMES, *GOOD]
    failures = outcomes(urls, named)
    met_by_hostile = dict(connections)
    connections.clear()
    rebound = outcomes([f"http://rebinding.example.com/{number}" for number in range(REBINDINGS)], rebinding())
    report = {
        "arrived": [url for url, failure in failures.items() if not failure],
        "met": met_by_hostile,
        "rebound": Counter(rebound.values()),
        "met_by_rebound": dict(connections),
    }
    print(json.dumps(report))


def outcomes(urls: list[str], resolve: Resolver) -> dict[str, str]:
    """Return the failure of each attempt; "" if it was delivered."""
    with Transport(allowlist=frozenset(), resolve=resolve) as network:
        failures: dict[str, str] = {}
        for start in range(0, len(urls), CONCURRENCY):
            attempts = {
                url: network.send(
                    DeliveryRequest(delivery_id=1, user_id=1, attempt=1, tries=1, url=url, body="{}", headers=())
                )
                for url in urls[start : start + CONCURRENCY]
            }
            failures |= {url: attempt.result(timeout=60).failure for url, attempt in attempts.items()}
    return failures


def named(host: str, port: int) -> "Future[list[str]]":
    """Return a resolver of these names; the system resolves others, without a name server."""
    known = {urlsplit(url).hostname: addresses for url, addresses in (NAMES | GOOD).items()}
    future: Future[list[str]] = Future()
    future.set_result(known[host] if host in known else [address[4][0] for address in socket.getaddrinfo(host, port)])
    return future


def rebinding() -> Resolver:
    """Return a resolver that alternates between a public and a private address."""
    answers = cycle([["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "169.254.169.254"]])

    def resolve(host: str, port: int) -> "Future[list[str]]":
        future: Future[list[str]] = Future()
        future.set_result(next(answers))
        return future

    return resolve


def listeners() -> list[socket.socket]:
    """Return listening sockets on every address of this network."""
    listening = [socket.create_server(("", port)) for port in PORTS]
    with contextlib.suppress(OSError):  # a machine without IPv6
        listening += [socket.create_server(("::", port), family=socket.AF_INET6) for port in PORTS]
    return listening


def listen(listening: list[socket.socket], connections: Counter[str]) -> None:
    """Accept and count every connection, and answer 200."""
    while True:
        for listener in select.select(listening, [], [])[0]:
            peer, _ = listener.accept()
            connections[peer.getsockname()[0]] += 1
            peer.settimeout(5)
            with peer, contextlib.suppress(OSError):
                while (piece := peer.recv(65536)) and not piece.endswith(b"{}"):
                    pass
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


if __name__ == "__main__":
    main()
