"""Creation of abuse reports."""

import pytest
from django.db import IntegrityError
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport
from commerce.moderation.services import file_report
from commerce.reviews.models import Review
from commerce.reviews.services import delete_review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from tests.commerce.conftest import make_user
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import ask, review

pytestmark = pytest.mark.django_db


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


def report(user: User, model_type: str, model_id: int) -> AbuseReport:
    return file_report(user=user, model_type=model_type, model_id=model_id, message="Spam.", now=timezone.now())


def refused(user: User, model_type: str, model_id: int) -> int:
    before = AbuseReport.objects.count()
    with pytest.raises(ApiError) as refusal:
        report(user, model_type, model_id)
    assert AbuseReport.objects.count() == before
    return refusal.value.problem.status


def test_a_report_increments_the_count_of_its_review_or_question(lamp: Product, customer: User, owner: User):
    written, asked = review(customer, lamp), ask(customer, lamp)
    report(owner, "Review", written.pk)
    report(customer, "Review", written.pk)
    made = report(owner, "Question", asked.pk)

    assert (made.user, made.model_type, made.model_id, made.status) == (owner, "Question", asked.pk, "open")
    written.refresh_from_db()
    asked.refresh_from_db()
    assert (written.abusive_reports_count, asked.abusive_reports_count) == (2, 1)


def test_a_second_report_by_the_same_user_is_409(lamp: Product, customer: User):
    written = review(customer, lamp)
    report(customer, "Review", written.pk)

    assert refused(customer, "Review", written.pk) == 409
    written.refresh_from_db()
    assert written.abusive_reports_count == 1


@pytest.mark.parametrize("model_type", ["reviews", "Product", "User", "commerce_reviews.Review", "", "__class__"])
def test_c4_only_reviews_and_questions_can_be_reported(lamp: Product, customer: User, model_type: str):
    written = review(customer, lamp)

    assert refused(customer, model_type, written.pk) == 404


def test_deleted_and_missing_content_cannot_be_reported(lamp: Product, customer: User):
    written = review(customer, lamp)
    delete_review(review_id=written.pk, actor=customer, now=timezone.now())

    assert refused(make_user(Role.CUSTOMER, "other"), "Review", written.pk) == 404
    assert refused(customer, "Review", 2**63 - 1) == 404
    assert Review.objects.get().abusive_reports_count == 0


def test_the_database_refuses_unknown_kinds(customer: User):
    now = timezone.now()

    with pytest.raises(IntegrityError):
        AbuseReport.objects.create(
            user=customer, model_type="User", model_id=1, message="", created_at=now, updated_at=now
        )
