"""The shop's health page in the admin: what its checks find, and what to do."""

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import current_app
from django.test import Client
from django.utils import timezone, translation
from pytest_django import Settings

from commerce.catalog.search.indexing import update_index
from commerce.metrics.health_checks import CHECKS, check_model_server, check_queues, check_search
from commerce.shops.models import Shop
from commerce.webhooks.events import ShopEvent
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.observability.checks import check_disk, run_checks
from shared.webhooks.delivery.outbox import deliver_due
from shared.webhooks.models import Delivery
from shared.webhooks.services import create_endpoint
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user
from tests.commerce.reviews.factories import review
from tests.webhook_receivers import respond_with, running_receiver

PATH = "/admin/health/"

pytestmark = [pytest.mark.django_db, pytest.mark.no_database]


class ModelList(http.server.BaseHTTPRequestHandler):
    """A model server that lists one model to whoever has its key."""

    def do_GET(self) -> None:
        key = self.headers["Authorization"] if self.path == "/v1/models" else None
        self.send_response({"Bearer the-key": 200, "Bearer run_inference": 403}.get(key, 401))
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "stoa-writer"}]}).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def model_server(settings: Settings) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ModelList)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.DESCRIPTIONS_BASE_URL = f"http://127.0.0.1:{server.server_port}/v1"
    settings.DESCRIPTIONS_API_KEY, settings.DESCRIPTIONS_MODEL, settings.SEARCH_MODEL = "the-key", "stoa-writer", ""
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("role", [role for role in Role if role != Role.SUPER_ADMIN])
def test_only_super_admins_see_it(role: Role):
    client = Client()
    client.force_login(make_user(role))
    assert client.get(PATH).status_code in (302, 403)
    assert Client().get(PATH).status_code == 302


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ("problem", "Start it, or correct STOA_DESCRIPTIONS_BASE_URL")),
        ("de", ("Problem", "Ihn starten oder STOA_DESCRIPTIONS_BASE_URL")),
        ("es", ("problema", "Inicie")),
    ],
)
def test_it_says_what_is_wrong_and_what_to_do(admin: User, settings: Settings, language: str, texts: tuple[str, ...]):
    settings.DESCRIPTIONS_BASE_URL = "http://127.0.0.1:9/v1"
    client = Client(headers={"Accept-Language": language})
    client.force_login(admin)
    page = unescape(client.get(PATH).content.decode())
    for text in texts:
        assert text in page
    assert PATH in unescape(client.get("/admin/").content.decode()), "the sidebar has it"


def test_every_check_has_an_outcome(admin: User):
    findings = run_checks(CHECKS)
    checks = {finding.check for finding in findings}
    assert checks >= {"version", "database", "redis", "workers", "search index", "analytics", "model server", "disk"}
    assert all(finding.advice for finding in findings if not finding.is_ok)


@pytest.mark.parametrize(("language", "size"), [("en", ": 1.5 GB free."), ("de", ": 1,5 GB frei.")])
def test_sizes_have_the_decimal_sign_of_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, size: str
):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1_520_000_000))
    with translation.override(language):
        (finding,) = check_disk([tmp_path])
    assert finding.found == f"{tmp_path}{size}"


def test_a_model_server_that_answers_and_has_the_models_is_well(model_server: None):
    (finding,) = check_model_server()
    assert (finding.is_ok, finding.found) == (True, "It answers.")


def test_a_key_that_may_not_list_models_is_no_problem(model_server: None, settings: Settings):
    settings.DESCRIPTIONS_API_KEY = "run_inference"
    (finding,) = check_model_server()
    assert (finding.is_ok, finding.found) == (True, "It answers. The key may not list its models.")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"DESCRIPTIONS_MODEL": "another"}, "It has no model another."),
        ({"SEARCH_MODEL": "an-encoder"}, "It has no model an-encoder."),
        ({"DESCRIPTIONS_API_KEY": "wrong"}, "It does not answer: HTTPStatusError."),
        ({"DESCRIPTIONS_BASE_URL": "http://127.0.0.1:9/v1"}, "It does not answer: ConnectError."),
        ({"DESCRIPTIONS_BASE_URL": "http://[::1/v1"}, "It does not answer: InvalidURL."),
        ({"DESCRIPTIONS_API_KEY": ""}, "It does not answer: HTTPStatusError."),
    ],
)
def test_a_model_server_that_is_away_or_lacks_a_model_is_a_problem(
    model_server: None, settings: Settings, changes: dict[str, str], found: str
):
    for name, value in changes.items():
        setattr(settings, name, value)
    (finding,) = check_model_server()
    assert (finding.is_ok, finding.found) == (False, found)
    assert finding.advice


def test_it_says_how_many_products_the_index_lacks(shop: Shop, settings: Settings):
    settings.SEARCH_MODEL = ""
    make_product(shop)
    assert check_search()[0].found == "Products whose changes are not in it yet: 1."
    while update_index():
        pass
    assert check_search()[0].found == "Products whose changes are not in it yet: 0."


def test_without_a_broker_no_worker_is_missing(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(current_app.conf, "broker_url", "")
    assert [finding.is_ok for finding in check_queues()] == [True]


def test_a_failing_webhook_is_a_problem_for_a_day(admin: User, shop: Shop, settings: Settings):
    client = Client()
    client.force_login(admin)
    assert "0 deliveries failed within the last 24 hours." in client.get(PATH).text
    with running_receiver(respond_with(410)) as receiver:
        settings.WEBHOOK_ALLOW = frozenset({receiver.authority})
        events = [ShopEvent.REVIEW_CREATED]
        create_endpoint(user=shop.owner, url=receiver.url, events=events, is_enabled=True, now=timezone.now())
        review(make_user(Role.CUSTOMER), make_product(shop, status="publish"))
        deliver_due()

    page = client.get(PATH).text
    assert "1 delivery failed within the last 24 hours." in page
    assert "The list of deliveries in this admin shows them, and sends them again." in page
    assert "1 is off: its receiver is gone." in page
    Delivery.objects.update(finished_at=timezone.now() - timedelta(hours=25))
    page = client.get(PATH).text
    assert "0 deliveries failed within the last 24 hours." in page
    assert "sends them again" not in page
