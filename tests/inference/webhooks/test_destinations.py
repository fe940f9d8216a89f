"""Row W1: allowed and forbidden destinations of webhooks."""

import contextlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.webhooks.destinations import (
    Destination,
    InvalidDestination,
    is_public,
    parse_destination,
    read_webhook_receivers,
    require_public,
    resolve,
)
from tests.inference.webhooks.hostile_urls import NAMES, REFUSED_WHEN_GIVEN

pytestmark = pytest.mark.no_database

NOBODY: frozenset[str] = frozenset()
UNSHARE = shutil.which("unshare")


def test_w1_there_are_enough_hostile_urls():
    assert len(set(REFUSED_WHEN_GIVEN)) + len(NAMES) > 100


@pytest.mark.parametrize("url", REFUSED_WHEN_GIVEN)
def test_w1_a_hostile_url_is_refused(url: str):
    with pytest.raises(InvalidDestination) as refusal:
        parse_destination(url, allowlist=NOBODY)

    assert 10 < len(str(refusal.value)) < 300
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000/", "http://localhost/", "http://[::1]/", "https://a.example:8443/"]
)
def test_a_refused_private_receiver_names_the_setting_that_allows_it(url: str):
    with pytest.raises(InvalidDestination, match="The operator can allow it as host:port in STOA_WEBHOOK_ALLOW"):
        parse_destination(url, allowlist=NOBODY)


@pytest.mark.parametrize(("url", "addresses"), NAMES.items())
def test_w1_a_name_with_any_private_address_is_refused(url: str, addresses: list[str]):
    destination = parse_destination(url, allowlist=NOBODY)

    if addresses:
        with pytest.raises(InvalidDestination, match="not public"):
            require_public(destination, addresses)
    else:
        assert require_public(destination, addresses) == []


@pytest.mark.parametrize(
    ("url", "host", "port", "target", "host_header"),
    [
        ("https://hooks.example.com", "hooks.example.com", 443, "/", "hooks.example.com"),
        ("HTTPS://Hooks.Example.COM/a/B?c=%20d", "hooks.example.com", 443, "/a/B?c=%20d", "hooks.example.com"),
        ("http://example.com?x=1", "example.com", 80, "/?x=1", "example.com"),
        ("http://example.com:443/", "example.com", 443, "/", "example.com:443"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example"),
        ("http://93.184.216.34/", "93.184.216.34", 80, "/", "93.184.216.34"),
        ("http://[2606:2800:0220:1::1]/", "2606:2800:220:1::1", 80, "/", "[2606:2800:220:1::1]"),
        ("https://1.example.com/it's/(a)@home", "1.example.com", 443, "/it's/(a)@home", "1.example.com"),
    ],
)
def test_a_valid_url_is_parsed(url: str, host: str, port: int, target: str, host_header: str):
    destination = parse_destination(url, allowlist=NOBODY)

    assert (destination.host, destination.port, destination.target) == (host, port, target)
    assert destination.host_header == host_header
    assert destination.scheme == urlsplit(url).scheme
    assert not destination.is_allowlisted


def test_other_parsers_agree_on_the_host():
    for url in ("http://example.com:80/x", "https://hooks.example.com/?a=b", "http://[2606:2800:220:1::1]:443/"):
        destination = parse_destination(url, allowlist=NOBODY)
        assert urlsplit(url).hostname == destination.host


@given(st.text(alphabet="htps:/@[]\\.-#?%:127x0ae \t\uff0e\u3002\u212a", max_size=40).map("http://".__add__))
@settings(max_examples=2000, deadline=None)
def test_w1_no_url_is_parsed_ambiguously(url: str):
    try:
        destination = parse_destination(url, allowlist=NOBODY)
    except InvalidDestination:
        return
    other = urlsplit(url)
    assert other.hostname is not None
    assert other.username is None
    assert destination.port == (other.port or 80)
    assert destination.host in (other.hostname, str(as_address(other.hostname)))
    assert as_address(destination.host) is None or is_public(ip_address(destination.host))


def as_address(host: str) -> IPv4Address | IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ip_address(host)
    return None


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:2800:220:1::1", "2a00:1450::1"])
def test_public_addresses_are_allowed(address: str):
    assert is_public(ip_address(address))


def test_allowlisted_receivers_may_be_private():
    allowed = read_webhook_receivers(["Shop:8000", " 127.0.0.1:9000", "[::1]:9000"])

    assert parse_destination("http://shop:8000/hook", allowlist=allowed) == Destination(
        scheme="http", host="shop", port=8000, target="/hook", is_allowlisted=True
    )
    assert require_public(parse_destination("http://127.0.0.1:9000", allowlist=allowed), ["127.0.0.1"]) == ["127.0.0.1"]
    assert parse_destination("http://[::1]:9000/", allowlist=allowed).authority == "[::1]:9000"


@pytest.mark.parametrize(
    "url",
    ["http://shop/", "http://shop:8001/", "http://127.0.0.1:8000/", "http://user@shop:8000/", "http://x.shop:8000/"],
)
def test_only_exactly_what_the_operator_named_is_allowlisted(url: str):
    with pytest.raises(InvalidDestination):
        parse_destination(url, allowlist=read_webhook_receivers(["shop:8000"]))


@pytest.mark.parametrize("entry", ["shop", "http://shop:8000", "shop:http", "shop:8000/x", "*:80", "shop:70000", ""])
def test_an_invalid_allowlist_is_refused_at_startup(entry: str):
    with pytest.raises(ImproperlyConfigured, match="host:port"):
        read_webhook_receivers([entry])


def test_a_host_is_resolved_to_all_its_addresses():
    future: Future[list[str]] = resolve("127.0.0.1", 80)

    assert future.result(timeout=60) == ["127.0.0.1"]


@pytest.mark.skipif(UNSHARE is None, reason="no unshare on the PATH")
def test_w1_w2_no_listener_in_a_private_network_is_ever_contacted():
    """Run in a network namespace with listeners on all these addresses and on a public one."""
    command = [str(UNSHARE), "--net", sys.executable, "-m", "tests.inference.webhooks.private_network"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip("this user may make no network of their own")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["arrived"] == ["http://good.example.com/"]
    assert told["met"] == {"93.184.216.34": 1}
    assert told["rebound"] == {"": 334, "address_refused": 666}
    assert told["met_by_rebound"] == {"93.184.216.34": 334}
