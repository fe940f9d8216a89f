"""Pages of the queue: content, order, filters, cost and permissions."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.moderation.models import Case, HoldingRule
from commerce.moderation.services import claim_case
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, MINUTE, case_of, decide, report, reporter
from tests.commerce.moderation.sample_queue import fill_queue
from tests.commerce.orders.factories import make_goods, other_shop
from tests.commerce.reviews.factories import ask, make_photo, review

QUEUE = "/admin/commerce_moderation/case/"


@pytest.fixture
def moderator(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def page(client: Client, query: str = "") -> str:
    answer = client.get(f"{QUEUE}{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def listed(client: Client, query: str = "") -> list[int]:
    """Return the ids of the cases on the page, in its order."""
    return [row.case.pk for row in client.get(f"{QUEUE}{query}").context["page"].rows]


def make_report(content: Review | Question, name: str, *, ago: timedelta = MINUTE, **more: Any) -> None:
    person = reporter(name, **more)
    report(content, person, at=timezone.now() - ago, message=f"Because {name} says so.")


class TestPage:
    def test_a_case_shows_its_content_as_readers_see_it(self, moderator: Client, lamp: Product, customer: User):
        Product.objects.filter(pk=lamp.pk).update(image=make_photo(customer))
        photo = make_photo(customer)
        written = review(customer, lamp, 2, comment="Buy elsewhere.", photo_ids=[photo.pk])
        make_report(written, "ann")

        shown = page(moderator)

        assert "Buy elsewhere." in shown
        assert "★★☆☆☆" in shown
        assert lamp.name in shown
        assert customer.name in shown
        assert photo.key in shown
        assert "1 item waits" in shown

    def test_a_case_shows_its_reporters_with_messages_and_reliability(self, moderator: Client, written: Review):
        make_report(written, "ann", agreed=6, disagreed=2)

        shown = page(moderator)

        assert "Because ann says so." in shown
        assert "ann-customer@example.com" in shown
        assert "66 %" in shown
        assert "agreed with 6 of 8" in shown
        assert "Counts" in shown

    def test_a_case_shows_the_history_of_its_author(
        self, moderator: Client, admin: User, lamp: Product, customer: User
    ):
        down = review(customer, lamp, 1, comment="Gone.")
        make_report(down, "ann")
        decide("accepted", down, admin, at=timezone.now() - DAY)
        asked = ask(customer, lamp)
        make_report(asked, "bea")

        author = moderator.get(QUEUE).context["item"].file.author

        assert (author.written, author.taken_down, author.warned) == (2, 1, 0)

    def test_x4_texts_of_users_are_escaped(self, moderator: Client, lamp: Product):
        attack = "<script>alert(1)</script><img src=x onerror=alert(2)>"
        author = make_user(Role.CUSTOMER, attack[:40])
        written = review(author, lamp, 1, comment=attack)
        report(written, reporter("fay"), at=timezone.now(), message=attack)

        for shown in (page(moderator), page(moderator, f"{case_of(written).pk}/change/?part=1")):
            assert attack not in shown
            assert "<img src=x" not in shown
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown

    def test_automatically_hidden_content_shows_the_counted_reports_with_weights(
        self, moderator: Client, written: Review
    ):
        for name in ("ann", "bea", "cid", "dan", "eli"):
            make_report(written, name, agreed=2)

        shown = page(moderator)

        assert "Hidden automatically, until you look." in shown
        assert "5 of 5 reports count:" in " ".join(shown.split())
        assert "ann CUSTOMER</bdi> (66 %)" in shown

    def test_a_brigade_is_flagged(self, moderator: Client, written: Review):
        now = timezone.now()
        for number in range(6):
            user = reporter(f"new{number}")
            user.created_at = now - timedelta(hours=1)
            user.save()
            report(written, user, at=now)

        shown = page(moderator)

        assert "Perhaps a brigade." in shown
        assert "the account was less than a week old" in shown
        assert case_of(written).hiding == Case.Hiding.NONE

    def test_the_claim_of_another_moderator_is_shown(self, moderator: Client, written: Review, colleague: User):
        make_report(written, "ann")
        claim_case(case_id=case_of(written).pk, moderator=colleague, now=timezone.now())

        assert f"{colleague.name} is looking at this now." in page(moderator)

    def test_an_empty_queue_has_a_message(self, moderator: Client):
        assert "Nothing waits. Well done." in page(moderator)

    def test_a_decided_case_has_a_page(self, moderator: Client, written: Review, admin: User):
        make_report(written, "ann")
        decide("accepted", written, admin, at=timezone.now() - DAY, note="Seen before.")

        shown = page(moderator, f"{case_of(written).pk}/change/")

        assert "Seen before." in shown
        assert "Restore" in shown

    def test_a_missing_case_is_404(self, moderator: Client):
        assert moderator.get(f"{QUEUE}77/change/").status_code == 404
        assert moderator.get(f"{QUEUE}?item=77").status_code == 404


class TestOrderAndFilters:
    @pytest.fixture
    def cases(self, lamp: Product, customer: User) -> dict[str, int]:
        """Return an old question with two reports, and a new review of another shop with one trusted report."""
        elsewhere = make_goods(other_shop(), "tent", name="Tent")
        asked = ask(customer, lamp)
        make_report(asked, "ann", ago=3 * DAY, disagreed=4)
        make_report(asked, "bea", ago=2 * DAY, disagreed=4)
        written = review(customer, elsewhere, 1, comment="No.")
        make_report(written, "cid", ago=MINUTE, agreed=96)
        return {"question": case_of(asked).pk, "review": case_of(written).pk}

    @pytest.mark.parametrize(
        ("order", "first"),
        [("newest", "review"), ("oldest", "question"), ("most_reported", "question"), ("most_trusted", "review")],
    )
    def test_orders(self, moderator: Client, cases: dict[str, int], order: str, first: str):
        assert listed(moderator, f"?order={order}")[0] == cases[first]
        assert len(listed(moderator, f"?order={order}")) == 2

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("kind=Review", ["review"]),
            ("kind=Question", ["question"]),
            ("shop=other", ["review"]),
            ("shop=Corner", ["question"]),
            ("age=day", ["review"]),
            ("age=over_day", ["question"]),
            ("age=over_week", []),
            ("language=en", ["review", "question"]),
            ("language=de", []),
            ("only=appealed", []),
            ("only=automatic", []),
            ("search=some-customer@example.com", ["review", "question"]),
            ("search=BEA-customer@example.com", ["question"]),
            ("search=nobody@example.com", []),
            ("search=tent", ["review"]),
            ("search=SAY", ["review", "question"]),  # the reports
            ("search=because bea", ["question"]),
            ("search=says&kind=Question", ["question"]),
            ("search=because tent", []),
            ("search=zzz", []),
        ],
    )
    def test_filters_and_search(self, moderator: Client, cases: dict[str, int], query: str, found: list[str]):
        assert listed(moderator, f"?{query}") == [cases[name] for name in found]

    def test_an_id_finds_its_content(self, moderator: Client, cases: dict[str, int]):
        content_id = Case.objects.get(pk=cases["review"]).model_id
        assert cases["review"] in listed(moderator, f"?search={content_id}")
        assert listed(moderator, "?search=987654") == []

    def test_numbers_and_addresses_in_texts_are_found(self, moderator: Client, lamp: Product, customer: User):
        asked = ask(customer, lamp, "Call 0176123456 or write to cheap@deals.example")
        make_report(asked, "ann", ago=MINUTE)
        for term in ("0176123456", "cheap@deals.example", "write cheap@deals.example"):
            assert listed(moderator, f"?search={term}") == [case_of(asked).pk]

    def test_held_items_are_found_by_their_product(self, moderator: Client, lamp: Product, customer: User):
        HoldingRule.objects.create(name="Advertising", entries="viagra")
        held = ask(customer, lamp, "Viagra?")
        assert listed(moderator, f"?search={lamp.name}&only=held") == [case_of(held).pk]

    def test_an_invalid_filter_shows_an_error_and_filters_nothing(self, moderator: Client, cases: dict[str, int]):
        assert "No shop has this name, slug or id." in page(moderator, "?shop=nowhere")
        assert len(listed(moderator, "?shop=nowhere&order=upwards&start=-3&age=ages")) == 2

    def test_the_list_loads_further_rows(self, moderator: Client, lamp: Product):
        fill_queue(30)

        first, rest = listed(moderator), listed(moderator, "?start=25")

        assert (len(first), len(rest)) == (25, 5)
        assert not set(first) & set(rest)
        assert moderator.get(f"{QUEUE}?part=rows&start=25").content.decode().count('<li class="mod-row"') == 5


class TestCost:
    @pytest.mark.no_database
    @pytest.mark.parametrize(
        "query",
        ["", "?order=most_reported&search={lamp}", "?search=reporter.1@people.example", "?start=25&item={first}"],
    )
    def test_a_page_with_a_case_needs_few_queries(self, moderator: Client, lamp: Product, query: str):
        fill_queue(40)
        first = listed(moderator)[0]
        with CaptureQueriesContext(connection) as queries:
            shown = page(moderator, query.format(first=first, lamp=lamp.name))

        assert 'id="item-title"' in shown
        assert len(queries) < (30 if "search" in query else 20), [query["sql"][:120] for query in queries]


class TestPermissions:
    PAGES = ("", "statistics/", "1/change/", "1/decide/", "1/claim/", "many/", "many/decide/", "many/undo/", "undo/1/")

    @pytest.mark.parametrize("path", PAGES)
    def test_x2_other_users_get_403_on_every_page(self, path: str, owner: User, customer: User):
        for user in (owner, customer):
            client = Client()
            client.force_login(user)
            assert client.get(f"{QUEUE}{path}").status_code == 403
            assert client.post(f"{QUEUE}{path}").status_code == 403

    @pytest.mark.parametrize("path", PAGES)
    @pytest.mark.django_db
    def test_anonymous_visitors_get_the_login_page(self, path: str):
        answer = Client().get(f"{QUEUE}{path}")
        assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, "/admin/login/")

    def test_pages_need_get_and_actions_need_post(self, moderator: Client):
        assert moderator.post(QUEUE).status_code == 405
        assert moderator.get(f"{QUEUE}many/decide/").status_code == 405

    def test_an_action_without_a_csrf_token_is_refused(self, admin: User, written: Review):
        make_report(written, "ann")
        client = Client(enforce_csrf_checks=True)
        client.force_login(admin)

        answer = client.post(f"{QUEUE}{case_of(written).pk}/decide/", {"action": "accepted"})

        assert answer.status_code == 403
        written.refresh_from_db()
        assert written.deleted_at is None
