"""The shop's health page in the admin: what its checks find, and what to do."""

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.catalog.search.indexing import update_index
from commerce.metrics.health_checks import CHECKS, check_model_server, check_search
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.observability.checks import run_checks
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user

PATH = "/admin/health/"

pytestmark = pytest.mark.django_db


class ModelList(http.server.BaseHTTPRequestHandler):
    """A model server that lists one model to whoever has its key."""

    def do_GET(self) -> None:
        is_known = self.path == "/v1/models" and self.headers["Authorization"] == "Bearer the-key"
        self.send_response(200 if is_known else 401)
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
        ("en", ("problems found.", "Start one; its log says why if it ends.")),
        ("de", ("Probleme gefunden.", "Einen starten; endet er, steht der Grund in seinem Protokoll.")),
        ("es", ("problemas encontrados.", "Inicie uno; si termina, su registro indica el motivo.")),
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


def test_a_model_server_that_answers_and_has_the_models_is_well(model_server: None):
    (finding,) = check_model_server()
    assert (finding.is_ok, finding.found) == (True, "It answers.")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"DESCRIPTIONS_MODEL": "another"}, "It has no model another."),
        ({"SEARCH_MODEL": "an-encoder"}, "It has no model an-encoder."),
        ({"DESCRIPTIONS_API_KEY": "wrong"}, "It does not answer: HTTPStatusError."),
        ({"DESCRIPTIONS_BASE_URL": "http://127.0.0.1:9/v1"}, "It does not answer: ConnectError."),
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


def test_an_index_that_does_not_follow_for_minutes_is_a_problem(shop: Shop, settings: Settings):
    settings.SEARCH_MODEL = ""
    make_product(shop)
    while update_index():
        pass
    assert [finding.is_ok for finding in check_search()] == [True]

    Product.objects.update(updated_at=timezone.now() - timedelta(minutes=1))
    assert [finding.is_ok for finding in check_search()] == [True]
    Product.objects.update(updated_at=timezone.now() - timedelta(minutes=10))
    (finding,) = check_search()
    assert (finding.is_ok, finding.advice) == (False, "Start a worker; its log says why if it ends.")
