"""Reviews and questions in the admin."""

import pytest
from django.test import Client

from commerce.catalog.models import Product
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import ask, review

REVIEWS, QUESTIONS = "/admin/commerce_reviews/review/", "/admin/commerce_reviews/question/"


@pytest.fixture
def site(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


def act(site: Client, path: str, *rows: Review | Question) -> None:
    site.post(path, {"action": "take_down", "_selected_action": [row.pk for row in rows]})


def test_reviews_are_listed_found_and_taken_down(site: Client, customer: User, lamp: Product):
    kept = review(make_user(Role.CUSTOMER, "zoe"), lamp, 5, comment="Warm light.")
    spam = review(customer, lamp, 1, comment="Buy elsewhere.")
    assert "Warm light." in site.get(REVIEWS).content.decode()
    assert "Warm light." not in site.get(REVIEWS, {"q": "some-customer"}).content.decode()

    act(site, REVIEWS, spam)
    act(site, REVIEWS, spam)

    assert list(Review.objects.visible()) == [kept]
    lamp.refresh_from_db()
    assert (lamp.rating_sum, lamp.rating_count) == (5, 1)
    assert "Buy elsewhere." not in site.get(REVIEWS, {"deleted_at__isempty": "1"}).content.decode()
    deleted = site.get(REVIEWS, {"deleted_at__isempty": "0"}).content.decode()
    assert ("Buy elsewhere." in deleted, "Warm light." in deleted) == (True, False)
    assert site.get(REVIEWS, {"deleted_at__isempty": "x"}).status_code == 302
    assert "Buy elsewhere." in site.get(f"{REVIEWS}{spam.pk}/change/").content.decode()


def test_questions_are_taken_down(site: Client, customer: User, lamp: Product):
    asked = ask(customer, lamp, "Call me?")
    assert "Call me?" in site.get(QUESTIONS).content.decode()

    act(site, QUESTIONS, asked)

    assert not Question.objects.visible().exists()


def test_reviews_are_filtered_by_their_stars(site: Client, customer: User, lamp: Product):
    review(make_user(Role.CUSTOMER, "zoe"), lamp, 5, comment="Warm light.")
    review(customer, lamp, 1, comment="Cold light.")

    page = site.get(REVIEWS, {"rating": "5"}).content.decode()
    assert ("Warm light." in page, "Cold light." in page) == (True, False)
    unknown = site.get(REVIEWS, {"rating": "6"}).content.decode()
    assert ("Warm light." in unknown, "Cold light." in unknown) == (True, True)


def test_a_long_text_is_shown_by_its_beginning(site: Client, customer: User, lamp: Product):
    written = review(customer, lamp, comment="la " * 1000 + "end.")

    assert "end." not in site.get(REVIEWS).content.decode()
    assert "end." in site.get(f"{REVIEWS}{written.pk}/change/").content.decode()


@pytest.mark.parametrize("path", [REVIEWS, QUESTIONS])
def test_the_admin_adds_and_edits_nothing(site: Client, customer: User, lamp: Product, path: str):
    row = review(customer, lamp) if path == REVIEWS else ask(customer, lamp)

    assert site.get(f"{path}add/").status_code == 403
    assert site.post(f"{path}{row.pk}/change/", {"rating": 5, "comment": "x"}).status_code == 403
    assert site.post(f"{path}{row.pk}/delete/", {"post": "yes"}).status_code == 403
