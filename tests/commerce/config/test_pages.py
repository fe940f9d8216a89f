"""The admin, the schema and its page."""

import json
import re

import pytest
from django.contrib import admin as django_admin
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.settings import VERSION
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

pytestmark = pytest.mark.no_database


@pytest.fixture
def admin_client(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.mark.parametrize(
    "model", [model._meta.label_lower for model in django_admin.site._registry] or ["none"], ids=lambda label: label
)
def test_every_admin_list_opens_and_can_be_searched(admin_client: Client, shop: Shop, model: str):
    make_product(shop)
    path = f"/admin/{model.replace('.', '/')}/"

    assert admin_client.get(path).status_code == 200
    assert admin_client.get(path, {"q": "velmo"}).status_code == 200


def test_a_product_opens_in_the_admin(admin_client: Client, shop: Shop):
    product = make_product(shop)

    answer = admin_client.get(f"/admin/commerce_catalog/product/{product.pk}/change/")

    assert answer.status_code == 200
    assert b"Velmo lamp" in answer.content


@pytest.mark.parametrize(
    "page",
    ["commerce_catalog/product", "commerce_catalog/producttype", "commerce_catalog/category", "commerce_shops/shop"],
)
def test_a_slug_that_would_be_read_as_an_id_is_refused(admin_client: Client, page: str):
    def complaints(slug: str) -> list[str]:
        answer = admin_client.post(f"/admin/{page}/add/", {"slug": slug})
        return list(answer.context["adminform"].form.errors.get("slug", []))

    assert complaints("2048") == ["A slug may not be a number alone: in an address that is an id."]
    assert complaints("2048-2") == []


def test_the_admin_list_costs_the_same_for_one_product_and_for_twenty(
    admin_client: Client, shop: Shop, django_assert_max_num_queries: object
):
    for number in range(20):
        make_product(shop, slug=f"lamp-{number}")
    with django_assert_max_num_queries(15):  # type: ignore[operator]
        admin_client.get("/admin/commerce_catalog/product/")


def test_the_admin_redirects_to_its_slash_and_to_the_login_page(customer: User):
    client = Client()
    assert client.get("/admin").headers["Location"] == "/admin/"
    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    client.force_login(customer)

    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"


def test_the_schema_names_every_operation_and_how_to_sign_in(client_of: ApiClient):
    answer = client_of(None).get("/api/openapi.json", headers={"Accept": "application/json"})

    schema = json.loads(answer.content)
    assert schema["openapi"].startswith("3.1")
    assert schema["info"]["version"] == VERSION
    assert {"/api/token", "/api/token/refresh", "/api/register", "/api/logout", "/api/me"} < set(schema["paths"])
    described = schema["paths"]["/api/generate-descriptions"]["post"]
    assert set(described["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert described["security"] == [{"bearer": []}]
    assert {"400", "401", "403", "404", "413", "415", "422", "429", "500", "503"} < set(described["responses"])


def test_the_schema_is_made_without_a_warning():
    SchemaGenerator().get_schema(public=True)

    assert not GENERATOR_STATS


@pytest.mark.parametrize("path", ["/api/docs", "/admin/login/"])
def test_pages_load_nothing_from_other_servers(client_of: ApiClient, path: str):
    client = client_of(None)
    page = client.get(path).content.decode()
    assets = re.findall(r'(?:<script[^>]* src|<link[^>]* href)="([^"]+)"', page)

    assert len(assets) > 3
    for asset in assets:
        assert asset.startswith("/")
        answer = client.get(asset)
        assert answer.status_code == 200, asset
        answer.close()


@pytest.mark.parametrize("method", ["options", "post", "put", "delete"])
def test_o5_the_api_page_has_no_write_access(client_of: ApiClient, method: str):
    answer = getattr(client_of(None), method)("/api/docs")

    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"


def test_livez_and_readyz_return_200(client_of: ApiClient):
    assert client_of(None).get("/livez").status_code == 200
    assert client_of(None).get("/readyz").status_code == 200


def test_the_favicon_is_served(client_of: ApiClient):
    answer = client_of(None).get("/favicon.ico")

    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("image/")
    assert b"".join(answer.streaming_content)[:4] == b"\0\0\1\0"  # type: ignore[attr-defined]
    answer.close()
