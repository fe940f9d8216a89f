"""Sign-in: the same response and cost for every wrong pair, and limits before any hashing."""

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts import passwords
from shared.accounts.authentication import authenticate
from shared.accounts.models import SignInNetwork, User
from shared.accounts.roles import Role
from shared.accounts.services import create_user, deactivate_user, sign_in
from shared.accounts.sign_ins.networks import find_user, network_of, remember_network
from shared.api.errors import ApiError
from tests.shared.accounts.conftest import ADDRESS, PASSWORD, CountingHasher, is_accepted, make_user, opens, signed_in

# Headers that differ between any two responses.
VARYING_HEADERS = {"X-Request-Id", "X-RateLimit-Reset", "X-RateLimit-Reset-After"}


def post(email: str, password: str, address: str = ADDRESS, **headers: str) -> Any:
    body = {"email": email, "password": password}
    client = Client(raise_request_exception=False)
    return client.post("/api/token", body, content_type="application/json", REMOTE_ADDR=address, headers=headers)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "permissions"),
    [
        (Role.SUPER_ADMIN, ["super_admin", "store_owner", "customer"]),
        (Role.STORE_OWNER, ["store_owner", "customer"]),
        (Role.STAFF, ["staff", "customer"]),
        (Role.CUSTOMER, ["customer"]),
    ],
)
def test_a_sign_in_returns_tokens_role_and_permissions(role: Role, permissions: list[str]) -> None:
    user = make_user(role)
    answer = post(user.email, PASSWORD)
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"token", "refresh", "expires_at", "permissions", "role", "email_verified"}
    assert (body["role"], body["permissions"], body["email_verified"]) == (role, permissions, False)
    assert body["expires_at"].endswith("Z")
    assert authenticate(body["token"]).user == user
    assert answer["X-RateLimit-Remaining"] == "9"


def test_the_case_of_an_email_does_not_matter(user: User) -> None:
    assert post("  ADA@Example.COM ", PASSWORD).status_code == 200


def test_spaces_in_a_password_matter(user: User) -> None:
    assert post(user.email, f" {PASSWORD}").status_code == 401


def test_an_invalid_token_beside_the_pair_is_ignored(user: User) -> None:
    assert post(user.email, PASSWORD, Authorization="Bearer stale").status_code == 200


@pytest.fixture
def wrong_pairs(db: None) -> dict[str, tuple[str, str]]:
    make_user(email="known@example.com")
    deactivate_user(user=make_user(email="inactive@example.com"))
    make_user(email="nopass@example.com", password=None)
    return {
        "known": ("known@example.com", "wrong"),
        "unknown": ("unknown@example.com", PASSWORD),
        "inactive": ("inactive@example.com", PASSWORD),
        "without a password": ("nopass@example.com", PASSWORD),
        "no e-mail at all": ("nobody", PASSWORD),
    }


def test_a6_every_wrong_pair_has_the_same_status_body_and_headers(wrong_pairs: dict[str, tuple[str, str]]) -> None:
    seen = set()
    for number, (email, password) in enumerate(wrong_pairs.values()):
        answer = post(email, password, address=f"192.0.2.{number}", **{"X-Request-Id": "same"})
        headers = frozenset(item for item in answer.headers.items() if item[0] not in VARYING_HEADERS)
        seen.add((answer.status_code, answer.content, headers))
    assert len(seen) == 1
    assert seen.pop()[0] == 401


def test_a6_every_wrong_pair_costs_exactly_one_hash(
    hashes: type[CountingHasher], wrong_pairs: dict[str, tuple[str, str]], settings: Settings
) -> None:
    settings.LOGIN_LIMIT = 100
    costs = {}
    for name, (email, password) in wrong_pairs.items():
        hashes.total = 0
        times = []
        for _ in range(3):
            started = time.perf_counter()
            assert post(email, password).status_code == 401
            times.append(time.perf_counter() - started)
        costs[name] = hashes.total
        print(f"{name}: median {statistics.median(times) * 1e3:.1f} ms")
    assert costs == dict.fromkeys(wrong_pairs, 3)


def test_a_correct_pair_costs_one_hash(hashes: type[CountingHasher], db: None) -> None:
    make_user()
    hashes.total = 0
    assert post("ada@example.com", PASSWORD).status_code == 200
    assert hashes.total == 1


def test_a_hash_of_older_settings_is_renewed_and_ends_no_token(user: User, settings: Settings) -> None:
    pair = signed_in(user)
    assert user.password.startswith("md5$")
    settings.PASSWORD_HASHERS = ["shared.accounts.passwords.SingleCoreArgon2PasswordHasher", *settings.PASSWORD_HASHERS]
    assert is_accepted(signed_in(user).access)
    assert User.objects.get(pk=user.pk).password.startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")
    assert is_accepted(pair.access)
    assert is_accepted(signed_in(user).access)


def test_a7_one_address_signs_in_ten_times_a_minute_before_any_hash(hashes: type[CountingHasher], db: None) -> None:
    statuses = [post(f"user{number}@example.com", "wrong").status_code for number in range(30)]
    assert statuses == [401] * 10 + [429] * 20
    assert hashes.total == 10


def test_a7_one_account_signs_in_ten_times_a_minute_from_any_address(hashes: type[CountingHasher], db: None) -> None:
    make_user()
    hashes.total = 0
    statuses = [post("Ada@example.com", "wrong", address=f"192.0.2.{number}").status_code for number in range(30)]
    assert statuses == [401] * 10 + [429] * 20
    assert hashes.total == 10


def test_n6_two_hundred_wrong_passwords_of_strangers_lock_no_owner_out(user: User) -> None:
    assert post(user.email, PASSWORD, address="198.51.100.1").status_code == 200
    for number in range(200):
        post(user.email, "wrong", address=f"192.0.2.{number}")
    assert post(user.email, PASSWORD, address="192.0.2.250").status_code == 429
    for _ in range(9):
        assert post(user.email, PASSWORD, address="198.51.100.1").status_code == 200
    assert post("another@example.com", "wrong", address="198.51.100.2").status_code == 401


def test_n6_an_owner_without_a_known_network_shares_the_limit_and_a_known_one_has_its_own(user: User) -> None:
    for address in ("198.51.100.1", "2001:db8::1"):
        assert post(user.email, PASSWORD, address=address).status_code == 200
    statuses = [post(user.email, "wrong", address="2001:db8::ffff").status_code for _ in range(12)]
    assert statuses == [401] * 9 + [429] * 3, "nine: the address has signed in once, and its network of 64 bits is one"
    assert post(user.email, PASSWORD, address="198.51.100.1").status_code == 200


def test_n6_the_twenty_latest_networks_of_a_user_are_stored_without_their_addresses(user: User) -> None:
    for number in range(25):
        network = network_of(f"192.0.2.{number}")
        remember_network(user=user, network=network, now=timezone.now() + timedelta(minutes=number))
    stored = set(SignInNetwork.objects.values_list("network", flat=True))
    assert stored == {network_of(f"192.0.2.{number}") for number in range(5, 25)}
    assert not any("192.0.2" in network for network in stored)
    now = timezone.now()
    assert find_user(email=user.email, network=network_of("192.0.2.24"), now=now) == (user, True)
    assert find_user(email=user.email, network=network_of("192.0.2.24"), now=now + timedelta(days=91)) == (user, False)
    assert find_user(email="nobody@example.com", network=network_of("192.0.2.24"), now=now) == (None, False)


def test_a7_a_429_says_when_to_retry(user: User) -> None:
    answers = [post(user.email, "wrong") for _ in range(11)]
    assert [answer["X-RateLimit-Remaining"] for answer in answers] == [
        str(remaining) for remaining in (*range(9, -1, -1), 0)
    ]
    refused = answers[-1]
    assert refused.json()["code"] == "rate_limited"
    assert refused["X-RateLimit-Limit"] == "10"
    assert refused["Retry-After"] == refused["X-RateLimit-Reset-After"]
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert int(refused["X-RateLimit-Reset"]) > time.time()


def test_r1_an_untrusted_x_forwarded_for_does_not_change_the_address(db: None) -> None:
    statuses = [
        post(f"user{number}@example.com", "wrong", **{"X-Forwarded-For": f"198.51.100.{number}"}).status_code
        for number in range(12)
    ]
    assert statuses == [401] * 10 + [429] * 2


def test_r3_sign_ins_get_503_before_any_hash_when_limits_cannot_be_counted(
    user: User, settings: Settings, hashes: type[CountingHasher]
) -> None:
    settings.REDIS_URL = "unix:///nowhere/sign-in.sock?db=0"
    answer = post(user.email, PASSWORD)
    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"
    assert int(answer["Retry-After"]) > 0
    assert hashes.total == 0


@pytest.mark.django_db(transaction=True)
def test_a7_concurrent_hashes_are_limited_and_other_routes_stay_fast(
    hashes: type[CountingHasher], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = signed_in(make_user())
    settings.LOGIN_LIMIT = 1000
    monkeypatch.setattr("shared.accounts.passwords._hash_slots", threading.BoundedSemaphore(2))
    monkeypatch.setattr("shared.accounts.passwords._request_slots", threading.BoundedSemaphore(30))
    hashes.total = hashes.max_running = 0
    hashes.on_hash = staticmethod(lambda: time.sleep(0.05))

    def fail_to_sign_in(number: int) -> int | None:
        try:
            sign_in(email=f"{number}@example.com", password="wrong", address=f"192.0.2.{number}", now=timezone.now())
        except ApiError as error:
            return error.problem.status
        finally:
            connection.close()
        return None

    with ThreadPoolExecutor(30) as pool:
        tries = [pool.submit(fail_to_sign_in, number) for number in range(30)]
        started = time.monotonic()
        assert opens("/who", pair.access) == 200
        assert time.monotonic() - started < 5
    assert {attempt.result() for attempt in tries} == {401}
    assert (hashes.total, hashes.max_running) == (30, 2)


@pytest.mark.django_db
def test_a_user_without_a_password_waits_for_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.accounts.passwords._hash_slots", threading.BoundedSemaphore(1))
    monkeypatch.setattr("shared.accounts.passwords.MAX_WAIT_SECONDS", 0.05)
    with passwords._hash_slot():
        user = create_user(email="eve@example.com", name="Eve", password=None, role=Role.STAFF, now=timezone.now())
    assert not user.has_usable_password()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor == "sqlite", reason="An in-memory database stays open.")
def test_a_sign_in_holds_no_database_connection_while_it_hashes(hashes: type[CountingHasher]) -> None:
    user, held = make_user(), []
    hashes.on_hash = staticmethod(lambda: held.append(connection.connection))
    sign_in(email=user.email, password=PASSWORD, address="192.0.2.1", now=timezone.now())
    assert held == [None]


@pytest.mark.django_db
def test_a7_a_sign_in_that_waits_too_long_for_a_core_gets_503(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user()
    monkeypatch.setattr("shared.accounts.passwords._hash_slots", threading.BoundedSemaphore(1))
    monkeypatch.setattr("shared.accounts.passwords.MAX_WAIT_SECONDS", 0.05)
    with passwords._hash_slot():
        answer = post(user.email, PASSWORD)
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers


@pytest.mark.django_db
def test_a7_a_sign_in_gets_503_at_once_when_too_many_wait(
    monkeypatch: pytest.MonkeyPatch, hashes: type[CountingHasher]
) -> None:
    user = make_user()
    hashes.total = 0
    monkeypatch.setattr("shared.accounts.passwords._request_slots", threading.BoundedSemaphore(1))
    with passwords._hash_slot():
        assert post(user.email, PASSWORD).status_code == 503
    assert hashes.total == 0
    assert post(user.email, PASSWORD).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/token", "/api/token/refresh", "/api/register"])
def test_a_large_body_without_credentials_gets_413(path: str) -> None:
    body = {"email": "ada@example.com", "password": PASSWORD, "refresh": "x", "more": "x" * 20_000}
    answer = Client().post(path, body, content_type="application/json")
    assert answer.status_code == 413
    assert answer.json()["code"] == "payload_too_large"
