"""The setting STOA_REMOTE_MODELS."""

import json
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from inference.remote.configuration import read_remote_models

GOOD = {"id": "big", "base_url": "https://gpu.example:8000/v1", "api_key": "very-secret"}


def test_an_empty_setting_has_no_remote_models():
    assert read_remote_models("") == {}


def test_a_model_may_have_another_name_on_its_server():
    models = read_remote_models(json.dumps([GOOD | {"model": "meta/Llama", "dialect": "vllm"}, GOOD | {"id": "small"}]))

    assert [(model.id, model.name) for model in models.values()] == [("big", "meta/Llama"), ("small", "small")]
    assert models["big"].url("models") == "https://gpu.example:8000/v1/models"
    assert "very-secret" not in repr(models)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../big"},
        {"id": ""},
        {"base_url": "gpu.example"},
        {"base_url": "file:///etc/passwd"},
        {"base_url": "https://user:very-secret@gpu.example/v1"},
        {"base_url": "http://gpu:abc/v1"},
        {"base_url": "http://gpu:99999/v1"},
        {"base_url": "http://:8000/v1"},
        {"base_url": "http://[::1/v1"},
        {"base_url": "http://x/v1\0"},
        {"dialect": "unheard-of"},
        {"api_key": "very-secret key"},
        {"token_timeout": 0},
        {"key": "very-secret"},
        {"capabilities": ["images"]},
    ],
)
def test_an_invalid_setting_is_refused_without_quoting_the_api_key(change: dict[str, Any]):
    with pytest.raises(ImproperlyConfigured, match="STOA_REMOTE_MODELS is invalid") as refused:
        read_remote_models(json.dumps([GOOD | change]))

    assert "very-secret" not in str(refused.value)


def test_duplicate_ids_are_refused():
    with pytest.raises(ImproperlyConfigured, match="twice"):
        read_remote_models(json.dumps([GOOD, GOOD]))
