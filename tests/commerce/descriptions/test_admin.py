"""Descriptions in the admin: what the product form asks for, and the list of drafts."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions import admin_writer
from commerce.descriptions.drafts import CHANGED
from commerce.descriptions.models import DescriptionDraft
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.audit.models import AuditEntry
from tests.commerce.catalog.goods import make_product
from tests.commerce.descriptions.provider_server import PROVIDER_SECRET, ProviderServer
from tests.commerce.descriptions.writing import GLOWS, draft_for

DRAFTS = "/admin/commerce_descriptions/descriptiondraft/"
CATALOGUE = Path(admin_writer.__file__).parent / "locale/de/LC_MESSAGES/django.po"
WISHES = {"tone": "friendly", "max_words": "40", "language": "en", "keywords": "warm light, , brass"}
EVIL = '</textarea><script>alert("x")</script>'

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _provider(settings: Settings, provider_server: ProviderServer) -> None:
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")


@pytest.fixture
def desk(admin: User) -> Client:
    """A super admin, signed in to the admin."""
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


def write(client: Client, product: Product, **wishes: str) -> Any:
    return client.post(f"{DRAFTS}write/{product.pk}/", WISHES | wishes)


@pytest.mark.parametrize(
    "wrong",
    [{"language": "English"}, {"max_words": "9"}, {"max_words": "x"}, {"tone": "t" * 33}, {"keywords": "k" * 65},
     {"keywords": ",".join("k" * 21)}, {"language": ""}],
    ids=str,
)  # fmt: skip
def test_a_wish_that_cannot_be_is_422_in_words(
    desk: Client, product: Product, provider_server: ProviderServer, wrong: dict[str, str]
):
    answer = write(desk, product, **wrong)

    assert answer.status_code == 422
    assert answer.json()["message"]
    assert provider_server.asked == []


@pytest.mark.parametrize(("behaviour", "status"), [("error_500", 500), ("refusal_400", 500)])
def test_a_provider_that_is_down_is_told_in_words(
    desk: Client, product: Product, settings: Settings, provider_server: ProviderServer, behaviour: str, status: int
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behaviour)
    answer = write(desk, product)

    assert answer.status_code == status
    assert answer.json()["message"].startswith("The text provider")
    assert PROVIDER_SECRET not in answer.content.decode()
    assert not DescriptionDraft.objects.exists()


def test_using_a_draft_saves_it_as_the_products_description(desk: Client, admin: User, product: Product):
    draft = draft_for(product, admin)
    answer = desk.post(f"{DRAFTS}{draft.pk}/use/", {"text": "Mine,\r\nnow."})

    assert answer.json() == {"description": "Mine,\nnow."}
    product.refresh_from_db()
    assert product.description == "Mine,\nnow."
    assert AuditEntry.objects.get().actor == admin
    assert desk.post(f"{DRAFTS}{draft.pk}/use/", {"text": "Again."}).status_code == 409
    assert desk.post(f"{DRAFTS}{draft.pk}/discard/").status_code == 409
    assert desk.post(f"{DRAFTS}0/use/", {"text": "None."}).status_code == 404
    assert desk.post(f"{DRAFTS}{draft.pk}/use/", {"text": ""}).status_code == 422


@pytest.mark.parametrize("deed", ["write/{product}", "{draft}/use", "{draft}/discard"])
def test_x2_others_than_super_admins_do_nothing_here(
    product: Product, owner: User, staff: User, provider_server: ProviderServer, deed: str
):
    draft = draft_for(product, owner)
    path = f"{DRAFTS}{deed.format(product=product.pk, draft=draft.pk)}/"
    for user in (None, owner, staff):
        client = Client()
        if user:
            client.force_login(user)
        assert client.post(path, WISHES | {"text": "x"}).status_code == 403
    draft.refresh_from_db()
    assert draft.is_open
    assert provider_server.asked == []


def test_x2_a_form_of_another_site_does_nothing(admin: User, product: Product, provider_server: ProviderServer):
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)

    assert write(client, product).status_code == 403
    assert desk_get(client, f"{DRAFTS}write/{product.pk}/") == 405
    assert provider_server.asked == []


def desk_get(client: Client, path: str) -> int:
    return client.get(path).status_code


def test_x4_what_a_model_or_a_shop_wrote_is_text_on_every_page(desk: Client, admin: User, product: Product):
    Product.objects.filter(pk=product.pk).update(name=EVIL)
    draft = draft_for(product, admin, EVIL, tone=EVIL[:32], keywords=(EVIL,))
    for path in (f"/admin/commerce_catalog/product/{product.pk}/change/", DRAFTS, f"{DRAFTS}{draft.pk}/change/"):
        shown = desk.get(path).content.decode()
        assert "<script>alert" not in shown
        assert "&lt;script&gt;alert" in shown


def test_a_draft_is_edited_used_and_discarded_on_its_page(desk: Client, admin: User, product: Product):
    used, discarded = draft_for(product, admin), draft_for(product, admin)
    button = "commerce_descriptions_descriptiondraft_save_and"
    desk.post(f"{DRAFTS}{used.pk}/change/", {"text": "Edited.", "_save": "1"})
    used.refresh_from_db()
    assert (used.state, used.text, used.written) == ("open", "Edited.", GLOWS)
    desk.post(f"{DRAFTS}{used.pk}/change/", {"text": "Edited again.", f"{button}_use": "1"})
    desk.post(f"{DRAFTS}{discarded.pk}/change/", {"text": GLOWS, f"{button}_discard": "1"})

    product.refresh_from_db()
    assert product.description == "Edited again."
    assert list(DescriptionDraft.objects.order_by("pk").values_list("state", flat=True)) == ["accepted", "discarded"]
    shown = desk.get(f"{DRAFTS}{used.pk}/change/").content.decode()
    assert "<textarea" not in shown
    assert f"{button}_use" not in shown


def choose(desk: Client, action: str, drafts: list[DescriptionDraft], **headers: str) -> str:
    """What the list tells once an action was done with these."""
    chosen = {"action": action, "_selected_action": [draft.pk for draft in drafts]}
    return unescape(desk.post(DRAFTS, chosen, follow=True, headers=headers).content.decode())


def test_many_drafts_are_used_at_once_and_of_several_for_one_product_the_newest(
    desk: Client, admin: User, product: Product, shop: Shop
):
    other = make_product(shop, slug="other-lamp")
    drafts = [draft_for(product, admin, "One."), draft_for(product, admin, "Two."), draft_for(other, admin, "Three.")]
    told = choose(desk, "use_chosen", drafts)
    again = choose(desk, "discard_chosen", drafts)

    assert "Drafts decided about: 2" in told
    assert "The description was changed after this draft was asked for. Left as they are: 1 (Velmo lamp)" in told
    assert "This draft is accepted already. Ask for a new one. Left as they are: 2 (Velmo lamp, Velmo lamp)" in again
    assert list(Product.objects.order_by("pk").values_list("description", flat=True)) == ["Two.", "Three."]
    assert [draft.state for draft in DescriptionDraft.objects.order_by("pk")] == ["discarded", "accepted", "accepted"]


def test_what_somebody_wrote_after_a_draft_was_asked_for_is_not_replaced_in_bulk(desk: Client, admin: User, shop: Shop):
    products = [make_product(shop, slug=f"lamp-{number}", name=f"Lamp {number}") for number in range(13)]
    drafts = [draft_for(product, admin) for product in products]
    Product.objects.filter(pk__in=[product.pk for product in products[1:]]).update(description="By hand.", price=99)
    Product.objects.filter(pk=products[0].pk).update(price=99)  # another price is not another text
    told = choose(desk, "use_chosen", drafts)

    assert "Drafts decided about: 1" in told
    assert (
        "Left as they are: 12 (Lamp 12, Lamp 11, Lamp 10, Lamp 9, Lamp 8, Lamp 7, Lamp 6, Lamp 5, Lamp 4, Lamp 3"
        in told
    )
    assert "and 2 more)" in told
    assert list(Product.objects.order_by("pk").values_list("description", flat=True)) == [GLOWS] + ["By hand."] * 12
    assert [draft.state for draft in DescriptionDraft.objects.order_by("pk")] == ["accepted"] + ["open"] * 12
    assert AuditEntry.objects.count() == 1
    german = choose(desk, "use_chosen", drafts[1:2], Accept_Language="de")
    assert "nachdem dieser Entwurf verlangt wurde. Bleiben, wie sie sind: 1 (Lamp 1)" in german


def test_a_drafts_page_shows_what_using_it_replaces(desk: Client, admin: User, product: Product):
    draft, page = draft_for(product, admin), f"{DRAFTS}{{}}/change/"
    shown = desk.get(page.format(draft.pk)).content.decode()
    assert "As it was." in shown
    assert CHANGED not in shown
    Product.objects.filter(pk=product.pk).update(description="By <b>hand</b>.")
    shown = desk.get(page.format(draft.pk)).content.decode()
    assert CHANGED in shown
    assert "By &lt;b&gt;hand&lt;/b&gt;." in shown
    desk.post(page.format(draft.pk), {"text": GLOWS, "commerce_descriptions_descriptiondraft_save_and_use": "1"})

    product.refresh_from_db()
    assert product.description == GLOWS
    assert AuditEntry.objects.get().details["replaced"] == "By <b>hand</b>."


def test_the_product_form_still_saves_and_none_of_the_writers_fields_is_in_it(desk: Client, product: Product):
    shown = desk.get(f"/admin/commerce_catalog/product/{product.pk}/change/").content.decode()
    panel = shown[shown.index('id="description-writer"') : shown.index("All drafts of this product")]

    assert " name=" not in panel
    assert panel.count("<label for=") == panel.count("<select id=") + panel.count("<input id=") + panel.count(
        "<textarea id="
    )
    assert "description-writer" not in desk.get("/admin/commerce_catalog/product/add/").content.decode()


def test_the_form_speaks_german_and_the_catalogue_has_every_word(desk: Client, product: Product):
    shown = desk.get(f"/admin/commerce_catalog/product/{product.pk}/change/", headers={"Accept-Language": "de"})
    assert "Beschreibung schreiben lassen" in shown.content.decode()

    draft = draft_for(product, product.shop.owner)
    for path in (
        DRAFTS,
        f"{DRAFTS}{draft.pk}/change/",
        "/admin/commerce_catalog/product/",
        "/admin/commerce_descriptions/descriptionjob/",
    ):
        shown = desk.get(path, headers={"Accept-Language": "de"})
        for english in ("Created at", "Keywords", "Decided by", "Write descriptions", ">Open<", "Ended at", "Author<"):
            assert english not in shown.content.decode(), (path, english)
    assert "Entschieden von" in desk.get(f"{DRAFTS}{draft.pk}/change/", headers={"Accept-Language": "de"}).text

    pairs = re.findall(r'^msgid "(.+)"\n(?:msgid_plural ".+"\n)?((?:msgstr.*\n)+)', CATALOGUE.read_text(), re.MULTILINE)
    assert len(pairs) > 45
    for english, german in pairs:
        assert '""' not in german, english
        assert set(re.findall(r"%\(\w+\)[sd]", german)) == set(re.findall(r"%\(\w+\)[sd]", english)), english
