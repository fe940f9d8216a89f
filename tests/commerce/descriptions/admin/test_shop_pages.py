"""Pages of product texts for shop owners and their staff: what each user sees there and may write."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient, Client
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.catalog.search.indexing import update_index
from commerce.descriptions.admin.shop_views import PAGE_SIZE
from commerce.descriptions.models import DescriptionDraft, QuotaUsage
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.audit.models import AuditEntry
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user
from tests.commerce.descriptions.drafts import make_draft
from tests.commerce.descriptions.provider.fake_server import ProviderServer

TEXTS = "/admin/dashboard/texts/"
KEPT = "Meet the Velmo lamp. It is made of brass."
OPTIONS = {"tone": "friendly", "max_words": "40", "language": "en", "keywords": "brass"}


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


@pytest.fixture
def other_owner(db: None) -> User:
    user = make_user(Role.STORE_OWNER, "other")
    make_product(Shop.objects.create(owner=user, name="Elsewhere", slug="elsewhere"), "kettle", name="Kettle")
    return user


@pytest.fixture
def freelancer(db: None) -> User:
    """A staff member of no shop."""
    return make_user(Role.STAFF, "former")


def browser_of(user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def page_of(product: Product) -> str:
    return f"{TEXTS}{product.pk}/"


def decision(draft: DescriptionDraft, action: str) -> str:
    return f"{TEXTS}drafts/{draft.pk}/{action}/"


def read(user: User, path: str) -> str:
    answer = browser_of(user).get(path)
    assert answer.status_code == 200, path
    return str(answer.content.decode())


def test_owners_and_staff_see_the_products_of_their_shops_alone(
    owner: User, staff: User, freelancer: User, other_owner: User, product: Product
):
    for user in (owner, staff):
        assert page_of(product) in read(user, TEXTS)
        assert "As it was." in read(user, TEXTS)
        assert "Kettle" not in read(user, TEXTS)
    assert "Kettle" in read(other_owner, TEXTS)
    assert "Velmo" not in read(other_owner, TEXTS)
    assert "Your shops have no products yet." in read(freelancer, TEXTS)


def test_the_page_of_a_product_shows_the_form_without_links_to_the_admin(owner: User, staff: User, product: Product):
    make_draft(product, owner)
    for user in (owner, staff):
        page = read(user, page_of(product))
        assert 'id="description-writer"' in page
        assert "The Velmo lamp glows." in page
        assert f'data-write-url="{TEXTS}drafts/write/{product.pk}/"' in page
        assert "/admin/commerce_" not in page


@pytest.mark.django_db  # the audit log of a committed decision could not be deleted
def test_owners_and_staff_use_a_variant(owner: User, staff: User, product: Product):
    for user in (owner, staff):
        used, other = (make_draft(product, owner, f"{text} {user.name}.") for text in ("One", "Two"))
        answer = browser_of(user).post(decision(used, "use"), {"text": f"Of {user.name}.", "other": [other.pk]})

        assert answer.json() == {"description": f"Of {user.name}."}
        product.refresh_from_db()
        assert product.description == f"Of {user.name}."
        other.refresh_from_db()
        assert (other.state, other.decided_by) == ("discarded", user)
        assert AuditEntry.objects.filter(action="descriptions.accepted", actor=user).count() == 1


def test_products_and_drafts_of_others_are_not_found(
    owner: User, other_owner: User, freelancer: User, product: Product
):
    draft = make_draft(product, owner)
    for user in (other_owner, freelancer):
        client = browser_of(user)
        assert client.get(page_of(product)).status_code == 404
        assert client.post(f"{TEXTS}drafts/write/{product.pk}/", OPTIONS).status_code == 404
        assert client.post(decision(draft, "use"), {"text": "Mine."}).status_code == 404
        assert client.post(decision(draft, "discard")).status_code == 404
    assert DescriptionDraft.objects.get().is_open
    assert Product.objects.get(pk=product.pk).description == "As it was."
    assert not QuotaUsage.objects.exists()


def test_staff_who_left_the_shop_and_deleted_products_are_not_found(owner: User, staff: User, product: Product):
    draft, client = make_draft(product, staff), browser_of(staff)
    assert client.get(page_of(product)).status_code == 200
    ShopStaff.objects.filter(user=staff).delete()
    assert client.get(page_of(product)).status_code == 404
    assert client.post(decision(draft, "use"), {"text": "Mine."}).status_code == 404
    Product.objects.filter(pk=product.pk).update(deleted_at=product.created_at)
    assert browser_of(owner).get(page_of(product)).status_code == 404


@pytest.mark.parametrize("role", [Role.CUSTOMER, Role.MODERATOR])
def test_other_users_are_refused(owner: User, product: Product, role: Role):
    draft, client = make_draft(product, owner), browser_of(make_user(role))
    for path in (TEXTS, page_of(product)):
        assert client.get(path).status_code == 403
    for path in (f"{TEXTS}drafts/write/{product.pk}/", decision(draft, "use"), decision(draft, "discard")):
        assert client.post(path, {"text": "Mine."}).json() == {"message": "Sign in again."}
    assert DescriptionDraft.objects.get().is_open


def test_anonymous_users_are_sent_to_sign_in(owner: User, product: Product):
    draft = make_draft(product, owner)
    for path in (TEXTS, page_of(product)):
        assert Client().get(path).headers["Location"] == f"/admin/dashboard/sign-in/?next={path}"
    answer = Client().post(decision(draft, "use"), {"text": "Mine."})
    assert (answer.status_code, answer.json()) == (403, {"message": "Sign in again."})


def test_a_form_of_another_site_uses_no_draft(owner: User, product: Product):
    draft, client = make_draft(product, owner), Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert client.post(decision(draft, "use"), {"text": "Mine."}).status_code == 403
    assert browser_of(owner).get(decision(draft, "use")).status_code == 405
    assert DescriptionDraft.objects.get().is_open


def test_a_search_finds_words_of_ones_own_products(owner: User, other_owner: User, product: Product, shop: Shop):
    make_product(shop, "lampe", name="Lampe", language="de", description="Aus Messing.")
    make_product(Shop.objects.get(owner=other_owner), "brass-lamp", name="Brass lamp")
    update_index()

    assert "Velmo lamp" in read(owner, f"{TEXTS}?search=lamp")
    assert "Brass lamp" not in read(owner, f"{TEXTS}?search=lamp")
    found = read(owner, f"{TEXTS}?search=Messing")
    assert "Lampe" in found
    assert "Velmo lamp" not in found
    hostile = read(owner, f"{TEXTS}?search=<script>%00alert")
    assert "No product has these words." in hostile
    assert "<script>\0alert" not in hostile


def test_long_lists_have_pages(owner: User, shop: Shop):
    for number in range(PAGE_SIZE + 1):
        make_product(shop, f"lamp-{number}", name=f"Lamp no. {number}.")
    first, second = read(owner, TEXTS), read(owner, f"{TEXTS}?page=2")
    assert first.count("Lamp no.") == PAGE_SIZE
    assert 'href="?page=2"' in first
    assert second.count("Lamp no.") == 1
    assert "Lamp no. 0." in second
    assert "Lamp no. 0." in read(owner, f"{TEXTS}?page=999999999999999999999")


@pytest.mark.parametrize(("language", "title"), [("de", "Produkttexte"), ("es", "Textos de productos")])
def test_the_dashboard_and_the_first_steps_lead_here_in_the_language_of_the_browser(
    owner: User, product: Product, language: str, title: str
):
    client = browser_of(owner)
    for path in ("/admin/dashboard/", "/admin/first-steps/", TEXTS):
        page = client.get(path, headers={"Accept-Language": language}).content.decode()
        assert f'href="{TEXTS}"' in page, path
        assert title in page, path
        assert 'id="nav-sidebar"' not in page, path  # which has nothing for shop users
    assert f'href="{page_of(product)}"' in client.get("/admin/first-steps/").content.decode()


@pytest.mark.django_db(transaction=True)
class TestWriting:
    """Requests that write variants, which use the database in other threads."""

    @pytest.fixture(autouse=True)
    async def _close_connections(self) -> AsyncIterator[None]:
        yield
        await sync_to_async(connections.close_all)()

    async def write(self, user: User, product: Product) -> Any:
        client = AsyncClient()
        await client.aforce_login(user)
        return await client.post(f"{TEXTS}drafts/write/{product.pk}/", OPTIONS)

    async def test_variants_are_drafts_and_count_as_one_of_the_shops_quota(
        self, staff: User, product: Product, provider_server: ProviderServer, settings: Settings
    ):
        settings.DESCRIPTIONS_BASE_URL, settings.DESCRIPTIONS_PER_DAY = provider_server.url("several"), 1
        provider_server.texts = [KEPT, "The Velmo lamp of brass, which"]
        written = await self.write(staff, product)

        assert [variant["parts"] for variant in written.json()["variants"]] == [[[KEPT, False]]]
        draft = await DescriptionDraft.objects.aget()
        assert (draft.text, draft.author_id, draft.product_id) == (KEPT, staff.pk, product.pk)
        assert (await QuotaUsage.objects.aget()).shop_id == product.shop_id
        refused = await self.write(staff, product)
        assert refused.status_code == 429
        assert "midnight UTC" in refused.json()["message"]

    async def test_without_a_model_server_nothing_is_saved_or_charged(
        self, owner: User, product: Product, settings: Settings
    ):
        settings.DESCRIPTIONS_BASE_URL = "http://127.0.0.1:9/v1"
        answer = await self.write(owner, product)

        assert answer.status_code == 500
        assert answer.json() == {"message": "The text provider did not return a description. Try again."}
        assert not await DescriptionDraft.objects.aexists()
        assert (await QuotaUsage.objects.aget()).used == 0
