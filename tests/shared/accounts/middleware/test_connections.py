"""Registry of WebSockets: each is notified when its credential is revoked, and no other."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from shared.accounts.authentication import Principal, authenticate
from shared.accounts.middleware.connections import AuthenticatedConnection, ConnectionRegistry, authenticate_in_thread
from shared.accounts.models import ApiKey
from shared.accounts.roles import Role
from shared.accounts.services import (
    change_user,
    create_api_key,
    deactivate_user,
    revoke_api_key,
    set_password,
    sign_out,
)
from shared.api.errors import ApiError
from tests.shared.accounts.conftest import make_user, signed_in

pytestmark = pytest.mark.django_db(transaction=True)
End = Callable[[Principal], None]


def by_token(number: int) -> Principal:
    return authenticate(signed_in(make_user(Role.STAFF, f"t{number}@example.com")).access)


def by_key(number: int, lifetime: timedelta | None = None) -> Principal:
    now = timezone.now()
    user = make_user(Role.STAFF, f"k{number}@example.com")
    expires_at = now + lifetime if lifetime else None
    return authenticate(create_api_key(user=user, name="k", expires_at=expires_at, now=now)[1])


def revoke(principal: Principal) -> None:
    assert principal.api_key
    revoke_api_key(api_key=principal.api_key, now=timezone.now())


def leave_session(principal: Principal) -> None:
    sign_out(principal=principal, refresh=None, now=timezone.now())


def deactivate(principal: Principal) -> None:
    deactivate_user(user=principal.user)


def new_password(principal: Principal) -> None:
    set_password(user=principal.user.__class__.objects.get(pk=principal.user.pk), password="another long one")


def new_role(principal: Principal) -> None:
    user = principal.user.__class__.objects.get(pk=principal.user.pk)
    change_user(user=user, name=user.name, email=user.email, role=Role.CUSTOMER, is_active=True)


def nothing(principal: Principal) -> None:
    return None


CASES: list[tuple[Callable[[int], Principal], End, bool]] = [
    (by_key, nothing, False),
    (by_token, nothing, False),
    (by_key, revoke, True),
    (by_key, deactivate, True),
    (by_token, leave_session, True),
    (by_token, deactivate, True),
    (by_token, new_password, True),
    (by_token, new_role, True),
    (by_key, new_password, False),
    (lambda number: by_key(number, timedelta(seconds=0.1)), nothing, True),
]


def connection_of(principal: Principal, on_revoked: End = nothing) -> AuthenticatedConnection:
    return AuthenticatedConnection(principal, on_revoked=lambda: on_revoked(principal), on_drain=lambda: None)


def test_s9_connections_with_a_revoked_credential_are_notified_once():
    principals = [make(number) for number, (make, _, _) in enumerate(CASES)]

    async def run() -> list[Principal]:
        registry, lost = ConnectionRegistry(max_per_user=20), asyncio.Queue[Principal]()
        connections = [connection_of(principal, lost.put_nowait) for principal in principals]
        for one in connections:
            registry.register(one)
        for (_, end, _), principal in zip(CASES, principals, strict=True):
            await asyncio.to_thread(end, principal)
        expected = sum(ended for _, _, ended in CASES)
        async with asyncio.timeout(60):
            notified = [await lost.get() for _ in range(expected)]
        await asyncio.sleep(1.2)  # two more checks
        for one in connections:
            registry.unregister(one)
        return notified + [lost.get_nowait() for _ in range(lost.qsize())]

    lost = asyncio.run(run())
    numbers = sorted(principals.index(principal) for principal in lost)
    assert numbers == [number for number, (_, _, ended) in enumerate(CASES) if ended]


def test_s9_a_failing_callback_does_not_keep_other_connections_open(caplog: pytest.LogCaptureFixture):
    stuck, other = by_key(1), by_key(2)

    def fail(_: Principal) -> None:
        raise LookupError("unexpected")

    async def run() -> None:
        registry, lost = ConnectionRegistry(max_per_user=2), asyncio.Event()
        registry.register(connection_of(stuck, fail))
        registry.register(connection_of(other, lambda _: lost.set()))
        await asyncio.to_thread(revoke, stuck)
        while "connection_check_failed" not in caplog.text:  # noqa: ASYNC110 the log has no event
            await asyncio.sleep(0.05)
        await asyncio.to_thread(revoke, other)
        async with asyncio.timeout(60):
            await lost.wait()

    asyncio.run(run())


def test_s8_connections_of_a_user_are_limited_until_one_is_unregistered():
    principal, other = by_key(1), by_key(2)

    async def run() -> None:
        registry = ConnectionRegistry(max_per_user=2)
        connections = [connection_of(principal) for _ in range(2)]
        for one in connections:
            registry.register(one)
        with pytest.raises(ApiError, match="2 open connections"):
            registry.register(connection_of(principal))
        registry.register(connection_of(other))
        registry.unregister(connections[0])
        registry.register(connection_of(principal))

    asyncio.run(run())


def test_authenticate_in_thread_verifies_a_credential_outside_of_requests():
    key = create_api_key(user=make_user(Role.STAFF), name="k", now=timezone.now())[1]
    assert (
        asyncio.run(authenticate_in_thread(key, client="user:1", address="address:one")).api_key == ApiKey.objects.get()
    )
    with pytest.raises(ApiError):
        asyncio.run(authenticate_in_thread("stoa_0_wrong", client="user:1", address="address:one"))
