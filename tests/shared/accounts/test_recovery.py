"""Password resets, e-mail confirmation and password changes, by links that work once and disclose no accounts."""

import smtplib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail, signing
from django.core.mail import EmailMessage
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts import passwords, recovery
from shared.accounts.email import outbox
from shared.accounts.email.links import InvalidLink, LinkPurpose, create_link_token, verify_link_token
from shared.accounts.email.outbox import EmailOutbox
from shared.accounts.models import User
from shared.accounts.recovery import create_or_promote_staff, hash_new_password
from shared.accounts.roles import Role
from shared.accounts.services import change_user, create_api_key, deactivate_user, sign_in
from shared.api.errors import ApiError, ValidationFailed
from tests.shared.accounts.conftest import ADDRESS, PASSWORD, CountingHasher, is_accepted, make_user, opens, signed_in
from tests.shared.accounts.emails import sent_emails, token_in

pytestmark = pytest.mark.django_db

NEW_PASSWORD = "another good passphrase"
VARYING_HEADERS = {"X-Request-Id", "X-RateLimit-Reset", "X-RateLimit-Reset-After"}


def post(path: str, body: dict[str, Any], address: str = ADDRESS, token: str | None = None, **headers: str) -> Any:
    client = Client(raise_request_exception=False)
    headers = headers | ({"Authorization": f"Bearer {token}"} if token else {})
    return client.post(f"/api/{path}", body, content_type="application/json", REMOTE_ADDR=address, headers=headers)


def reset_token(user: User) -> str:
    return create_link_token(user, LinkPurpose.RESET_PASSWORD, now=timezone.now())


class TestForgottenPassword:
    def test_a_reset_link_sets_a_new_password(self, user: User) -> None:
        old = signed_in(user)
        answer = post("forget-password", {"email": " ADA@example.com"})
        assert (answer.status_code, answer.json(), answer["X-RateLimit-Limit"]) == (200, True, "10")

        (message,) = sent_emails()
        assert message.to == ["ada@example.com"]
        assert "http://localhost:3000/reset-password?token=" in message.body
        answer = post("reset-password", {"token": token_in(message), "password": NEW_PASSWORD})

        assert (answer.status_code, answer.json()) == (200, True)
        assert opens("/who", old.access) == 401
        assert sign_in(email=user.email, password=NEW_PASSWORD, address=ADDRESS, now=timezone.now())
        user.refresh_from_db()
        assert user.email_verified_at is not None

    def test_a_link_works_once(self, user: User) -> None:
        token = reset_token(user)
        assert post("reset-password", {"token": token, "password": NEW_PASSWORD}).status_code == 200
        answer = post("reset-password", {"token": token, "password": PASSWORD})
        assert (answer.status_code, set(answer.json()["errors"])) == (422, {"token"})

    @pytest.mark.django_db(transaction=True)
    def test_one_of_two_concurrent_resets_succeeds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        token, both_read = reset_token(make_user()), threading.Barrier(2, timeout=30)
        hash_slowly = passwords.hash_password
        monkeypatch.setattr(recovery, "hash_password", lambda raw: (both_read.wait(), hash_slowly(raw))[1])

        def reset(password: str) -> int:
            try:
                return int(post("reset-password", {"token": token, "password": password}).status_code)
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(reset, ("first good passphrase", "second good passphrase"))) == [200, 422]

    def test_a_weak_password_is_refused_and_leaves_the_link_valid(self, user: User) -> None:
        token = reset_token(user)
        assert set(post("reset-password", {"token": token, "password": "12345678"}).json()["errors"]) == {"password"}
        assert post("reset-password", {"token": token, "password": NEW_PASSWORD}).status_code == 200

    def test_a_link_expires_after_an_hour(self, user: User) -> None:
        now = timezone.now()
        token = create_link_token(user, LinkPurpose.RESET_PASSWORD, now=now - timedelta(minutes=59))
        assert verify_link_token(token, LinkPurpose.RESET_PASSWORD, now=now).user_id == user.pk
        with pytest.raises(InvalidLink):
            verify_link_token(token, LinkPurpose.RESET_PASSWORD, now=now + timedelta(minutes=2))

    def test_a_new_email_a_deactivation_or_a_new_password_invalidates_a_link(self, user: User) -> None:
        tokens = [reset_token(user)]
        change_user(user=user, name="Ada", email="new@example.com", role=Role.CUSTOMER, is_active=True)
        tokens.append(reset_token(user))
        deactivate_user(user=user)
        tokens.append(reset_token(user))
        for token in tokens:
            assert post("reset-password", {"token": token, "password": NEW_PASSWORD}).status_code == 422

    def test_a_link_is_valid_for_one_purpose_only(self, user: User) -> None:
        verify = create_link_token(user, LinkPurpose.VERIFY_EMAIL, now=timezone.now())
        assert post("reset-password", {"token": verify, "password": NEW_PASSWORD}).status_code == 422
        assert post("verify-email", {"token": reset_token(user)}).status_code == 422

    @pytest.mark.parametrize("forge", ["", "x", "a:b:c", "cut", "swapped", "own key"])
    def test_a_forged_link_is_refused(self, user: User, forge: str) -> None:
        sound = reset_token(user)
        other = reset_token(make_user(email="eve@example.com"))
        forged = {
            "cut": sound[:-1],
            "swapped": ":".join([other.split(":")[0], *sound.split(":")[1:]]),
            "own key": signing.dumps({"user": user.pk}, key="mine", salt="stoa.accounts.reset-password"),
        }.get(forge, forge)
        answer = post("reset-password", {"token": forged, "password": NEW_PASSWORD})
        assert (answer.status_code, set(answer.json()["errors"])) == (422, {"token"})
        assert is_accepted(signed_in(user).access)


class TestAccountDisclosure:
    @pytest.fixture
    def emails(self) -> list[str]:
        make_user(email="known@example.com")
        deactivate_user(user=make_user(email="inactive@example.com"))
        make_user(email="nopass@example.com", password=None)
        return ["known@example.com", "inactive@example.com", "nopass@example.com", "unknown@example.com", "nobody"]

    def test_a6_known_and_unknown_emails_get_the_same_response(self, emails: list[str]) -> None:
        seen = set()
        for number, email in enumerate(emails):
            answer = post("forget-password", {"email": email}, f"192.0.2.{number}", **{"X-Request-Id": "same"})
            headers = frozenset(item for item in answer.headers.items() if item[0] not in VARYING_HEADERS)
            seen.add((answer.status_code, answer.content, headers))
        assert len(seen) == 1
        assert [message.to for message in sent_emails()] == [["known@example.com"]]

    def test_a6_every_email_costs_one_query_and_no_hash(
        self, emails: list[str], hashes: type[CountingHasher], django_assert_num_queries: Any
    ) -> None:
        hashes.total = 0
        for email in emails:
            with django_assert_num_queries(1):
                post("forget-password", {"email": email})
        assert hashes.total == 0

    def test_a_request_does_not_wait_for_the_mail_server(self, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
        responded = threading.Event()
        monkeypatch.setattr(EmailMessage, "send", lambda self: mail.outbox.extend([self] * responded.wait(30)))
        assert post("forget-password", {"email": user.email}).status_code == 200
        assert mail.outbox == []
        responded.set()
        assert len(sent_emails()) == 1


class TestVerification:
    @pytest.mark.django_db(transaction=True)
    def test_registration_sends_a_link_that_confirms_once(self) -> None:
        body = {"name": "Grace", "email": "grace@example.com", "password": PASSWORD}
        assert post("register", body).json()["email_verified"] is False
        (message,) = sent_emails()
        token = token_in(message)

        assert message.to == ["grace@example.com"]
        assert (post("verify-email", {"token": token}).status_code, User.objects.get().email_verified_at is None) == (
            200,
            False,
        )
        assert post("verify-email", {"token": token}).status_code == 422
        pair = post("token", {"email": "grace@example.com", "password": PASSWORD})
        assert pair.json()["email_verified"] is True

    def test_a_rolled_back_registration_sends_no_email(self) -> None:
        post("register", {"name": "Grace", "email": "grace@example.com", "password": PASSWORD})
        assert sent_emails() == []  # the transaction of this test never commits

    def test_a_new_email_must_be_confirmed_again(self, user: User) -> None:
        token = create_link_token(user, LinkPurpose.VERIFY_EMAIL, now=timezone.now())
        assert post("verify-email", {"token": token}).status_code == 200
        user.refresh_from_db()
        change_user(user=user, name="Ada", email="new@example.com", role=Role.CUSTOMER, is_active=True)
        assert User.objects.get().email_verified_at is None
        assert post("verify-email", {"token": token}).status_code == 422


class TestChangePassword:
    def test_a3_a_password_change_revokes_every_earlier_token(self, user: User) -> None:
        pair, other = signed_in(user), signed_in(user)
        answer = post("change-password", {"old": PASSWORD, "new": NEW_PASSWORD}, token=pair.access)
        assert (answer.status_code, answer.json()) == (200, True)
        assert [opens("/who", one.access) for one in (pair, other)] == [401, 401]
        assert [post("token/refresh", {"refresh": one.refresh}).status_code for one in (pair, other)] == [401, 401]
        assert sign_in(email=user.email, password=NEW_PASSWORD, address=ADDRESS, now=timezone.now())

    def test_the_names_that_some_clients_send_are_accepted(self, user: User) -> None:
        token = signed_in(user).access
        for wrong, field in [({"oldPassword": "wrong"}, "oldPassword"), ({"newPassword": "1234"}, "newPassword")]:
            refused = post(
                "change-password", {"oldPassword": PASSWORD, "newPassword": NEW_PASSWORD} | wrong, token=token
            )
            assert (refused.status_code, set(refused.json()["errors"])) == (422, {field})
        body = {"oldPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        answer = post("change-password", body, token=signed_in(user).access)
        assert (answer.status_code, answer.json()["success"]) == (200, True), "these clients show an error otherwise"
        assert sign_in(email=user.email, password=NEW_PASSWORD, address=ADDRESS, now=timezone.now())

    def test_a_wrong_old_or_a_weak_new_password_is_refused(self, user: User) -> None:
        token = signed_in(user).access
        for body, field in [({"old": "wrong", "new": NEW_PASSWORD}, "old"), ({"old": PASSWORD, "new": "1234"}, "new")]:
            answer = post("change-password", body, token=token)
            assert (answer.status_code, set(answer.json()["errors"])) == (422, {field})
        assert is_accepted(token)

    def test_anonymous_requests_and_keys_with_named_permissions_are_refused(self) -> None:
        user = make_user(Role.STAFF)
        key = create_api_key(user=user, name="k", permissions=["read_models"], now=timezone.now())[1]
        body = {"old": PASSWORD, "new": NEW_PASSWORD}
        assert post("change-password", body).status_code == 401
        assert post("change-password", body, token=key).status_code == 403

    def test_a7_guesses_are_limited_before_any_hash(self, user: User, hashes: type[CountingHasher]) -> None:
        token = signed_in(user).access
        hashes.total = 0
        body = {"old": "wrong", "new": NEW_PASSWORD}
        statuses = [post("change-password", body, f"192.0.2.{n}", token).status_code for n in range(15)]
        assert statuses == [422] * 10 + [429] * 5
        assert hashes.total == 10


class TestLimits:
    def test_one_address_requests_ten_links_a_minute(self) -> None:
        answers = [post("forget-password", {"email": f"{number}@example.com"}) for number in range(12)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 2
        assert int(answers[-1]["Retry-After"]) <= 60

    def test_n6_twenty_requests_of_strangers_refuse_no_owner_and_send_one_email(self, user: User) -> None:
        statuses = [post("forget-password", {"email": user.email}, f"192.0.2.{n}").status_code for n in range(20)]
        assert statuses == [200] * 20
        (message,) = sent_emails()
        body = {"token": token_in(message), "password": NEW_PASSWORD}
        assert post("reset-password", body).status_code == 200, "the link of that e-mail is valid"

    def test_n6_an_email_is_due_again_after_a_fifth_of_an_hour(self, user: User, settings: Settings) -> None:
        settings.EMAIL_LIMIT = 3600
        post("forget-password", {"email": user.email})
        time.sleep(1.1)
        post("forget-password", {"email": user.email})
        assert len(sent_emails()) == 2

    def test_one_address_tries_ten_links_a_minute_before_any_hash(self, hashes: type[CountingHasher]) -> None:
        paths = ["reset-password", "verify-email"] * 6
        statuses = [post(path, {"token": "x", "password": NEW_PASSWORD}).status_code for path in paths]
        assert statuses == [422] * 10 + [429] * 2
        assert hashes.total == 0

    @pytest.mark.parametrize("path", ["forget-password", "reset-password", "verify-email"])
    def test_r3_requests_are_refused_when_limits_cannot_be_counted(self, path: str, settings: Settings) -> None:
        settings.REDIS_URL = f"unix:///nowhere/{path}.sock?db=0"
        body = {"email": "a@example.com", "token": "x", "password": NEW_PASSWORD}
        assert post(path, body).status_code == 503


class TestEmailOutbox:
    def test_a_failed_delivery_is_logged_and_the_next_email_is_sent(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue, sent = EmailOutbox(), []
        outcomes = iter([smtplib.SMTPServerDisconnected("secret words"), None])

        def send(message: EmailMessage) -> None:
            if error := next(outcomes):
                raise error
            sent.append(message.subject)

        monkeypatch.setattr(EmailMessage, "send", send)
        for subject in ("one", "two"):
            queue.send(EmailMessage(subject=subject, to=["private@example.com"]))
        queue.flush(timeout_s=30)
        assert sent == ["two"]
        assert "email_lost" in caplog.text
        assert "private@example.com" not in caplog.text
        assert "secret words" not in caplog.text

    def test_emails_beyond_the_queue_limit_are_lost_without_delay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(outbox, "MAX_QUEUED_EMAILS", 2)
        queue, sent, may_send = EmailOutbox(), [], threading.Event()
        monkeypatch.setattr(EmailMessage, "send", lambda message: sent.extend([message.subject] * may_send.wait(30)))
        for number in range(5):
            queue.send(EmailMessage(subject=str(number)))
        may_send.set()
        queue.flush(timeout_s=30)
        assert sent == ["0", "1"]


def password_hash() -> str:
    return hash_new_password(email="bob@example.com", name="Bob", password=NEW_PASSWORD)


class TestCreateOrPromoteStaff:
    def test_a_new_user_becomes_staff_with_a_confirmed_email(self) -> None:
        user = create_or_promote_staff(
            email="Bob@Example.com",
            name="Bob",
            password_hash=password_hash(),
            may_run_inference=True,
            now=timezone.now(),
        )
        user.refresh_from_db()
        assert (user.email, user.role, user.email_verified_at is not None) == ("bob@example.com", Role.STAFF, True)
        assert sign_in(email=user.email, password=NEW_PASSWORD, address=ADDRESS, now=timezone.now())

    def test_a_customer_becomes_staff_and_loses_earlier_tokens(self, user: User) -> None:
        pair = signed_in(user)
        made = create_or_promote_staff(
            email=user.email, name="ignored", password_hash=password_hash(), may_run_inference=True, now=timezone.now()
        )
        assert (made.pk, made.role, made.name) == (user.pk, Role.STAFF, "Ada")
        assert not is_accepted(pair.access)

    @pytest.mark.parametrize("role", [Role.STORE_OWNER, Role.SUPER_ADMIN])
    def test_store_owners_and_super_admins_cannot_become_staff(self, role: Role) -> None:
        user = make_user(role)
        pair = signed_in(user)
        with pytest.raises(ApiError) as caught:
            create_or_promote_staff(
                email=user.email, name="A", password_hash=password_hash(), may_run_inference=True, now=timezone.now()
            )
        assert caught.value.problem.status == 409
        assert is_accepted(pair.access)

    def test_a_weak_password_is_refused(self) -> None:
        for password in ("12345678", "bob@example.com"):
            with pytest.raises(ValidationFailed):
                hash_new_password(email="Bob@example.com", name="Bob", password=password)
