"""Fixtures of a product with a review and a question, and of moderators."""

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


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def written(lamp: Product, customer: User) -> Review:
    return review(customer, lamp, 1, comment="Buy elsewhere.")


@pytest.fixture
def asked(lamp: Product, customer: User) -> Question:
    return ask(customer, lamp, "Call me?")


@pytest.fixture
def colleague(db: None) -> User:
    """Return a second moderator."""
    return make_user(Role.SUPER_ADMIN, "colleague")


@pytest.fixture
def moderator(db: None) -> User:
    return make_user(Role.MODERATOR, "moderator")


@pytest.fixture
def desk(moderator: User) -> Client:
    client = Client()
    client.force_login(moderator)
    return client
