"""Orders, filters and search of the queue, case files, bulk decisions and statistics."""

from datetime import UTC, date, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Product
from commerce.moderation.models import Case, Decision
from commerce.moderation.queue.bulk import MAX_BULK_CASES, decide_case, decide_cases, preview_decision
from commerce.moderation.queue.listing import (
    QUEUE_ORDERS,
    CaseFile,
    QueueFilters,
    count_cases,
    filter_queue,
    queue_page,
    read_case_file,
)
from commerce.moderation.queue.statistics import queue_statistics
from commerce.moderation.services import claim_case, release_case
from commerce.reviews.models import Question, Review
from commerce.reviews.services import delete_review
from shared.accounts.models import User
from shared.api.errors import ApiError
from tests.commerce.moderation.factories import DAY, MINUTE, NOON, case_of, decide, report, reporter, rows, undo
from tests.commerce.orders.factories import make_goods, other_shop
from tests.commerce.reviews.factories import make_photo, review

pytestmark = pytest.mark.django_db


@pytest.fixture
def tent(db: None) -> Product:
    """Return a product of another shop with a German description."""
    product = make_goods(other_shop(), "tent")
    product.language = "de"
    product.save()
    return product


@pytest.fixture
def items(lamp: Product, tent: Product, written: Review, asked: Question) -> dict[str, Review | Question]:
    """Return three reported texts that differ in every filter and order of the queue."""
    other = review(reporter("author"), tent, 2, comment="Leaks.")
    report(written, reporter("ann", agreed=9), at=NOON - 3 * DAY)
    report(asked, reporter("bob"), at=NOON - DAY)
    for number in range(5):
        report(other, reporter(f"new{number}", age=-5 * DAY), at=NOON - 2 * DAY + number * MINUTE)
    return {"written": written, "asked": asked, "other": other}


def case_file(case: Case, *, now: datetime = NOON) -> CaseFile:
    (item,) = queue_page(Case.objects.filter(pk=case.pk), now=now)
    return read_case_file(item, now=now)


def names(items: dict[str, Review | Question], filters: QueueFilters, order: str = "newest") -> list[str]:
    page = queue_page(filter_queue(filters, order=order, now=NOON), now=NOON)
    return [name for item in page for name, content in items.items() if content == item.content]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("newest", ["asked", "other", "written"]),
        ("oldest", ["written", "other", "asked"]),
        ("most_reported", ["other", "asked", "written"]),
        ("most_trusted", ["other", "written", "asked"]),
        ("due", ["written", "other", "asked"]),
        ("most_severe", ["written", "other", "asked"]),
    ],
)
def test_the_queue_has_six_orders(items: dict[str, Review | Question], order: str, expected: list[str]):
    assert names(items, QueueFilters(), order) == expected
    assert set(QUEUE_ORDERS) == {"newest", "oldest", "most_reported", "most_trusted", "due", "most_severe"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (QueueFilters(model_type="Question"), {"asked"}),
        (QueueFilters(model_type="Review"), {"written", "other"}),
        (QueueFilters(language="de"), {"other"}),
        (QueueFilters(language="en"), {"written", "asked"}),
        (QueueFilters(older_than=2 * DAY), {"written", "other"}),
        (QueueFilters(newer_than=2 * DAY), {"asked", "other"}),
        (QueueFilters(is_brigaded=True), {"other"}),
        (QueueFilters(is_brigaded=False), {"written", "asked"}),
        (QueueFilters(hiding=""), {"written", "other"}),
        (QueueFilters(hiding="moderator"), {"asked"}),
        (QueueFilters(hiding="automatic"), set()),
        (QueueFilters(state="open"), {"written", "asked", "other"}),
        (QueueFilters(state="appealed"), set()),
        (QueueFilters(model_type="Review", language="en"), {"written"}),
    ],
)
def test_the_queue_is_filtered(
    items: dict[str, Review | Question], admin: User, filters: QueueFilters, expected: set[str]
):
    decide("hidden", items["asked"], admin)

    assert set(names(items, filters)) == expected
    assert count_cases(filter_queue(filters, now=NOON)) == len(expected)


def test_the_queue_of_one_shop(items: dict[str, Review | Question], tent: Product):
    assert names(items, QueueFilters(shop_id=tent.shop_id)) == ["other"]
    assert names(items, QueueFilters(shop_id=2**62)) == []


def test_decided_cases_leave_the_queue(items: dict[str, Review | Question], admin: User):
    decide("accepted", items["written"], admin)
    decide("rejected", items["asked"], admin)
    delete_review(review_id=items["other"].pk, actor=items["other"].user, now=NOON)

    assert names(items, QueueFilters()) == []


@pytest.mark.parametrize("count", [2, 40])
def test_a_page_and_a_case_need_under_twenty_queries_at_any_size(
    lamp: Product, admin: User, asked: Question, count: int, django_assert_max_num_queries: DjangoAssertNumQueries
):
    for number in range(count):
        author = reporter(f"author{number}")
        written = review(author, lamp, 3, photo_ids=[make_photo(author).pk])
        for name in ("ann", "bob"):
            report(written, reporter(f"{name}{number}"))
        claim_case(case_id=case_of(written).pk, moderator=admin, now=NOON)
    report(asked, reporter("cleo"))
    first = case_of(asked)
    with django_assert_max_num_queries(17):
        cases = filter_queue(QueueFilters(), now=NOON)
        for item in queue_page(cases[:50], now=NOON):
            content = item.content
            assert content.user.name
            assert content.product.name
            assert content.shop.name
            assert isinstance(content, Question) or len(content.photos.all()) == 1
            assert item.claimant is not None or isinstance(content, Question)
        assert count_cases(cases) == count + 1
        opened = case_file(first)
        assert [line.report.user.name for line in opened.reports]


def test_a_case_file_has_the_author_the_reports_and_the_decisions(
    lamp: Product, tent: Product, written: Review, customer: User, admin: User
):
    earlier = review(customer, tent, 1)
    decide("warned", earlier, admin, at=NOON - 5 * DAY)
    decide("accepted", earlier, admin, at=NOON - 4 * DAY)
    undo(decide("warned", written, admin, at=NOON - 3 * DAY), admin, at=NOON - 3 * DAY)
    report(written, reporter("ann", agreed=1, disagreed=2), message="Rude.")
    hidden = decide("hidden", written, admin)

    opened = case_file(case_of(written))
    assert (opened.item.content, opened.item.content.user) == (written, customer)
    history = opened.author
    assert (history.written, history.taken_down, history.warned) == (2, 1, 1)
    assert history.last_taken_down_at == NOON - 4 * DAY
    (line,) = opened.reports
    assert (line.report.message, line.counts, line.reporter.agreed, line.reporter.disagreed) == ("Rude.", False, 1, 2)
    assert line.reporter.weight == 429
    assert [made.action for made in opened.decisions] == ["hidden", "warned"]
    assert (opened.undoable, opened.appeal) == (hidden, None)
    assert case_file(case_of(written), now=NOON + DAY).undoable is None


def test_an_author_whose_content_was_restored_has_no_last_removal(written: Review, admin: User):
    decide("accepted", written, admin, at=NOON - DAY)
    decide("restored", written, admin)
    report(written, reporter("ann"))

    history = case_file(case_of(written)).author
    assert (history.taken_down, history.last_taken_down_at) == (0, None)


def test_a_second_moderator_sees_the_claim_of_the_first(written: Review, admin: User, colleague: User):
    report(written, reporter("ann"))
    case_id = case_of(written).pk

    mine = claim_case(case_id=case_id, moderator=admin, now=NOON)
    theirs = claim_case(case_id=case_id, moderator=colleague, now=NOON + MINUTE)
    assert (mine.claimed_by, theirs.claimed_by) == (admin, admin)
    assert theirs.claimed_until == mine.claimed_until == NOON + 5 * MINUTE
    assert claim_case(case_id=case_id, moderator=admin, now=NOON + MINUTE).claimed_until == NOON + 6 * MINUTE
    assert queue_page(filter_queue(QueueFilters(), now=NOON), now=NOON)[0].claimant == admin
    assert queue_page(filter_queue(QueueFilters(), now=NOON), now=NOON + DAY)[0].claimant is None

    release_case(case_id=case_id, moderator=colleague)
    assert claim_case(case_id=case_id, moderator=colleague, now=NOON + MINUTE).claimed_by == admin
    release_case(case_id=case_id, moderator=admin)
    assert claim_case(case_id=case_id, moderator=colleague, now=NOON + MINUTE).claimed_by == colleague
    assert claim_case(case_id=case_id, moderator=admin, now=NOON + 6 * MINUTE).claimed_by == admin
    with pytest.raises(ApiError) as refusal:
        claim_case(case_id=2**62, moderator=admin, now=NOON)
    assert refusal.value.problem.status == 404


def test_a_claim_ends_with_the_decision(written: Review, admin: User, colleague: User):
    report(written, reporter("ann"))
    claim_case(case_id=case_of(written).pk, moderator=admin, now=NOON)
    decide("accepted", written, colleague)

    assert case_of(written).claimant(NOON) is None


def test_a_refused_case_does_not_stop_a_bulk_decision(
    items: dict[str, Review | Question], admin: User, colleague: User
):
    cases = {name: case_of(content).pk for name, content in items.items()}
    decide("rejected", items["asked"], colleague)
    ids = [*cases.values(), 2**62]

    preview = preview_decision(case_ids=ids, action="accepted")
    assert (preview.items, preview.reports, preview.brigaded, preview.notified_authors, preview.hidden) == (
        2,
        6,
        1,
        2,
        0,
    )
    assert preview.refused == {
        cases["asked"]: "This has been decided already.",
        2**62: "There is no case with this id.",
    }
    assert Case.objects.waiting().count() == 2

    outcomes = decide_cases(case_ids=ids, action="accepted", moderator=admin, now=NOON)
    done = {outcome.case_id: outcome.decision.action for outcome in outcomes if outcome.decision}
    assert done == {cases["written"]: "accepted", cases["other"]: "accepted"}
    refused = {outcome.case_id: outcome.refusal for outcome in outcomes if not outcome.decision}
    assert set(refused) == {cases["asked"], 2**62}
    assert all(refused.values())
    assert not Case.objects.waiting().exists()


def test_a_preview_lists_the_cases_that_would_be_refused(items: dict[str, Review | Question], admin: User):
    decide("hidden", items["asked"], admin)
    ids = [case_of(content).pk for content in items.values()]

    hiding, showing = preview_decision(case_ids=ids, action="hidden"), preview_decision(case_ids=ids, action="shown")
    assert (hiding.items, list(hiding.refused.values())) == (2, ["A moderator has hidden this already."])
    assert (showing.items, showing.hidden, len(showing.refused)) == (1, 1, 2)


def test_a_bulk_decision_has_at_most_two_hundred_cases(admin: User):
    with pytest.raises(ValueError, match="200"):
        decide_cases(case_ids=range(MAX_BULK_CASES + 1), action="accepted", moderator=admin, now=NOON)


def test_a_case_that_was_decided_meanwhile_is_refused(written: Review, admin: User, colleague: User):
    report(written, reporter("ann"))
    case_id = case_of(written).pk
    decide_case(case_id=case_id, action="rejected", moderator=admin, now=NOON)
    before = rows(Decision)

    for later in (MINUTE, 30 * DAY):
        with pytest.raises(ApiError) as refusal:
            decide_case(case_id=case_id, action="accepted", moderator=colleague, now=NOON + later)
        assert refusal.value.problem.status == 409
    assert rows(Decision) == before


def test_statistics_of_the_queue(items: dict[str, Review | Question], lamp: Product, admin: User):
    figures = queue_statistics(now=NOON)
    assert (figures.length, figures.hidden, figures.brigaded, figures.appealed) == (3, 0, 1, 0)
    assert figures.oldest_age == 3 * DAY

    decide("hidden", items["asked"], admin)
    decide("accepted", items["other"], admin, at=datetime(2026, 5, 3, 23, 59, tzinfo=UTC))
    decide("rejected", items["written"], admin, at=datetime(2026, 5, 4, 0, 0, tzinfo=UTC))
    decide("rejected", items["asked"], admin)

    figures = queue_statistics(now=NOON, days=3)
    assert (figures.length, figures.hidden, figures.oldest_age) == (0, 0, None)
    days = [(day.day, day.accepted, day.rejected, day.decisions, day.agreement) for day in figures.days]
    assert days == [
        (date(2026, 5, 2), 0, 0, 0, None),
        (date(2026, 5, 3), 1, 0, 1, 1.0),
        (date(2026, 5, 4), 0, 2, 2, 0.0),
    ]
    assert queue_statistics(now=NOON, days=1).days[0].rejected == 2


def test_the_share_of_reports_that_moderators_agreed_with(lamp: Product, admin: User):
    for number, (reports, action) in enumerate([(3, "accepted"), (1, "rejected"), (2, "accepted")]):
        written = review(reporter(f"author{number}"), lamp, 3)
        for one in range(reports):
            report(written, reporter(f"r{number}-{one}"))
        decision = decide(action, written, admin)
    undo(decision, admin)

    (today,) = queue_statistics(now=NOON + timedelta(hours=1), days=1).days
    assert (today.decisions, today.reports_accepted, today.reports_rejected, today.agreement) == (2, 3, 1, 0.75)
