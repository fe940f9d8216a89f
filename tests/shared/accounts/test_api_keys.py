"""API keys: shown once, stored as a hash, limited to the permissions of the user, and revocable."""

import io
import statistics
import threading
import time
from datetime import timedelta

import pytest
import time_machine
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from shared.accounts.authentication import authenticate
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Permission, Role
from shared.accounts.services import change_user, create_api_key, deactivate_user, revoke_api_key
from shared.api.errors import ValidationFailed
from tests.shared.accounts.conftest import is_accepted, make_user, opens


@pytest.fixture
def staff(db: None) -> User:
    return make_user(Role.STAFF)


def test_a5_a_database_dump_contains_no_raw_key(staff: User) -> None:
    raws = [create_api_key(user=staff, name=f"key {number}", now=timezone.now())[1] for number in range(5)]
    for raw in raws:
        assert is_accepted(raw)
    dump = io.StringIO()
    call_command("dumpdata", "accounts", stdout=dump)
    assert "secret_hash" in dump.getvalue()
    for raw in raws:
        assert raw not in dump.getvalue()
        assert raw.split("_", 2)[2] not in dump.getvalue()


def test_a5_a_secret_has_more_than_128_bits_and_is_unique(staff: User) -> None:
    raws = {create_api_key(user=staff, name="k", now=timezone.now())[1] for _ in range(20)}
    secrets = {raw.split("_", 2)[2] for raw in raws}
    assert len(secrets) == 20
    assert min(len(secret) for secret in secrets) * 6 >= 128


def test_a5_a_listing_shows_only_the_prefix(staff: User) -> None:
    key, raw = create_api_key(user=staff, name="laptop", now=timezone.now())
    assert raw.startswith(key.prefix)
    assert str(key) == f"laptop ({key.prefix})"
    assert len(key.prefix) < len(raw) / 2


def test_a5_a_revoked_key_is_refused_from_the_next_request(staff: User) -> None:
    key, raw = create_api_key(user=staff, name="k", now=timezone.now())
    assert opens("/who", raw) == opens("/who-async", raw) == 200
    revoke_api_key(api_key=key, now=timezone.now())
    assert opens("/who", raw) == opens("/who-async", raw) == 401
    revoked_at = key.revoked_at
    revoke_api_key(api_key=key, now=timezone.now())
    assert key.revoked_at == revoked_at


def test_a5_wrong_secrets_and_malformed_keys_are_refused(staff: User) -> None:
    key, raw = create_api_key(user=staff, name="k", now=timezone.now())
    other = create_api_key(user=staff, name="other", now=timezone.now())[1]
    for wrong in (
        key.prefix,
        raw[:-1],
        raw + "A",
        raw[:-1] + ("A" if raw[-1] != "A" else "B"),
        key.prefix + other.split("_", 2)[2],
        key.prefix + key.secret_hash,
        raw.removeprefix("stoa_"),
        raw.upper(),
        "stoa_",
        "stoa__",
        f"stoa_{'0' * 16}_{raw.split('_', 2)[2]}",
        "stoa_%_" + raw.split("_", 2)[2],
    ):
        assert not is_accepted(wrong), wrong


def test_a5_the_time_of_a_refusal_is_printed(staff: User) -> None:
    key, raw = create_api_key(user=staff, name="k", now=timezone.now())
    wrong = {"first letter": key.prefix + "A" * 43, "last letter": raw[:-1] + "-", "unknown key": "stoa_0_" + "A" * 43}
    for name, credential in wrong.items():
        times = []
        for _ in range(30):
            started = time.perf_counter()
            assert not is_accepted(credential)
            times.append(time.perf_counter() - started)
        print(f"{name}: median {statistics.median(times) * 1e6:.0f} us")


def test_an_expired_key_is_refused(staff: User) -> None:
    now = timezone.now()
    raw = create_api_key(user=staff, name="k", expires_at=now + timedelta(days=1), now=now)[1]
    assert is_accepted(raw)
    with time_machine.travel(now + timedelta(days=1, seconds=1), tick=False):
        assert not is_accepted(raw)


def test_a_key_has_the_permissions_of_the_role(staff: User) -> None:
    raw = create_api_key(user=staff, name="k", now=timezone.now())[1]
    assert authenticate(raw).permissions == {Permission.RUN_INFERENCE, Permission.READ_MODELS}


def test_a_key_can_have_fewer_permissions_than_its_user(staff: User) -> None:
    raw = create_api_key(user=staff, name="k", permissions=["read_models"], now=timezone.now())[1]
    principal = authenticate(raw)
    assert principal.permissions == {Permission.READ_MODELS}
    assert principal.has_permission("read_models")
    assert not principal.has_permission("run_inference")


def test_a_key_with_an_empty_list_has_no_permissions(staff: User) -> None:
    raw = create_api_key(user=staff, name="k", permissions=[], now=timezone.now())[1]
    assert authenticate(raw).permissions == frozenset()


@pytest.mark.parametrize("permissions", [["manage_models"], ["read_models", "fly"]])
def test_creating_a_key_with_more_permissions_than_the_role_fails(staff: User, permissions: list[str]) -> None:
    with pytest.raises(ValidationFailed):
        create_api_key(user=staff, name="k", permissions=permissions, now=timezone.now())
    assert not ApiKey.objects.exists()


def test_a_key_loses_the_permissions_that_the_role_loses(admin_user: User) -> None:
    user = make_user(Role.SUPER_ADMIN)
    raw = create_api_key(user=user, name="k", permissions=["manage_models", "read_models"], now=timezone.now())[1]
    change_user(user=user, name=user.name, email=user.email, role=Role.STAFF, is_active=True)
    assert authenticate(raw).permissions == {Permission.READ_MODELS}


def test_creating_a_key_for_a_deactivated_user_fails(staff: User) -> None:
    deactivate_user(user=staff)
    with pytest.raises(ValidationFailed):
        create_api_key(user=staff, name="k", now=timezone.now())


def test_the_last_use_is_stored_once_a_minute(staff: User) -> None:
    now = timezone.now()
    key, raw = create_api_key(user=staff, name="k", now=now)
    stored = []
    for seconds in (0, 30, 59, 61, 90):
        with time_machine.travel(now + timedelta(seconds=seconds), tick=False):
            authenticate(raw)
        key.refresh_from_db()
        assert key.last_used_at is not None
        stored.append(round((key.last_used_at - now).total_seconds()))
    assert stored == [0, 0, 0, 61, 61]


@pytest.mark.django_db(transaction=True)
def test_d2_a_locked_key_row_does_not_delay_authentication() -> None:
    key, raw = create_api_key(user=make_user(Role.STAFF), name="k", now=timezone.now())
    locked, may_unlock = threading.Event(), threading.Event()

    def lock_row() -> None:
        with transaction.atomic():
            ApiKey.objects.filter(pk=key.pk).update(name="renamed")
            locked.set()
            may_unlock.wait(60)
        connection.close()

    thread = threading.Thread(target=lock_row)
    thread.start()
    assert locked.wait(60)
    started = time.monotonic()
    try:
        assert authenticate(raw).api_key == key
        assert time.monotonic() - started < 5
    finally:
        may_unlock.set()
        thread.join()
    key.refresh_from_db()
    assert (key.name, key.last_used_at) == ("renamed", None)
    authenticate(raw)
    key.refresh_from_db()
    assert key.last_used_at is not None
