"""Migration of reports that are older than cases, and its reversal."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command

from commerce.moderation.models import AbuseReport, Case
from commerce.reviews.models import Question, Review
from shared.audit.triggers import missing_triggers
from tests.commerce.moderation.factories import DAY, NOON, report, reporter, rows

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def migrate_to_latest() -> Iterator[None]:
    yield
    call_command("migrate", verbosity=0)


@pytest.mark.usefixtures("migrate_to_latest")
def test_d8_the_migration_creates_the_cases_of_earlier_reports(written: Review, asked: Question):
    for number, name in enumerate(["ann", "bob"]):
        report(written, reporter(name), at=NOON + number * DAY)
    report(asked, reporter("cleo"))
    Question.objects.filter(pk=asked.pk).update(deleted_at=NOON)
    before = rows(Review, Question, AbuseReport)
    call_command("migrate", "commerce_moderation", "0001", verbosity=0)
    call_command("migrate", "commerce_moderation", verbosity=0)

    assert rows(Review, Question, AbuseReport) == before
    waiting = Case.objects.get(model_type="Review")
    assert (waiting.model_id, waiting.state, waiting.is_waiting) == (written.pk, "open", True)
    assert (waiting.reports_count, waiting.weight, waiting.trusted_count) == (2, 1000, 2)
    assert (waiting.oldest_at, waiting.newest_at) == (NOON, NOON + DAY)
    assert (waiting.author, waiting.shop, waiting.language) == (written.user, written.shop, "en")
    assert Case.objects.get(model_type="Question").state == "closed"


@pytest.mark.usefixtures("migrate_to_latest")
def test_d8_the_migration_creates_the_triggers_of_the_log():
    call_command("migrate", "audit", "zero", verbosity=0)
    assert missing_triggers() == []
    call_command("migrate", verbosity=0)

    assert missing_triggers() == []
    assert Case.objects.count() == 0
