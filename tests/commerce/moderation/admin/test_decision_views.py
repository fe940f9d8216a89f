"""Decisions on the queue's pages, by forms and by the script, about one case or many."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.moderation.appeals import file_appeal
from commerce.moderation.models import AbuseReport, Appeal, Case, Decision
from commerce.moderation.queue import bulk
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user
from tests.commerce.moderation.factories import DAY, MINUTE, case_of, decide, report, reporter
from tests.commerce.moderation.sample_queue import fill_queue
from tests.commerce.reviews.factories import review

QUEUE = "/admin/commerce_moderation/case/"
JSON = {"Accept": "application/json"}


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def moderator(admin: User) -> Client:
    return client_of(admin)


@pytest.fixture
def case(written: Review) -> Case:
    """Return the case of a review that one user reported a minute ago."""
    report(written, reporter("ann"), at=timezone.now() - MINUTE)
    return case_of(written)


def send(client: Client, case: Case, action: str, **fields: str) -> tuple[int, dict[str, Any]]:
    """Post a decision as the page's script does and return the status and the JSON."""
    answer = client.post(f"{QUEUE}{case.pk}/decide/", {"action": action} | fields, headers=JSON)
    return answer.status_code, answer.json()


class TestOneCase:
    def test_accepting_removes_the_content_and_offers_undo(self, moderator: Client, case: Case, written: Review):
        status, told = send(moderator, case, "accepted", note="Seen before.", reason="Spam.")

        decision = Decision.objects.get()
        assert (status, told["outcome"], told["is_waiting"]) == (200, "Taken down", False)
        assert told["undo"] == f"{QUEUE}undo/{decision.pk}/"
        assert (decision.note, decision.reason) == ("Seen before.", "Spam.")
        written.refresh_from_db()
        assert written.deleted_at is not None

    @pytest.mark.parametrize(
        ("action", "outcome", "waits"),
        [("rejected", "Kept", False), ("hidden", "Hidden for now", True), ("warned", "Author warned", True)],
    )
    def test_other_decisions_have_outcomes(self, moderator: Client, case: Case, action: str, outcome: str, waits: bool):
        status, told = send(moderator, case, action)

        assert (status, told["outcome"], told["is_waiting"]) == (200, outcome, waits)
        case.refresh_from_db()
        assert case.is_waiting == waits

    def test_hidden_content_can_be_shown_again(self, moderator: Client, case: Case, written: Review):
        send(moderator, case, "hidden")
        assert send(moderator, case, "shown")[1]["outcome"] == "Shown again"
        written.refresh_from_db()
        assert written.is_visible

    def test_c4_the_second_of_two_moderators_is_refused_with_the_first_ones_name(
        self, moderator: Client, colleague: User, case: Case
    ):
        send(client_of(colleague), case, "rejected")

        status, told = send(moderator, case, "accepted")

        assert status == 409
        assert told["refused"] is True
        assert told["outcome"] == f"Your decision was not counted. {colleague.name} decided first: Kept."
        assert Decision.objects.get().action == "rejected"

    def test_an_unknown_action_is_refused(self, moderator: Client, case: Case):
        for action in ("deleted", "", "appeal_kept"):
            assert send(moderator, case, action)[0] == 422
        assert send(moderator, case, "accepted", note="x" * 2001)[0] == 422
        assert not Decision.objects.exists()

    def test_undo_restores_the_content(self, moderator: Client, case: Case, written: Review):
        undo = send(moderator, case, "accepted")[1]["undo"]

        answer = moderator.post(undo, headers=JSON)

        assert answer.json()["outcome"] == "Undone: Taken down"
        written.refresh_from_db()
        case.refresh_from_db()
        assert written.is_visible
        assert case.is_waiting

    def test_undo_is_refused_after_ten_minutes(self, moderator: Client, admin: User, case: Case, written: Review):
        made = decide("accepted", written, admin, at=timezone.now() - 11 * MINUTE)

        answer = moderator.post(f"{QUEUE}undo/{made.pk}/", headers=JSON)

        assert (answer.status_code, answer.json()["outcome"]) == (409, "This decision can no longer be undone.")
        written.refresh_from_db()
        assert written.deleted_at is not None

    def test_removed_content_can_be_restored_later(self, moderator: Client, admin: User, case: Case, written: Review):
        decide("accepted", written, admin, at=timezone.now() - 30 * DAY)

        assert send(moderator, case, "restored")[1]["outcome"] == "Restored"
        written.refresh_from_db()
        assert written.is_visible
        assert send(moderator, Case(pk=77), "restored")[0] == 404

    def test_a_claim_informs_the_second_moderator_and_blocks_no_decision(
        self, moderator: Client, colleague: User, case: Case
    ):
        first = moderator.post(f"{QUEUE}{case.pk}/claim/", headers=JSON).json()
        second = client_of(colleague).post(f"{QUEUE}{case.pk}/claim/", headers=JSON).json()

        assert first == {"told": "", "is_waiting": True}
        assert second == {"told": "some SUPER_ADMIN is looking at this now.", "is_waiting": True}
        assert moderator.post(f"{QUEUE}{case.pk}/release/").status_code == 204
        third = client_of(colleague).post(f"{QUEUE}{case.pk}/claim/", headers=JSON).json()
        assert third["told"] == ""

    def test_claiming_a_decided_case_names_its_moderator(self, moderator: Client, colleague: User, case: Case):
        send(client_of(colleague), case, "accepted")

        told = moderator.post(f"{QUEUE}{case.pk}/claim/", headers=JSON).json()

        assert told == {"told": f"{colleague.name} decided first: Taken down.", "is_waiting": False}


class TestAppeals:
    @pytest.fixture
    def appealed(self, case: Case, written: Review, admin: User, customer: User) -> Case:
        made = decide("accepted", written, admin, at=timezone.now() - DAY)
        notice = made.notices.get(user=customer)
        file_appeal(author=customer, notice_id=notice.pk, message="I was <b>there</b>.", now=timezone.now())
        return case_of(written)

    def test_the_queue_shows_the_message_of_an_appeal(self, moderator: Client, appealed: Case):
        shown = moderator.get(QUEUE).content.decode()

        assert "I was &lt;b&gt;there&lt;/b&gt;." in shown
        assert "Keep it down" in shown
        assert 'data-key="w"' not in shown

    @pytest.mark.parametrize(
        ("action", "outcome", "status", "is_back"),
        [
            ("accepted", "Appeal: stays down", "kept", False),
            ("rejected", "Appeal: brought back", "overturned", True),
        ],
    )
    def test_appeals_are_decided_in_the_queue(
        self, moderator: Client, appealed: Case, written: Review, action: str, outcome: str, status: str, is_back: bool
    ):
        assert send(moderator, appealed, action)[1]["outcome"] == outcome
        written.refresh_from_db()
        assert (Appeal.objects.get().status, written.is_visible) == (status, is_back)

    def test_c4_the_second_decision_about_an_appeal_is_refused_at_any_moment(
        self, moderator: Client, colleague: User, appealed: Case, monkeypatch: pytest.MonkeyPatch
    ):
        """Another moderator decides between the check and the decision."""
        refusal = bulk._refusal

        def decide_after_another(case: Case, action: str) -> str:
            told = refusal(case, action)
            monkeypatch.undo()
            send(client_of(colleague), appealed, "accepted")
            return told

        monkeypatch.setattr(bulk, "_refusal", decide_after_another)

        status, told = send(moderator, appealed, "rejected")

        assert (status, Appeal.objects.get().status) == (409, "kept")
        assert told["outcome"].endswith("decided first: Appeal: stays down.")


class TestWithoutScripts:
    def test_a_form_redirects_to_the_next_case_and_offers_undo(self, moderator: Client, lamp: Product):
        fill_queue(3)
        first, second, _third = (row.case.pk for row in moderator.get(QUEUE).context["page"].rows)

        fields = {"action": "rejected", "following": str(second), "query": "order=newest&evil=1"}
        answer = moderator.post(f"{QUEUE}{first}/decide/", fields, follow=True)

        decision = Decision.objects.filter(case=first).latest("pk")
        assert answer.redirect_chain == [(f"{QUEUE}?order=newest&item={second}&done={decision.pk}", 302)]
        assert answer.context["item"].row.case.pk == second
        assert f'action="{QUEUE}undo/{decision.pk}/"' in answer.content.decode()

    def test_a_refusal_is_a_message_on_the_page(self, moderator: Client, colleague: User, case: Case):
        send(client_of(colleague), case, "accepted")

        answer = moderator.post(f"{QUEUE}{case.pk}/decide/", {"action": "rejected"}, follow=True)

        assert "Your decision was not counted." in answer.content.decode()
        assert answer.context["item"].row.case.pk == case.pk


class TestBulkDecisions:
    @pytest.fixture
    def cases(self, lamp: Product) -> list[Case]:
        """Return the cases of three reported reviews of three authors."""
        found = []
        for number in (1, 2, 3):
            content = review(make_user(Role.CUSTOMER, f"author{number}"), lamp, 1, comment=f"No {number}.")
            report(content, reporter(f"reporter{number}"), at=timezone.now())
            found.append(case_of(content))
        return found

    def fields(self, cases: list[Case], action: str = "accepted") -> dict[str, Any]:
        return {"action": action, "case": [case.pk for case in cases], "reason": "Spam."}

    def test_the_preview_shows_the_effect_and_changes_nothing(
        self, moderator: Client, colleague: User, cases: list[Case]
    ):
        send(client_of(colleague), cases[0], "rejected")

        shown = " ".join(moderator.post(f"{QUEUE}many/", self.fields(cases)).content.decode().split())

        assert "Accept: take down (2 items)" in shown
        assert "2 reports are settled with it." in shown
        assert "2 authors are told" in shown
        assert "1 is left out." in shown
        assert "This has been decided already." in shown
        assert shown.count('name="case"') == 2
        assert Decision.objects.count() == 1

    @pytest.mark.parametrize("action", ["hidden", "warned"])
    def test_the_preview_omits_reports_of_waiting_cases(self, moderator: Client, cases: list[Case], action: str):
        shown = moderator.post(f"{QUEUE}many/", self.fields(cases, action)).content.decode()

        assert "(3 items)" in shown
        assert "settled" not in shown

    def test_each_case_gets_its_own_decision_and_all_can_be_undone(
        self, moderator: Client, colleague: User, cases: list[Case]
    ):
        send(client_of(colleague), cases[0], "rejected")

        answer = moderator.post(f"{QUEUE}many/decide/", self.fields(cases))

        made = Decision.objects.filter(action="accepted")
        assert {decision.case_id for decision in made} == {case.pk for case in cases[1:]}
        assert all(decision.reason == "Spam." for decision in made)
        shown = answer.content.decode()
        assert "2 items decided" in shown
        assert "This has been decided already." in shown

        undone = moderator.post(f"{QUEUE}many/undo/", {"decision": [decision.pk for decision in made]}, follow=True)
        assert "Decisions undone: 2" in undone.content.decode()
        assert Case.objects.waiting().count() == 2
        assert AbuseReport.objects.filter(status="open").count() == 2

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"action": "accepted"}, "Choose at least one item."),
            ({"action": "accepted", "case": ["x", "1 OR 1"]}, "Choose at least one item."),
            ({"action": "accepted", "case": list(range(1, 202))}, "Decide about at most 200 items at once."),
        ],
    )
    @pytest.mark.parametrize("step", ["many/", "many/decide/"])
    def test_an_invalid_selection_is_refused(
        self, moderator: Client, case: Case, fields: dict[str, Any], told: str, step: str
    ):
        assert told in moderator.post(f"{QUEUE}{step}", fields, follow=True).content.decode()
        assert not Decision.objects.exists()
