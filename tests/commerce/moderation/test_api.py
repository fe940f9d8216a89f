"""Reports, decisions, notices and appeals over HTTP."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from commerce.moderation.models import AbuseReport, Case, Decision, Notice
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.audit.models import AuditEntry
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.moderation.factories import NOON, case_of, decide, report, reporter

pytestmark = pytest.mark.django_db

REPORTS = "/api/abusive_reports"
ACCEPT, REJECT = f"{REPORTS}/accept", f"{REPORTS}/reject"
DECISIONS = "/api/decisions"
LONG = "Marvel\\Database\\Models\\"
RECORD = {"id", "user_id", "model_type", "model_id", "reason", "message", "status", "created_at", "updated_at"}


def send(client_of: ApiClient, user: User | None, method: str, path: str, body: Any = None) -> Any:
    return getattr(client_of(user), method)(path, body, content_type="application/json")


def listed(client_of: ApiClient, user: User, path: str = REPORTS, **query: Any) -> list[int]:
    answer = client_of(user).get(path, query)
    assert answer.status_code == 200, answer.content
    return [record["id"] for record in answer.json()["data"]]


def target(content: Review | Question, **fields: Any) -> dict[str, Any]:
    return {"model_type": type(content).__name__, "model_id": content.pk} | fields


def test_a_user_lists_their_own_reports(client_of: ApiClient, written: Review, owner: User, customer: User):
    answer = send(client_of, owner, "post", REPORTS, target(written, message="Advertising.", status="accepted", id=9))

    assert answer.status_code == 201, answer.content
    record = answer.json()
    assert set(record) == RECORD
    assert (record["user_id"], record["model_type"], record["model_id"]) == (owner.pk, "Review", written.pk)
    assert (record["message"], record["status"]) == ("Advertising.", "open")
    assert listed(client_of, owner, "/api/my-reports") == [record["id"]]
    assert listed(client_of, customer, "/api/my-reports") == []
    assert send(client_of, owner, "post", REPORTS, target(written, message="Again.")).status_code == 409
    assert send(client_of, customer, "post", REPORTS, target(written, message="Oops.")).status_code == 201


@pytest.mark.parametrize("path", [REPORTS, ACCEPT, REJECT])
@pytest.mark.parametrize("kind", ["Review", "Question"])
def test_both_spellings_of_a_kind_are_accepted(
    client_of: ApiClient, written: Review, asked: Question, admin: User, path: str, kind: str
):
    content = written if kind == "Review" else asked
    body = {"model_type": f"{LONG}{kind}", "model_id": content.pk, "message": "Spam."}

    assert send(client_of, admin, "post", path, body).status_code in (200, 201)
    assert case_of(content).model_type == kind


def other_names() -> list[str]:
    models = [model for model in apps.get_models() if model not in (Review, Question)]
    names = [name for model in models for name in (model.__name__, model._meta.label, model._meta.label_lower)]
    variants = ["Review ", " Review", "REV\u0130EW", "Reviews", f"\\{LONG}Review", f"{LONG}{LONG}Review", "Réview"]
    return [*names, *(f"{LONG}{name}" for name in names), *variants, LONG, "__class__", "0", "x" * 100_000]


def test_c4_other_kinds_can_be_neither_reported_nor_decided(client_of: ApiClient, written: Review, admin: User):
    def counts() -> dict[str, int]:
        return {model._meta.label: model._default_manager.count() for model in apps.get_models()}

    site, before = client_of(admin), counts()
    for path in (REPORTS, ACCEPT, REJECT):
        for name in other_names():
            body = {"model_type": name, "model_id": written.pk, "message": "Spam."}
            assert site.post(path, body, content_type="application/json").status_code == 404, name

    assert counts() == before
    assert Review.objects.visible().get() == written


@pytest.mark.parametrize("path", [REPORTS, ACCEPT, REJECT])
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model_id": None}, "model_id"),
        ({"model_id": 0}, "model_id"),
        ({"model_id": -1}, "model_id"),
        ({"model_id": 2**63}, "model_id"),
        ({"model_id": "abc"}, "model_id"),
        ({"model_id": "\u0661"}, "model_id"),
        ({"model_id": [1]}, "model_id"),
        ({"model_type": None}, "model_type"),
        ({"model_type": ""}, "model_type"),
        ({"model_type": ["Review"]}, "model_type"),
    ],
)
def test_i2_values_out_of_bounds_are_422_by_field(
    client_of: ApiClient, written: Review, admin: User, path: str, change: dict[str, Any], field: str
):
    answer = send(client_of, admin, "post", path, target(written, message="Spam.") | change)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert not Case.objects.exists()


@pytest.mark.parametrize("message", [None, "", " ", "x" * 2001, ["x"]])
def test_a_report_needs_a_message(client_of: ApiClient, written: Review, owner: User, message: Any):
    answer = send(client_of, owner, "post", REPORTS, target(written, message=message))

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["message"])


def test_moderators_list_and_filter_open_reports_newest_first(
    client_of: ApiClient, written: Review, asked: Question, admin: User
):
    ann, bob = reporter("ann"), reporter("bob")
    older = report(written, ann, at=NOON - timedelta(days=1))
    newer = report(written, bob, message="Rude.")
    question = report(asked, ann, at=NOON - timedelta(days=2))

    assert listed(client_of, admin) == [newer.pk, older.pk, question.pk]
    assert listed(client_of, admin, model_type="Question") == [question.pk]
    assert listed(client_of, admin, model_type=f"{LONG}Review", limit=1) == [newer.pk]
    assert listed(client_of, admin, model_type="User") == []
    assert listed(client_of, admin, model_id=asked.pk, model_type="Question") == [question.pk]
    assert listed(client_of, admin, search="message:rude") == [newer.pk]
    assert listed(client_of, admin, orderBy="created_at", sortedBy="asc") == [question.pk, older.pk, newer.pk]
    decide("accepted", written, admin)
    assert listed(client_of, admin) == [question.pk]
    assert listed(client_of, admin, status="accepted") == [newer.pk, older.pk]
    assert client_of(admin).get(REPORTS, {"status": "rejected"}).status_code == 422
    page = client_of(admin).get(REPORTS).json()
    assert (page["per_page"], page["total"], page["current_page"]) == (15, 1, 1)


def test_a_report_is_returned_with_its_user(client_of: ApiClient, written: Review, admin: User):
    ann = reporter("ann")
    made = report(written, ann)

    plain = client_of(admin).get(f"{REPORTS}/{made.pk}").json()
    assert set(plain) == RECORD
    assert plain["created_at"] == "2026-05-04T12:00:00.123456Z"
    shown = client_of(admin).get(f"{REPORTS}/{made.pk}", {"with": "user"}).json()
    assert shown["user"] == {"id": ann.pk, "name": ann.name, "email": ann.email}
    assert client_of(admin).get(REPORTS, {"with": "user.keys"}).json()["data"][0]["user"] == shown["user"]


def test_accepting_returns_true_and_the_second_time_404(client_of: ApiClient, written: Review, admin: User):
    report(written, reporter("ann"))
    body = target(written, note="Known.", reason="Advertising.")
    answer = send(client_of, admin, "post", ACCEPT, body)

    assert (answer.status_code, answer.json()) == (200, True)
    decision = Decision.objects.get()
    assert (decision.note, decision.reason, decision.moderator) == ("Known.", "Advertising.", admin)
    assert client_of(None).get(f"/api/reviews/{written.pk}").status_code == 404
    assert send(client_of, admin, "post", ACCEPT, body).status_code == 404
    assert Decision.objects.count() == 1


def test_rejecting_returns_the_content_and_deletes_its_reports(
    client_of: ApiClient, written: Review, asked: Question, admin: User
):
    for content, path in ((written, "reviews"), (asked, "questions")):
        report(content, reporter(f"ann-{path}"))
        answer = send(client_of, admin, "post", REJECT, target(content))

        assert answer.status_code == 200, answer.content
        assert answer.json() == client_of(None).get(f"/api/{path}/{content.pk}").json()
        assert answer.json()["abusive_reports_count"] == 0
    assert not AbuseReport.objects.exists()


def test_a_repeated_reject_changes_nothing_and_an_accept_after_it_is_carried_out(
    client_of: ApiClient, written: Review, admin: User
):
    report(written, reporter("ann"))
    first = send(client_of, admin, "post", REJECT, target(written)).json()
    for _ in range(3):
        again = send(client_of, admin, "post", REJECT, target(written))
        assert (again.status_code, again.json()) == (200, first)
    assert Decision.objects.count() == AuditEntry.objects.filter(action__startswith="moderation.").count() == 1

    assert send(client_of, admin, "post", ACCEPT, target(written)).status_code == 200
    assert send(client_of, admin, "post", REJECT, target(written)).status_code == 404
    taken_down = Decision.objects.get(action="accepted")
    restored = send(client_of, admin, "post", f"{DECISIONS}/{taken_down.pk}/restore")
    assert (restored.status_code, restored.json()["action"]) == (200, "restored")
    assert client_of(None).get(f"/api/reviews/{written.pk}").status_code == 200
    assert send(client_of, admin, "post", REJECT, target(written)).json() == first | {
        "updated_at": client_of(None).get(f"/api/reviews/{written.pk}").json()["updated_at"]
    }
    assert Decision.objects.count() == 3


def test_a_new_report_after_a_reject_can_be_rejected_too(client_of: ApiClient, written: Review, admin: User):
    report(written, reporter("ann"))
    send(client_of, admin, "post", REJECT, target(written))
    report(written, reporter("bob"))

    assert send(client_of, admin, "post", REJECT, target(written)).status_code == 200
    assert (Decision.objects.count(), AbuseReport.objects.count()) == (2, 0)


def test_decisions_are_listed_by_content_and_undone_within_the_window(
    client_of: ApiClient, written: Review, asked: Question, admin: User, customer: User
):
    report(written, reporter("ann"))
    send(client_of, admin, "post", ACCEPT, target(written, note="Known.", reason="Advertising."))
    send(client_of, admin, "post", REJECT, target(asked))
    made = Decision.objects.get(action="accepted")

    [told] = client_of(admin).get(
        DECISIONS, {"model_type": "review", "model_id": written.pk, "with": "moderator"}
    ).json()["data"]  # fmt: skip
    assert told["moderator"] == {"id": admin.pk, "name": admin.name}
    assert (told["id"], told["action"], told["note"], told["reason"]) == (
        made.pk,
        "accepted",
        "Known.",
        "Advertising.",
    )
    assert (told["model_type"], told["model_id"], told["reports_count"]) == ("Review", written.pk, 1)
    assert (told["content"]["comment"], told["can_be_undone"], told["undone_at"]) == (written.comment, True, None)
    assert listed(client_of, admin, DECISIONS, model_type="Answer") == []
    assert listed(client_of, admin, DECISIONS, action="rejected") == [made.pk + 1]
    for path in (DECISIONS, f"{DECISIONS}/{made.pk}"):
        assert client_of(customer).get(path).status_code == 403

    undone = send(client_of, admin, "post", f"{DECISIONS}/{made.pk}/undo")
    assert undone.status_code == 200
    assert (undone.json()["can_be_undone"], undone.json()["undone_at"] is None) == (False, False)
    assert AbuseReport.objects.get().status == "open"
    assert client_of(None).get(f"/api/reviews/{written.pk}").status_code == 200
    assert send(client_of, admin, "post", f"{DECISIONS}/{made.pk}/undo").status_code == 409
    assert send(client_of, admin, "post", f"{DECISIONS}/{made.pk}/restore").status_code == 409
    for action in ("undo", "restore"):
        assert send(client_of, admin, "post", f"{DECISIONS}/{made.pk + 9}/{action}").status_code == 404
        assert send(client_of, customer, "post", f"{DECISIONS}/{made.pk}/{action}").status_code == 403


def test_a_decision_is_not_undone_after_the_window(client_of: ApiClient, written: Review, admin: User):
    made = decide("accepted", written, admin, at=timezone.now() - timedelta(hours=1))

    assert send(client_of, admin, "post", f"{DECISIONS}/{made.pk}/undo").status_code == 409
    assert client_of(None).get(f"/api/reviews/{written.pk}").status_code == 404


@pytest.mark.parametrize("path", ["reviews", "questions"])
def test_a_super_admins_delete_accepts_the_reports_and_an_authors_withdraws(
    client_of: ApiClient, written: Review, asked: Question, admin: User, customer: User, path: str
):
    content = written if path == "reviews" else asked
    made = report(content, reporter("ann"))
    send(client_of, admin, "post", REJECT, target(content))
    made = report(content, reporter("bob"))

    answer = send(client_of, admin, "delete", f"/api/{path}/{content.pk}")

    assert (answer.status_code, answer.json()) == (200, True)
    decision = Decision.objects.latest("pk")
    assert (decision.action, decision.moderator, decision.reports_count) == ("accepted", admin, 1)
    assert AbuseReport.objects.get(pk=made.pk).status == "accepted"
    assert {notice.user_id for notice in decision.notices.all()} == {customer.pk, made.user_id}
    assert AuditEntry.objects.latest("pk").action == "moderation.accepted"
    assert send(client_of, admin, "delete", f"/api/{path}/{content.pk}").status_code == 404
    assert send(client_of, admin, "post", f"{DECISIONS}/{decision.pk}/undo").status_code == 200
    assert send(client_of, customer, "delete", f"/api/{path}/{content.pk}").status_code == 200
    assert AbuseReport.objects.get(pk=made.pk).status == "withdrawn"
    assert Decision.objects.filter(action="accepted", undone_at=None).count() == 0


@pytest.mark.parametrize("kind", ["review", "REVIEW", "Review", "marvel\\database\\models\\review", LONG + "rEVIEW"])
def test_a_kind_is_accepted_in_any_case(client_of: ApiClient, written: Review, admin: User, kind: str):
    body = {"model_type": kind, "model_id": written.pk, "message": "Spam."}

    assert send(client_of, admin, "post", REPORTS, body).json()["model_type"] == "Review"
    assert listed(client_of, admin, model_type=kind) != []
    assert send(client_of, admin, "post", ACCEPT, body).status_code == 200


def test_an_unknown_kind_is_404_and_the_message_names_the_kinds(client_of: ApiClient, admin: User):
    answer = send(client_of, admin, "post", ACCEPT, {"model_type": "Answer", "model_id": 1})

    assert answer.status_code == 404
    assert answer.json()["message"] == "There is no such kind of content. Send Review or Question as model_type."


def test_deciding_about_missing_content_is_404_and_deletes_nothing(client_of: ApiClient, written: Review, admin: User):
    report(written, reporter("ann"))
    for path in (ACCEPT, REJECT):
        for model_id in (2**63 - 1, written.pk + 1):
            body = {"model_type": "Review", "model_id": model_id}
            assert send(client_of, admin, "post", path, body).status_code == 404

    assert (AbuseReport.objects.count(), Decision.objects.count()) == (1, 0)
    assert not AuditEntry.objects.filter(action__startswith="moderation.").exists()


def test_deleting_a_report_twice_is_404(client_of: ApiClient, written: Review, admin: User):
    made = report(written, reporter("ann"))
    answer = send(client_of, admin, "delete", f"{REPORTS}/{made.pk}")

    assert (answer.status_code, answer.json()) == (200, True)
    assert send(client_of, admin, "delete", f"{REPORTS}/{made.pk}").status_code == 404
    assert client_of(admin).get(f"{REPORTS}/{made.pk}").status_code == 404
    assert AuditEntry.objects.filter(action__startswith="moderation.").get().action == "moderation.report_deleted"


@pytest.fixture
def removed(written: Review, admin: User) -> Notice:
    """Return the notice of a removal an hour ago."""
    decide("accepted", written, admin, at=timezone.now() - timedelta(hours=1))
    return Notice.objects.get()


def test_an_author_reads_a_notice_and_appeals(client_of: ApiClient, written: Review, customer: User, removed: Notice):
    assert listed(client_of, customer, "/api/notices") == [removed.pk]
    record = client_of(customer).get(f"/api/notices/{removed.pk}").json()
    assert set(record) == {
        "id",
        "kind",
        "sanction_id",
        "title",
        "text",
        "model_type",
        "model_id",
        "appeal_until",
        "created_at",
    }
    assert (record["kind"], record["model_type"], record["model_id"]) == ("content_removed", "Review", written.pk)
    assert datetime.fromisoformat(record["appeal_until"]) > timezone.now()

    answer = send(client_of, customer, "post", "/api/appeals", {"notice_id": removed.pk, "message": "Mine."})
    assert answer.status_code == 201, answer.content
    appeal = answer.json()
    assert (appeal["model_type"], appeal["model_id"], appeal["message"]) == ("Review", written.pk, "Mine.")
    assert (appeal["status"], appeal["decided_at"]) == ("open", None)
    assert client_of(customer).get(f"/api/appeals/{appeal['id']}").json() == appeal
    assert listed(client_of, customer, "/api/appeals") == [appeal["id"]]
    again = send(client_of, customer, "post", "/api/appeals", {"notice_id": removed.pk, "message": "Mine."})
    assert again.status_code == 409


def test_c1_users_see_their_own_notices_and_appeals(client_of: ApiClient, removed: Notice, customer: User, admin: User):
    appeal = send(client_of, customer, "post", "/api/appeals", {"notice_id": removed.pk, "message": "Mine."}).json()
    for other in (make_user(Role.CUSTOMER, "other"), admin):
        assert listed(client_of, other, "/api/notices") == listed(client_of, other, "/api/appeals") == []
        assert client_of(other).get(f"/api/notices/{removed.pk}").status_code == 404
        # Moderators read the appeals that they decide.
        assert client_of(other).get(f"/api/appeals/{appeal['id']}").status_code == (200 if other == admin else 404)


def test_a_notice_is_404_until_its_decision_is_final(
    client_of: ApiClient, written: Review, customer: User, admin: User
):
    decide("accepted", written, admin, at=timezone.now())

    assert listed(client_of, customer, "/api/notices") == []
    assert client_of(customer).get(f"/api/notices/{Notice.objects.get().pk}").status_code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [({"message": ""}, "message"), ({"message": "x" * 2001}, "message"), ({"notice_id": 0}, "notice_id")],
)
def test_an_invalid_appeal_is_refused(
    client_of: ApiClient, customer: User, removed: Notice, change: dict[str, Any], field: str
):
    body = {"notice_id": removed.pk, "message": "Mine."} | change
    answer = send(client_of, customer, "post", "/api/appeals", body)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])


def test_reports_and_appeals_are_limited_to_five_a_minute(
    client_of: ApiClient, written: Review, owner: User, settings: Settings
):  # fmt: skip
    settings.CONTENT_WRITE_LIMIT = 2
    site = client_of(owner)
    first = site.post(REPORTS, target(written, message="Spam."), content_type="application/json")
    second = site.post("/api/appeals", {"notice_id": 1, "message": "Mine."}, content_type="application/json")
    third = site.post(REPORTS, target(written, message="Spam."), content_type="application/json")

    assert [answer.status_code for answer in (first, second, third)] == [201, 404, 429]
    assert third.headers["Retry-After"]
    assert site.get("/api/my-reports").status_code == 200


@pytest.mark.parametrize("path", [REPORTS, "/api/notices", "/api/appeals"])
@pytest.mark.parametrize("key", ["9223372036854775808", "0", "9" * 40, "\u0661", "-1", "none"])
def test_i7_unknown_ids_are_404(client_of: ApiClient, admin: User, path: str, key: str):
    assert client_of(admin).get(f"{path}/{key}").status_code == 404


@pytest.mark.parametrize("path", [REPORTS, "/api/my-reports", "/api/notices", "/api/appeals"])
@pytest.mark.parametrize("name", ["limit", "page", "model_id", "model_type", "status", "orderBy"])
@pytest.mark.parametrize("value", ["-1", "1e9", "abc", "9223372036854775808", "1" * 40, "\u0661", "\x00"])
def test_c7_malformed_queries_are_never_a_server_error(
    client_of: ApiClient, admin: User, path: str, name: str, value: str
):
    assert client_of(admin).get(path, {name: value}).status_code in (200, 422)


@pytest.mark.parametrize("count", [10, 200])
def test_c7_lists_need_the_same_queries_for_ten_and_two_hundred_rows(
    client_of: ApiClient, written: Review, admin: User, count: int, django_assert_num_queries: DjangoAssertNumQueries
):
    reporters = User.objects.bulk_create(
        User(email=f"r{number}@example.com", name="R", role=Role.CUSTOMER) for number in range(count)
    )
    for one in reporters:
        one.refresh_from_db()
    shared = {"model_type": "Review", "model_id": written.pk, "message": "x", "created_at": NOON, "updated_at": NOON}
    AbuseReport.objects.bulk_create(AbuseReport(user=one, **shared) for one in reporters)
    site = client_of(admin)
    site.get(REPORTS)
    with django_assert_num_queries(3 + (count > 10)):
        assert len(site.get(f"{REPORTS}?limit=10&with=user").json()["data"]) == 10


def test_o3_logs_contain_no_text_of_users(
    client_of: ApiClient,
    asked: Question,
    written: Review,
    customer: User,
    admin: User,
    caplog: pytest.LogCaptureFixture,
):
    Review.objects.filter(pk=written.pk).update(comment="A canary wrote it.")
    said = {"message": "A canary sings.", "note": "A canary notes.", "reason": "A canary's reason."}
    removed_at = timezone.now() - timedelta(hours=1)
    for user in (customer, customer, admin, None):
        for path in (REPORTS, ACCEPT, REJECT):
            for body in (target(written, **said), target(asked, **said), said, {**said, "model_type": "canary"}):
                send(client_of, user, "post", path, body)
    Notice.objects.update(due_at=removed_at)
    notice = Notice.objects.get(kind="content_removed", decision__case__model_type="Review")
    for _ in range(2):
        send(client_of, customer, "post", "/api/appeals", {"notice_id": notice.pk, **said})
    client_of(admin).get(REPORTS, {"search": "message:canary"})

    assert Decision.objects.filter(content__comment="A canary wrote it.").exists()
    assert "canary" not in caplog.text
