"""Tests of the admin of drafts, and of the description writer's views."""

from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions.drafts import DESCRIPTION_CHANGED
from commerce.descriptions.models import DescriptionDraft
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.audit.models import AuditEntry
from tests.commerce.catalog.factories import make_product
from tests.commerce.descriptions.drafts import SAMPLE_TEXT, make_draft
from tests.commerce.descriptions.provider.fake_server import PROVIDER_SECRET, ProviderServer

DRAFTS = "/admin/commerce_descriptions/descriptiondraft/"
OPTIONS = {"tone": "friendly", "max_words": "40", "language": "en", "keywords": "warm light, , brass"}
EVIL = '</textarea><script>alert("x")</script>'

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _provider(settings: Settings, provider_server: ProviderServer) -> None:
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")


@pytest.fixture
def admin_client(admin: User) -> Client:
    """Return a client that is signed in as a super admin."""
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


def write(client: Client, product: Product, **options: str) -> Any:
    return client.post(f"{DRAFTS}write/{product.pk}/", OPTIONS | options)


@pytest.mark.parametrize(
    "invalid",
    [{"language": "English"}, {"max_words": "9"}, {"max_words": "x"}, {"tone": "t" * 33}, {"keywords": "k" * 65},
     {"keywords": ",".join("k" * 21)}, {"language": ""}],
    ids=str,
)  # fmt: skip
def test_invalid_option_gets_422_with_a_message(
    admin_client: Client, product: Product, provider_server: ProviderServer, invalid: dict[str, str]
):
    response = write(admin_client, product, **invalid)

    assert response.status_code == 422
    assert response.json()["message"]
    assert provider_server.requests == []


@pytest.mark.parametrize(("behavior", "status"), [("error_500", 500), ("refusal_400", 500)])
def test_provider_failure_gets_500_with_a_message(
    admin_client: Client,
    product: Product,
    settings: Settings,
    provider_server: ProviderServer,
    behavior: str,
    status: int,
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behavior)
    response = write(admin_client, product)

    assert response.status_code == status
    assert response.json()["message"].startswith("The text provider")
    assert PROVIDER_SECRET not in response.content.decode()
    assert not DescriptionDraft.objects.exists()


def test_using_a_draft_changes_the_products_description(admin_client: Client, admin: User, product: Product):
    draft = make_draft(product, admin)
    response = admin_client.post(f"{DRAFTS}{draft.pk}/use/", {"text": "Mine,\r\nnow."})

    assert response.json() == {"description": "Mine,\nnow."}
    product.refresh_from_db()
    assert product.description == "Mine,\nnow."
    assert AuditEntry.objects.get().actor == admin
    assert admin_client.post(f"{DRAFTS}{draft.pk}/use/", {"text": "Again."}).status_code == 409
    assert admin_client.post(f"{DRAFTS}{draft.pk}/discard/").status_code == 409
    assert admin_client.post(f"{DRAFTS}0/use/", {"text": "None."}).status_code == 404
    assert admin_client.post(f"{DRAFTS}{draft.pk}/use/", {"text": ""}).status_code == 422


@pytest.mark.parametrize("action", ["write/{product}", "{draft}/use", "{draft}/discard"])
def test_x2_only_super_admins_may_use_the_writer(
    product: Product, owner: User, staff: User, provider_server: ProviderServer, action: str
):
    draft = make_draft(product, owner)
    path = f"{DRAFTS}{action.format(product=product.pk, draft=draft.pk)}/"
    for user in (None, owner, staff):
        client = Client()
        if user:
            client.force_login(user)
        assert client.post(path, OPTIONS | {"text": "x"}).status_code == 403
    draft.refresh_from_db()
    assert draft.is_open
    assert provider_server.requests == []


def test_x2_cross_site_request_is_refused(admin: User, product: Product, provider_server: ProviderServer):
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)

    assert write(client, product).status_code == 403
    assert client.get(f"{DRAFTS}write/{product.pk}/").status_code == 405
    assert provider_server.requests == []


def test_x4_texts_of_models_and_shops_are_escaped_on_every_page(admin_client: Client, admin: User, product: Product):
    Product.objects.filter(pk=product.pk).update(name=EVIL)
    draft = make_draft(product, admin, EVIL, tone=EVIL[:32], keywords=(EVIL,))
    for path in (f"/admin/commerce_catalog/product/{product.pk}/change/", DRAFTS, f"{DRAFTS}{draft.pk}/change/"):
        shown = admin_client.get(path).content.decode()
        assert "<script>alert" not in shown
        assert "&lt;script&gt;alert" in shown


def test_draft_page_edits_uses_and_discards(admin_client: Client, admin: User, product: Product):
    used, discarded = make_draft(product, admin), make_draft(product, admin)
    button = "commerce_descriptions_descriptiondraft_save_and"
    admin_client.post(f"{DRAFTS}{used.pk}/change/", {"text": "Edited.", "_save": "1"})
    used.refresh_from_db()
    assert (used.state, used.text, used.written) == ("open", "Edited.", SAMPLE_TEXT)
    admin_client.post(f"{DRAFTS}{used.pk}/change/", {"text": "Edited again.", f"{button}_use": "1"})
    admin_client.post(f"{DRAFTS}{discarded.pk}/change/", {"text": SAMPLE_TEXT, f"{button}_discard": "1"})

    product.refresh_from_db()
    assert product.description == "Edited again."
    assert list(DescriptionDraft.objects.order_by("pk").values_list("state", flat=True)) == ["accepted", "discarded"]
    shown = admin_client.get(f"{DRAFTS}{used.pk}/change/").content.decode()
    assert "<textarea" not in shown
    assert f"{button}_use" not in shown


def run_action(admin_client: Client, action: str, drafts: list[DescriptionDraft], **headers: str) -> str:
    """Run an action with these drafts, and return the page that follows."""
    data = {"action": action, "_selected_action": [draft.pk for draft in drafts]}
    return unescape(admin_client.post(DRAFTS, data, follow=True, headers=headers).content.decode())


def test_using_many_drafts_uses_the_newest_of_each_product(
    admin_client: Client, admin: User, product: Product, shop: Shop
):
    other = make_product(shop, slug="other-lamp")
    drafts = [
        make_draft(product, admin, "One."),
        make_draft(product, admin, "Two."),
        make_draft(other, admin, "Three."),
    ]
    page = run_action(admin_client, "use_selected", drafts)
    again = run_action(admin_client, "discard_selected", drafts)

    assert "Updated drafts: 2" in page
    assert (
        "The product's description was changed after this draft was requested. Unchanged drafts: 1 (Velmo lamp)" in page
    )
    assert "This draft is already accepted. Request a new one. Unchanged drafts: 2 (Velmo lamp, Velmo lamp)" in again
    assert list(Product.objects.order_by("pk").values_list("description", flat=True)) == ["Two.", "Three."]
    assert [draft.state for draft in DescriptionDraft.objects.order_by("pk")] == ["discarded", "accepted", "accepted"]


def test_using_many_drafts_keeps_descriptions_changed_since(admin_client: Client, admin: User, shop: Shop):
    products = [make_product(shop, slug=f"lamp-{number}", name=f"Lamp {number}") for number in range(13)]
    drafts = [make_draft(product, admin) for product in products]
    Product.objects.filter(pk__in=[product.pk for product in products[1:]]).update(description="By hand.", price=99)
    Product.objects.filter(pk=products[0].pk).update(price=99)  # a new price does not outdate a draft
    page = run_action(admin_client, "use_selected", drafts)

    assert "Updated drafts: 1" in page
    assert (
        "Unchanged drafts: 12 (Lamp 12, Lamp 11, Lamp 10, Lamp 9, Lamp 8, Lamp 7, Lamp 6, Lamp 5, Lamp 4, Lamp 3"
        in page
    )
    assert "and 2 more)" in page
    assert (
        list(Product.objects.order_by("pk").values_list("description", flat=True)) == [SAMPLE_TEXT] + ["By hand."] * 12
    )
    assert [draft.state for draft in DescriptionDraft.objects.order_by("pk")] == ["accepted"] + ["open"] * 12
    assert AuditEntry.objects.count() == 1
    german = run_action(admin_client, "use_selected", drafts[1:2], Accept_Language="de")
    assert "nachdem dieser Entwurf verlangt wurde. Unveränderte Entwürfe: 1 (Lamp 1)" in german


def test_draft_page_shows_the_description_that_it_replaces(admin_client: Client, admin: User, product: Product):
    draft, page = make_draft(product, admin), f"{DRAFTS}{{}}/change/"
    shown = admin_client.get(page.format(draft.pk)).content.decode()
    assert "As it was." in shown
    assert escape(DESCRIPTION_CHANGED) not in shown
    Product.objects.filter(pk=product.pk).update(description="By <b>hand</b>.")
    shown = admin_client.get(page.format(draft.pk)).content.decode()
    assert escape(DESCRIPTION_CHANGED) in shown
    assert "By &lt;b&gt;hand&lt;/b&gt;." in shown
    admin_client.post(
        page.format(draft.pk), {"text": SAMPLE_TEXT, "commerce_descriptions_descriptiondraft_save_and_use": "1"}
    )

    product.refresh_from_db()
    assert product.description == SAMPLE_TEXT
    assert AuditEntry.objects.get().details["replaced"] == "By <b>hand</b>."


def test_product_form_sends_no_field_of_the_writer(admin_client: Client, product: Product):
    shown = admin_client.get(f"/admin/commerce_catalog/product/{product.pk}/change/").content.decode()
    panel = shown[shown.index('id="description-writer"') : shown.index("All drafts of this product")]

    assert " name=" not in panel
    assert panel.count("<label for=") == panel.count("<select id=") + panel.count("<input id=") + panel.count(
        "<textarea id="
    )
    assert "description-writer" not in admin_client.get("/admin/commerce_catalog/product/add/").content.decode()


def test_pages_are_german(admin_client: Client, product: Product):
    shown = admin_client.get(f"/admin/commerce_catalog/product/{product.pk}/change/", headers={"Accept-Language": "de"})
    assert "Beschreibung schreiben lassen" in shown.content.decode()

    draft = make_draft(product, product.shop.owner)
    for path in (
        DRAFTS,
        f"{DRAFTS}{draft.pk}/change/",
        "/admin/commerce_catalog/product/",
        "/admin/commerce_descriptions/descriptionjob/",
    ):
        shown = admin_client.get(path, headers={"Accept-Language": "de"})
        for english in ("Created at", "Keywords", "Decided by", "Write descriptions", ">Open<", "Ended at", "Author<"):
            assert english not in shown.content.decode(), (path, english)
    assert "Entschieden von" in admin_client.get(f"{DRAFTS}{draft.pk}/change/", headers={"Accept-Language": "de"}).text
