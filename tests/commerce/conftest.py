"""Fixtures of the shop's tests."""

import secrets
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.utils import timezone

from commerce.catalog.search.facet_columns import forget_columns
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.migrated_database import copy_migrated_database, is_postgresql

ApiClient = Callable[[User | None], Client]


@pytest.fixture(autouse=True)
def _forget_columns() -> Iterator[None]:
    """Forget the products of other tests' databases, which the process counts facets from."""
    yield
    forget_columns()


@pytest.fixture
def provider_server() -> Iterator[ProviderServer]:
    """A text provider whose behavior is chosen by the path of its URL."""
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


def make_user(role: Role, name: str = "some") -> User:
    email = f"{name}-{role.lower()}@example.com"
    return create_user(email=email, name=f"{name} {role}", password=None, role=role, now=timezone.now())


def confirmed(user: User) -> User:
    """Return the user after their e-mail address was confirmed."""
    user.email_verified_at = timezone.now()
    user.save(update_fields=["email_verified_at"])
    return user


def bearer(user: User | None) -> dict[str, str]:
    """Return the headers of a request by this user, or of an anonymous one for None."""
    if user is None:
        return {}
    raw = create_api_key(user=user, name="test", now=timezone.now())[1]
    return {"Authorization": f"Bearer {raw}"}


@pytest.fixture
def client_of(db: None) -> ApiClient:
    """Return clients that are signed in as a user, or anonymous for None."""
    return lambda user: Client(headers=bearer(user), raise_request_exception=False)


@pytest.fixture
def owner(db: None) -> User:
    return confirmed(make_user(Role.STORE_OWNER))


@pytest.fixture
def shop(owner: User) -> Shop:
    return Shop.objects.create(owner=owner, name="Corner", slug="corner")


@pytest.fixture
def staff(shop: Shop) -> User:
    """A staff member of `shop`."""
    user = make_user(Role.STAFF)
    ShopStaff.objects.create(user=user, shop=shop)
    return user


@pytest.fixture
def customer(db: None) -> User:
    return make_user(Role.CUSTOMER)


@pytest.fixture
def admin(db: None) -> User:
    return make_user(Role.SUPER_ADMIN)


@pytest.fixture
def empty_database_url() -> str:
    """Return the URL of a migrated PostgreSQL database without rows, or "" for the shop's own SQLite file."""
    return copy_migrated_database(f"drill_{secrets.token_hex(4)}") if is_postgresql() else ""
