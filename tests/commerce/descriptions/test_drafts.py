"""Tests of drafts through the API: read, edit, accept, discard."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions import drafts
from commerce.descriptions.drafts import accept_draft, discard_draft
from commerce.descriptions.jobs.services import DescriptionOptions, create_job
from commerce.descriptions.models import DescriptionDraft
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.descriptions.drafts import SAMPLE_TEXT, make_draft

DRAFTS = "/api/description-drafts"

pytestmark = pytest.mark.django_db


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


@pytest.fixture
def draft(product: Product, staff: User) -> DescriptionDraft:
    return make_draft(product, staff, keywords=("brass", "warm"), tone="friendly", language="de", max_words=40)


def send(client: Client, method: str, draft: DescriptionDraft, action: str = "", **body: Any) -> Any:
    return client.generic(method, f"{DRAFTS}/{draft.pk}{action}", json.dumps(body), content_type="application/json")


def test_draft_shows_its_request_and_its_state(client_of: ApiClient, owner: User, staff: User, draft: DescriptionDraft):
    record = client_of(owner).get(f"{DRAFTS}/{draft.pk}", {"with": "product"}).json()

    assert record.pop("created_at").endswith("Z")
    assert record.pop("product") == {
        "id": draft.product_id, "name": "Velmo lamp", "slug": "velmo-lamp", "description": "As it was.",
        "shop_id": draft.product.shop_id,
    }  # fmt: skip
    assert record == {
        "id": draft.pk, "product_id": draft.product_id, "author_id": staff.pk, "state": "open", "text": SAMPLE_TEXT,
        "written": SAMPLE_TEXT, "is_fallback": False, "model": "stoa-describer", "tone": "friendly", "language": "de",
        "keywords": ["brass", "warm"], "max_words": 40, "edited_at": None, "decided_at": None, "decided_by_id": None,
    }  # fmt: skip


def test_list_shows_a_products_history_newest_first(
    client_of: ApiClient, owner: User, product: Product, shop: Shop, admin: User
):
    first, second, third = (make_draft(product, owner, f"Text {number}.") for number in range(3))
    other_draft = make_draft(make_product(shop, slug="other"), owner)
    accept_draft(draft_id=first.pk, actor=owner, now=timezone.now())
    discard_draft(draft_id=second.pk, actor=owner, now=timezone.now())
    client = client_of(owner)

    history = client.get(DRAFTS, {"product_id": product.pk}).json()["data"]
    assert [(row["id"], row["state"]) for row in history] == [
        (third.pk, "open"), (second.pk, "discarded"), (first.pk, "accepted"),
    ]  # fmt: skip
    assert [row["id"] for row in client.get(DRAFTS, {"state": "open"}).json()["data"]] == [other_draft.pk, third.pk]
    assert client.get(DRAFTS, {"shop_id": shop.pk + 1}).json()["data"] == []
    assert client_of(admin).get(DRAFTS).json()["total"] == 4


def test_users_of_another_shop_find_no_draft(client_of: ApiClient, draft: DescriptionDraft):
    stranger = make_user(Role.STORE_OWNER, "other")
    Shop.objects.create(owner=stranger, name="Other", slug="other")
    client = client_of(stranger)

    assert client.get(DRAFTS).json()["data"] == []
    for method, action in (("GET", ""), ("PUT", ""), ("POST", "/accept"), ("POST", "/discard")):
        assert send(client, method, draft, action, text="Theirs.").status_code == 404
    draft.refresh_from_db()
    assert (draft.state, draft.text) == ("open", SAMPLE_TEXT)


def test_edit_keeps_the_generated_text(client_of: ApiClient, staff: User, draft: DescriptionDraft):
    response = send(client_of(staff), "PUT", draft, text="It glows & <b>glows</b>.").json()

    assert (response["text"], response["written"]) == ("It glows & <b>glows</b>.", SAMPLE_TEXT)
    assert response["edited_at"] is not None
    for text in ("", "  ", None, "x" * 20_001):
        assert send(client_of(staff), "PUT", draft, text=text).status_code == 422
    assert DescriptionDraft.objects.get().text == "It glows & <b>glows</b>."


@pytest.mark.parametrize(
    ("sent", "used"), [({}, SAMPLE_TEXT), ({"text": "Mine."}, "Mine."), ({"text": ""}, SAMPLE_TEXT)]
)
def test_accepting_changes_the_product_and_audits_the_replaced_description(
    client_of: ApiClient, staff: User, product: Product, draft: DescriptionDraft, sent: dict[str, str], used: str
):
    response = send(client_of(staff), "POST", draft, "/accept", **sent)

    assert (response.status_code, response.json()["state"]) == (200, "accepted")
    assert (response.json()["text"], response.json()["decided_by_id"]) == (used, staff.pk)
    product.refresh_from_db()
    assert product.description == used
    entry = AuditEntry.objects.get(action__startswith="descriptions.")
    assert (entry.action, entry.actor, entry.target_type, entry.target_id) == (
        "descriptions.accepted", staff, "Product", product.pk,
    )  # fmt: skip
    assert entry.details == {
        "draft_id": draft.pk, "model": "stoa-describer", "replaced": "As it was.", "description": used,
    }  # fmt: skip


def test_unless_changed_refuses_to_replace_a_newer_description(
    client_of: ApiClient, staff: User, product: Product, draft: DescriptionDraft
):
    client = client_of(staff)
    Product.objects.filter(pk=product.pk).update(description="By hand.")
    response = send(client, "POST", draft, "/accept", unless_changed=True)

    assert (response.status_code, response.json()["code"]) == (409, "description_changed")
    product.refresh_from_db()
    draft.refresh_from_db()
    assert (product.description, draft.state) == ("By hand.", "open")
    Product.objects.filter(pk=product.pk).update(description="As it was.")
    assert send(client, "POST", draft, "/accept", unless_changed=True).status_code == 200
    product.refresh_from_db()
    assert product.description == SAMPLE_TEXT


def test_discarding_keeps_the_product_and_the_draft(
    client_of: ApiClient, staff: User, product: Product, draft: DescriptionDraft
):
    assert send(client_of(staff), "POST", draft, "/discard").json()["state"] == "discarded"
    product.refresh_from_db()
    assert product.description == "As it was."
    assert not AuditEntry.objects.filter(action__startswith="descriptions.").exists()


@pytest.mark.parametrize("first", ["/accept", "/discard"])
def test_decided_draft_gets_409(
    client_of: ApiClient, staff: User, product: Product, draft: DescriptionDraft, first: str
):
    client = client_of(staff)
    assert send(client, "POST", draft, first).status_code == 200
    product.refresh_from_db()
    before = product.description
    for method, action in (("PUT", ""), ("POST", "/accept"), ("POST", "/discard")):
        response = send(client, method, draft, action, text="Later.")
        assert (response.status_code, response.json()["code"]) == (409, "conflict")
    product.refresh_from_db()
    assert product.description == before


def test_draft_of_a_deleted_product_gets_404(
    client_of: ApiClient, staff: User, product: Product, draft: DescriptionDraft
):
    Product.objects.filter(pk=product.pk).update(deleted_at=timezone.now())

    assert send(client_of(staff), "POST", draft, "/accept").status_code == 404


@pytest.mark.parametrize(
    "values",
    [
        {"state": "half"},
        {"state": "accepted"},
        {"decided_at": timezone.now()},
        {"text": ""},
    ],
    ids=["an unknown state", "accepted by nobody", "decided and open", "no text"],
)
def test_constraints_hold_for_states(draft: DescriptionDraft, values: dict[str, Any]):
    with pytest.raises(IntegrityError), transaction.atomic():
        DescriptionDraft.objects.filter(pk=draft.pk).update(**values)


@pytest.mark.django_db(transaction=True)
def test_one_of_ten_concurrent_decisions_wins(product: Product, draft: DescriptionDraft, staff: User):
    barrier = threading.Barrier(10)

    def decide(number: int) -> int:
        service = partial(accept_draft, text=f"Text {number}.") if number % 2 else discard_draft
        barrier.wait(timeout=60)
        try:
            service(draft_id=draft.pk, actor=staff, now=timezone.now())
        except ApiError as error:
            return error.problem.status
        finally:
            connection.close()
        return 200

    with ThreadPoolExecutor(10) as pool:
        statuses = sorted(pool.map(decide, range(10)))
    assert statuses == [200] + [409] * 9
    product.refresh_from_db()
    draft.refresh_from_db()
    assert product.description == (draft.text if draft.state == "accepted" else "As it was.")
    assert AuditEntry.objects.filter(action__startswith="descriptions.").count() == (draft.state == "accepted")


def test_n4_a_product_has_its_newest_drafts_only(product: Product, staff: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drafts, "MAX_DRAFTS_PER_PRODUCT", 3)
    other = make_draft(make_product(product.shop, "other-lamp"), staff)
    made = [make_draft(product, staff) for _ in range(5)]
    assert set(DescriptionDraft.objects.all()) == {other, *made[2:]}


def test_decided_drafts_and_those_of_jobs_are_kept(product: Product, staff: User, monkeypatch: pytest.MonkeyPatch):
    job = create_job(author=staff, product_ids=[product.pk], options=DescriptionOptions(), now=timezone.now())
    accepted, discarded, of_job = [make_draft(product, staff) for _ in range(3)]
    accept_draft(draft_id=accepted.pk, actor=staff, now=timezone.now())
    discard_draft(draft_id=discarded.pk, actor=staff, now=timezone.now())
    job.items.update(state="written", draft=of_job)
    monkeypatch.setattr(drafts, "MAX_DRAFTS_PER_PRODUCT", 1)

    made = [make_draft(product, staff) for _ in range(2)]

    assert set(DescriptionDraft.objects.all()) == {accepted, discarded, of_job, made[-1]}
    assert job.items.get().draft == of_job


def test_a_draft_is_created_without_a_lock_of_its_product(product: Product, staff: User):
    with CaptureQueriesContext(connection) as queries:
        make_draft(product, staff)

    assert not any("FOR UPDATE" in query["sql"] for query in queries)
