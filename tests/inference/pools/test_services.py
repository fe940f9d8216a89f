"""Writes to members, and what this process then reads."""

import threading
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, InterfaceError
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from inference.pools import cache
from inference.pools.definitions import Pool
from inference.pools.models import PoolMember
from inference.pools.services import find_member, remove_member, save_member, set_member_state
from inference.pools.states import check_members
from inference.registry.catalog import model_not_found, read_catalog
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry

KEY = "sk-very-secret"
State = PoolMember.State

pytestmark = pytest.mark.django_db


def add(api_key: str | None = KEY, **fields: Any) -> PoolMember:
    values = {"model_id": "big", "name": "one", "base_url": "http://one.example/v1"} | fields
    return save_member(member=PoolMember(**values), api_key=api_key, actor=None, now=timezone.now())


def test_a_member_is_used_as_soon_as_its_transaction_ends(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
):
    assert cache.read_pools() == {}
    with django_capture_on_commit_callbacks(execute=True):
        add(context_size=512, weight=3)
        add(name="two", context_size=256, capabilities=["embeddings"])

    pool = cache.read_pools()["big"]
    assert [(member.name, member.weight, member.model.api_key) for member in pool.members] == [
        ("one", 3, KEY),
        ("two", 1, KEY),
    ]
    listed = read_catalog()["big"]
    assert (listed.type, listed.context_size, listed.capabilities) == (
        "remote",
        256,
        ("text-generation", "embeddings"),
    )


def test_every_change_is_in_the_audit_log_without_the_key():
    member = add()
    save_member(member=member, api_key="another-secret", actor=None, now=timezone.now())
    set_member_state(member=member, state=State.DRAINING, actor=None, now=timezone.now())
    remove_member(member=member, actor=None, now=timezone.now())

    entries = list(AuditEntry.objects.order_by("pk").values_list("action", "details"))
    assert [action.partition(".")[2] for action, _ in entries] == ["added", "changed", "state_changed", "removed"]
    assert entries[2][1]["state"] == "draining"
    assert "secret" not in str(entries)


def test_a_change_without_a_key_keeps_the_stored_one_and_an_empty_key_removes_it():
    member = add()
    member.weight = 7
    save_member(member=member, api_key=None, actor=None, now=timezone.now())
    assert cache.member_of(PoolMember.objects.get()).model.api_key == KEY

    save_member(member=member, api_key="", actor=None, now=timezone.now())
    assert (PoolMember.objects.get().api_key, cache.member_of(member).model.api_key) == ("", "")


@pytest.mark.parametrize(
    "url", ["http://two.example/v1", "https://one.example/v1", "http://one.example:81/v1", "http://one.example.evil/v1"]
)
def test_a_stored_key_is_not_sent_to_another_server(url: str):
    member = add()
    member.base_url = url
    with pytest.raises(ApiError, match="Enter the key of this server") as refused:
        save_member(member=member, api_key=None, actor=None, now=timezone.now())
    assert refused.value.problem.details == {"field": "api_key"}
    assert PoolMember.objects.get().base_url == "http://one.example/v1"

    save_member(member=member, api_key="another-key", actor=None, now=timezone.now())
    assert cache.member_of(PoolMember.objects.get()).model.api_key == "another-key"


def test_a_stored_key_stays_for_another_path_of_its_server_and_a_member_without_one_moves_freely():
    member = add()
    member.base_url = "http://ONE.example:80/other/v1"
    save_member(member=member, api_key=None, actor=None, now=timezone.now())
    assert cache.member_of(PoolMember.objects.get()).model.api_key == KEY

    member.base_url = "http://two.example/v1"
    save_member(member=member, api_key="", actor=None, now=timezone.now())
    member.base_url = "http://three.example/v1"
    save_member(member=member, api_key=None, actor=None, now=timezone.now())
    assert PoolMember.objects.get().api_key == ""


def test_a_key_that_was_changed_meanwhile_is_the_one_that_stays():
    stale = add()
    current = PoolMember.objects.get()
    current.base_url = "http://two.example/v1"
    save_member(member=current, api_key="another-key", actor=None, now=timezone.now())
    stale.base_url = "http://two.example/v1"
    save_member(member=stale, api_key=None, actor=None, now=timezone.now())
    assert cache.member_of(PoolMember.objects.get()).model.api_key == "another-key"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model_id": "../big"}, "model_id"),
        ({"name": "a b"}, "name"),
        ({"base_url": "file:///etc/passwd"}, "base_url"),
        ({"base_url": "https://user:pass@gpu.example/v1"}, "base_url"),
        ({"base_url": "https://gpu.example/v1\n"}, "base_url"),
        ({"base_url": "http://gpu:abc/v1"}, "base_url"),
        ({"base_url": "http://gpu:99999/v1"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"base_url": "http://x/v1\0"}, "base_url"),
        ({"api_key": "two\nlines"}, "api_key"),
        ({"api_key": "schl\u00fcssel"}, "api_key"),
        ({"kind": "unheard-of"}, "kind"),
        ({"weight": 0}, "weight"),
        ({"capabilities": ["images"]}, "capabilities"),
        ({"capabilities": []}, "capabilities"),
        ({"token_timeout": 0}, "token_timeout"),
        ({"base_url": ""}, "base_url"),
        ({"kind": "local"}, "base_url"),  # which has none
        ({"kind": "local", "base_url": "", "api_key": KEY}, "base_url"),
        ({"kind": "local", "base_url": "", "max_waiting": -1, "api_key": ""}, "max_waiting"),
        ({}, "name"),  # the second member of this name
    ],
)
def test_an_invalid_member_is_refused_by_its_field(change: dict[str, Any], field: str):
    add()

    with pytest.raises(ApiError) as refused:
        add(**({"name": "two"} | change if change else {}))

    assert (refused.value.problem.status, refused.value.problem.details) == (400, {"field": field})
    assert PoolMember.objects.count() == 1


def test_a_pool_has_one_local_member():
    local = {"kind": "local", "base_url": "", "api_key": ""}
    add(name="local", **local)
    add()
    with pytest.raises(ApiError, match="The pool has a local member"):
        add(name="two", **local)
    add(model_id="other", name="local", **local)


def test_a_pool_hides_the_local_model_unless_that_is_a_member():
    model = read_catalog()["stoa-describer"]
    add(model_id="stoa-describer")
    cache.expire()
    assert read_catalog()["stoa-describer"].type == "remote"

    add(model_id="stoa-describer", name="local", kind="local", base_url="", api_key="", max_waiting=4)
    cache.expire()
    listed = read_catalog()["stoa-describer"]
    assert listed.pool is not None
    assert (listed.type, listed.path, listed.capabilities) == (model.type, model.path, model.capabilities)
    assert [(member.name, member.is_local, member.max_waiting) for member in listed.pool.members] == [
        ("local", True, 4),
        ("one", False, 0),
    ]


def test_a_missing_member_is_refused_with_those_that_there_are():
    add()

    with pytest.raises(ApiError, match="The pool of big has: one"):
        find_member(model_id="big", name="two")
    with pytest.raises(ApiError, match="other has no pool"):
        find_member(model_id="other", name="two")


def test_a_key_of_an_unknown_secret_key_makes_its_member_failed(settings: Settings):
    member = add()
    settings.SECRET_KEY = "another one " * 5

    found = cache.member_of(member)

    assert found.model.api_key == ""
    assert "set the key again" in str(found.error)


def test_keys_are_reencrypted_with_other_secrets(settings: Settings):
    old, new = "the one before " * 4, "the one after it " * 4
    settings.SECRET_KEY = old
    add()
    add(name="keyless", api_key=None)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = new, [old]

    call_command("reencrypt_secrets", stdout=StringIO())

    settings.SECRET_KEY_FALLBACKS = []
    members = [cache.member_of(member) for member in PoolMember.objects.order_by("-name")]
    assert [(member.name, member.model.api_key, member.error) for member in members] == [
        ("one", KEY, None),
        ("keyless", "", None),
    ]


def test_callers_after_a_long_pause_all_wait_for_what_the_database_has(monkeypatch: pytest.MonkeyPatch):
    clock = [1000.0]
    monkeypatch.setattr("inference.pools.cache.time.monotonic", lambda: clock[0])
    cache.expire()
    assert cache.read_pools() == {}
    PoolMember.objects.create(model_id="big", name="one", base_url="http://one/v1", changed_at=timezone.now())
    read, waiting, others = cache._read, list[dict[str, Pool]](), list[threading.Thread]()

    def read_while_another_caller_comes() -> dict[str, Pool]:
        other = threading.Thread(target=lambda: waiting.append(cache.read_pools()))
        other.start()
        other.join(0.2)
        others.append(other)
        return read()

    monkeypatch.setattr(cache, "_read", read_while_another_caller_comes)
    clock[0] += 3600

    assert list(cache.read_pools()) == ["big"]
    others[0].join(10)
    assert [list(pools) for pools in waiting] == [["big"]]


@pytest.mark.parametrize("bad", [{"base_url": "http://gpu:abc/v1"}, {"kind": "gone"}, {"token_timeout": 0}])
def test_a_row_that_cannot_be_used_fails_alone(bad: dict[str, Any]):
    add()
    PoolMember.objects.filter(name=add(name="bad").name).update(**bad)

    failed, working = cache.read_pools()["big"].members

    assert working.error is None
    assert "Change the member, or remove it." in str(failed.error)
    [state] = check_members([failed])
    assert (state.state, state.error) == ("failed", failed.error)


def test_before_the_first_read_an_unknown_model_may_be_remote(monkeypatch: pytest.MonkeyPatch):
    def fail() -> None:
        raise InterfaceError

    with monkeypatch.context() as patch:
        patch.setattr(cache, "_pools", None)
        patch.setattr(PoolMember.objects, "all", fail)
        assert model_not_found("big", read_catalog()).problem.status == 503
    cache.expire()
    assert model_not_found("big", read_catalog()).problem.status == 404


@pytest.mark.parametrize("error", [DatabaseError, InterfaceError])
def test_pools_stay_as_they_were_read_while_the_database_does_not_answer(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
):
    add()
    before = cache.read_pools()
    cache.expire()

    def fail() -> None:
        raise error

    monkeypatch.setattr(PoolMember.objects, "all", fail)

    assert cache.read_pools() == before != {}
