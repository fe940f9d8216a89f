"""Signatures, verified with the libraries of receivers."""

import base64
import json
from datetime import UTC, datetime, timedelta

import openai
import pytest
import standardwebhooks

from shared.webhooks.signing import make_secret, signature_headers

pytestmark = pytest.mark.no_database

BODY = json.dumps({"type": "batch.complete", "data": {"batch_id": "batch_1", "model": "größer ☂"}}, ensure_ascii=False)


def signed(*secrets: str, body: str = BODY, number: int = 1, now: datetime | None = None) -> dict[str, str]:
    return signature_headers(
        message_id=f"msg_{number}", body=body, signing_secrets=secrets, now=now or datetime.now(UTC)
    )


def test_the_specifications_example_has_the_same_signature():
    headers = signature_headers(
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        body='{"test": 2432232314}',
        signing_secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        now=datetime.fromtimestamp(1614265330, UTC),
    )

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_secret_has_the_specified_number_of_random_bytes():
    created = {make_secret() for _ in range(100)}

    assert len(created) == 100
    assert all(secret.startswith("whsec_") for secret in created)
    assert {len(base64.b64decode(secret.removeprefix("whsec_"))) for secret in created} == {32}


def test_w5_signed_messages_verify_and_tampered_ones_do_not(whole: bool):
    client = openai.OpenAI(api_key="none")
    for number in range(1000 if whole else 100):
        secret, body = make_secret(), json.dumps({"type": "batch.complete", "number": number, "text": "ü" * number})
        headers = signed(secret, body=body, number=number)
        verifier = standardwebhooks.Webhook(secret)

        assert verifier.verify(body.encode(), headers) == json.loads(body)
        client.webhooks.unwrap(body, headers, secret=secret)
        for changed_body, changed_headers in tampered(body, headers):
            with pytest.raises(standardwebhooks.WebhookVerificationError):
                verifier.verify(changed_body, changed_headers)
            with pytest.raises((openai.InvalidWebhookSignatureError, ValueError)):
                client.webhooks.unwrap(changed_body, changed_headers, secret=secret)


def tampered(body: str, headers: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    later = str(int(headers["webhook-timestamp"]) + 1)
    signature = signed(make_secret(), body=body)["webhook-signature"]
    return [
        (body.replace("batch", "botch"), headers),
        (body, headers | {"webhook-id": "msg_other"}),
        (body, headers | {"webhook-timestamp": later}),
        (body, headers | {"webhook-signature": signature}),
    ]


def test_w5_either_secret_verifies_during_a_rotation():
    old, new = make_secret(), make_secret()
    headers = signed(new, old)

    for secret in (old, new):
        assert standardwebhooks.Webhook(secret).verify(BODY, headers)
        openai.OpenAI(api_key="none").webhooks.unwrap(BODY, headers, secret=secret)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(make_secret()).verify(BODY, headers)


def test_w5_a_replayed_old_message_is_refused():
    secret = make_secret()
    headers = signed(secret, now=datetime.now(UTC) - timedelta(minutes=6))

    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(BODY, headers)
