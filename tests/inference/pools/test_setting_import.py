"""The import of STOA_REMOTE_MODELS into the database."""

import json
import threading
from datetime import datetime

import pytest
from django.db import InterfaceError
from django.utils import timezone
from pytest_django import Settings

from inference.cli import database
from inference.pools.cache import read_pools
from inference.pools.models import PoolMember
from inference.pools.services import remove_member
from inference.pools.setting_import import SettingRefused, import_remote_models
from inference.remote.configuration import read_remote_models

KEY = "sk-very-secret"
BIG = {
    "id": "big", "base_url": "https://gpu.example:8000/v1", "api_key": KEY, "model": "meta/Llama", "dialect": "vllm",
    "capabilities": ["text-generation", "embeddings"], "context_size": 4096, "stream_usage": False,
    "connect_timeout": 1.0, "first_token_timeout": 2.0, "token_timeout": 3.0,
}  # fmt: skip
SMALL = {"id": "small", "base_url": "http://10.0.0.7:9/v1"}

pytestmark = pytest.mark.django_db


def set_models(settings: Settings, *models: object) -> None:
    settings.REMOTE_MODELS_JSON = json.dumps(models)
    settings.REMOTE_MODELS = read_remote_models(settings.REMOTE_MODELS_JSON)


def test_every_model_becomes_a_pool_of_one_member_with_all_its_settings(settings: Settings):
    set_models(settings, BIG, SMALL)

    import_remote_models(now=timezone.now())

    pools = read_pools()
    assert {model_id: [member.name for member in pool.members] for model_id, pool in pools.items()} == {
        "big": ["gpu.example-8000"],
        "small": ["10.0.0.7-9"],
    }
    assert {model_id: pool.members[0].model for model_id, pool in pools.items()} == settings.REMOTE_MODELS
    stored = str(list(PoolMember.objects.values()))
    assert KEY not in stored


def test_an_unchanged_setting_is_not_imported_again(settings: Settings):
    set_models(settings, BIG, SMALL)
    import_remote_models(now=timezone.now())
    remove_member(member=PoolMember.objects.get(model_id="small"), actor=None, now=timezone.now())

    import_remote_models(now=timezone.now())
    settings.REMOTE_MODELS = {}
    import_remote_models(now=timezone.now())

    assert list(PoolMember.objects.values_list("model_id", flat=True)) == ["big"]


def test_the_order_of_keys_and_spaces_are_no_change(settings: Settings):
    set_models(settings, BIG, SMALL)
    import_remote_models(now=timezone.now())
    set_models(settings, dict(reversed(BIG.items())), SMALL)
    settings.REMOTE_MODELS_JSON = json.dumps(json.loads(settings.REMOTE_MODELS_JSON), indent=2)

    import_remote_models(now=timezone.now())

    assert PoolMember.objects.count() == 2


def test_a_server_imports_the_setting_once_its_database_answers(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    set_models(settings, SMALL)
    calls, is_imported = [0], threading.Event()

    def import_at_the_third_call(*, now: datetime) -> None:
        calls[0] += 1
        if calls[0] < 3:
            raise InterfaceError("connection already closed")
        is_imported.set()

    monkeypatch.setattr(database, "import_remote_models", import_at_the_third_call)
    monkeypatch.setattr(database, "IMPORT_RETRY_SECONDS", 0.01)

    database.import_settings()

    assert is_imported.wait(10)


@pytest.mark.parametrize("changed", [[BIG], [BIG, SMALL | {"api_key": "new"}], [BIG | {"api_key": ""}, SMALL]])
def test_a_changed_setting_is_refused_with_where_the_models_are(settings: Settings, changed: list[object]):
    set_models(settings, BIG, SMALL)
    import_remote_models(now=timezone.now())
    before = list(PoolMember.objects.values())
    set_models(settings, *changed)

    with pytest.raises(SettingRefused, match="imported into the database") as refused:
        import_remote_models(now=timezone.now())

    assert "`stoa pools add`" in str(refused.value)
    assert KEY not in str(refused.value)
    assert list(PoolMember.objects.values()) == before


def test_a_model_that_no_member_can_be_is_refused_and_nothing_is_imported(settings: Settings):
    set_models(settings, SMALL, BIG | {"model": "m" * 300})

    with pytest.raises(SettingRefused, match="cannot be imported: big: `model_name`"):
        import_remote_models(now=timezone.now())

    assert not PoolMember.objects.exists()
    set_models(settings, SMALL)
    import_remote_models(now=timezone.now())
    assert PoolMember.objects.count() == 1


def test_a_model_that_has_a_pool_already_keeps_it(settings: Settings):
    PoolMember.objects.create(model_id="big", name="mine", base_url="http://mine/v1", changed_at=timezone.now())
    set_models(settings, BIG, SMALL)

    import_remote_models(now=timezone.now())

    assert list(PoolMember.objects.values_list("name", flat=True)) == ["mine", "10.0.0.7-9"]
