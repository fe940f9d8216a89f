"""The role MODERATOR: decides in the admin and by the API, escalates, and has nothing else of a super admin."""

import pytest
from django.test import Client
from django.utils import timezone

from commerce.moderation.appeals import file_appeal
from commerce.moderation.models import Appeal, Case, Decision
from commerce.moderation.sanctions import impose_sanction
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.moderation.factories import DAY, NOON, case_of, decide, report, reporter

pytestmark = pytest.mark.django_db
QUEUE = "/admin/commerce_moderation/case/"


def key(content: Review | Question) -> dict[str, object]:
    return {"model_type": type(content).__name__, "model_id": content.pk}


def test_a_moderator_sees_the_pages_of_moderation_and_no_others(desk: Client, written: Review):
    report(written, reporter("ann"))
    shown = desk.get(QUEUE).content.decode()
    assert 'value="escalated"' in shown
    assert "/admin/audit/" not in shown
    assert "/admin/dashboard/" not in shown
    for page in (
        "case/statistics/",
        "case/transparency/",
        "decision/",
        "reportreason/",
        "decisiontemplate/",
        "sanction/",
        "sanction/add/",
    ):
        assert desk.get(f"/admin/commerce_moderation/{page}").status_code == 200, page
    for path in (
        "/admin/accounts/user/", "/admin/audit/auditentry/", "/admin/commerce_reviews/review/", "/admin/dashboard/",
        "/admin/commerce_moderation/reportreason/add/", "/admin/commerce_moderation/decisiontemplate/add/",
    ):  # fmt: skip
        assert desk.get(path).status_code == 403, path


def test_a_moderator_decides_by_the_api(client_of: ApiClient, moderator: User, written: Review, asked: Question):
    report(written, reporter("ann"))
    report(asked, reporter("bob"))
    api = client_of(moderator)
    hidden = api.post("/api/abusive_reports/hide", key(written) | {"note": "Wait."}, content_type="application/json")
    assert (hidden.status_code, hidden.json()["action"], hidden.json()["note"]) == (200, "hidden", "Wait.")
    again = api.post("/api/abusive_reports/hide", key(written), content_type="application/json")
    assert again.status_code == 409
    assert api.post("/api/abusive_reports/show", key(written), content_type="application/json").status_code == 200
    assert api.post("/api/abusive_reports/accept", key(asked), content_type="application/json").json() is True
    assert Decision.objects.filter(moderator=moderator).count() == 3


def test_of_two_moderators_the_first_claims_and_the_second_is_told(
    client_of: ApiClient, moderator: User, admin: User, written: Review
):
    report(written, reporter("ann"))
    path = "/api/abusive_reports/claim"
    assert client_of(moderator).post(path, key(written), content_type="application/json").json()["moderator_id"] == (
        moderator.pk
    )
    assert client_of(admin).post(path, key(written), content_type="application/json").json()["moderator_id"] == (
        moderator.pk
    )
    client_of(moderator).post("/api/abusive_reports/release", key(written), content_type="application/json")
    assert case_of(written).claimed_by is None
    nothing = {"model_type": "Review", "model_id": 10**9}
    assert client_of(admin).post(path, nothing, content_type="application/json").status_code == 404


def test_an_escalated_case_is_left_to_a_super_admin(
    client_of: ApiClient, desk: Client, moderator: User, admin: User, written: Review
):
    report(written, reporter("ann"))
    url = f"{QUEUE}{case_of(written).pk}/decide/"
    headers = {"Accept": "application/json"}
    assert desk.post(url, {"action": "escalated", "note": "Is this illegal?"}, headers=headers).status_code == 200
    assert desk.post(url, {"action": "escalated"}, headers=headers).status_code == 409
    assert desk.post(url, {"action": "accepted"}, headers=headers).status_code == 403
    refused = client_of(moderator).post("/api/abusive_reports/accept", key(written), content_type="application/json")
    assert refused.status_code == 403
    assert "a super admin decides" in refused.json()["message"]
    assert "Escalated: a super admin" in desk.get(f"{QUEUE}?only=escalated").content.decode()
    preview = desk.post(f"{QUEUE}many/", {"action": "rejected", "case": case_of(written).pk})
    assert (preview.context["preview"].items, "a super admin decides" in preview.content.decode()) == (0, True)

    accepted = client_of(admin).post("/api/abusive_reports/accept", key(written), content_type="application/json")
    assert accepted.status_code == 200
    assert (case_of(written).state, case_of(written).is_escalated) == (Case.State.ACCEPTED, False)
    decision = case_of(written).last_decision
    assert decision is not None
    for verb in ("undo", "restore"):
        overruled = client_of(moderator).post(f"/api/decisions/{decision.pk}/{verb}", content_type="application/json")
        assert (overruled.status_code, "a super admin decides" in overruled.json()["message"]) == (403, True)


def test_a_moderator_decides_neither_about_own_content_nor_about_a_colleagues_sanction(
    client_of: ApiClient, moderator: User, admin: User, written: Review
):
    Review.objects.filter(pk=written.pk).update(user=moderator)
    report(written, reporter("ann"))
    rejected = client_of(moderator).post("/api/abusive_reports/reject", key(written), content_type="application/json")
    assert (rejected.status_code, "You wrote this" in rejected.json()["message"]) == (403, True)

    colleague = make_user(Role.MODERATOR, "colleague")
    sanction = impose_sanction(user_id=colleague.pk, kind="ban", reason="x", moderator=admin, now=timezone.now())
    assert client_of(moderator).delete(f"/api/sanctions/{sanction.pk}").status_code == 403
    assert client_of(admin).delete(f"/api/sanctions/{sanction.pk}").status_code == 200


@pytest.mark.parametrize(("verdict", "status"), [("keep", "kept"), ("overturn", "overturned")])
def test_a_moderator_decides_appeals_by_the_api(
    client_of: ApiClient, moderator: User, admin: User, customer: User, written: Review, verdict: str, status: str
):
    notice = decide("accepted", written, admin).notices.get(user=customer)
    appeal = file_appeal(author=customer, notice_id=notice.pk, message="No.", now=NOON + DAY)
    assert client_of(moderator).get("/api/appeals").json()["data"] == []
    (listed,) = client_of(moderator).get("/api/appeals?scope=all&status=open").json()["data"]
    assert client_of(moderator).get("/api/appeals?scope=all&status=kept").json()["data"] == []
    assert client_of(customer).get("/api/appeals?scope=all").status_code == 403

    path = f"/api/appeals/{listed['id']}/{verdict}"
    decided = client_of(moderator).post(path, {"reason": "Yes."}, content_type="application/json")
    assert (decided.status_code, decided.json()["status"]) == (200, status)
    assert client_of(admin).post(path, {}, content_type="application/json").status_code == 409
    assert Appeal.objects.get(pk=appeal.pk).result is not None
