"""GET /api/my-questions."""

from django.utils import timezone

from commerce.reviews.models import Question
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.conftest import ApiClient
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import ask


def test_a_user_sees_their_own_questions_also_hidden_ones(
    client_of: ApiClient, shop: Shop, customer: User, admin: User
):
    lamp, now = make_goods(shop), timezone.now()
    first, second, deleted = (ask(customer, lamp, text) for text in ("Is it oak?", "Is it ash?", "Is it elm?"))
    ask(admin, lamp)
    Question.objects.filter(pk=second.pk).update(hidden_at=now, answer="It is.")
    Question.objects.filter(pk=deleted.pk).update(deleted_at=now)

    page = client_of(customer).get("/api/my-questions", {"with": "user;product"}).json()

    assert [(row["id"], row["answer"], row["user"]["id"]) for row in page["data"]] == [
        (second.pk, "It is.", customer.pk),
        (first.pk, "", customer.pk),
    ]
    assert page["total"] == 2
    found = client_of(customer).get("/api/my-questions", {"answer": "null", "product_id": lamp.pk}).json()["data"]
    assert [row["id"] for row in found] == [first.pk]
