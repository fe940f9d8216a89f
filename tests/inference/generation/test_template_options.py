"""Options of chat templates that clients may set."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from inference.config.settings.template_options import read_template_options
from tests.inference.running_server import RunningServer

CHAT = {"model": "talker", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}


@pytest.mark.parametrize("name", ["enable_thinking", "thinking", "reasoning_effort"])
def test_m3_options_of_reasoning_may_be_set(stoa: RunningServer, name: str):
    answer = stoa.post("/v1/chat/completions", CHAT | {"chat_template_kwargs": {name: "low"}})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", ["tools", "messages", "language", "chat_template", "__class__"])
def test_m3_another_option_is_rejected_by_name(stoa: RunningServer, name: str):
    answer = stoa.post("/v1/chat/completions", CHAT | {"chat_template_kwargs": {name: "x"}})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"chat_template_kwargs.{name}"
    assert "STOA_TEMPLATE_OPTIONS" in answer.json()["error"]["message"]


def test_the_operator_lists_options_by_model():
    listed = read_template_options(["a:language", "a:tone", "org/b:tone"])
    assert listed == {"a": {"language", "tone"}, "org/b": {"tone"}}
    for wrong in ("language", "a:", ":b", "a:b c", "a:1"):
        with pytest.raises(ImproperlyConfigured, match="STOA_TEMPLATE_OPTIONS"):
            read_template_options([wrong])
