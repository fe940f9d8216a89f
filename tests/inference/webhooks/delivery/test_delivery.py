"""Deliveries to well-behaved, broken and hostile receivers."""

import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import standardwebhooks
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import User
from shared.accounts.services import deactivate_user
from shared.webhooks.deliveries import redeliver
from shared.webhooks.delivery import transport
from shared.webhooks.delivery.outbox import claim_due, delete_old_deliveries, deliver_due, record_attempt
from shared.webhooks.delivery.transport import AttemptOutcome
from shared.webhooks.models import Attempt, Delivery, DeliveryState, Endpoint
from shared.webhooks.services import change_endpoint, disable_endpoints, rotate_secret
from tests.inference.webhooks.outbox_helpers import (
    DATA,
    announce_event,
    create_endpoint_at,
    deliver_at,
    deliver_until_finished,
    get_attempts,
)
from tests.webhook_receivers import (
    Receiver,
    ResponseWriter,
    drip_headers,
    flood_body,
    reset_connection,
    respond_with,
    running_receiver,
    send_endless_headers,
    send_endless_informational,
)

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
Receive = Callable[[ResponseWriter], Receiver]
GZIP_BOMB = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03" + b"\xec\xc1" * 20_000


def test_a_delivery_arrives_once_signed_with_its_event(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    _, secret = create_endpoint_at(user, receiver.url)
    (delivery,) = announce_event(user)

    assert deliver_due() == 1
    assert deliver_due() == 0
    (request,) = receiver.received
    assert request.line == "POST /hook HTTP/1.1"
    assert request.headers["host"] == receiver.authority
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["webhook-id"] == delivery.public_id
    body = standardwebhooks.Webhook(secret).verify(request.body, request.headers)
    assert (body["type"], body["event"], body["data"]) == ("batch.complete", "batch.complete", DATA)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.due_at) == (DeliveryState.DELIVERED, 1, None)
    assert get_attempts(delivery) == [(1, 200, "")]


def test_w5_both_secrets_sign_for_a_day_after_a_rotation(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    endpoint, old = create_endpoint_at(user, receiver.url)
    now = timezone.now()
    new = rotate_secret(user=user, endpoint_id=endpoint.public_id, now=now).secret

    for late, verifying, refused in ((0, [old, new], []), (23.9, [old, new], []), (24, [new], [old])):
        announce_event(user)
        deliver_at(max(now + timedelta(hours=late), timezone.now()))
        signature = receiver.received[-1].headers["webhook-signature"]
        assert len(signature.split()) == len(verifying)
        for secret in (*verifying, *refused):
            assert (expected_signature(secret, receiver) in signature) == (secret in verifying)


def expected_signature(secret: str, receiver: Receiver) -> str:
    """Return the signature of the last message as the reference library computes it."""
    request = receiver.received[-1]
    at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
    return standardwebhooks.Webhook(secret).sign(request.headers["webhook-id"], at, request.body.decode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_w3_a_redirect_fails_and_is_not_followed(user: User, receive: Receive, status: int):
    elsewhere = receive(respond_with(200))
    for target in (elsewhere.url, "http://169.254.169.254/", "/other"):
        receiver = receive(respond_with(status, headers=f"Location: {target}\r\n"))
        (delivery,) = announce_event(user, receiver.url)
        assert deliver_due() == 0

        assert len(receiver.received) == 1
        assert get_attempts(delivery) == [(1, status, "redirected")]
    assert elsewhere.connections == 0


@pytest.mark.parametrize(
    ("answer", "status", "failure"),
    [
        (respond_with(500), 500, "status"),
        (respond_with(404), 404, "status"),
        (respond_with(200, headers="Content-Encoding: gzip\r\n", body=GZIP_BOMB), 200, ""),
        (respond_with(204, body=b""), 204, ""),
        (flood_body, 200, ""),
        (reset_connection, None, "broken_answer"),
        (send_endless_informational, None, "too_large"),
        (send_endless_headers, None, "too_large"),
        (lambda peer, request: peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"), None, "broken_answer"),
        (lambda peer, request: None, None, "broken_answer"),
    ],
    ids=["500", "404", "gzip bomb", "204", "1 GiB", "reset", "endless 102", "endless headers", "no HTTP", "nothing"],
)
def test_w4_a_misbehaving_receiver_is_bounded_and_recorded(
    user: User, receive: Receive, answer: ResponseWriter, status: int | None, failure: str
):
    (delivery,) = announce_event(user, receive(answer).url)
    deliver_due()
    delivery.refresh_from_db()

    assert get_attempts(delivery) == [(1, status, failure)]
    assert delivery.state == (DeliveryState.PENDING if failure else DeliveryState.DELIVERED)
    assert Attempt.objects.get().duration_ms < 15_000


def test_w4_an_attempt_to_a_slow_receiver_ends_after_15_seconds(
    user: User, receive: Receive, monkeypatch: pytest.MonkeyPatch, whole: bool
):
    assert transport.ATTEMPT_TIMEOUT_SECONDS == 15
    limit_s = 15 if whole else 2
    monkeypatch.setattr(transport, "ATTEMPT_TIMEOUT_SECONDS", limit_s)
    (delivery,) = announce_event(user, receive(drip_headers).url)
    deliver_due()

    assert get_attempts(delivery) == [(1, None, "timed_out")]
    assert limit_s * 1000 <= Attempt.objects.get().duration_ms < limit_s * 1000 + 10_000


def test_w4_a_refused_connection_fails(user: User, receive: Receive, settings: Settings):
    with running_receiver(respond_with(200)) as gone:
        settings.WEBHOOK_ALLOW = frozenset({gone.authority})
    (delivery,) = announce_event(user, gone.url)
    deliver_due()

    assert get_attempts(delivery) == [(1, None, "not_connected")]


def test_w4_an_untrusted_certificate_fails(user: User, settings: Settings, tmp_path: Path):
    with running_receiver(respond_with(200), tls=self_signed(tmp_path)) as receiver:
        settings.WEBHOOK_ALLOW = frozenset({receiver.authority})
        (delivery,) = announce_event(user, receiver.url.replace("http://", "https://"))
        deliver_due()

    assert get_attempts(delivery) == [(1, None, "tls")]
    assert receiver.received == []


def test_tls_verifies_the_name_at_the_resolved_address(
    user: User, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with running_receiver(respond_with(200), tls=self_signed(tmp_path, "localhost")) as receiver:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        settings.WEBHOOK_ALLOW = frozenset({f"localhost:{receiver.port}"})
        announce_event(user, f"https://localhost:{receiver.port}/hook")

        assert deliver_due() == 1
    assert receiver.received[0].headers["host"] == f"localhost:{receiver.port}"


def self_signed(folder: Path, name: str = "elsewhere.example") -> ssl.SSLContext:
    """Return a server's TLS context with a self-signed certificate, written to the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    certificate = builder.add_extension(names, critical=False).add_extension(constraints, critical=True)
    pem = certificate.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "certificate.pem").write_bytes(pem)
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(raw)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def test_w4_w7_a_failing_delivery_follows_the_schedule_and_then_fails(user: User, receive: Receive):
    receiver = receive(respond_with(500, body=b"the receiver's own secrets"))
    (delivery,) = announce_event(user, receiver.url)
    waits = deliver_until_finished(delivery)

    least = [timedelta(seconds=5), timedelta(minutes=5), timedelta(minutes=30)]
    least += [timedelta(hours=2), timedelta(hours=5), timedelta(hours=10)]
    assert [low <= wait <= low * 1.2 for low, wait in zip(least, waits, strict=True)] == [True] * 6
    assert {request.headers["webhook-id"] for request in receiver.received} == {delivery.public_id}
    assert get_attempts(delivery) == [(number, 500, "status") for number in range(1, 8)]
    assert delivery.state == DeliveryState.FAILED
    assert "secrets" not in str(list(Attempt.objects.values()) + list(Delivery.objects.values()))


def test_w7_a_failed_delivery_can_be_redelivered(user: User, receive: Receive):
    status = [500]
    receiver = receive(lambda peer, request: respond_with(status[0])(peer, request))
    (delivery,) = announce_event(user, receiver.url)
    deliver_until_finished(delivery)
    status[0] = 200
    redeliver(delivery=delivery, now=timezone.now())

    assert deliver_due() == 1
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 8)
    assert len({(request.headers["webhook-id"], request.body) for request in receiver.received}) == 1
    assert len({request.headers["webhook-signature"] for request in receiver.received}) > 1


@pytest.mark.parametrize("status", [429, 503])
def test_w7_retry_after_delays_the_next_attempt(user: User, receive: Receive, status: int):
    (delivery,) = announce_event(user, receive(respond_with(status, headers="Retry-After: 3600\r\n")).url)
    now = timezone.now()
    deliver_at(now)
    delivery.refresh_from_db()

    assert delivery.due_at == now + timedelta(hours=1)
    assert delivery.state == DeliveryState.PENDING


def test_w7_a_410_disables_the_endpoint(user: User, receive: Receive):
    receiver = receive(respond_with(410))
    endpoint, _ = create_endpoint_at(user, receiver.url)
    (first,) = announce_event(user)
    deliver_due()
    endpoint.refresh_from_db()

    assert (endpoint.is_enabled, endpoint.disabled_by) == (False, "receiver")
    first.refresh_from_db()
    assert first.state == DeliveryState.FAILED
    assert announce_event(user) == []
    assert len(receiver.received) == 1


def test_w7_a_410_of_a_webhook_url_does_not_disable_the_default_endpoint(user: User, receive: Receive):
    gone, other = receive(respond_with(410)), receive(respond_with(200))
    (delivery,) = announce_event(user, gone.url)
    deliver_due()
    delivery.refresh_from_db()

    assert delivery.state == DeliveryState.FAILED
    announce_event(user, other.url)
    assert deliver_due() == 1


def test_pending_deliveries_of_a_disabled_endpoint_are_cancelled(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    endpoint, _ = create_endpoint_at(user, receiver.url)
    (delivery,) = announce_event(user)
    disable_endpoints(endpoints=[endpoint.pk], by=endpoint.DisabledBy.OPERATOR, now=timezone.now())

    assert deliver_due() == 0
    delivery.refresh_from_db()
    assert delivery.state == DeliveryState.CANCELLED
    assert receiver.connections == 0


def test_pending_deliveries_of_a_deactivated_user_are_cancelled(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    (delivery,) = announce_event(user, receiver.url)
    deactivate_user(user=user)

    assert deliver_due() == 0
    delivery.refresh_from_db()
    assert delivery.state == DeliveryState.CANCELLED
    assert receiver.connections == 0


def test_pending_deliveries_move_to_a_new_url(user: User, receive: Receive):
    before, after = receive(respond_with(500)), receive(respond_with(200))
    endpoint, _ = create_endpoint_at(user, before.url)
    (delivery,) = announce_event(user)
    deliver_due()
    change_endpoint(
        user=user, endpoint_id=endpoint.public_id, url=after.url, events=None, is_enabled=None, now=timezone.now()
    )

    assert deliver_at(timezone.now() + timedelta(minutes=1)) == 1
    assert after.received[0].headers["webhook-id"] == delivery.public_id


def outcome_of(status: int) -> AttemptOutcome:
    return AttemptOutcome(started_at=timezone.now(), duration_ms=5, status=status, failure="status")


def move(endpoint: Endpoint, url: str) -> None:
    change_endpoint(
        user=endpoint.user,
        endpoint_id=endpoint.public_id,
        url=url,
        events=None,
        is_enabled=None,
        now=timezone.now(),
    )


@pytest.mark.parametrize("status", [500, 410])
def test_a_failed_attempt_is_retried_at_a_new_url(user: User, status: int):
    endpoint, _ = create_endpoint_at(user, "https://93.184.216.34/old")
    announce_event(user)
    (request,) = claim_due(limit=1, now=timezone.now())
    move(endpoint, "https://93.184.216.35/new")
    record_attempt(request=request, outcome=outcome_of(status), now=timezone.now())
    (again,) = claim_due(limit=1, now=timezone.now() + timedelta(minutes=1))

    assert (request.url, again.url) == ("https://93.184.216.34/old", "https://93.184.216.35/new")
    assert Delivery.objects.get().destination == "93.184.216.35:443"
    endpoint.refresh_from_db()
    assert endpoint.is_enabled


def test_a_410_does_not_override_an_operators_disabling(user: User):
    endpoint, _ = create_endpoint_at(user, "https://93.184.216.34/")
    announce_event(user)
    (request,) = claim_due(limit=1, now=timezone.now())
    disable_endpoints(endpoints=[endpoint.pk], by=Endpoint.DisabledBy.OPERATOR, now=timezone.now())
    record_attempt(request=request, outcome=outcome_of(410), now=timezone.now())

    endpoint.refresh_from_db()
    assert endpoint.disabled_by == "operator"


def test_a_url_removed_from_the_allowlist_is_refused_at_sending(user: User, receive: Receive, settings: Settings):
    receiver = receive(respond_with(200))
    (delivery,) = announce_event(user, receiver.url)
    settings.WEBHOOK_ALLOW = frozenset()
    (later,) = announce_event(user, receiver.url)
    deliver_due()

    assert get_attempts(delivery) == get_attempts(later) == [(1, None, "address_refused")]
    assert receiver.connections == 0


def test_an_undecryptable_secret_is_recorded_as_a_failure(user: User, receive: Receive, settings: Settings):
    receiver = receive(respond_with(200))
    (delivery,) = announce_event(user, receiver.url)
    settings.SECRET_KEY = "another key altogether " * 3
    deliver_due()

    assert get_attempts(delivery) == [(1, None, "secret_lost")]
    assert receiver.connections == 0

    secret = rotate_secret(user=user, endpoint_id=delivery.endpoint.public_id, now=timezone.now()).secret
    assert deliver_at(timezone.now() + timedelta(minutes=1)) == 1
    signed = receiver.received[0]
    assert len(signed.headers["webhook-signature"].split(" ")) == 1
    assert standardwebhooks.Webhook(secret).verify(signed.body, signed.headers)["type"] == "batch.complete"


def test_deliveries_are_deleted_after_a_week(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    (old,) = announce_event(user, receiver.url)
    deliver_due()
    (waiting,) = announce_event(user, "https://hooks.example.com/")
    now = timezone.now()

    assert delete_old_deliveries(now=now + timedelta(days=6.9)) == 0
    assert delete_old_deliveries(now=now + timedelta(days=7.1)) == 1
    assert list(Delivery.objects.all()) == [waiting]
    assert Attempt.objects.count() == 0
    assert old.public_id != waiting.public_id


def test_all_attempts_send_the_same_body(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    _, secret = create_endpoint_at(user, receiver.url)
    (delivery,) = announce_event(user)
    Delivery.objects.filter(pk=delivery.pk).update(
        body=json.dumps({"type": "x", "text": "größer ☂ 🌂"}, ensure_ascii=False)
    )
    deliver_due()

    assert standardwebhooks.Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers) == {
        "type": "x",
        "text": "größer ☂ 🌂",
    }
