"""Every API over models that other engines run: texts, finish reasons, usage, and errors that name engines that can.

A real server and model host; the engines' servers are fakes, which are told what to say.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.inference.batches import workers
from tests.inference.engine.external.fake_engines import KINDS, Engines, start_host
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.processes import eventually, eventually_idle, running_host
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config
from tests.inference.openai_batches import clients
from tests.inference.running_server import RunningServer, running_server
from tests.inference.websocket_client import authenticated_websocket, receive_until, send_messages

pytestmark = pytest.mark.timeout(300)  # starting real processes takes long where cores are shared
each_kind = pytest.mark.parametrize("kind", KINDS)

CONTEXT = 1024
TOKENIZER = byte_tokenizer()
ANSWER = "A LAMP"  # each capital letter is a token
STREAMING_ROLE = "STAFF"  # of a user whose usage no other test changes
CACHED_TOKENS = 2  # of each prompt, as the fakes report
MESSAGES = [{"role": "user", "content": "HELLO"}]
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": WEATHER}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "OSLO"}}\n</tool_call>'
SCHEMA = {"type": "object", "properties": {"city": {"const": "OSLO"}}}


class ServedEngines(NamedTuple):
    """A server whose models run on the engine that their id ends with."""

    stoa: RunningServer
    engines: Engines

    def post(self, path: str, kind: str, body: dict[str, Any]) -> httpx2.Response:
        return self.stoa.post(path, {"model": f"on-{kind}", **body})

    def say(self, kind: str, text: str, verb: str = "says") -> int:
        """Let the engine answer with this text. Return its number of tokens, with the one that ends it."""
        ids = TOKENIZER.encode(text, add_special_tokens=False)
        self.engines.behave(kind, f"{verb} {json.dumps(ids)}")
        return len(ids) + 1

    def prompt_tokens(self, kind: str) -> int:
        """Return the number of tokens of the last prompt that the engine got."""
        body = self.engines.requests(kind)[-1]
        return len(body.get("input_ids") or body["prompt"])


@pytest.fixture(scope="module")
def served() -> Iterator[ServedEngines]:
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        config = causal_config("llama", len(TOKENIZER))
        config.max_position_embeddings = CONTEXT
        model = save_config(home / "model", config, TOKENIZER)
        engines = Engines(home / "engines", model, save_gguf(model, home / "model.gguf"))
        for kind in KINDS:
            (home / "models" / f"on-{kind}").mkdir(parents=True)
            for file in [engines.model(kind)] if kind == "llama.cpp" else model.iterdir():
                (home / "models" / f"on-{kind}" / file.name).hardlink_to(file)
        with (
            running_host(partial(start_host, engines.root)) as host,
            running_server(home, host.run_dir, home / "models", load=[]) as stoa,
        ):
            for kind in KINDS:
                loaded = stoa.post(f"/models/on-{kind}/load", {"engine": kind, "max_sequences": 4})
                assert loaded.status_code == 200, loaded.text
            yield ServedEngines(stoa, engines)


@pytest.fixture(scope="module")
def worker(served: ServedEngines) -> Iterator[workers.RunningWorker]:
    with workers.running_worker(served.stoa) as worker:
        yield worker


class Answer(NamedTuple):
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


def events_of(response: httpx2.Response) -> list[Any]:
    """Return the data of server-sent events, or the lines of Ollama's streams."""
    assert response.status_code == 200, response.text
    lines = response.text.splitlines()
    if not response.headers["content-type"].startswith("text/event-stream"):
        return [json.loads(line) for line in lines]
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]


def openai_answer(text: str, finish_reason: str, usage: dict[str, Any]) -> Answer:
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return Answer(text, finish_reason, usage["prompt_tokens"], usage["completion_tokens"], cached)


def native(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = served.post("/inference", kind, {"prompt": "HELLO", **limit}).json()
    (choice,) = body["choices"]
    return openai_answer(choice["text"], choice["finish_reason"], body["usage"])


def native_stream(served: ServedEngines, kind: str, **limit: int) -> Answer:
    """Return an answer with the usage that was counted for the user, since the stream has none."""
    before = user_usage(served)
    body = {"model": f"on-{kind}", "prompt": "HELLO", **limit}
    *tokens, last = events_of(served.stoa.post("/inference/stream", body, STREAMING_ROLE))
    assert last["done"] is True
    deadline = time.monotonic() + 30
    while (now := user_usage(served)) == before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    text = "".join(one["token"] for one in tokens)
    return Answer(text, last["finish_reason"], now[0] - before[0], now[1] - before[1], CACHED_TOKENS)


def user_usage(served: ServedEngines) -> tuple[int, int]:
    total = served.stoa.get("/usage", STREAMING_ROLE).json()["total"]
    return total["prompt_tokens"], total["completion_tokens"]


def websocket(served: ServedEngines, kind: str, **limit: int) -> Answer:
    async def converse() -> list[dict[str, Any]]:
        async with authenticated_websocket(served.stoa) as client:
            message = {"type": "inference", "id": "a", "model": f"on-{kind}", "prompt": "HELLO", **limit}
            await send_messages(client, message)
            return await receive_until(client, "complete", "error")

    *tokens, last = asyncio.run(converse())
    return openai_answer("".join(one["token"] for one in tokens), last["finish_reason"], last["usage"])


def chat(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = served.post("/v1/chat/completions", kind, {"messages": MESSAGES, **limit}).json()
    (choice,) = body["choices"]
    return openai_answer(choice["message"]["content"], choice["finish_reason"], body["usage"])


def chat_stream(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}, **limit}
    *chunks, last = events_of(served.post("/v1/chat/completions", kind, body))
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    return openai_answer(text, chunks[-1]["choices"][0]["finish_reason"], last["usage"])


def completion(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = served.post("/v1/completions", kind, {"prompt": "HELLO", **limit}).json()
    (choice,) = body["choices"]
    return openai_answer(choice["text"], choice["finish_reason"], body["usage"])


def completion_stream(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = {"prompt": "HELLO", "stream": True, "stream_options": {"include_usage": True}, **limit}
    *chunks, last = events_of(served.post("/v1/completions", kind, body))
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    return openai_answer(text, chunks[-1]["choices"][0]["finish_reason"], last["usage"])


def response_answer(body: dict[str, Any]) -> Answer:
    (message,) = body["output"]
    text, usage = message["content"][0]["text"], body["usage"]
    reason = (body["incomplete_details"] or {}).get("reason", "stop")
    cached = usage["input_tokens_details"]["cached_tokens"]
    return Answer(text, reason, usage["input_tokens"], usage["output_tokens"], cached)


def renamed(limit: dict[str, int], name: str) -> dict[str, int]:
    return {name: limit["max_tokens"]} if limit else {}


def response(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = {"input": "HELLO", "store": False, **renamed(limit, "max_output_tokens")}
    return response_answer(served.post("/v1/responses", kind, body).json())


def response_stream(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = {"input": "HELLO", "store": False, "stream": True, **renamed(limit, "max_output_tokens")}
    events = events_of(served.post("/v1/responses", kind, body))
    answer = response_answer(events[-1]["response"])
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == answer.text
    return answer


def message_answer(text: str, reason: str, usage: dict[str, Any]) -> Answer:
    prompt_tokens = usage["input_tokens"] + usage["cache_read_input_tokens"]  # Anthropic's count is without these
    return Answer(text, reason, prompt_tokens, usage["output_tokens"], usage["cache_read_input_tokens"])


def message(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = served.post("/v1/messages", kind, {"messages": MESSAGES, "max_tokens": 50, **limit}).json()
    return message_answer(body["content"][0]["text"], body["stop_reason"], body["usage"])


def message_stream(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = {"messages": MESSAGES, "max_tokens": 50, "stream": True, **limit}
    events = events_of(served.post("/v1/messages", kind, body))
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    end = events[-2]
    return message_answer(text, end["delta"]["stop_reason"], end["usage"])


def ollama(served: ServedEngines, kind: str, **limit: int) -> Answer:
    body = {"messages": MESSAGES, "options": renamed(limit, "num_predict")}
    *chunks, last = events_of(served.post("/api/chat", kind, body))
    text = "".join(chunk["message"]["content"] for chunk in [*chunks, last])
    return Answer(text, last["done_reason"], last["prompt_eval_count"], last["eval_count"], CACHED_TOKENS)


API = Callable[..., Answer]
# Its words for an answer that ended, and for one that max_tokens cut.
APIS: dict[API, tuple[str, str]] = {
    native: ("stop", "length"),
    native_stream: ("stop", "length"),
    websocket: ("stop", "length"),
    chat: ("stop", "length"),
    chat_stream: ("stop", "length"),
    completion: ("stop", "length"),
    completion_stream: ("stop", "length"),
    response: ("stop", "max_output_tokens"),
    response_stream: ("stop", "max_output_tokens"),
    message: ("end_turn", "max_tokens"),
    message_stream: ("end_turn", "max_tokens"),
    ollama: ("stop", "length"),
}


@each_kind
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_every_api_returns_the_engines_text_and_usage(served: ServedEngines, kind: str, api: API):
    ended, cut = APIS[api]
    tokens = served.say(kind, ANSWER)
    answer = api(served, kind)
    assert answer == (ANSWER, ended, served.prompt_tokens(kind), tokens, CACHED_TOKENS)
    answer = api(served, kind, max_tokens=2)
    assert answer == ("A ", cut, served.prompt_tokens(kind), 2, CACHED_TOKENS)


@each_kind
def test_choices_stop_sequences_and_log_probabilities(served: ServedEngines, kind: str):
    tokens = served.say(kind, ANSWER)
    several = served.post("/v1/chat/completions", kind, {"messages": MESSAGES, "n": 3}).json()
    assert [(one["index"], one["message"]["content"]) for one in several["choices"]] == [
        (place, ANSWER) for place in range(3)
    ]
    assert several["usage"]["completion_tokens"] == 3 * tokens

    stopped = served.post("/v1/chat/completions", kind, {"messages": MESSAGES, "stop": ["AM"]}).json()
    assert stopped["choices"][0]["message"]["content"] == "A L"
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] == 5  # those that the engine made until then

    ranked = served.post("/v1/chat/completions", kind, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 1})
    content = ranked.json()["choices"][0]["logprobs"]["content"]
    assert "".join(one["token"] for one in content) == ANSWER
    assert {(one["logprob"], len(one["top_logprobs"])) for one in content} == {(-0.5, 1)}
    legacy = served.post("/v1/completions", kind, {"prompt": ["HELLO", "HI"], "n": 2, "logprobs": 1}).json()
    assert [(one["index"], one["text"]) for one in legacy["choices"]] == [(place, ANSWER) for place in range(4)]
    assert {"".join(one["logprobs"]["tokens"]) for one in legacy["choices"]} == {ANSWER}
    assert legacy["usage"]["completion_tokens"] == 4 * tokens


@each_kind
def test_a_stored_response_is_continued_in_the_background(
    served: ServedEngines, worker: workers.RunningWorker, kind: str
):
    tokens = served.say(kind, ANSWER)
    first = served.post("/v1/responses", kind, {"input": "HELLO"}).json()
    body = {"input": "MORE", "previous_response_id": first["id"], "background": True}
    queued = served.post("/v1/responses", kind, body).json()
    deadline = time.monotonic() + 60
    while (now := served.stoa.get(f"/v1/responses/{queued['id']}").json())["status"] in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert now["status"] == "completed"
    assert response_answer(now) == (ANSWER, "stop", served.prompt_tokens(kind), tokens, CACHED_TOKENS)
    assert now["usage"]["input_tokens"] > first["usage"]["input_tokens"]


@each_kind
def test_tool_calls_that_the_model_chooses(served: ServedEngines, kind: str):
    tokens = served.say(kind, CALL)
    body = {"messages": MESSAGES, "tools": TOOLS}
    answer = served.post("/v1/chat/completions", kind, body).json()
    (choice,) = answer["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "OSLO"}'}
    assert choice["finish_reason"] == "tool_calls"
    assert answer["usage"]["completion_tokens"] == tokens

    *chunks, end = events_of(served.post("/v1/chat/completions", kind, body | {"stream": True}))
    deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert "".join(delta["function"].get("arguments", "") for delta in deltas) == '{"city": "OSLO"}'
    assert end["choices"][0]["finish_reason"] == "tool_calls"

    body = {"input": "HELLO", "store": False, "tools": [{"type": "function", **WEATHER}]}
    (item,) = served.post("/v1/responses", kind, body).json()["output"]
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "weather", '{"city": "OSLO"}')
    tools = [{"name": "weather", "input_schema": WEATHER["parameters"]}]
    answer = served.post("/v1/messages", kind, {"messages": MESSAGES, "max_tokens": 99, "tools": tools}).json()
    (block,) = answer["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "weather", {"city": "OSLO"})
    assert answer["stop_reason"] == "tool_use"


@each_kind
def test_a_tool_call_that_the_model_does_not_complete_is_text(served: ServedEngines, kind: str):
    text = '<tool_call>\n{"name": "weather"}\n</tool_call>'  # a grammar would not have allowed it
    served.say(kind, text)
    body = {"messages": MESSAGES, "tools": TOOLS}
    (choice,) = served.post("/v1/chat/completions", kind, body).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")


@each_kind
def test_an_answer_that_a_limit_of_the_engine_cuts_is_whole_until_there(served: ServedEngines, kind: str):
    text = "A LAMP <tool_"  # its end is held back, as it may begin a call
    tokens = served.say(kind, text, "cut") - 1
    answer = served.post("/v1/chat/completions", kind, {"messages": MESSAGES, "tools": TOOLS}).json()
    (choice,) = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "length")
    assert answer["usage"]["completion_tokens"] == tokens


@each_kind
def test_a_schema_reaches_the_engine(served: ServedEngines, kind: str):
    text = '{"city": "OSLO"}'
    served.say(kind, text)
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
    answer = served.post("/v1/chat/completions", kind, {"messages": MESSAGES, "response_format": form}).json()
    assert answer["choices"][0]["message"]["content"] == text
    assert "OSLO" in json.dumps(served.engines.requests(kind)[-1])
    text_format = {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA}}
    answer = served.post("/v1/responses", kind, {"input": "HELLO", "store": False, "text": text_format}).json()
    assert answer["output"][0]["content"][0]["text"] == text
    assert "OSLO" in json.dumps(served.engines.requests(kind)[-1])


@each_kind
def test_tokens_are_counted_as_the_engine_counts_them(served: ServedEngines, kind: str):
    served.say(kind, ANSWER)
    chat(served, kind)
    counted = served.post("/v1/messages/count_tokens", kind, {"messages": MESSAGES}).json()
    assert counted == {"input_tokens": served.prompt_tokens(kind)}
    counted = served.post("/tokenize", kind, {"messages": MESSAGES}).json()
    assert counted["count"] == served.prompt_tokens(kind)


OTHERS_WITH_REGEX = "stoa or vllm or sglang"
FORCED_CALL = {"messages": MESSAGES, "tools": TOOLS, "tool_choice": "required"}
# Path, body, the parameter that is refused, the engines of which it is refused, and those that the error names.
REFUSED: list[tuple[str, dict[str, Any], str, tuple[str, ...], str]] = [
    ("/v1/chat/completions", FORCED_CALL, "tool_choice", KINDS, "stoa"),
    ("/v1/chat/completions", FORCED_CALL | {"stream": True}, "tool_choice", KINDS, "stoa"),
    (
        "/v1/chat/completions",
        {"messages": MESSAGES, "tools": TOOLS, "parallel_tool_calls": False},
        "parallel_tool_calls",
        KINDS,
        "stoa",
    ),
    ("/v1/completions", {"prompt": "HELLO", "echo": True, "logprobs": 1}, "echo", KINDS, "stoa"),
    ("/v1/completions", {"prompt": "HELLO", "grammar": 'root ::= "x"'}, "grammar", KINDS, "stoa"),
    ("/v1/completions", {"prompt": "HELLO", "guided_regex": "a+"}, "guided_regex", ("llama.cpp",), OTHERS_WITH_REGEX),
    ("/v1/completions", {"prompt": "HELLO", "min_tokens": 3}, "min_tokens", ("llama.cpp",), OTHERS_WITH_REGEX),
    (
        "/v1/chat/completions",
        {"messages": MESSAGES, "response_format": {"type": "json_object"}},
        "response_format",
        ("sglang",),
        "stoa or vllm or llama.cpp",
    ),
    (
        "/v1/responses",
        {"input": "HELLO", "store": False, "tools": [{"type": "function", **WEATHER}], "tool_choice": "required"},
        "tool_choice",
        KINDS,
        "stoa",
    ),
    (
        "/v1/messages",
        {
            "messages": MESSAGES,
            "max_tokens": 9,
            "tools": [{"name": "weather", "input_schema": WEATHER["parameters"]}],
            "tool_choice": {"type": "any"},
        },
        "tool_choice",
        KINDS,
        "stoa",
    ),
    (
        "/v1/decisions",
        {"input": "HELLO", "questions": [{"type": "predicate", "instructions": "It greets."}]},
        "questions",
        KINDS,
        "stoa",
    ),
    ("/inference", {"prompt": "HELLO", "grammar": 'root ::= "x"'}, "grammar", KINDS, "stoa"),
    ("/inference/stream", {"prompt": "HELLO", "regex": "a+"}, "regex", ("llama.cpp",), OTHERS_WITH_REGEX),
]


@pytest.mark.parametrize(
    ("path", "body", "parameter", "kind", "able"),
    [(path, body, name, kind, able) for path, body, name, kinds, able in REFUSED for kind in kinds],
)
def test_what_an_engine_lacks_is_400_with_the_engines_that_have_it(
    served: ServedEngines, path: str, body: dict[str, Any], parameter: str, kind: str, able: str
):
    sent = served.engines.folder(kind) / "requests.jsonl"
    before = sent.read_text() if sent.exists() else ""
    refused = served.post(path, kind, body)
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert error["message"].startswith(f"This model runs on {kind}, which has no ")
    assert error["message"].endswith(f"Load it with `engine` {able}.")
    if "param" in error:  # in OpenAI's form
        assert error["param"] == parameter
    assert (sent.read_text() if sent.exists() else "") == before  # the engine was not asked


@each_kind
async def test_a_websocket_gets_the_same_error(served: ServedEngines, kind: str):
    message = {"type": "inference", "id": "a", "model": f"on-{kind}", "prompt": "HELLO", "grammar": 'root ::= "x"'}
    async with authenticated_websocket(served.stoa) as client:
        await send_messages(client, message)
        (refused,) = await receive_until(client, "complete", "error")
    assert refused["code"] == "INVALID_REQUEST"
    assert refused["message"].endswith("Load it with `engine` stoa.")


@each_kind
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "HELLO"}),
        ("/embeddings", {"input": "HELLO"}),
        ("/rerank", {"query": "HELLO", "documents": ["A"]}),
    ],
)
def test_a_model_that_makes_text_makes_no_vectors(served: ServedEngines, kind: str, path: str, body: dict[str, Any]):
    refused = served.post(path, kind, body)
    assert refused.status_code == 400, refused.text
    assert f"on-{kind}" in refused.json()["error"]["message"]


@each_kind
@pytest.mark.parametrize("path", ["/inference/stream", "/v1/chat/completions", "/v1/responses", "/v1/messages"])
async def test_a_client_that_hangs_up_frees_its_place(served: ServedEngines, kind: str, path: str):
    served.engines.behave(kind, "talks")
    prompt = {"/inference/stream": {"prompt": "HELLO"}, "/v1/responses": {"input": "HELLO", "store": False}}
    body = {"model": f"on-{kind}", "stream": True} | prompt.get(path, {"messages": MESSAGES})
    body |= {"max_tokens": 900} if path == "/v1/messages" else {}
    body.pop("stream") if path == "/inference/stream" else None
    before = served.engines.hang_ups(kind)
    async with served.stoa.client() as client, client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200
        await anext(answer.aiter_lines())
    await eventually(lambda: served.engines.hang_ups(kind) == before + 1)
    await eventually_idle(served.stoa.engine, f"on-{kind}")
    await served.stoa.engine.close()


@each_kind
@pytest.mark.parametrize("path", ["/inference", "/v1/chat/completions"])
async def test_a_client_that_waits_no_longer_frees_its_place(served: ServedEngines, kind: str, path: str):
    served.engines.behave(kind, "talks")
    before, asked = served.engines.hang_ups(kind), len(served.engines.requests(kind))
    prompt = {"prompt": "HELLO"} if path == "/inference" else {"messages": MESSAGES}
    body = {"model": f"on-{kind}", "max_tokens": 900} | prompt
    async with served.stoa.client() as client:
        waiting = asyncio.create_task(client.post(path, json=body))
        await eventually(lambda: len(served.engines.requests(kind)) == asked + 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await eventually(lambda: served.engines.hang_ups(kind) == before + 1)


@each_kind
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_websocket_that_cancels_or_closes_frees_its_place(served: ServedEngines, kind: str, leaves: bool):
    served.engines.behave(kind, "talks")
    before = served.engines.hang_ups(kind)
    message = {"type": "inference", "id": "a", "model": f"on-{kind}", "prompt": "HELLO", "max_tokens": 900}
    async with authenticated_websocket(served.stoa) as client:
        await send_messages(client, message)
        await receive_until(client, "token")
        if not leaves:
            await send_messages(client, {"type": "cancel", "id": "a"})
            end = (await receive_until(client, "complete", "error"))[-1]
            assert end["finish_reason"] == "cancelled"
    await eventually(lambda: served.engines.hang_ups(kind) == before + 1)


@each_kind
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/inference", {"prompt": "HELLO"}),
        ("/v1/chat/completions", {"messages": MESSAGES}),
        ("/v1/completions", {"prompt": "HELLO"}),
        ("/v1/responses", {"input": "HELLO", "store": False}),
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}),
        ("/api/chat", {"messages": MESSAGES, "stream": False}),
    ],
)
def test_an_answer_that_breaks_off_is_an_error_and_no_text(
    served: ServedEngines, kind: str, path: str, body: dict[str, Any]
):
    served.engines.behave(kind, "breaks off")
    failed = served.post(path, kind, body)
    assert failed.status_code == 500, failed.text
    assert f"{kind} ended the answer without its last token. Try again." in failed.text
    streamed = served.post("/inference/stream" if path == "/inference" else path, kind, body | {"stream": True})
    assert "without its last token" in streamed.text
    assert "[DONE]" not in streamed.text


@each_kind
def test_batches_have_the_engines_texts_and_usage(served: ServedEngines, worker: workers.RunningWorker, kind: str):
    tokens = served.say(kind, ANSWER)
    batch_id = workers.submit_batch(served.stoa, "HELLO", "HELLO", model=f"on-{kind}", max_tokens=50)
    batch = workers.wait_until_ended(served.stoa, batch_id)
    assert (batch["status"], batch["completed"]) == ("completed", 2)
    results = workers.get_results(served.stoa, batch_id)
    assert [result["choices"][0]["text"] for result in results] == [ANSWER] * 2
    assert batch["usage"]["prompt_tokens"] == 2 * served.prompt_tokens(kind)
    assert batch["usage"]["completion_tokens"] == 2 * tokens

    served.say(kind, ANSWER, "cut")  # by a limit of the engine
    batch_id = workers.submit_batch(served.stoa, "HELLO", model=f"on-{kind}", max_tokens=50)
    workers.wait_until_ended(served.stoa, batch_id)
    (result,) = workers.get_results(served.stoa, batch_id)
    assert result["choices"] == [{"text": ANSWER, "index": 0, "finish_reason": "length"}]


@each_kind
def test_a_batch_file_has_answers_and_the_errors_of_what_an_engine_lacks(
    served: ServedEngines, worker: workers.RunningWorker, kind: str
):
    tokens = served.say(kind, ANSWER)
    bodies: list[dict[str, Any]] = [
        {"model": f"on-{kind}", "max_tokens": 50, "messages": MESSAGES},
        {"model": f"on-{kind}", "max_tokens": 50, **FORCED_CALL},
    ]
    batch = clients.wait_until_ended(served.stoa, clients.create_batch(served.stoa, clients.CHAT, bodies)["id"])
    (line,) = clients.download_lines(served.stoa, batch["output_file_id"])
    body = line["response"]["body"]
    assert body["choices"][0]["message"]["content"] == ANSWER
    assert body["usage"]["completion_tokens"] == tokens
    (line,) = clients.download_lines(served.stoa, batch["error_file_id"])
    assert line["response"]["status_code"] == 400
    assert line["response"]["body"]["error"]["message"].endswith("Load it with `engine` stoa.")
