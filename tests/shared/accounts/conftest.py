"""Users, and helpers that check credentials."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.authentication import NotAuthenticated, authenticate
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import TokenPair, create_user, sign_in

PASSWORD = "correct horse battery"
ADDRESS = "192.0.2.7"


@pytest.fixture(autouse=True)
def _test_urls(neutral_errors: None, settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.shared.accounts.urls"


def make_user(role: Role = Role.CUSTOMER, email: str = "ada@example.com", password: str | None = PASSWORD) -> User:
    return create_user(email=email, name="Ada", password=password, role=role, now=timezone.now())


def signed_in(user: User) -> TokenPair:
    return sign_in(email=user.email, password=PASSWORD, address=ADDRESS, now=timezone.now())


def set_signing_key(settings: Settings, key: str, *, fallbacks: Sequence[str] = ()) -> None:
    """Sign and verify tokens with `key` from now on, as after a restart of the server."""
    settings.SIMPLE_JWT = settings.SIMPLE_JWT | {"SIGNING_KEY": key}
    settings.JWT_KEY_FALLBACKS = list(fallbacks)


def is_accepted(credential: str) -> bool:
    """Return whether `authenticate` accepts the credential. For routes, see `opens`."""
    try:
        authenticate(credential)
    except NotAuthenticated:
        return False
    return True


def opens(path: str, credential: str) -> int:
    """Return the status of a route for this credential."""
    return (
        Client(raise_request_exception=False).get(path, headers={"Authorization": f"Bearer {credential}"}).status_code
    )


@pytest.fixture
def user(db: None) -> User:
    return make_user()


@pytest.fixture
def admin_user(db: None) -> User:
    return make_user(Role.SUPER_ADMIN, "root@example.com")


class CountingHasher(MD5PasswordHasher):
    """Hasher that counts its hashes and the maximum of concurrent ones."""

    lock = threading.Lock()
    total = 0
    running = 0
    max_running = 0
    on_hash: Callable[[], None] = staticmethod(lambda: None)

    def encode(self, password: str, salt: str) -> str:
        cls = CountingHasher
        with cls.lock:
            cls.total += 1
            cls.running += 1
            cls.max_running = max(cls.max_running, cls.running)
        try:
            cls.on_hash()
            return super().encode(password, salt)
        finally:
            with cls.lock:
                cls.running -= 1


@pytest.fixture
def hashes(settings: Settings) -> Iterator[type[CountingHasher]]:
    """Return the password hasher of this test. Tests set `total` and `max_running` to zero to count anew."""
    settings.PASSWORD_HASHERS = ["tests.shared.accounts.conftest.CountingHasher"]
    CountingHasher.total = CountingHasher.max_running = 0
    yield CountingHasher
    CountingHasher.on_hash = staticmethod(lambda: None)
