"""GET, POST /api/reviews and /api/questions; GET, PUT, DELETE by id."""

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from commerce.catalog.models import Product
from commerce.moderation.services import file_report
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.orders.factories import buy, make_goods, other_shop
from tests.commerce.reviews.factories import ask, make_photo, review

REVIEWS, QUESTIONS = "/api/reviews", "/api/questions"
CONTENT = {"id", "user_id", "product_id", "shop_id", "abusive_reports_count", "created_at", "updated_at"}


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def tent() -> Product:
    """Return a product of another shop."""
    return make_goods(other_shop(), "tent")


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def listed(client_of: ApiClient, path: str, **query: Any) -> list[int]:
    answer = client_of(None).get(path, query)
    assert answer.status_code == 200, answer.content
    return [record["id"] for record in answer.json()["data"]]


def test_reports_inside_content_are_for_those_who_may_read_reports(
    client_of: ApiClient, customer: User, owner: User, admin: User, lamp: Product
):
    written, asked = review(customer, lamp), ask(customer, lamp)
    file_report(user=owner, model_type="Review", model_id=written.pk, message="Spam.", now=timezone.now())
    relations = {"with": "abusive_reports.user;product;user;nonsense", "orderBy": "nonsense"}

    for user in (None, customer, owner):
        for path in (REVIEWS, QUESTIONS):
            assert client_of(user).get(path, relations).json()["data"][0]["abusive_reports"] is None
    [listed_review] = client_of(admin).get(REVIEWS, relations).json()["data"]
    [told] = listed_review["abusive_reports"]
    assert (told["message"], told["model_id"], told["user"]) == (
        "Spam.",
        written.pk,
        {"id": owner.pk, "name": owner.name},
    )
    assert listed_review["user"] == {"id": customer.pk, "name": customer.name}
    assert client_of(admin).get(f"{QUESTIONS}/{asked.pk}", relations).json()["abusive_reports"] == []
    assert "abusive_reports" not in client_of(admin).get(f"{REVIEWS}/{written.pk}").json()


def test_questions_are_filtered_by_their_answer_and_their_product(
    client_of: ApiClient, customer: User, owner: User, lamp: Product, tent: Product
):
    answered, open_ = ask(customer, lamp), ask(customer, tent)
    send(client_of, owner, "put", f"{QUESTIONS}/{answered.pk}", {"answer": "It is null and void."})

    assert listed(client_of, QUESTIONS, answer="null") == [open_.pk]
    assert listed(client_of, QUESTIONS, answer="VOID") == [answered.pk]
    assert listed(client_of, QUESTIONS, answer="") == [open_.pk, answered.pk]
    assert listed(client_of, QUESTIONS, search=f"shop_id:{lamp.shop_id}") == [answered.pk]
    assert listed(client_of, QUESTIONS, search="product.slug:tent;type.slug:home", searchJoin="and") == [open_.pk]


def test_c2_a_search_finds_no_words_of_products_that_are_not_public(
    client_of: ApiClient, customer: User, owner: User, lamp: Product
):
    asked = ask(customer, lamp)
    Product.objects.filter(pk=lamp.pk).update(name="Secret lamp", slug="secret-lamp", status=Product.Status.DRAFT)

    for search in ("secret", "product.name:secret", "product.slug:secret-lamp"):
        assert listed(client_of, QUESTIONS, search=search) == []
        assert [row["id"] for row in client_of(owner).get(QUESTIONS, {"search": search}).json()["data"]] == [asked.pk]
    assert listed(client_of, QUESTIONS, search="question:float") == [asked.pk]


class TestReviews:
    def test_a_customer_reviews_what_they_bought(self, client_of: ApiClient, customer: User, lamp: Product):
        order = buy(customer, (lamp, 1))
        photo = make_photo(customer)
        sent = {
            "product_id": lamp.pk,
            "order_id": order.pk,
            "rating": 5,
            "comment": "Warm light.",
            "photos": [{"id": photo.pk, "original": "https://elsewhere.example/x"}],
        }

        answer = send(client_of, customer, "post", REVIEWS, sent)

        assert answer.status_code == 201, answer.content
        record = answer.json()
        assert set(record) == CONTENT | {"rating", "comment", "order_id", "photos"}
        assert (record["rating"], record["comment"], record["order_id"]) == (5, "Warm light.", order.pk)
        assert (record["user_id"], record["product_id"], record["shop_id"]) == (customer.pk, lamp.pk, lamp.shop_id)
        assert [shown["id"] for shown in record["photos"]] == [photo.pk]
        assert "elsewhere" not in record["photos"][0]["original"]
        assert client_of(None).get(f"{REVIEWS}/{record['id']}").json() == record
        assert send(client_of, customer, "post", REVIEWS, sent).status_code == 409
        assert client_of(None).get(f"/api/products/{lamp.slug}").json()["ratings"] == 5.0

    def test_c2_author_shop_and_counts_in_the_body_are_ignored(
        self, client_of: ApiClient, customer: User, admin: User, lamp: Product, tent: Product
    ):
        sent = {
            "product_id": lamp.pk,
            "rating": 1,
            "id": 999,
            "user_id": admin.pk,
            "shop_id": tent.shop_id,
            "abusive_reports_count": 7,
            "deleted_at": "2026-01-01T00:00:00Z",
            "created_at": "2001-01-01T00:00:00Z",
        }

        record = send(client_of, customer, "post", REVIEWS, sent).json()

        assert (record["user_id"], record["shop_id"], record["abusive_reports_count"]) == (customer.pk, lamp.shop_id, 0)
        assert record["id"] != 999
        assert not record["created_at"].startswith("2001")
        assert listed(client_of, REVIEWS) == [record["id"]]

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"rating": 0}, "rating"),
            ({"rating": 6}, "rating"),
            ({"rating": 4.5}, "rating"),
            ({"rating": None}, "rating"),
            ({"product_id": 2**63 - 1}, "product_id"),
            ({"product_id": 2**63}, "product_id"),
            ({"product_id": None}, "product_id"),
            ({"comment": "x" * 5001}, "comment"),
            ({"photos": [{"id": 1}] * 11}, "photos"),
            ({"photos": [{"id": 2**63 - 1}]}, "photos"),
            ({"photos": ["x"]}, "photos.0"),
        ],
    )
    def test_invalid_fields_are_422_by_name(
        self, client_of: ApiClient, customer: User, lamp: Product, change: dict[str, Any], field: str
    ):
        sent = {"product_id": lamp.pk, "rating": 3} | change

        answer = send(client_of, customer, "post", REVIEWS, sent)

        assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
        assert not Review.objects.exists()

    def test_c1_another_users_order_is_like_an_unknown_one(self, client_of: ApiClient, customer: User, lamp: Product):
        theirs = buy(make_user(Role.CUSTOMER, "other"), (lamp, 1))
        messages = set()
        for order_id in (theirs.pk, 2**63 - 1):
            sent = {"product_id": lamp.pk, "rating": 3, "order_id": order_id}
            answer = send(client_of, customer, "post", REVIEWS, sent)
            assert answer.status_code == 404
            messages.add(answer.json()["message"])
        assert len(messages) == 1

    def test_lists_are_public_newest_first_with_filters_by_product_shop_and_rating(
        self, client_of: ApiClient, customer: User, owner: User, lamp: Product, tent: Product
    ):
        first, second, third = review(customer, lamp, 5), review(owner, lamp, 2), review(customer, tent, 5)

        assert listed(client_of, REVIEWS) == [third.pk, second.pk, first.pk]
        assert listed(client_of, REVIEWS, product_id=lamp.pk) == [second.pk, first.pk]
        assert listed(client_of, REVIEWS, shop_id=tent.shop_id) == [third.pk]
        assert listed(client_of, REVIEWS, product_id=lamp.pk, rating=5) == [first.pk]
        assert listed(client_of, REVIEWS, search=f"rating:5;product_id:{lamp.pk}", searchJoin="and") == [first.pk]
        assert listed(client_of, REVIEWS, orderBy="rating", sortedBy="asc")[0] == second.pk
        shown = client_of(None).get(f"{REVIEWS}/{first.pk}", {"with": "user;product;shop"}).json()
        assert shown["user"] == {"id": customer.pk, "name": customer.name}
        assert shown["product"] == {"id": lamp.pk, "name": "Velmo lamp", "slug": "lamp", "image": None}
        assert shown["shop"]["slug"] == "corner"

    def test_a_review_can_be_deleted(
        self, client_of: ApiClient, customer: User, owner: User, admin: User, lamp: Product
    ):
        written, other = review(customer, lamp), review(owner, lamp)
        path = f"{REVIEWS}/{written.pk}"

        assert send(client_of, None, "delete", path).status_code == 401
        assert send(client_of, owner, "delete", path).status_code == 404
        answer = send(client_of, customer, "delete", path)
        assert (answer.status_code, answer.json()) == (200, True)
        assert send(client_of, customer, "delete", path).status_code == 404
        assert client_of(None).get(path).status_code == 404
        assert listed(client_of, REVIEWS) == [other.pk]
        assert send(client_of, admin, "delete", f"{REVIEWS}/{other.pk}").json() is True


class TestQuestions:
    def test_a_customer_asks_and_the_shop_answers(
        self, client_of: ApiClient, customer: User, staff: User, tent: Product, lamp: Product
    ):
        asked = send(client_of, customer, "post", QUESTIONS, {"product_id": lamp.pk, "question": "Is it bright?"})
        assert asked.status_code == 201, asked.content
        record = asked.json()
        assert set(record) == CONTENT | {"question", "answer", "answered_at"}
        assert (record["question"], record["answer"], record["answered_at"]) == ("Is it bright?", "", None)
        assert (record["user_id"], record["shop_id"]) == (customer.pk, lamp.shop_id)

        sent = {"answer": "Very.", "question": "Changed?", "user_id": staff.pk, "shop_id": tent.shop_id}
        answered = send(client_of, staff, "put", f"{QUESTIONS}/{record['id']}", sent)

        assert answered.status_code == 200, answered.content
        changed = {name for name in record if record[name] != answered.json()[name]}
        assert changed == {"answer", "answered_at", "updated_at"}
        assert client_of(None).get(f"{QUESTIONS}/{record['id']}").json() == answered.json()

    def test_the_shop_answers_and_the_author_deletes(
        self, client_of: ApiClient, customer: User, owner: User, admin: User, lamp: Product, tent: Product
    ):
        asked = ask(customer, lamp)
        path = f"{QUESTIONS}/{asked.pk}"

        def answer(user: User | None, text: Any = "Yes.") -> int:
            return int(send(client_of, user, "put", path, {"answer": text}).status_code)

        assert [answer(user) for user in (None, customer, tent.shop.owner)] == [401, 403, 404]
        assert [answer(owner, text) for text in ("", "x" * 5001, None)] == [422] * 3
        assert [answer(user) for user in (owner, admin)] == [200, 200]
        assert [send(client_of, user, "delete", path).status_code for user in (None, owner)] == [401, 404]
        deleted = send(client_of, customer, "delete", path)
        assert (deleted.status_code, deleted.json()) == (200, True)
        assert answer(owner) == 404
        assert listed(client_of, QUESTIONS) == []

    def test_lists_are_public_with_filters_by_product_and_shop(
        self, client_of: ApiClient, customer: User, lamp: Product, tent: Product
    ):
        first, second = ask(customer, lamp, "Is it warm?"), ask(customer, tent, "Is it dry?")

        assert listed(client_of, QUESTIONS) == [second.pk, first.pk]
        assert listed(client_of, QUESTIONS, product_id=lamp.pk) == [first.pk]
        assert listed(client_of, QUESTIONS, shop_id=tent.shop_id) == [second.pk]
        assert listed(client_of, QUESTIONS, search="question:warm") == [first.pk]

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"question": ""}, "question"),
            ({"question": " "}, "question"),
            ({"question": "x" * 5001}, "question"),
            ({"question": ["x"]}, "question"),
            ({"product_id": 2**63 - 1}, "product_id"),
        ],
    )
    def test_invalid_fields_are_422_by_name(
        self, client_of: ApiClient, customer: User, lamp: Product, change: dict[str, Any], field: str
    ):
        sent = {"product_id": lamp.pk, "question": "Why?"} | change

        answer = send(client_of, customer, "post", QUESTIONS, sent)

        assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
        assert not Question.objects.exists()


def test_reviews_and_questions_share_five_writes_per_minute(
    client_of: ApiClient, customer: User, lamp: Product, settings: Settings
):
    settings.CONTENT_WRITE_LIMIT = 5
    sent = {"product_id": lamp.pk, "question": "Why?", "rating": 3}

    answers = [send(client_of, customer, "post", path, sent) for path in (QUESTIONS, REVIEWS) * 3]

    assert [answer.status_code for answer in answers] == [201, 201, 201, 409, 201, 429]
    assert answers[-1].headers["Retry-After"]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["4", "3", "2", "1", "0", "0"]
    assert send(client_of, None, "post", REVIEWS, sent).status_code == 401


@pytest.mark.parametrize("path", [REVIEWS, QUESTIONS])
@pytest.mark.parametrize("key", ["9223372036854775808", "0", "9" * 40, "\u0661", "-1", "none"])
def test_i7_an_unknown_id_is_404(client_of: ApiClient, admin: User, path: str, key: str):
    assert client_of(admin).get(f"{path}/{key}").status_code == 404
    assert send(client_of, admin, "delete", f"{path}/{key}").status_code == 404


@pytest.mark.parametrize("path", [REVIEWS, QUESTIONS])
@pytest.mark.parametrize("name", ["limit", "page", "shop_id", "product_id", "rating"])
@pytest.mark.parametrize("value", ["-1", "0", "1e9", "abc", "9223372036854775808", "1" * 40, "\u0661", "\x00"])
def test_c7_numbers_in_the_query_are_never_a_server_error(client_of: ApiClient, path: str, name: str, value: str):
    assert client_of(None).get(path, {name: value}).status_code in (200, 422)


@pytest.mark.parametrize("rows", [10, 1000])
def test_c7_lists_take_as_many_queries_at_ten_rows_as_at_a_thousand(
    client_of: ApiClient, customer: User, lamp: Product, rows: int, django_assert_num_queries: DjangoAssertNumQueries
):
    now = timezone.now()
    content = {"product": lamp, "shop": lamp.shop, "created_at": now, "updated_at": now}
    authors = User.objects.bulk_create(
        User(email=f"c{number}@example.com", name="C", role=Role.CUSTOMER) for number in range(rows)
    )
    reviews = Review.objects.bulk_create(Review(user=author, rating=3, **content) for author in authors)
    Question.objects.bulk_create(Question(user=author, question="Why?", **content) for author in authors)
    for written in reviews[-10:]:
        written.photos.add(make_photo(written.user))
    counted = rows > 10  # if there is more than one page
    everything: dict[str, Any] = {"limit": 10, "with": "user;product;shop"}

    page: dict[str, Any] = {"limit": 10}
    for path, query, expected in [
        (REVIEWS, page, 2 + counted),
        (QUESTIONS, page, 1 + counted),
        (REVIEWS, everything, 5 + counted),
        (QUESTIONS, everything, 4 + counted),
    ]:
        with django_assert_num_queries(expected):
            assert len(client_of(None).get(path, query).json()["data"]) == 10
