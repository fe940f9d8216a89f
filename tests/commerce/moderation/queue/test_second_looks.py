"""Second looks: which decisions are sampled, what the other moderator sees, refusals and the statistics."""

import pytest
from django.test import Client
from pytest_django import Settings

from commerce.moderation.models import AbuseReport, Case, Decision, ReportReason, SecondLook
from commerce.moderation.queue.second_looks import decide_second_look, next_blind_case, second_look_figures
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, decide, report, reporter, rows, undo

pytestmark = pytest.mark.django_db
PAGE = "/admin/commerce_moderation/case/second-look/"


@pytest.fixture(autouse=True)
def _every_decision(settings: Settings) -> None:
    settings.MODERATION_SECOND_LOOK_INTERVAL = 1


@pytest.fixture
def look(written: Review, admin: User) -> SecondLook:
    """Return the second look at a removal by `admin`."""
    made = report(written, reporter("ann"), message="It is spam.")
    AbuseReport.objects.filter(pk=made.pk).update(reason=ReportReason.objects.get(code="spam"))
    decide("accepted", written, admin, reason="We remove advertisements.", note="Seen before.")
    return SecondLook.objects.get()


def refusal(look: SecondLook, moderator: User) -> tuple[int, str]:
    with pytest.raises(ApiError) as refused:
        decide_second_look(look_id=look.pk, verdict="rejected", moderator=moderator, now=NOON)
    return refused.value.problem.status, str(refused.value)


def test_one_of_so_many_verdicts_is_sampled_by_its_id(written: Review, admin: User, settings: Settings):
    report(written, reporter("ann"))
    decided = decide("warned", written, admin)
    settings.MODERATION_SECOND_LOOK_INTERVAL = decided.pk + 2
    decide("rejected", written, admin)
    assert not SecondLook.objects.exists()

    report(written, reporter("bob"), at=NOON + DAY)
    sampled = decide("rejected", written, admin, at=NOON + DAY)
    assert sampled.pk == decided.pk + 2
    assert SecondLook.objects.get().decision == sampled
    settings.MODERATION_SECOND_LOOK_INTERVAL = 0
    report(written, reporter("cem"), at=NOON + 2 * DAY)
    decide("accepted", written, admin, at=NOON + 2 * DAY)
    assert SecondLook.objects.count() == 1


def test_only_verdicts_of_moderators_about_reports_are_sampled(written: Review, asked: Question, admin: User):
    for number in range(5):
        report(written, reporter(f"r{number}", agreed=9))  # hidden by the rule
    decide("warned", written, admin)
    decide("accepted", asked, admin)  # without a report

    assert Decision.objects.count() == 3
    assert not SecondLook.objects.exists()


def test_the_page_shows_the_case_and_not_the_decision(desk: Client, look: SecondLook, customer: User):
    shown = desk.get(PAGE).content.decode()

    for words in ("Buy elsewhere.", "It is spam.", "Spam or advertising", "1 report", look.decision.content["product"]):
        assert words in shown
    for secret in (
        "We remove", "Seen before", "Taken down", f"case/{look.decision.case_id}/", customer.name, "ann@",
        "SUPER_ADMIN",
    ):  # fmt: skip
        assert secret not in shown


def test_a_verdict_changes_nothing_and_counts_in_the_statistics(
    desk: Client, look: SecondLook, moderator: User, asked: Question, admin: User
):
    report(asked, reporter("bob"))
    decide("rejected", asked, admin)
    second = SecondLook.objects.exclude(pk=look.pk).get()
    tables = (Review, Question, Decision, Case, AbuseReport)
    before = rows(*tables)

    for each in (look, second):
        answer = desk.post(f"{PAGE}{each.pk}/", {"verdict": "accepted"}, follow=True)
        assert "Your second look is saved." in answer.content.decode()
    assert "No decision waits" in answer.content.decode()

    assert rows(*tables) == before
    look.refresh_from_db()
    assert (look.verdict, look.moderator) == ("accepted", moderator)
    assert look.decided_at is not None
    figures = second_look_figures(now=look.decided_at)
    assert figures == {"waiting": 0, "decided": 2, "agreed": 1}
    assert second_look_figures(now=look.decided_at + 31 * DAY)["decided"] == 0
    assert "1 of 2" in desk.get("/admin/commerce_moderation/case/statistics/").content.decode()
    logged = AuditEntry.objects.filter(action="moderation.second_look").latest("pk")
    assert logged.details["verdict"] == "accepted"


def test_own_decisions_and_own_content_are_for_others(look: SecondLook, admin: User, customer: User):
    assert next_blind_case(admin) is None
    assert refusal(look, admin) == (403, "You decided this: another moderator takes the second look.")
    User.objects.filter(pk=customer.pk).update(role=Role.MODERATOR)
    assert next_blind_case(customer) is None
    assert refusal(look, customer)[0] == 403


def test_the_second_of_two_moderators_is_told(desk: Client, look: SecondLook, moderator: User, colleague: User):
    decide_second_look(look_id=look.pk, verdict="rejected", moderator=colleague, now=NOON)

    assert refusal(look, moderator) == (409, "A moderator has taken this second look already.")
    answer = desk.post(f"{PAGE}{look.pk}/", {"verdict": "accepted"}, headers={"Accept-Language": "de"})
    assert answer.status_code == 409
    assert "Ein Moderator hat diesen zweiten Blick schon geworfen." in answer.content.decode()
    look.refresh_from_db()
    assert (look.verdict, look.moderator) == ("rejected", colleague)


def test_an_undone_decision_is_taken_off(look: SecondLook, moderator: User, admin: User, colleague: User):
    decide_second_look(look_id=look.pk, verdict="rejected", moderator=colleague, now=NOON)
    assert second_look_figures(now=NOON)["decided"] == 1
    undo(look.decision, admin, at=NOON + MINUTE)
    assert second_look_figures(now=NOON)["decided"] == 0

    SecondLook.objects.update(verdict="", moderator=None, decided_at=None)
    assert next_blind_case(moderator) is None
    assert second_look_figures(now=NOON)["waiting"] == 0
    assert refusal(look, moderator) == (409, "The decision was undone: there is nothing to look at again.")


def test_a_verdict_is_one_of_two_by_a_moderator(desk: Client, look: SecondLook, owner: User):
    for data in ({}, {"verdict": ""}, {"verdict": "hidden"}, {"verdict": "accepted\x00"}):
        assert desk.post(f"{PAGE}{look.pk}/", data).status_code == 422
    assert desk.post(f"{PAGE}{look.pk + 1}/", {"verdict": "accepted"}).status_code == 404
    assert desk.post(f"{PAGE}{10**30}/", {"verdict": "accepted"}).status_code == 404
    assert desk.get(f"{PAGE}{look.pk}/").status_code == 405
    desk.force_login(owner)
    assert desk.get(PAGE).status_code == desk.post(f"{PAGE}{look.pk}/", {"verdict": "accepted"}).status_code == 403
    assert Client().get(PAGE).status_code == 302
    look.refresh_from_db()
    assert look.verdict == ""
