"""Row O3: marked words in requests to every endpoint of the shop appear in no log, trace or metric."""

import json
from collections.abc import Iterator

import httpx2
import pytest

from tests.canary import Canary, send_everything
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.live_server import ServedShop, served_shop
from tests.otlp import Collector, running_collector

pytestmark = pytest.mark.no_database

# Fields that decide how a body is handled; the canary would make it invalid.
STRUCTURE = ("type", "status", "model_type", "role", "permission", "currency", "language", "order_status")
EMAIL_SETTINGS = {"STOA_EMAIL_URL": "dummymail://"}  # by default e-mails are printed
DESCRIBE = "/api/generate-descriptions"


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def shop(provider: ProviderServer, collector: Collector) -> Iterator[ServedShop]:
    with served_shop(provider_url=provider.url("selected"), extra=collector.environment | EMAIL_SETTINGS) as served:
        yield served


def test_o3_content_of_requests_is_in_no_log_trace_or_metric(
    shop: ServedShop, provider: ProviderServer, collector: Collector
):
    canary = Canary()
    word = canary.word
    key = shop.api_key("SUPER_ADMIN")
    page = httpx2.get(f"{shop.url}/api/openapi.json", timeout=60).json()
    with httpx2.Client(base_url=shop.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        statuses = send_everything(client, page, canary, STRUCTURE)
    assert {200, 404} <= statuses
    owner = shop.headers("STORE_OWNER")
    described = []
    with httpx2.Client(base_url=shop.url, headers=owner, timeout=60) as client:
        for provider.selected in ("error_500", "garbage", "echo", "truncated"):
            for is_stream in (False, True):
                body = {"product_name": word, "keywords": [word], "tone": word, "stream": is_stream}
                described.append(client.post(DESCRIBE, json=body))
    assert [answer.status_code for answer in described] == [500, 500, 500, 500, 200, 200, 500, 500]
    assert [word in answer.text for answer in described] == [False] * 4 + [True] * 2 + [False] * 2
    signing = {"email": canary.email(), "password": word}
    for path in ("/api/token", "/api/register", "/api/forget-password", "/admin/login/"):
        httpx2.post(shop.url + path, json=signing | {"name": word}, timeout=30)
        httpx2.post(shop.url + path, data=signing, timeout=30)
    for headers in ({"Authorization": f"Bearer {word}"}, {"X-API-Key": f"stoa_{word}_{word}"}):
        httpx2.get(f"{shop.url}/api/me?token={word}", headers=headers, timeout=30)
    told = {
        "the log": shop.log.read_text(),
        "the collector": collector.raw.decode("latin-1"),
        "the metrics": httpx2.get(f"{shop.url}/metrics", headers={"X-API-Key": key}, timeout=30).text,
    }
    keys = [key, "sk-canary-key", owner["Authorization"].removeprefix("Bearer ")]
    where = {place: canary.find_in(text, *keys)[:3] for place, text in told.items()}
    assert {place: found for place, found in where.items() if found} == {}
    assert [json.loads(line)["level"] for line in shop.log.read_text().splitlines() if line.startswith("{")]


def test_a_requests_trace_continues_at_the_provider(shop: ServedShop, provider: ProviderServer, collector: Collector):
    provider.selected = "good"
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = shop.headers("STORE_OWNER") | {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    answer = httpx2.post(shop.url + DESCRIBE, json={"product_name": "Velmo lamp"}, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    spans = collector.of_trace(trace_id, "http", "provider")
    assert spans["provider"].parent_span_id == spans["http"].span_id
    assert spans["provider"].attributes["stoa.outcome"] == "answered"
    assert f"traceparent: 00-{trace_id}-{spans['provider'].span_id}-01" in provider.headers[-1]


def test_a_log_line_has_the_user_and_the_trace(shop: ServedShop, collector: Collector):
    headers = {"X-API-Key": shop.api_key("STAFF"), "X-Request-Id": "who-asked"}
    answer = httpx2.get(f"{shop.url}/api/me", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    trace_id = answer.headers["traceparent"].split("-")[1]
    assert collector.of_trace(trace_id, "http")["http"].attributes["user.id"] == str(answer.json()["id"])
    lines = [json.loads(line) for line in shop.log.read_text().splitlines() if "who-asked" in line]
    [line] = [line for line in lines if line["event"] == "request"]
    assert (line["user_id"], line["trace_id"]) == (int(answer.json()["id"]), trace_id)
    assert isinstance(line["api_key_id"], int)
