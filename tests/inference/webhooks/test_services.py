"""What is announced to whom, and what endpoints may be."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from inference.webhooks import services
from inference.webhooks.delivery import settle, take
from inference.webhooks.models import Attempt, Delivery, Endpoint
from inference.webhooks.redelivery import redeliver
from inference.webhooks.sealing import unseal
from inference.webhooks.transport import Outcome
from shared.accounts.models import User
from shared.api.errors import ApiError
from tests.inference.webhooks.conftest import make_user
from tests.inference.webhooks.sending import announced, endpoint_at, messages

NOW = timezone.now()
PUBLIC = "https://93.184.216.34"


def refused(work: Callable[[], Any]) -> tuple[int, Any]:
    """Status and field of the error."""
    with pytest.raises(ApiError) as error:
        work()
    return error.value.problem.status, (error.value.problem.details or {}).get("field")


def change(user: User, endpoint: Endpoint, **changes: Any) -> Endpoint:
    given = {"url": None, "events": None, "is_enabled": None} | changes
    return services.change_endpoint(user=user, endpoint_id=endpoint.public_id, now=NOW, **given)


def prepare(user: User, url: str = f"{PUBLIC}/one-off") -> str | None:
    services.check_one_off(url=url)
    return services.default_secret(user=user, now=NOW)


def test_every_endpoint_that_wants_an_event_is_told_of_it_and_the_one_off_address(user: User):
    first, _ = endpoint_at(user, f"{PUBLIC}/1")
    second, _ = endpoint_at(user, f"{PUBLIC}/2")
    deaf, _ = endpoint_at(user, f"{PUBLIC}/3")
    off, _ = endpoint_at(user, f"{PUBLIC}/4")
    endpoint_at(make_user("other"), f"{PUBLIC}/5")
    change(user, deaf, events=[])
    change(user, off, is_enabled=False)
    prepare(user)
    told = announced(user, f"{PUBLIC}/one-off")

    default = Endpoint.objects.get(user=user, is_default=True)
    assert {(delivery.endpoint, delivery.url) for delivery in told} == {
        (first, f"{PUBLIC}/1"),
        (second, f"{PUBLIC}/2"),
        (default, f"{PUBLIC}/one-off"),
    }
    assert {delivery.destination for delivery in told} == {"93.184.216.34:443"}
    assert len({delivery.public_id for delivery in told}) == 3
    assert len({delivery.body for delivery in told}) == 1
    assert {delivery.state for delivery in told} == {"pending"}


def test_what_did_not_happen_is_announced_to_nobody(user: User):
    endpoint_at(user, f"{PUBLIC}/1")
    with transaction.atomic():
        assert len(announced(user)) == 1
        transaction.set_rollback(True)

    assert Delivery.objects.count() == 0


def test_nobody_to_tell_is_nothing_to_write(user: User):
    assert announced(user) == []


def test_the_default_secret_is_answered_once_and_is_kept_sealed(user: User):
    secret = prepare(user)

    assert secret is not None
    assert secret.startswith("whsec_")
    assert prepare(user, f"{PUBLIC}/another") is None
    endpoint = Endpoint.objects.get()
    assert secret.removeprefix("whsec_") not in endpoint.secret
    assert unseal(endpoint.secret) == secret


def test_a_request_that_is_refused_makes_no_secret(user: User):
    with transaction.atomic():
        assert prepare(user) is not None
        transaction.set_rollback(True)

    assert prepare(user) is not None


def test_a_default_endpoint_that_was_deleted_comes_back_with_a_secret_that_is_shown_and_not_before(user: User):
    prepare(user)
    services.delete_endpoint(user=user, endpoint_id=Endpoint.objects.get().public_id)

    assert messages(user, f"{PUBLIC}/one-off") == []
    assert not Endpoint.objects.exists()
    assert prepare(user) is not None


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/", "http://localhost/", "gopher://x", "", "x" * 3000]
)
def test_w1_an_address_that_leads_inside_is_refused_wherever_it_is_given(user: User, url: str):
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/1")

    assert refused(lambda: prepare(user, url)) == (400, "webhook_url")
    assert refused(lambda: endpoint_at(user, url)) == (400, "url")
    assert refused(lambda: change(user, endpoint, url=url)) == (400, "url")
    assert list(Endpoint.objects.values_list("url", flat=True)) == [f"{PUBLIC}/1"]


def test_w1_a_name_that_leads_inside_is_refused_when_it_is_given(user: User, settings: Settings):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("socket.getaddrinfo", lambda host, port, **kind: [(2, 1, 6, "", ("10.0.0.1", port))])
        assert refused(lambda: prepare(user, "https://hooks.example.com/")) == (400, "webhook_url")
    settings.WEBHOOK_ALLOW = frozenset({"hooks.example.com:443"})
    assert prepare(user, "https://hooks.example.com/") is not None


def test_a_name_that_nobody_knows_just_now_is_taken_and_looked_up_when_it_is_sent_to(user: User):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("socket.getaddrinfo", unknown)
        assert prepare(user, "https://hooks.example.com/") is not None


def unknown(host: str, port: int, **kind: Any) -> Any:
    raise OSError(-3, "Temporary failure in name resolution")


def test_there_can_be_no_more_than_twenty(user: User):
    for number in range(services.MOST_ENDPOINTS):
        endpoint_at(user, f"{PUBLIC}/{number}")
    prepare(user)

    assert refused(lambda: endpoint_at(user, f"{PUBLIC}/more")) == (400, "url")
    assert Endpoint.objects.filter(is_default=False).count() == 20


def test_an_address_is_there_once(user: User):
    endpoint_at(user, f"{PUBLIC}/1")
    other, _ = endpoint_at(user, f"{PUBLIC}/2")

    assert refused(lambda: endpoint_at(user, f"{PUBLIC}/1")) == (400, "url")
    assert refused(lambda: change(user, other, url=f"{PUBLIC}/1")) == (400, "url")
    endpoint_at(make_user("other"), f"{PUBLIC}/1")
    assert Endpoint.objects.count() == 3


def test_another_users_endpoint_is_not_there(user: User):
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/1")
    other = make_user("other")

    assert refused(lambda: change(other, endpoint, is_enabled=False)) == (404, None)
    assert refused(lambda: services.delete_endpoint(user=other, endpoint_id=endpoint.public_id)) == (404, None)
    rotate = {"user": other, "endpoint_id": endpoint.public_id, "now": NOW}
    assert refused(lambda: services.rotate_secret(**rotate)) == (404, None)
    assert Endpoint.objects.get().is_enabled


def test_disabling_cancels_what_waits_and_enabling_brings_nothing_back_by_itself(user: User):
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/1")
    (delivery,) = announced(user)
    change(user, endpoint, is_enabled=False)
    delivery.refresh_from_db()

    assert delivery.state == "cancelled"
    assert refused(lambda: redeliver(delivery=delivery, now=NOW)) == (400, None)
    assert change(user, endpoint, is_enabled=True).disabled_by == ""
    delivery.refresh_from_db()
    assert delivery.state == "cancelled"
    assert redeliver(delivery=delivery, now=NOW).state == "pending"


def test_what_an_operator_has_disabled_its_owner_cannot_enable(user: User):
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/1")
    services.disable_endpoint(endpoint=endpoint, by=Endpoint.DisabledBy.OPERATOR, now=NOW)

    assert refused(lambda: change(user, endpoint, is_enabled=True)) == (400, "enabled")
    services.enable_endpoints(endpoints=[endpoint.pk], now=NOW)
    assert change(user, endpoint, is_enabled=True).is_enabled


def test_what_an_operator_has_disabled_its_owner_cannot_delete_and_make_anew(user: User):
    prepare(user)
    default = Endpoint.objects.get()
    services.disable_endpoint(endpoint=default, by=Endpoint.DisabledBy.OPERATOR, now=NOW)

    assert refused(lambda: services.delete_endpoint(user=user, endpoint_id=default.public_id)) == (400, "id")
    services.enable_endpoints(endpoints=[default.pk], now=NOW)
    services.delete_endpoint(user=user, endpoint_id=default.public_id)
    assert not Endpoint.objects.exists()


def test_what_is_sent_again_goes_to_the_address_that_its_endpoint_has_now(user: User):
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/old")
    (own,) = announced(user)
    (one_off,) = announced(user, f"{PUBLIC}/one-off")[1:]
    Delivery.objects.update(state="delivered", due_at=None, finished_at=NOW)
    change(user, endpoint, url="https://93.184.216.35/new")

    again = redeliver(delivery=own, now=NOW)
    assert (again.url, again.destination) == ("https://93.184.216.35/new", "93.184.216.35:443")
    assert redeliver(delivery=one_off, now=NOW).url == f"{PUBLIC}/one-off"


def test_a_delivery_that_is_gone_cannot_be_sent_again(user: User):
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/1")
    (delivery,) = announced(user)
    services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    assert refused(lambda: redeliver(delivery=delivery, now=NOW)) == (404, None)


def test_a_default_endpoint_that_is_disabled_takes_no_one_off_addresses(user: User):
    prepare(user)
    services.disable_endpoint(endpoint=Endpoint.objects.get(), by=Endpoint.DisabledBy.OPERATOR, now=NOW)

    assert refused(lambda: prepare(user)) == (400, "webhook_url")
    assert messages(user, f"{PUBLIC}/one-off") == []


def test_a_rotation_keeps_the_secret_before_it_for_a_day(user: User):
    endpoint, old = endpoint_at(user, f"{PUBLIC}/1")
    new = services.rotate_secret(user=user, endpoint_id=endpoint.public_id, now=NOW).secret
    endpoint.refresh_from_db()

    assert new != old
    assert (unseal(endpoint.secret), unseal(endpoint.previous_secret)) == (new, old)
    assert endpoint.previous_secret_until == NOW + timedelta(hours=24)


@pytest.mark.django_db(transaction=True)
def test_of_many_first_one_off_addresses_at_once_one_shows_the_secret():
    user, secrets = make_user("owner"), []

    def ask(number: int) -> None:
        try:
            secrets.append(prepare(user, f"{PUBLIC}/{number}"))
        finally:
            connection.close()

    at_once([lambda number=number: ask(number) for number in range(8)])

    shown = [secret for secret in secrets if secret]
    assert len(secrets) == 8
    assert shown == [unseal(Endpoint.objects.get().secret)]


@pytest.mark.django_db(transaction=True)
def test_of_many_new_endpoints_at_once_no_more_are_made_than_there_may_be():
    user = make_user("owner")
    for number in range(services.MOST_ENDPOINTS - 2):
        endpoint_at(user, f"{PUBLIC}/{number}")

    def make(number: int) -> None:
        try:
            endpoint_at(user, f"{PUBLIC}/new/{number}")
        except ApiError:
            pass
        finally:
            connection.close()

    at_once([lambda number=number: make(number) for number in range(8)])
    assert Endpoint.objects.count() == services.MOST_ENDPOINTS


def at_once(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def beside(work: Callable[[], object], other: Callable[[], None]) -> list[BaseException]:
    """Does `other` in a thread while what `work` has done is not committed; it may wait for that. What it raised."""
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
def test_an_endpoint_that_is_deleted_just_now_undoes_nothing_of_what_is_told(url: str | None):
    user = make_user("owner")
    endpoint = to_be_told(user, url)

    def delete() -> None:
        services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    assert beside(lambda: messages(user, url), delete) == []
    assert not Endpoint.objects.exists()
    assert not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("url", [None, f"{PUBLIC}/one-off"])
def test_what_happens_while_an_endpoint_is_deleted_is_not_told_to_it_and_undone_by_nothing(url: str | None):
    user = make_user("owner")
    endpoint = to_be_told(user, url)

    def delete() -> None:
        services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    def happen() -> None:
        services.announce(user=user, url=url, event=services.BATCH_COMPLETE, data={}, now=NOW)

    assert beside(delete, happen) == []
    assert not Endpoint.objects.exists()
    assert not Delivery.objects.exists()


def to_be_told(user: User, url: str | None) -> Endpoint:
    """An endpoint of the user's, or the default one where they have given an address with a request."""
    if url is None:
        return endpoint_at(user, f"{PUBLIC}/1")[0]
    prepare(user, url)
    return Endpoint.objects.get()


@pytest.mark.django_db(transaction=True)
def test_an_endpoint_can_be_deleted_while_an_attempt_is_written_down():
    user = make_user("owner")
    endpoint, _ = endpoint_at(user, f"{PUBLIC}/1")
    announced(user)
    (parcel,) = take(limit=1, now=timezone.now())
    failed = Outcome(started_at=NOW, duration_ms=5, status=500, failure="status")

    def delete() -> None:
        services.delete_endpoint(user=user, endpoint_id=endpoint.public_id)

    assert beside(lambda: settle(parcel=parcel, outcome=failed, now=timezone.now()), delete) == []
    assert not Attempt.objects.exists()
