"""The usage ledger in the admin: read-only, with the totals of the filtered rows."""

from datetime import date

import pytest
from django.test import Client
from django.utils import timezone

from inference.engine import Usage
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user

LEDGER = "/admin/inference_usage/dailyusage/"


@pytest.fixture
def key(db: None) -> ApiKey:
    user = create_user(email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=timezone.now())
    return create_api_key(user=user, name="laptop", now=timezone.now())[0]


@pytest.fixture
def site(key: ApiKey) -> Client:
    for model_id, tokens in (("writer", 1000), ("reader", 500)):
        call = {"user_id": key.user_id, "model_id": model_id, "now": timezone.now()}
        record_usage(api_key_id=key.pk, usage=Usage(tokens, 234, 12), requests=3, **call)
        record_usage(api_key_id=None, usage=Usage(tokens, 0), **call)
    root = create_user(email="root@example.com", name="R", password=None, role=Role.SUPER_ADMIN, now=timezone.now())
    client = Client()
    client.force_login(root)
    return client


def totals(page: str) -> list[str]:
    answer = page.partition('aria-label="Totals of the filtered rows"')[2].partition("</dl>")[0]
    return [part.partition("</dd>")[0].rpartition(">")[2] for part in answer.split("<dd")[1:]]


def test_the_ledger_lists_rows_with_the_totals_of_the_filter(site: Client):
    page = site.get(LEDGER).text
    assert [word in page for word in ("writer", "reader", "laptop", "none (session or batch)", "ada@example.com")] == [
        True
    ] * 5
    assert "1,234" in page
    assert [cell.split(">")[-1] for cell in totals(page)] == ["8", "3,000", "24", "468"]
    assert totals(site.get(f"{LEDGER}?model_id=reader").text) == ["4", "1,000", "12", "234"]
    assert totals(site.get(f"{LEDGER}?q=laptop").text) == ["6", "1,500", "24", "468"]
    today = date.today()
    assert totals(site.get(f"{LEDGER}?day__year={today.year - 1}").text) == ["0", "0", "0", "0"]


def test_the_ledger_is_read_only(site: Client):
    assert site.get(f"{LEDGER}add/").status_code == 403
    assert site.post(f"{LEDGER}1/change/", {"requests": 1}).status_code in (302, 403)
    assert site.post(LEDGER, {"action": "delete_selected", "_selected_action": [1], "post": "yes"}).status_code in (
        200,
        302,
    )
    assert totals(site.get(LEDGER).text) == ["8", "3,000", "24", "468"]


def test_password_and_key_hashes_cannot_be_searched(site: Client, key: ApiKey):
    for query in ("user__password__startswith=md5", "api_key__secret_hash__startswith=a"):
        answer = site.get(f"{LEDGER}?{query}")
        assert answer.status_code in (302, 400)
    assert totals(site.get(f"{LEDGER}?q={key.secret_hash[:12]}").text) == ["0", "0", "0", "0"]


def test_only_operators_see_the_ledger(db: None):
    user = create_user(email="eve@example.com", name="E", password=None, role=Role.STAFF, now=timezone.now())
    client = Client()
    client.force_login(user)
    assert client.get(LEDGER).status_code == 302
    assert User.objects.count() == 1
