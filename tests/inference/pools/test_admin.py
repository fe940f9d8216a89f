"""The admin of members."""

import pytest
from django.test import Client
from django.utils import timezone

from inference.pools.cache import member_of
from inference.pools.models import PoolMember
from inference.pools.services import save_member
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user

KEY = "sk-very-secret"
LIST = "/admin/inference_pools/poolmember/"
FIELDS = {
    "model_id": "big", "name": "", "base_url": "http://127.0.0.1:9/v1", "new_api_key": KEY, "model_name": "",
    "kind": "vllm", "max_waiting": "0", "weight": "2", "state": "enabled", "capabilities": ["text-generation"],
    "context_size": "0", "stream_usage": "on", "connect_timeout": "5", "first_token_timeout": "120",
    "token_timeout": "60",
}  # fmt: skip

pytestmark = pytest.mark.django_db


def make_user(role: Role) -> User:
    return create_user(
        email=f"{role.lower()}@example.com", name=role, password="a lamp for every room", role=role, now=timezone.now()
    )


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(make_user(Role.SUPER_ADMIN), backend="shared.accounts.backends.LimitedBackend")
    return client


def add_member(**fields: str) -> PoolMember:
    values = {"model_id": "big", "name": "gone", "base_url": "http://127.0.0.1:9/v1"} | fields
    return save_member(member=PoolMember(**values), api_key=KEY, actor=None, now=timezone.now())


def test_a_member_is_added_changed_and_removed_and_its_key_is_never_shown(operator: Client):
    added = operator.post(f"{LIST}add/", FIELDS)
    assert (added.status_code, added.headers["Location"]) == (302, LIST)
    member = PoolMember.objects.get()
    assert (member.name, member.weight, member_of(member).model.api_key) == ("127.0.0.1-9", 2, KEY)

    page = operator.get(f"{LIST}{member.pk}/change/").content.decode()
    changed = operator.post(f"{LIST}{member.pk}/change/", FIELDS | {"name": "one", "new_api_key": "", "weight": "3"})
    member.refresh_from_db()
    assert (changed.status_code, member.name, member.weight) == (302, "one", 3)
    assert member_of(member).model.api_key == KEY
    assert KEY not in page + operator.get(LIST).content.decode()
    assert member.api_key not in page

    operator.post(f"{LIST}{member.pk}/delete/", {"post": "yes"})
    assert not PoolMember.objects.exists()


def test_a_stored_key_is_not_sent_to_another_server(operator: Client):
    member = add_member()
    change = FIELDS | {"name": "gone", "new_api_key": "", "base_url": "http://127.0.0.1:8/v1"}
    refused = operator.post(f"{LIST}{member.pk}/change/", change)
    member.refresh_from_db()
    assert (refused.status_code, member.base_url) == (200, "http://127.0.0.1:9/v1")
    assert "Enter the key of this server, or remove the stored one." in refused.content.decode()

    assert operator.post(f"{LIST}{member.pk}/change/", change | {"remove_api_key": "on"}).status_code == 302
    member.refresh_from_db()
    assert (member.base_url, member.api_key) == ("http://127.0.0.1:8/v1", "")


def test_the_model_of_this_machine_becomes_a_member_with_a_rule(operator: Client):
    local = FIELDS | {"kind": "local", "base_url": "", "new_api_key": "", "max_waiting": "8"}
    assert operator.post(f"{LIST}add/", local).status_code == 302
    member = PoolMember.objects.get()
    assert (member.name, member_of(member).is_local, member_of(member).max_waiting) == ("local", True, 8)

    operator.post(f"{LIST}{member.pk}/change/", local | {"max_waiting": "3"})
    member.refresh_from_db()
    assert member.max_waiting == 3
    refused = operator.post(f"{LIST}add/", local | {"name": "another"}).content.decode()
    assert "The pool has a local member" in refused
    assert PoolMember.objects.count() == 1


def test_the_list_says_what_is_wrong_with_a_member(operator: Client):
    add_member()

    page = operator.get(LIST).content.decode()

    assert "The remote server does not answer." in page
    assert "failed" in page


def test_members_are_drained_enabled_and_checked(operator: Client):
    member = add_member()
    for action, state in (("drain", "draining"), ("enable", "enabled")):
        operator.post(LIST, {"action": action, "_selected_action": [member.pk]})
        member.refresh_from_db()
        assert member.state == state

    checked = operator.post(LIST, {"action": "check_now", "_selected_action": [member.pk]}, follow=True)

    assert "big/gone: The remote server does not answer." in checked.content.decode()


def test_an_invalid_member_is_refused_by_its_field(operator: Client):
    add_member(name="one")
    for change, message in (
        ({"base_url": "file:///etc/passwd"}, "Write it like https://gpu.example:8000/v1"),
        ({"name": "one"}, "The pool has a member of this name"),
    ):
        refused = operator.post(f"{LIST}add/", FIELDS | change)
        assert refused.status_code == 200
        assert message in refused.content.decode()
    assert PoolMember.objects.count() == 1


def test_only_operators_see_members():
    add_member()
    client = Client()
    client.force_login(make_user(Role.STAFF), backend="shared.accounts.backends.LimitedBackend")

    assert client.get(LIST).status_code in (302, 403)
    assert client.get(f"{LIST}add/").status_code in (302, 403)
