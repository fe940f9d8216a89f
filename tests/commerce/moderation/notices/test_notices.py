"""Notices to authors and reporters, and their e-mails."""

import smtplib
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.management import call_command
from django.core.validators import validate_email
from pytest_django import Settings

from commerce.config.celery import PERIODIC_TASKS
from commerce.moderation import tasks
from commerce.moderation.models import Notice
from commerce.moderation.notices.delivery import RETRY_DELAYS, SEND_TIMEOUT, send_notices
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, decide, report, reporter, undo

pytestmark = pytest.mark.django_db
DUE = NOON + 10 * MINUTE


def send(at: datetime = DUE) -> int:
    return send_notices(clock=lambda: at)


def notice_kinds(user: User, at: datetime = DUE) -> list[str]:
    return [notice.kind for notice in Notice.objects.for_user(user, at)]


def emails_to(user: User) -> list[EmailMessage]:
    return [email for email in mail.outbox if email.to == [user.email]]


def test_the_notice_to_the_author_has_quote_reason_and_appeal_link(written: Review, customer: User, admin: User):
    decide("accepted", written, admin, reason="It is advertising.", note="A known one.")

    notice = Notice.objects.get()
    assert (notice.user, notice.kind, notice.title) == (customer, "content_removed", "We have removed your review")
    assert "Velmo lamp. It is advertising." in notice.text
    assert "Buy elsewhere." in notice.text
    assert "you can appeal once, until 18 May 2026" in notice.text
    assert notice.appeal_until == DUE + 14 * DAY
    assert "A known one." not in notice.text
    assert admin.email not in notice.text
    send()
    (email,) = emails_to(customer)
    assert email.body.endswith(f"Appeal here:\n\nhttp://localhost:3000/appeal?notice={notice.pk}\n")


def test_notices_to_reporters_have_the_decision_and_the_reason_but_no_other_reporter(
    written: Review, asked: Question, admin: User
):
    ann, bob = reporter("ann"), reporter("bob")
    report(written, ann)
    report(written, bob)
    report(asked, ann)
    decide("accepted", written, admin, reason="It is as it is.")
    decide("rejected", asked, admin, reason="It is as it is.")

    assert notice_kinds(ann) == ["report_rejected", "report_accepted"]
    assert notice_kinds(bob) == ["report_accepted"]
    for notice in Notice.objects.for_user(ann, DUE):
        assert "It is as it is." in notice.text
        assert "bob" not in notice.text
        assert "Buy elsewhere." not in notice.text


def test_a_warning_notifies_the_author_only(written: Review, customer: User, admin: User):
    ann = reporter("ann")
    report(written, ann)
    decide("warned", written, admin, reason="Please be polite.")

    assert (notice_kinds(customer), notice_kinds(ann)) == (["warning"], [])
    assert "Please be polite." in Notice.objects.get().text


def test_hiding_creates_no_notices(written: Review, admin: User):
    report(written, reporter("ann"))
    decide("hidden", written, admin)

    assert not Notice.objects.exists()


def test_notices_are_sent_once_the_decision_can_no_longer_be_undone(written: Review, customer: User, admin: User):
    decide("accepted", written, admin)

    before = DUE - timedelta(microseconds=1)
    assert (notice_kinds(customer, before), send(before)) == ([], 0)
    assert (notice_kinds(customer), send()) == (["content_removed"], 1)
    (email,) = emails_to(customer)
    assert email.subject == "We have removed your review"
    assert "how" not in email.subject
    assert email.extra_headers["Message-ID"] == f"<notice-{Notice.objects.get().pk}@localhost>"


def test_an_undone_decision_sends_no_notices(written: Review, customer: User, admin: User):
    undo(decide("accepted", written, admin), admin)

    assert (notice_kinds(customer, DUE + DAY), send(DUE + DAY), mail.outbox) == ([], 0, [])


def test_each_email_is_sent_once(written: Review, customer: User, admin: User):
    ann = reporter("ann")
    report(written, ann)
    decide("accepted", written, admin)

    assert send() == 2
    assert send() == send(DUE + 365 * DAY) == 0
    assert (len(emails_to(customer)), len(emails_to(ann))) == (1, 1)
    assert set(Notice.objects.values_list("mailed_at", "mail_due_at", "mail_attempts")) == {(DUE, None, 1)}


def test_after_a_crash_an_email_is_sent_again_with_the_same_message_id(
    written: Review, customer: User, admin: User, monkeypatch: pytest.MonkeyPatch
):
    decide("accepted", written, admin)

    class Killed(BaseException):
        pass

    def killed(self: EmailMessage, **options: object) -> int:
        mail.outbox.append(self)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(EmailMessage, "send", killed)
        with pytest.raises(Killed):
            send()
    assert send(DUE + SEND_TIMEOUT - timedelta(seconds=1)) == 0
    assert send(DUE + SEND_TIMEOUT) == 1
    first, second = emails_to(customer)
    assert first.extra_headers["Message-ID"] == second.extra_headers["Message-ID"]


@pytest.mark.parametrize("error", [smtplib.SMTPServerDisconnected, ConnectionRefusedError, TimeoutError])
def test_a_failing_mail_server_is_retried_with_growing_delays_and_then_given_up(
    written: Review, customer: User, admin: User, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    decide("accepted", written, admin)

    def fail(self: EmailMessage, **options: object) -> int:
        raise error

    monkeypatch.setattr(EmailMessage, "send", fail)
    at = DUE
    for pause in RETRY_DELAYS:
        assert send(at) == 0
        assert Notice.objects.get().mail_due_at == at + pause
        at += pause
    assert send(at) == 0
    notice = Notice.objects.get()
    assert (notice.mail_due_at, notice.mailed_at, notice.mail_attempts) == (None, None, len(RETRY_DELAYS) + 1)
    assert notice_kinds(customer) == ["content_removed"]


def test_an_invalid_address_does_not_delay_other_emails(
    written: Review, customer: User, admin: User, settings: Settings, capsys: pytest.CaptureFixture[str]
):
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"  # which makes the email, as a server's
    strange = '"a\x0bb:c"@example.com'
    validate_email(strange)
    User.objects.filter(pk=customer.pk).update(email=strange)
    ann = reporter("ann")
    report(written, ann)
    decide("accepted", written, admin)

    assert send() == 1
    assert f"To: {ann.email}" in capsys.readouterr().out
    assert Notice.objects.get(user=customer).mail_due_at == DUE + RETRY_DELAYS[0]


def test_a_claim_that_nearly_expired_is_left_to_the_next_run(written: Review, admin: User):
    for name in ("ann", "bob", "cleo"):
        report(written, reporter(name))
    decide("accepted", written, admin)
    seconds: Iterator[int] = count(step=50)

    def slow_clock() -> datetime:
        return DUE + next(seconds) * timedelta(seconds=1)

    rounds = [send_notices(clock=slow_clock) for _ in range(6)]
    assert 0 < rounds[0] < 4
    assert sum(rounds) == len(mail.outbox) == 4


def test_deactivated_users_get_no_email(written: Review, customer: User, admin: User):
    decide("accepted", written, admin)
    User.objects.filter(pk=customer.pk).update(is_active=False)

    assert (send(), mail.outbox) == (0, [])
    assert Notice.objects.get().mail_due_at is None


def test_the_periodic_task_sends_due_emails(written: Review, customer: User, admin: User):
    decide("accepted", written, admin)
    assert PERIODIC_TASKS[tasks.send_notices.name] == 30.0
    tasks.send_notices()

    assert len(emails_to(customer)) == 1


def test_the_command_sends_due_emails(written: Review, customer: User, admin: User):
    decide("accepted", written, admin)
    call_command("send_notices")

    assert len(emails_to(customer)) == 1


def test_o3_logs_contain_no_text_of_users(
    written: Review, admin: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(self: EmailMessage, **options: object) -> int:
        raise smtplib.SMTPRecipientsRefused({self.to[0]: (550, b"no")})

    monkeypatch.setattr(EmailMessage, "send", fail)
    report(written, reporter("ann"), message="A canary sings.")
    decide("accepted", written, admin, reason="A secret reason.", note="A secret note.")
    send()

    logged = caplog.text
    assert "notice_not_sent" in logged
    for secret in ("canary", "Buy elsewhere", "secret", "example.com"):
        assert secret not in logged
