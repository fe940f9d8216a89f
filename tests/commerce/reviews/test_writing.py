"""Services that create, answer and delete reviews and questions."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DataError, IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.orders.models import OrderLine
from commerce.reviews import services
from commerce.reviews.models import Question, Review
from commerce.reviews.services import answer_question, delete_question, delete_review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from shared.audit.models import AuditEntry
from tests.commerce.conftest import make_user
from tests.commerce.orders.factories import buy, make_goods, other_shop
from tests.commerce.reviews.factories import ask, make_photo, review

pytestmark = pytest.mark.django_db


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


def rating_of(product: Product) -> tuple[int, int, float]:
    product.refresh_from_db()
    return product.rating_sum, product.rating_count, product.ratings


def status_of(refusal: "pytest.ExceptionInfo[ApiError]") -> int:
    return refusal.value.problem.status


def test_a_review_counts_for_the_product_at_once(lamp: Product, customer: User):
    written = review(customer, lamp, 4, comment="Warm.")
    review(make_user(Role.CUSTOMER, "other"), lamp, 1)

    assert (written.shop, written.order, written.comment) == (lamp.shop, None, "Warm.")
    assert rating_of(lamp) == (5, 2, 2.5)


def test_a_deleted_review_no_longer_counts_and_is_kept(lamp: Product, customer: User):
    written = review(customer, lamp)
    delete_review(review_id=written.pk, actor=customer, now=timezone.now())

    assert rating_of(lamp) == (0, 0, 0.0)
    assert not Review.objects.visible().exists()
    assert Review.objects.get().deleted_at is not None
    with pytest.raises(ApiError) as refusal:
        delete_review(review_id=written.pk, actor=customer, now=timezone.now())
    assert status_of(refusal) == 404
    assert rating_of(lamp) == (0, 0, 0.0)


def test_one_review_of_a_product_and_another_for_each_order(lamp: Product, customer: User):
    order = buy(customer, (lamp, 1))
    review(customer, lamp)
    review(customer, lamp, order_id=order.pk)
    for order_id in (None, order.pk, order.children.get().pk):
        with pytest.raises(ApiError) as refusal:
            review(customer, lamp, order_id=order_id)
        assert status_of(refusal) == 409

    assert rating_of(lamp)[1] == 2
    assert set(Review.objects.values_list("order", flat=True)) == {None, order.pk}


def test_the_products_of_an_order_are_found_by_its_own_lines(lamp: Product, customer: User):
    order = buy(customer, (lamp, 1))
    with CaptureQueriesContext(connection) as queries:
        review(customer, lamp, order_id=order.pk)

    reads = [query["sql"] for query in queries if OrderLine._meta.db_table in query["sql"]]
    assert len(reads) == 1
    assert '"product_id" =' not in reads[0]


def test_a_new_review_is_allowed_after_deleting_the_first(lamp: Product, customer: User):
    delete_review(review_id=review(customer, lamp, 1).pk, actor=customer, now=timezone.now())
    review(customer, lamp, 5)

    assert rating_of(lamp) == (5, 1, 5.0)


def test_a_child_order_counts_as_its_parent(lamp: Product, customer: User):
    tent = make_goods(other_shop(), "tent")
    order = buy(customer, (lamp, 1), (tent, 1))
    part = order.children.get(shop=lamp.shop)

    assert review(customer, lamp, order_id=part.pk).order == order
    with pytest.raises(ValidationFailed, match="did not buy"):
        review(customer, tent, order_id=part.pk)


def test_c1_another_users_order_does_not_exist(lamp: Product, customer: User):
    theirs = buy(make_user(Role.CUSTOMER, "other"), (lamp, 1))
    for order_id in (theirs.pk, theirs.children.get().pk, 10**12):
        with pytest.raises(ApiError) as refusal:
            review(customer, lamp, order_id=order_id)
        assert status_of(refusal) == 404

    assert not Review.objects.exists()


def test_unavailable_products_get_no_reviews_and_no_questions(shop: Shop, customer: User):
    draft = make_goods(shop, status=Product.Status.DRAFT)

    with pytest.raises(ValidationFailed, match="no product for sale"):
        review(customer, draft)
    with pytest.raises(ValidationFailed, match="no product for sale"):
        ask(customer, draft)


def test_photos_are_images_of_the_author(lamp: Product, customer: User):
    own = [make_photo(customer), make_photo(customer)]
    theirs = make_photo(make_user(Role.CUSTOMER, "other"))
    paper = make_photo(customer, content_type="application/pdf", width=None, height=None)

    for photo_ids in ([own[0].pk, theirs.pk], [paper.pk], [10**12]):
        with pytest.raises(ValidationFailed, match="images that you uploaded"):
            review(customer, lamp, photo_ids=photo_ids)
    assert rating_of(lamp)[1] == 0

    written = review(customer, lamp, photo_ids=[own[1].pk, own[0].pk, own[0].pk])
    assert set(written.photos.all()) == set(own)


def test_only_the_author_and_super_admins_delete_a_review(lamp: Product, customer: User, owner: User, admin: User):
    written = review(customer, lamp)
    for stranger in (owner, make_user(Role.CUSTOMER, "other")):
        with pytest.raises(ApiError) as refusal:
            delete_review(review_id=written.pk, actor=stranger, now=timezone.now())
        assert status_of(refusal) == 404

    delete_review(review_id=written.pk, actor=admin, now=timezone.now())
    assert rating_of(lamp)[1] == 0


def test_shop_members_answer_questions(lamp: Product, customer: User, owner: User, staff: User, admin: User):
    asked = ask(customer, lamp)
    assert (asked.answer, asked.answered_at, asked.shop) == ("", None, lamp.shop)
    for person in (owner, staff, admin):
        now = timezone.now()
        answered = answer_question(question_id=asked.pk, answer=f"Yes, says {person}.", actor=person, now=now)
        assert (answered.answer, answered.answered_at) == (f"Yes, says {person}.", now)


def test_other_users_and_deleted_questions_get_no_answer(lamp: Product, customer: User, owner: User):
    asked = ask(customer, lamp)
    for stranger in (customer, other_shop().owner):
        with pytest.raises(ApiError) as refusal:
            answer_question(question_id=asked.pk, answer="No.", actor=stranger, now=timezone.now())
        assert status_of(refusal) == 404
    with pytest.raises(ApiError):
        delete_question(question_id=asked.pk, actor=owner, now=timezone.now())

    delete_question(question_id=asked.pk, actor=customer, now=timezone.now())
    with pytest.raises(ApiError):
        answer_question(question_id=asked.pk, answer="Yes.", actor=owner, now=timezone.now())
    assert Question.objects.get().answer == ""


@pytest.mark.django_db(transaction=True)
def test_twenty_concurrent_reviews_and_deletions_each_count_once(lamp: Product):
    customers = [make_user(Role.CUSTOMER, f"customer{number}") for number in range(5)]
    together = threading.Barrier(20)

    def write(number: int) -> int:
        together.wait(timeout=60)
        try:
            return review(customers[number % 5], lamp, 3).pk
        except ApiError:
            return 0
        finally:
            connection.close()

    def delete(review_id: int) -> bool:
        together.wait(timeout=60)
        try:
            delete_review(review_id=review_id, actor=Review.objects.get(pk=review_id).user, now=timezone.now())
        except ApiError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(20) as pool:
        written = [review_id for review_id in pool.map(write, range(20)) if review_id]
        assert len(written) == 5
        assert rating_of(lamp) == (15, 5, 3.0)
        assert sum(pool.map(delete, written * 4)) == 5
    assert rating_of(lamp) == (0, 0, 0.0)


@pytest.mark.parametrize("rating", [0, 6, -1])
def test_the_database_refuses_an_invalid_rating(lamp: Product, customer: User, rating: int):
    written = review(customer, lamp)

    with pytest.raises((IntegrityError, DataError)):
        Review.objects.filter(pk=written.pk).update(rating=rating)


def test_deletions_by_super_admins_are_decisions_with_the_text(lamp: Product, customer: User, admin: User):
    mine, theirs, asked = review(customer, lamp), review(admin, lamp, 2, comment="Dim."), ask(customer, lamp, "Why?")
    delete_review(review_id=mine.pk, actor=customer, now=timezone.now())
    delete_review(review_id=theirs.pk, actor=admin, now=timezone.now())
    assert not AuditEntry.objects.exists()
    delete_question(question_id=asked.pk, actor=admin, now=timezone.now())

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target_type, entry.target_id) == (
        "moderation.accepted",
        admin,
        "Question",
        asked.pk,
    )
    content = entry.details["content"]
    assert (content["question"], content["answer"]) == ("Why?", "")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["QUESTIONS", "REVIEWS"])
def test_n4_of_concurrent_requests_no_more_than_the_maximum_are_written(
    customer: User, shop: Shop, monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setattr(services, f"MAX_{kind}_PER_USER", 2)
    products = [make_goods(shop, f"lamp-{number}") for number in range(50)]

    def write(product: Product) -> str:
        try:
            ask(customer, product) if kind == "QUESTIONS" else review(customer, product)
        except ValidationFailed as error:
            return str(error.problem.errors["product_id"])
        finally:
            connection.close()
        return "written"

    with ThreadPoolExecutor(50) as threads:
        results = Counter(threads.map(write, products))
    assert results["written"] == 2
    assert len(results) == 2
    assert any("2" in refusal and "0 are left" in refusal for refusal in results)
    assert (Question if kind == "QUESTIONS" else Review).objects.count() == 2
