"""Deliveries: to good receivers, to broken ones, to those that wish us ill."""

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

from inference.webhooks import transport
from inference.webhooks.delivery import deliver_due, forget_old, settle, take
from inference.webhooks.models import Attempt, Delivery, Endpoint
from inference.webhooks.redelivery import redeliver
from inference.webhooks.services import change_endpoint, disable_endpoint, rotate_secret
from inference.webhooks.transport import Outcome
from shared.accounts.models import User
from shared.accounts.services import deactivate_user
from tests.inference.webhooks.receivers import (
    Answer,
    Receiver,
    answering,
    boasting,
    chattering,
    dripping,
    flooding,
    receiving,
    resetting,
)
from tests.inference.webhooks.sending import DATA, announced, deliver_at, endpoint_at, ledger, try_until_the_end

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
Receive = Callable[[Answer], Receiver]
State = Delivery.State
GZIP_BOMB = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03" + b"\xec\xc1" * 20_000


def test_a_message_arrives_once_signed_and_with_what_has_happened(user: User, receive: Receive):
    receiver = receive(answering(200))
    _, secret = endpoint_at(user, receiver.url)
    (delivery,) = announced(user)

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
    assert (delivery.state, delivery.attempts, delivery.due_at) == (State.DELIVERED, 1, None)
    assert ledger(delivery) == [(1, 200, "")]


def test_w5_after_a_rotation_both_secrets_sign_for_a_day(user: User, receive: Receive):
    receiver = receive(answering(200))
    endpoint, old = endpoint_at(user, receiver.url)
    now = timezone.now()
    new = rotate_secret(user=user, endpoint_id=endpoint.public_id, now=now).secret

    for late, verifying, refused in ((0, [old, new], []), (23.9, [old, new], []), (24, [new], [old])):
        announced(user)
        deliver_at(max(now + timedelta(hours=late), timezone.now()))
        signature = receiver.received[-1].headers["webhook-signature"]
        assert len(signature.split()) == len(verifying)
        for secret in (*verifying, *refused):
            assert (expected_signature(secret, receiver) in signature) == (secret in verifying)


def expected_signature(secret: str, receiver: Receiver) -> str:
    """The last message's, by the library's own reckoning."""
    request = receiver.received[-1]
    at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
    return standardwebhooks.Webhook(secret).sign(request.headers["webhook-id"], at, request.body.decode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_w3_a_redirect_is_a_failure_and_is_not_followed(user: User, receive: Receive, status: int):
    elsewhere = receive(answering(200))
    for target in (elsewhere.url, "http://169.254.169.254/", "/other"):
        receiver = receive(answering(status, headers=f"Location: {target}\r\n"))
        (delivery,) = announced(user, receiver.url)
        assert deliver_due() == 0

        assert len(receiver.received) == 1
        assert ledger(delivery) == [(1, status, "redirected")]
    assert elsewhere.connections == 0


@pytest.mark.parametrize(
    ("answer", "status", "failure"),
    [
        (answering(500), 500, "status"),
        (answering(404), 404, "status"),
        (answering(200, headers="Content-Encoding: gzip\r\n", body=GZIP_BOMB), 200, ""),
        (answering(204, body=b""), 204, ""),
        (flooding, 200, ""),
        (resetting, None, "broken_answer"),
        (chattering, None, "too_large"),
        (boasting, None, "too_large"),
        (lambda peer, request: peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"), None, "broken_answer"),
        (lambda peer, request: None, None, "broken_answer"),
    ],
    ids=["500", "404", "gzip bomb", "204", "1 GiB", "reset", "endless 102", "endless headers", "no HTTP", "nothing"],
)
def test_w4_a_bad_receiver_costs_little_and_is_written_down(
    user: User, receive: Receive, answer: Answer, status: int | None, failure: str
):
    (delivery,) = announced(user, receive(answer).url)
    deliver_due()
    delivery.refresh_from_db()

    assert ledger(delivery) == [(1, status, failure)]
    assert delivery.state == (State.PENDING if failure else State.DELIVERED)
    assert Attempt.objects.get().duration_ms < 15_000


def test_w4_an_attempt_ends_after_15_seconds_however_the_receiver_drips(
    user: User, receive: Receive, monkeypatch: pytest.MonkeyPatch, whole: bool
):
    assert transport.ATTEMPT_S == 15
    limit_s = 15 if whole else 2
    monkeypatch.setattr(transport, "ATTEMPT_S", limit_s)
    (delivery,) = announced(user, receive(dripping).url)
    deliver_due()

    assert ledger(delivery) == [(1, None, "timed_out")]
    assert limit_s * 1000 <= Attempt.objects.get().duration_ms < limit_s * 1000 + 10_000


def test_w4_a_connection_that_nobody_takes_is_a_failure(user: User, receive: Receive, settings: Settings):
    with receiving(answering(200)) as gone:
        settings.WEBHOOK_ALLOW = frozenset({gone.authority})
    (delivery,) = announced(user, gone.url)
    deliver_due()

    assert ledger(delivery) == [(1, None, "not_connected")]


def test_w4_a_certificate_that_nobody_vouches_for_is_a_failure(user: User, settings: Settings, tmp_path: Path):
    with receiving(answering(200), tls=self_signed(tmp_path)) as receiver:
        settings.WEBHOOK_ALLOW = frozenset({receiver.authority})
        (delivery,) = announced(user, receiver.url.replace("http://", "https://"))
        deliver_due()

    assert ledger(delivery) == [(1, None, "tls")]
    assert receiver.received == []


def test_a_receiver_is_met_over_tls_by_its_name_at_the_address_that_was_looked_up(
    user: User, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with receiving(answering(200), tls=self_signed(tmp_path, "localhost")) as receiver:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        settings.WEBHOOK_ALLOW = frozenset({f"localhost:{receiver.port}"})
        announced(user, f"https://localhost:{receiver.port}/hook")

        assert deliver_due() == 1
    assert receiver.received[0].headers["host"] == f"localhost:{receiver.port}"


def self_signed(folder: Path, name: str = "elsewhere.example") -> ssl.SSLContext:
    """A server's context, whose certificate lies in the folder."""
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


def test_w4_w7_a_receiver_that_never_takes_it_is_tried_by_the_schedule_and_then_given_up(user: User, receive: Receive):
    receiver = receive(answering(500, body=b"the receiver's own secrets"))
    (delivery,) = announced(user, receiver.url)
    waits = try_until_the_end(delivery)

    least = [timedelta(seconds=5), timedelta(minutes=5), timedelta(minutes=30)]
    least += [timedelta(hours=2), timedelta(hours=5), timedelta(hours=10)]
    assert [low <= wait <= low * 1.2 for low, wait in zip(least, waits, strict=True)] == [True] * 6
    assert {request.headers["webhook-id"] for request in receiver.received} == {delivery.public_id}
    assert ledger(delivery) == [(number, 500, "status") for number in range(1, 8)]
    assert delivery.state == State.FAILED
    assert "secrets" not in str(list(Attempt.objects.values()) + list(Delivery.objects.values()))


def test_w7_what_was_given_up_is_sent_again_when_somebody_asks(user: User, receive: Receive):
    status = [500]
    receiver = receive(lambda peer, request: answering(status[0])(peer, request))
    (delivery,) = announced(user, receiver.url)
    try_until_the_end(delivery)
    status[0] = 200
    redeliver(delivery=delivery, now=timezone.now())

    assert deliver_due() == 1
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (State.DELIVERED, 8)
    assert len({(request.headers["webhook-id"], request.body) for request in receiver.received}) == 1
    assert len({request.headers["webhook-signature"] for request in receiver.received}) > 1


@pytest.mark.parametrize("status", [429, 503])
def test_w7_a_receiver_that_is_busy_is_left_alone_for_as_long_as_it_asks(user: User, receive: Receive, status: int):
    (delivery,) = announced(user, receive(answering(status, headers="Retry-After: 3600\r\n")).url)
    now = timezone.now()
    deliver_at(now)
    delivery.refresh_from_db()

    assert delivery.due_at == now + timedelta(hours=1)
    assert delivery.state == State.PENDING


def test_w7_a_receiver_that_says_gone_is_not_asked_again(user: User, receive: Receive):
    receiver = receive(answering(410))
    endpoint, _ = endpoint_at(user, receiver.url)
    (first,) = announced(user)
    deliver_due()
    endpoint.refresh_from_db()

    assert (endpoint.is_enabled, endpoint.disabled_by) == (False, "receiver")
    first.refresh_from_db()
    assert first.state == State.FAILED
    assert announced(user) == []
    assert len(receiver.received) == 1


def test_w7_gone_is_said_of_a_single_address_only_where_it_was_given_with_a_request(user: User, receive: Receive):
    gone, other = receive(answering(410)), receive(answering(200))
    (delivery,) = announced(user, gone.url)
    deliver_due()
    delivery.refresh_from_db()

    assert delivery.state == State.FAILED
    announced(user, other.url)
    assert deliver_due() == 1


def test_what_waits_for_an_endpoint_that_is_disabled_is_cancelled(user: User, receive: Receive):
    receiver = receive(answering(200))
    endpoint, _ = endpoint_at(user, receiver.url)
    (delivery,) = announced(user)
    disable_endpoint(endpoint=endpoint, by=endpoint.DisabledBy.OPERATOR, now=timezone.now())

    assert deliver_due() == 0
    delivery.refresh_from_db()
    assert delivery.state == State.CANCELLED
    assert receiver.connections == 0


def test_what_waits_for_somebody_who_was_deactivated_is_cancelled(user: User, receive: Receive):
    receiver = receive(answering(200))
    (delivery,) = announced(user, receiver.url)
    deactivate_user(user=user)

    assert deliver_due() == 0
    delivery.refresh_from_db()
    assert delivery.state == State.CANCELLED
    assert receiver.connections == 0


def test_what_waits_goes_to_a_new_address(user: User, receive: Receive):
    before, after = receive(answering(500)), receive(answering(200))
    endpoint, _ = endpoint_at(user, before.url)
    (delivery,) = announced(user)
    deliver_due()
    change_endpoint(
        user=user, endpoint_id=endpoint.public_id, url=after.url, events=None, is_enabled=None, now=timezone.now()
    )

    assert deliver_at(timezone.now() + timedelta(minutes=1)) == 1
    assert after.received[0].headers["webhook-id"] == delivery.public_id


def outcome_of(status: int) -> Outcome:
    return Outcome(started_at=timezone.now(), duration_ms=5, status=status, failure="status")


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
def test_what_is_on_its_way_when_the_address_changes_is_tried_again_at_the_new_one(user: User, status: int):
    endpoint, _ = endpoint_at(user, "https://93.184.216.34/old")
    announced(user)
    (parcel,) = take(limit=1, now=timezone.now())
    move(endpoint, "https://93.184.216.35/new")
    settle(parcel=parcel, outcome=outcome_of(status), now=timezone.now())
    (again,) = take(limit=1, now=timezone.now() + timedelta(minutes=1))

    assert (parcel.url, again.url) == ("https://93.184.216.34/old", "https://93.184.216.35/new")
    assert Delivery.objects.get().destination == "93.184.216.35:443"
    endpoint.refresh_from_db()
    assert endpoint.is_enabled


def test_what_an_operator_has_disabled_a_receiver_does_not_give_back_to_its_owner(user: User):
    endpoint, _ = endpoint_at(user, "https://93.184.216.34/")
    announced(user)
    (parcel,) = take(limit=1, now=timezone.now())
    disable_endpoint(endpoint=endpoint, by=Endpoint.DisabledBy.OPERATOR, now=timezone.now())
    settle(parcel=parcel, outcome=outcome_of(410), now=timezone.now())

    endpoint.refresh_from_db()
    assert endpoint.disabled_by == "operator"


def test_an_address_that_the_operator_allows_no_more_is_refused_when_it_is_sent_to(
    user: User, receive: Receive, settings: Settings
):
    receiver = receive(answering(200))
    (delivery,) = announced(user, receiver.url)
    settings.WEBHOOK_ALLOW = frozenset()
    (later,) = announced(user, receiver.url)
    deliver_due()

    assert ledger(delivery) == ledger(later) == [(1, None, "address_refused")]
    assert receiver.connections == 0


def test_a_secret_that_cannot_be_read_any_more_is_told_in_the_ledger(user: User, receive: Receive, settings: Settings):
    receiver = receive(answering(200))
    (delivery,) = announced(user, receiver.url)
    settings.SECRET_KEY = "another key altogether " * 3
    deliver_due()

    assert ledger(delivery) == [(1, None, "secret_lost")]
    assert receiver.connections == 0

    secret = rotate_secret(user=user, endpoint_id=delivery.endpoint.public_id, now=timezone.now()).secret
    assert deliver_at(timezone.now() + timedelta(minutes=1)) == 1
    signed = receiver.received[0]
    assert len(signed.headers["webhook-signature"].split(" ")) == 1
    assert standardwebhooks.Webhook(secret).verify(signed.body, signed.headers)["type"] == "batch.complete"


def test_what_ended_a_week_ago_is_forgotten(user: User, receive: Receive):
    receiver = receive(answering(200))
    (old,) = announced(user, receiver.url)
    deliver_due()
    (waiting,) = announced(user, "https://hooks.example.com/")
    now = timezone.now()

    assert forget_old(now=now + timedelta(days=6.9)) == 0
    assert forget_old(now=now + timedelta(days=7.1)) == 1
    assert list(Delivery.objects.all()) == [waiting]
    assert Attempt.objects.count() == 0
    assert old.public_id != waiting.public_id


def test_the_body_is_the_same_in_all_attempts_whatever_its_letters(user: User, receive: Receive):
    receiver = receive(answering(200))
    _, secret = endpoint_at(user, receiver.url)
    (delivery,) = announced(user)
    Delivery.objects.filter(pk=delivery.pk).update(
        body=json.dumps({"type": "x", "text": "größer ☂ 🌂"}, ensure_ascii=False)
    )
    deliver_due()

    assert standardwebhooks.Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers) == {
        "type": "x",
        "text": "größer ☂ 🌂",
    }
