"""Services of webhooks: announcements, endpoints and their limits, and concurrency."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.encryption import decrypt
from shared.webhooks import services
from shared.webhooks.deliveries import redeliver
from shared.webhooks.delivery.outbox import claim_due, record_attempt
from shared.webhooks.delivery.transport import AttemptOutcome
from shared.webhooks.models import Attempt, Delivery, Endpoint
from tests.inference.webhooks.conftest import make_user
from tests.inference.webhooks.outbox_helpers import (
    announce_event,
    announce_without_default_endpoint,
    create_endpoint_at,
)

NOW = timezone.now()
PUBLIC = "https://93.184.216.34"


def refused(work: Callable[[], Any]) -> tuple[int, Any]:
    """Return status and field of the error."""
    with pytest.raises(ApiError) as error:
        work()
    return error.value.problem.status, (error.value.problem.details or {}).get("field")


def change(user: User, endpoint: Endpoint, **changes: Any) -> Endpoint:
    arguments = {"url": None, "events": None, "is_enabled": None} | changes
    return services.change_endpoint(user=user, endpoint_id=endpoint.public_id, now=NOW, **arguments)


def prepare(user: User, url: str = f"{PUBLIC}/one-off") -> str | None:
    services.check_webhook_url(url=url)
    return services.create_default_endpoint(user=user, now=NOW)


def test_an_event_is_delivered_to_subscribed_endpoints_and_the_webhook_url(user: User):
    first, _ = create_endpoint_at(user, f"{PUBLIC}/1")
    second, _ = create_endpoint_at(user, f"{PUBLIC}/2")
    deaf, _ = create_endpoint_at(user, f"{PUBLIC}/3")
    off, _ = create_endpoint_at(user, f"{PUBLIC}/4")
    create_endpoint_at(make_user("other"), f"{PUBLIC}/5")
    change(user, deaf, events=[])
    change(user, off, is_enabled=False)
    prepare(user)
    deliveries = announce_event(user, f"{PUBLIC}/one-off")

    default = Endpoint.objects.get(user=user, is_default=True)
    assert {(delivery.endpoint, delivery.url) for delivery in deliveries} == {
        (first, f"{PUBLIC}/1"),
        (second, f"{PUBLIC}/2"),
        (default, f"{PUBLIC}/one-off"),
    }
    assert {delivery.destination for delivery in deliveries} == {"93.184.216.34:443"}
    assert len({delivery.public_id for delivery in deliveries}) == 3
    assert len({delivery.body for delivery in deliveries}) == 1
    assert {delivery.state for delivery in deliveries} == {"pending"}


def test_a_rolled_back_event_creates_no_delivery(user: User):
    create_endpoint_at(user, f"{PUBLIC}/1")
    with transaction.atomic():
        assert len(announce_event(user)) == 1
        transaction.set_rollback(True)

    assert Delivery.objects.count() == 0


def test_an_event_without_subscribers_creates_no_delivery(user: User):
    assert announce_event(user) == []


def test_the_default_secret_is_returned_once_and_stored_encrypted(user: User):
    secret = prepare(user)

    assert secret is not None
    assert secret.startswith("whsec_")
    assert prepare(user, f"{PUBLIC}/another") is None
    endpoint = Endpoint.objects.get()
    assert secret.removeprefix("whsec_") not in endpoint.secret
    assert decrypt(endpoint.secret) == secret


def test_a_refused_request_creates_no_secret(user: User):
    with transaction.atomic():
        assert prepare(user) is not None
        transaction.set_rollback(True)

    assert prepare(user) is not None


def test_a_deleted_default_endpoint_is_recreated_with_a_new_secret(user: User):
    prepare(user)
    services.delete_endpoint(user=user, endpoint_id=Endpoint.objects.get().public_id)

    assert announce_without_default_endpoint(user, f"{PUBLIC}/one-off") == []
    assert not Endpoint.objects.exists()
    assert prepare(user) is not None


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/", "http://localhost/", "gopher://x", "", "x" * 3000]
)
def test_w1_a_private_address_is_refused_on_every_route(user: User, url: str):
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/1")

    assert refused(lambda: prepare(user, url)) == (400, "webhook_url")
    assert refused(lambda: create_endpoint_at(user, url)) == (400, "url")
    assert refused(lambda: change(user, endpoint, url=url)) == (400, "url")
    assert list(Endpoint.objects.values_list("url", flat=True)) == [f"{PUBLIC}/1"]


def test_w1_a_name_with_a_private_address_is_refused(user: User, settings: Settings):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("socket.getaddrinfo", lambda host, port, **kind: [(2, 1, 6, "", ("10.0.0.1", port))])
        assert refused(lambda: prepare(user, "https://hooks.example.com/")) == (400, "webhook_url")
    settings.WEBHOOK_ALLOW = frozenset({"hooks.example.com:443"})
    assert prepare(user, "https://hooks.example.com/") is not None


def test_an_unresolvable_name_is_accepted_and_resolved_at_sending(user: User):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("socket.getaddrinfo", unknown)
        assert prepare(user, "https://hooks.example.com/") is not None


def unknown(host: str, port: int, **kind: Any) -> Any:
    raise OSError(-3, "Temporary failure in name resolution")


def test_n4_a_user_has_at_most_twenty_endpoints(user: User):
    for number in range(services.MAX_ENDPOINTS_PER_USER):
        create_endpoint_at(user, f"{PUBLIC}/{number}")
    prepare(user)

    assert refused(lambda: create_endpoint_at(user, f"{PUBLIC}/more")) == (400, "url")
    assert Endpoint.objects.filter(is_default=False).count() == 20


def test_a_url_is_unique_for_each_user(user: User):
    create_endpoint_at(user, f"{PUBLIC}/1")
    other, _ = create_endpoint_at(user, f"{PUBLIC}/2")

    assert refused(lambda: create_endpoint_at(user, f"{PUBLIC}/1")) == (400, "url")
    assert refused(lambda: change(user, other, url=f"{PUBLIC}/1")) == (400, "url")
    create_endpoint_at(make_user("other"), f"{PUBLIC}/1")
    assert Endpoint.objects.count() == 3


def test_another_users_endpoint_is_not_found(user: User):
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/1")
    other = make_user("other")

    assert refused(lambda: change(other, endpoint, is_enabled=False)) == (404, None)
    assert refused(lambda: services.delete_endpoint(user=other, endpoint_id=endpoint.public_id)) == (404, None)
    rotate = {"user": other, "endpoint_id": endpoint.public_id, "now": NOW}
    assert refused(lambda: services.rotate_secret(**rotate)) == (404, None)
    assert Endpoint.objects.get().is_enabled


def test_disabling_cancels_pending_deliveries_and_enabling_restores_none(user: User):
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/1")
    (delivery,) = announce_event(user)
    change(user, endpoint, is_enabled=False)
    delivery.refresh_from_db()

    assert delivery.state == "cancelled"
    assert refused(lambda: redeliver(delivery=delivery, now=NOW)) == (400, None)
    assert change(user, endpoint, is_enabled=True).disabled_by == ""
    delivery.refresh_from_db()
    assert delivery.state == "cancelled"
    assert redeliver(delivery=delivery, now=NOW).state == "pending"


def test_an_owner_cannot_enable_what_an_operator_disabled(user: User):
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/1")
    services.disable_endpoints(endpoints=[endpoint.pk], by=Endpoint.DisabledBy.OPERATOR, now=NOW)

    assert refused(lambda: change(user, endpoint, is_enabled=True)) == (400, "enabled")
    services.enable_endpoints(endpoints=[endpoint.pk], now=NOW)
    assert change(user, endpoint, is_enabled=True).is_enabled


def test_an_owner_cannot_delete_and_recreate_what_an_operator_disabled(user: User):
    prepare(user)
    default = Endpoint.objects.get()
    services.disable_endpoints(endpoints=[default.pk], by=Endpoint.DisabledBy.OPERATOR, now=NOW)

    assert refused(lambda: services.delete_endpoint(user=user, endpoint_id=default.public_id)) == (400, "id")
    services.enable_endpoints(endpoints=[default.pk], now=NOW)
    services.delete_endpoint(user=user, endpoint_id=default.public_id)
    assert not Endpoint.objects.exists()


def test_a_redelivery_goes_to_the_endpoints_current_url(user: User):
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/old")
    (own,) = announce_event(user)
    (one_off,) = announce_event(user, f"{PUBLIC}/one-off")[1:]
    Delivery.objects.update(state="delivered", due_at=None, finished_at=NOW)
    change(user, endpoint, url="https://93.184.216.35/new")

    again = redeliver(delivery=own, now=NOW)
    assert (again.url, again.destination) == ("https://93.184.216.35/new", "93.184.216.35:443")
    assert redeliver(delivery=one_off, now=NOW).url == f"{PUBLIC}/one-off"


def test_a_deleted_delivery_cannot_be_redelivered(user: User):
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/1")
    (delivery,) = announce_event(user)
    services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    assert refused(lambda: redeliver(delivery=delivery, now=NOW)) == (404, None)


def test_a_disabled_default_endpoint_refuses_webhook_urls(user: User):
    prepare(user)
    services.disable_endpoints(endpoints=[Endpoint.objects.get().pk], by=Endpoint.DisabledBy.OPERATOR, now=NOW)

    assert refused(lambda: prepare(user)) == (400, "webhook_url")
    assert announce_without_default_endpoint(user, f"{PUBLIC}/one-off") == []


def test_a_rotation_keeps_the_previous_secret_for_a_day(user: User):
    endpoint, old = create_endpoint_at(user, f"{PUBLIC}/1")
    new = services.rotate_secret(user=user, endpoint_id=endpoint.public_id, now=NOW).secret
    endpoint.refresh_from_db()

    assert new != old
    assert (decrypt(endpoint.secret), decrypt(endpoint.previous_secret)) == (new, old)
    assert endpoint.previous_secret_until == NOW + timedelta(hours=24)


@pytest.mark.django_db(transaction=True)
def test_concurrent_first_webhook_urls_return_the_secret_once():
    user, secrets = make_user("owner"), []

    def ask(number: int) -> None:
        try:
            secrets.append(prepare(user, f"{PUBLIC}/{number}"))
        finally:
            connection.close()

    at_once([lambda number=number: ask(number) for number in range(8)])

    shown = [secret for secret in secrets if secret]
    assert len(secrets) == 8
    assert shown == [decrypt(Endpoint.objects.get().secret)]


@pytest.mark.django_db(transaction=True)
def test_n4_of_concurrent_endpoints_no_more_than_the_maximum_are_created():
    user, refusals = make_user("owner"), list[str]()
    for number in range(services.MAX_ENDPOINTS_PER_USER - 2):
        create_endpoint_at(user, f"{PUBLIC}/{number}")

    def make(number: int) -> None:
        try:
            create_endpoint_at(user, f"{PUBLIC}/new/{number}")
        except ApiError as error:
            refusals.append(str(error))
        finally:
            connection.close()

    at_once([lambda number=number: make(number) for number in range(50)])
    assert Endpoint.objects.count() == services.MAX_ENDPOINTS_PER_USER
    assert len(refusals) == 48
    assert all("0 are left" in refusal for refusal in refusals)


def at_once(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def beside(work: Callable[[], object], other: Callable[[], None]) -> list[BaseException]:
    """Run `other` in a thread while `work` is uncommitted, and return what `other` raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            other()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    with transaction.atomic():
        work()
        thread.start()
        thread.join(1)
    thread.join()
    return raised


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("url", [None, f"{PUBLIC}/one-off"])
def test_a_concurrent_deletion_does_not_roll_back_an_announcement(url: str | None):
    user = make_user("owner")
    endpoint = create_target(user, url)

    def delete() -> None:
        services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    assert beside(lambda: announce_without_default_endpoint(user, url), delete) == []
    assert not Endpoint.objects.exists()
    assert not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("url", [None, f"{PUBLIC}/one-off"])
def test_an_event_during_a_deletion_skips_the_deleted_endpoint(url: str | None):
    user = make_user("owner")
    endpoint = create_target(user, url)

    def delete() -> None:
        services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    def happen() -> None:
        services.announce(user=user, url=url, event="batch.complete", data={}, now=NOW)

    assert beside(delete, happen) == []
    assert not Endpoint.objects.exists()
    assert not Delivery.objects.exists()


def create_target(user: User, url: str | None) -> Endpoint:
    """Create an endpoint of the user, or the default one."""
    if url is None:
        return create_endpoint_at(user, f"{PUBLIC}/1")[0]
    prepare(user, url)
    return Endpoint.objects.get()


@pytest.mark.django_db(transaction=True)
def test_an_endpoint_can_be_deleted_while_an_attempt_is_recorded():
    user = make_user("owner")
    endpoint, _ = create_endpoint_at(user, f"{PUBLIC}/1")
    announce_event(user)
    (request,) = claim_due(limit=1, now=timezone.now())
    failed = AttemptOutcome(started_at=NOW, duration_ms=5, status=500, failure="status")

    def delete() -> None:
        services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    assert beside(lambda: record_attempt(request=request, outcome=failed, now=timezone.now()), delete) == []
    assert not Attempt.objects.exists()
