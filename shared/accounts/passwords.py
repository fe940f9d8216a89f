"""Password hashing with limited concurrency: one core stays free, and only a few requests may wait."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.contrib.auth.hashers import Argon2PasswordHasher, check_password, make_password

from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.transactions import close_connection

MAX_WAIT_SECONDS = 5.0

MAX_CONCURRENT_HASHES = max(1, (os.cpu_count() or 1) - 1)
_hash_slots = threading.BoundedSemaphore(MAX_CONCURRENT_HASHES)
MAX_HASHING_REQUESTS = 16 * MAX_CONCURRENT_HASHES  # that hash or wait for it: each of them occupies a thread
_request_slots = threading.BoundedSemaphore(MAX_HASHING_REQUESTS)
# Called when the request has hashed: what it does afterwards, as waiting to write, delays no other sign-in.
on_hashed: ContextVar[Callable[[], object] | None] = ContextVar("on_hashed", default=None)


class SingleCoreArgon2PasswordHasher(Argon2PasswordHasher):
    """Hasher of argon2id on one core with 19 MiB, as in OWASP's Password Storage Cheat Sheet.

    Django's own takes 100 MiB and eight threads.
    """

    time_cost = 2
    memory_cost = 19 * 1024
    parallelism = 1


def hash_password(password: str | None) -> str:
    """Return the hash to store. For None, return one that no password matches, at once."""
    if password is None:
        return make_password(None)
    with _hash_slot():
        return make_password(password)


def password_matches(user: User | None, password: str) -> bool:
    """Return whether this is the user's password, always at the cost of one hash, also without a user."""
    with _hash_slot():
        if user is None:
            make_password(password)
            return False
        return check_password(password, user.password, setter=lambda raw: _rehash(user, raw))


def _rehash(user: User, password: str) -> None:
    """Store a hash with the current parameters. The password and the tokens stay valid."""
    user.password = make_password(password)
    User.objects.filter(pk=user.pk).update(password=user.password)


def too_many_sign_ins_error() -> ApiError:
    return ApiError(503, "Too many sign-ins at the moment. Try again in 5 seconds.", headers={"Retry-After": "5"})


@contextmanager
def _hash_slot() -> Iterator[None]:
    with _acquired(_request_slots, wait_s=0):
        close_connection()  # others need it meanwhile
        with _acquired(_hash_slots, wait_s=MAX_WAIT_SECONDS):
            yield
    if hashed := on_hashed.get():
        hashed()


@contextmanager
def _acquired(semaphore: threading.BoundedSemaphore, *, wait_s: float) -> Iterator[None]:
    if not semaphore.acquire(timeout=wait_s):
        raise too_many_sign_ins_error()
    try:
        yield
    finally:
        semaphore.release()
