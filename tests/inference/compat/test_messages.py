"""POST /v1/messages of a running server through the official client, strict."""

from collections.abc import Iterator

import anthropic
import pytest

from tests.inference.running_server import RunningServer, running_server_with_fake_models

HELLO: list[anthropic.types.MessageParam] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(stoa: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=stoa.url, api_key=stoa.keys["STAFF"], max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_a_message_is_created(client: anthropic.Anthropic):
    answer = client.messages.create(model="talker", max_tokens=3, messages=HELLO, system="Be kind.")

    assert answer.id.startswith("msg_")
    assert [(block.type, block.text) for block in answer.content] == [("text", "w0 w1 w2 ")]
    assert (answer.model, answer.role, answer.stop_reason) == ("talker", "assistant", "max_tokens")
    assert answer.usage.output_tokens == 3


def test_a_streamed_message_equals_the_whole_one(client: anthropic.Anthropic):
    with client.messages.stream(model="talker", max_tokens=3, messages=HELLO) as stream:
        texts = list(stream.text_stream)
        answer = stream.get_final_message()

    assert texts == ["w0 ", "w1 ", "w2 "]
    assert [block.text for block in answer.content] == ["w0 w1 w2 "]
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 3)


def test_tokens_are_counted(client: anthropic.Anthropic):
    tool = {"name": "now", "input_schema": {"type": "object"}}
    counted = client.messages.count_tokens(model="talker", messages=HELLO, system="Be.", tools=[tool])
    assert counted.input_tokens == len("now()system:Be.;user:Hello;")


def test_errors_raise_the_clients_own_classes(stoa: RunningServer, client: anthropic.Anthropic):
    def create(used: anthropic.Anthropic, **fields: object) -> object:
        return used.messages.create(**{"model": "talker", "max_tokens": 3, "messages": HELLO} | fields)

    def with_key(key: str) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=stoa.url, api_key=key, max_retries=0)

    with with_key("stoa_wrong") as stranger, pytest.raises(anthropic.AuthenticationError) as unknown:
        create(stranger)
    assert unknown.value.body["error"]["type"] == "authentication_error"
    with (
        with_key(stoa.keys["CUSTOMER"]) as customer,
        pytest.raises(anthropic.PermissionDeniedError, match="run_inference"),
    ):
        create(customer)
    with pytest.raises(anthropic.NotFoundError, match="nobody") as missing:
        create(client, model="nobody")
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert missing.value.body["request_id"].startswith("req_")
    with pytest.raises(anthropic.BadRequestError, match="temperature") as wrong:
        create(client, extra_body={"temperature": 3})
    assert wrong.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.BadRequestError, match="idle"):
        create(client, model="idle")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model": 3}', b"[" * 100_000, b'{"model": "\\ud800"}'])
def test_i4_a_malformed_body_is_answered_with_400_in_anthropics_form(
    stoa: RunningServer, client: anthropic.Anthropic, path: str, body: bytes
):
    headers = {"x-api-key": stoa.keys["STAFF"], "Content-Type": "application/json"}
    answer = client._client.post(f"{stoa.url}{path}", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_usage_is_counted_once(stoa: RunningServer, client: anthropic.Anthropic):
    def used() -> tuple[int, int]:
        total = stoa.get("/usage", role="STAFF").json()["total"]
        return total["requests"], total["completion_tokens"]

    before = used()
    client.messages.create(model="talker", max_tokens=3, messages=HELLO)
    assert used() == (before[0] + 1, before[1] + 3)


@pytest.mark.timeout(300)
def test_each_family_is_switched_off_by_its_setting():
    off = {"STOA_ANTHROPIC_API": "false", "STOA_OLLAMA_API": "false", "STOA_MCP_API": "false"}
    with running_server_with_fake_models(extra=off) as stoa:
        for path in ("/v1/messages", "/api/chat", "/mcp"):
            assert stoa.post(path, {}).status_code == 404
        assert stoa.get("/api/version").status_code == 404
        paths = stoa.get("/openapi.json").json()["paths"]
        assert not [path for path in paths if path.startswith(("/v1/messages", "/api/", "/mcp"))]
