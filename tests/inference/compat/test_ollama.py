"""Ollama's API of a running server through its official client."""

from collections.abc import Iterator
from typing import Any

import httpx2
import ollama
import pytest

from tests.inference.running_server import RunningServer

HELLO = [{"role": "user", "content": "Hello"}]
THREE: dict[str, Any] = {"num_predict": 3}


@pytest.fixture
def client(stoa: RunningServer) -> Iterator[ollama.Client]:
    with ollama.Client(host=stoa.url, headers={"Authorization": f"Bearer {stoa.keys['STAFF']}"}) as client:
        yield client


def test_a_chat_is_answered_whole_and_streamed(client: ollama.Client):
    whole = client.chat(model="talker", messages=HELLO, options=THREE)
    lines = list(client.chat(model="talker:latest", messages=HELLO, options=THREE, stream=True))

    assert (whole.message.role, whole.message.content) == ("assistant", "w0 w1 w2 ")
    assert (whole.done, whole.done_reason, whole.eval_count) == (True, "length", 3)
    assert whole.total_duration >= whole.eval_duration > 0
    assert [line.message.content for line in lines] == ["w0 ", "w1 ", "w2 ", ""]
    assert [line.done for line in lines] == [False, False, False, True]
    assert (lines[-1].done_reason, lines[-1].eval_count) == ("length", 3)
    assert lines[0].model == "talker:latest"


def test_a_text_is_generated_whole_and_streamed(client: ollama.Client):
    whole = client.generate(model="talker", prompt="repeat yes ", raw=True, options=THREE)
    lines = list(client.generate(model="talker", prompt="repeat yes ", raw=True, options=THREE, stream=True))

    assert (whole.response, whole.done_reason, whole.eval_count) == ("yes yes yes ", "length", 3)
    assert whole.prompt_eval_count == len("repeat yes ")
    assert "".join(line.response for line in lines) == whole.response
    assert client.generate(model="talker", prompt="Hello", system="Be kind.", options=THREE).response == "w0 w1 w2 "


def test_a_request_streams_unless_stream_is_false(stoa: RunningServer):
    answer = stoa.post("/api/chat", {"model": "talker", "messages": HELLO, "options": THREE})
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert len(answer.text.splitlines()) == 4


def test_a_request_without_a_prompt_checks_the_model(client: ollama.Client):
    assert client.generate(model="talker").done_reason == "load"
    assert client.chat(model="talker", messages=[]).done_reason == "load"
    with pytest.raises(ollama.ResponseError) as refused:
        client.generate(model="idle")
    assert refused.value.status_code == 400


def test_models_are_listed_and_described(client: ollama.Client):
    models = {model.model: model for model in client.list().models}
    assert {"talker", "embedder", "idle"} <= models.keys()
    assert len(models["talker"].digest) == 64
    assert models["talker"].details.format == "safetensors"

    running = {model.model: model for model in client.ps().models}
    assert {"talker", "embedder"} <= running.keys()
    assert running["talker"].context_length == 64
    assert running["talker"].digest == models["talker"].digest

    shown = client.show("talker:latest")
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo["stoa.context_length"] == 4096
    assert client.show("embedder").capabilities == ["embedding"]


def test_texts_are_embedded(client: ollama.Client):
    one = client.embed(model="embedder", input="abc")
    two = client.embed(model="embedder", input=["abc", "a"])
    assert (one.embeddings, two.embeddings) == ([[3.0, 1.0]], [[3.0, 1.0], [1.0, 1.0]])
    assert client.embed(model="embedder", input="abc", dimensions=1).embeddings == [[1.0]]


def test_the_version_needs_no_credential(stoa: RunningServer):
    answer = httpx2.get(f"{stoa.url}/api/version", timeout=30)
    assert answer.json() == {"version": stoa.get("/health").json()["version"]}


def test_options_of_loading_are_named_as_ignored(stoa: RunningServer):
    body = {"model": "talker", "messages": HELLO, "stream": False, "options": THREE | {"num_ctx": 4096, "mirostat": 0}}
    answer = stoa.post("/api/chat", body | {"keep_alive": "5m"})
    assert (answer.status_code, answer.headers["warnings"]) == (200, "Ignored fields: num_ctx, keep_alive")


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ("/api/chat", {"messages": [{"role": "user", "images": ["aGk="]}]}, "messages[0]"),
        ("/api/chat", {"messages": HELLO, "options": {"temperature": 9}}, "options.temperature"),
        ("/api/chat", {"messages": HELLO, "options": {"mirostat": 2}}, "options.mirostat"),
        ("/api/chat", {"messages": HELLO, "options": {"num_predict": 0}}, "options.num_predict"),
        ("/api/chat", {"messages": HELLO, "format": "xml"}, "format"),
        ("/api/chat", {"messages": HELLO, "temperature": 1}, "temperature"),
        ("/api/generate", {"prompt": "a", "template": "{{ .Prompt }}"}, "template"),
        ("/api/generate", {"prompt": "a", "system": "b", "raw": True}, "system"),
        ("/api/embed", {"input": ["a"] * 2049}, "input"),
        ("/api/embed", {"input": 3}, "input"),
        ("/api/show", {"model": 3}, "model"),
    ],
    ids=str,
)
def test_i4_an_error_in_ollamas_form_names_the_field(stoa: RunningServer, path: str, body: dict[str, Any], named: str):
    answer = stoa.post(path, {"model": "talker"} | body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"`{named}`")


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed", "/api/show"])
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b'{"model": "\\ud800"}'])
def test_i4_a_malformed_body_is_400(stoa: RunningServer, path: str, body: bytes):
    headers = stoa.headers() | {"Content-Type": "application/json"}
    answer = httpx2.post(f"{stoa.url}{path}", content=body, headers=headers, timeout=30)
    assert (answer.status_code, type(answer.json()["error"])) == (400, str)


def test_errors_of_a_stream_raise_the_clients_own_class(stoa: RunningServer, client: ollama.Client):
    with pytest.raises(ollama.ResponseError, match="nobody") as missing:
        client.chat(model="nobody", messages=HELLO)
    assert missing.value.status_code == 404
    with (
        ollama.Client(host=stoa.url, headers={"Authorization": "Bearer stoa_wrong"}) as stranger,
        pytest.raises(ollama.ResponseError) as refused,
    ):
        stranger.list()
    assert refused.value.status_code == 401
