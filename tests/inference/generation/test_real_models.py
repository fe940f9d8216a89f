"""Requests over HTTP to real models with random weights, through the model host and the engine."""

import asyncio
import json
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import openai
import pytest

from tests.inference.engine.processes import eventually_idle, process_exists
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config, save_encoder
from tests.inference.running_server import RunningServer, run_manage, running_server

pytestmark = pytest.mark.timeout(300)  # starting real models takes long where cores are shared

BODY = {"model": "tiny", "prompt": "the quick", "max_tokens": 40, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
CONTEXT = 2048
LONG = BODY | {"max_tokens": 2000, "temperature": 0, "repeat_penalty": 1.0}  # greedy, it goes round and round


@pytest.fixture(scope="module")
def real() -> Iterator[RunningServer]:
    """A server that starts its own model host, with a causal model and an encoder."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        tokenizer = byte_tokenizer()
        config = causal_config("llama", len(tokenizer))
        config.max_position_embeddings = CONTEXT
        save_config(home / "models" / "tiny", config, tokenizer)
        save_encoder(home / "models" / "encoder")
        with running_server(home, home / "run", home / "models", load=["tiny", "encoder"]) as stoa:
            yield stoa


@pytest.fixture(scope="module")
def client(real: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{real.url}/v1", api_key=real.keys["STAFF"], max_retries=0, _strict_response_validation=True
    )


def test_a_conversation_goes_on_after_a_tool_call_that_max_tokens_cut(client: openai.OpenAI):
    call = {
        "type": "function",
        "function": {"name": "order", "parameters": {"properties": {"note": {"minLength": 60}}}},
    }
    call["function"]["parameters"]["properties"]["note"]["type"] = "string"
    call["function"]["parameters"] |= {"type": "object", "required": ["note"]}
    messages = [{"role": "user", "content": "Order a lamp."}]
    cut = client.chat.completions.create(
        model="tiny", messages=messages, tools=[call], tool_choice="required", max_tokens=70, seed=3
    ).choices[0]
    [first] = cut.message.tool_calls
    with pytest.raises(json.JSONDecodeError):
        json.loads(first.function.arguments)
    assert cut.finish_reason == "length"

    messages += [
        cut.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": first.id, "content": "The arguments are incomplete."},
    ]
    answer = client.chat.completions.create(model="tiny", messages=messages, tools=[call], max_tokens=5, seed=3)
    assert answer.choices[0].finish_reason in ("length", "stop")


def test_a_prompt_is_scored_without_a_generated_token(real: RunningServer):
    # The client's strict mode refuses the null of a prompt's first token, which OpenAI returns too.
    client = openai.OpenAI(base_url=f"{real.url}/v1", api_key=real.keys["STAFF"], max_retries=0)
    prompt = "the quick"
    answer = client.completions.create(model="tiny", prompt=prompt, max_tokens=0, echo=True, logprobs=1)
    longer = client.completions.create(model="tiny", prompt=prompt, max_tokens=1, echo=True, logprobs=1)

    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (prompt, "length")
    assert "".join(answer.choices[0].logprobs.tokens) == prompt
    assert answer.choices[0].logprobs.token_logprobs == longer.choices[0].logprobs.token_logprobs[:-1]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (longer.usage.prompt_tokens, 0)


@pytest.mark.parametrize(
    "constraint",
    [
        {"guided_choice": ["oak", "brass"]},
        {"guided_regex": "oak|brass"},
        {"grammar": 'root ::= "oak" | "brass"'},
        {"structured_outputs": {"choice": ["oak", "brass"]}},
    ],
    ids=lambda constraint: next(iter(constraint)),
)
def test_a_constraint_of_vllm_or_llama_cpp_is_followed(client: openai.OpenAI, constraint: dict[str, object]):
    answer = client.completions.create(model="tiny", prompt="made of ", extra_body=constraint)
    assert answer.choices[0].text in ("oak", "brass")


@pytest.mark.parametrize("field", ["guided_grammar", "guided_json", "guided_regex"])
def test_an_error_names_a_constraint_as_the_client_did(client: openai.OpenAI, field: str):
    with pytest.raises(openai.BadRequestError, match=f"`{field}`") as refused:
        client.completions.create(model="tiny", prompt="a", extra_body={field: "root ::= ("})
    assert refused.value.param == field


@pytest.mark.parametrize(
    "constraint",
    [
        {"grammar": "root ::= " + " | ".join(f'"{number}"' for number in range(2_000))},
        {"grammar": "root ::= r0\n" + "\n".join(f"r{number} ::= r{number + 1}" for number in range(3_000))},
        {"guided_json": {"type": "string", "allOf": [{"pattern": f"a{{{number}}}"} for number in range(20)]}},
    ],
    ids=["alternatives", "rules", "patterns"],
)
def test_an_absurdly_large_constraint_is_rejected_with_its_limit(client: openai.OpenAI, constraint: dict[str, object]):
    with pytest.raises(openai.BadRequestError, match=r"(at most|max is) \d+"):
        client.completions.create(model="tiny", prompt="a", extra_body=constraint)
    assert client.completions.create(model="tiny", prompt="a", max_tokens=1).choices


def test_a_context_error_has_openais_words(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="tiny", prompt="fox", max_tokens=CONTEXT)
    assert refused.value.code == "context_length_exceeded"
    prompt_tokens = client.completions.create(model="tiny", prompt="fox", max_tokens=1).usage.prompt_tokens
    assert refused.value.body["message"] == (
        f"This model's maximum context length is {CONTEXT} tokens. However, you requested {CONTEXT + prompt_tokens} "
        f"tokens ({prompt_tokens} in the prompt, {CONTEXT} for the completion). Shorten the prompt or lower max_tokens."
    )


def test_two_thousand_texts_are_embedded_at_once(client: openai.OpenAI):
    texts = [f"lamp {number}" for number in range(2048)]
    vectors = client.embeddings.create(model="encoder", input=texts, encoding_format="float").data
    last = client.embeddings.create(model="encoder", input=texts[-1], encoding_format="float").data[0]
    assert [vector.index for vector in vectors] == list(range(2048))
    assert vectors[-1].embedding == pytest.approx(last.embedding, abs=1e-4)


def test_a_load_with_the_contracts_defaults_succeeds_with_the_values_in_effect(real: RunningServer):
    defaults = {"gpu_layers": 0, "context_size": 2048, "batch_size": 512}
    loaded = real.post("/models/encoder/load", defaults)
    assert loaded.status_code == 200, loaded.text
    body = loaded.json()
    assert body["context_size"] < 2048
    assert body["warning"] == f"context_size 2048 is above the model's limit: {body['context_size']} is used."
    assert real.post("/models/encoder/load", {}).status_code == 200


def text_of(stream: str) -> str:
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    assert events[-1]["done"] is True
    assert [event["index"] for event in events[:-1]] == list(range(len(events) - 1))
    return "".join(event["token"] for event in events[:-1])


def test_a_joined_stream_equals_the_whole_text(real: RunningServer):
    whole = real.post("/inference", BODY | {"seed": 5}).json()["choices"][0]["text"]

    assert text_of(real.post("/inference/stream", BODY | {"seed": 5}).text) == whole
    assert whole


async def test_sixteen_concurrent_streams_have_the_texts_of_single_ones(real: RunningServer):
    async with real.client() as client:

        async def stream(seed: int) -> str:
            return text_of((await client.post("/inference/stream", json=BODY | {"seed": seed})).text)

        alone = [await stream(seed) for seed in range(16)]
        together = await asyncio.gather(*map(stream, range(16)))

    assert list(together) == alone
    assert len(set(alone)) == 16


async def test_s2_a_disconnected_client_frees_its_slot(real: RunningServer):
    for _ in range(5):
        async with real.client() as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
            await anext(answer.aiter_lines())
    await eventually_idle(real.engine, "tiny", seconds=10)
    await real.engine.close()


def test_a_prompt_above_the_context_is_rejected_with_its_token_counts(real: RunningServer):
    answer = real.post("/inference", BODY | {"prompt": "fox " * 3000})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "CONTEXT_LENGTH_EXCEEDED"
    details = answer.json()["error"]["details"]
    assert (details["context_size"], details["max_tokens"]) == (CONTEXT, 40)
    assert details["prompt_tokens"] >= 3000


LONG_TEXT = "fox " * (9 * 2**18)
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": LONG_TEXT}], "stream": True}
TOO_LONG: list[tuple[str, dict[str, object], str]] = [
    ("/inference", {"model": "tiny", "prompt": LONG_TEXT}, "CONTEXT_LENGTH_EXCEEDED"),
    ("/v1/chat/completions", CHAT, "context_length_exceeded"),
    ("/v1/completions", {"model": "tiny", "prompt": [7] * 240_000}, "context_length_exceeded"),
    ("/v1/completions", {"model": "tiny", "prompt": [7] * (9 * 2**19)}, "invalid_request"),
    ("/v1/embeddings", {"model": "encoder", "input": LONG_TEXT}, "context_length_exceeded"),
]


@pytest.mark.parametrize(("path", "body", "code"), TOO_LONG, ids=[f"{path} {code}" for path, _, code in TOO_LONG])
async def test_m8_a_prompt_of_nine_mebibytes_is_rejected_without_delaying_others(
    real: RunningServer, path: str, body: dict[str, object], code: str
):
    content, headers = json.dumps(body, separators=(",", ":")).encode(), {"Content-Type": "application/json"}
    async with real.client() as client:
        began = time.monotonic()
        asking = asyncio.create_task(client.post(path, content=content, headers=headers))
        others = [await seconds_of_health(client) for _ in range(20)]
        answer = await asking
        took = time.monotonic() - began
    print(f"{path}: {took * 1000:.0f} ms; /health meanwhile at most {max(others) * 1000:.0f} ms")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert took < 10
    assert max(others) < 1


def test_m8_a_body_of_fifty_megabytes_is_413(real: RunningServer):
    answer = real.post("/inference", BODY | {"prompt": "x" * 50_000_000})

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "INVALID_REQUEST")


async def seconds_of_health(client: httpx2.AsyncClient) -> float:
    began = time.monotonic()
    assert (await client.get("/health")).status_code == 200
    return time.monotonic() - began


async def test_r5_a_hundred_streams_of_one_user_hardly_delay_another_user(real: RunningServer):
    everybody = httpx2.Limits(max_connections=None)
    crowd = httpx2.AsyncClient(base_url=real.url, headers=real.headers("STAFF"), limits=everybody, timeout=60)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(real.client())
        alone = [await seconds_to_first_token(client) for _ in range(5)]
        await stack.enter_async_context(crowd)
        streams = [
            crowd.send(crowd.build_request("POST", "/inference/stream", json=LONG), stream=True) for _ in range(100)
        ]
        opening = asyncio.gather(*streams)
        async with asyncio.timeout(60):
            while (await real.engine.stats("tiny")).waiting < 60:  # noqa: ASYNC110 it is another process's
                await asyncio.sleep(0.01)
        beside = [await seconds_to_first_token(client) for _ in range(5)]
        opening.cancel()
    await eventually_idle(real.engine, "tiny", seconds=60)
    await real.engine.close()
    first, second = statistics.median(alone), statistics.median(beside)
    print(f"first token after {first * 1000:.0f} ms alone, {second * 1000:.0f} ms beside 100 streams")
    assert second < 30 * first


async def test_p5_four_hundred_questions_of_one_user_hardly_delay_another_user(real: RunningServer):
    questions = [{"type": "predicate", "instructions": f"It is lamp {number}."} for number in range(400)]
    body = {"model": "tiny", "input": "a warm lamp of brass " * 40, "questions": questions}
    crowd = httpx2.AsyncClient(base_url=real.url, headers=real.headers("STAFF"), timeout=120)
    beside: list[float] = []
    async with real.client() as client, crowd:
        alone = [await seconds_to_first_token(client) for _ in range(5)]
        asking = asyncio.create_task(crowd.post("/v1/decisions", json=body))
        while not asking.done():
            if (await real.engine.stats("tiny")).running:
                beside.append(await seconds_to_first_token(client))
            await asyncio.sleep(0.01)
        answer = await asking
    await real.engine.close()
    assert (answer.status_code, len(answer.json()["answers"])) == (200, 400)
    first, second = statistics.median(alone), statistics.median(beside)
    print(f"first token after {first * 1000:.0f} ms alone, {second * 1000:.0f} ms beside 400 questions")
    assert second < 30 * first


async def test_r4_hundreds_of_concurrent_requests_succeed_with_two_retries(real: RunningServer, whole: bool):
    count, refused = 600, 200 if whole else 30  # 256 may wait for the one slot
    real.post("/models/tiny/load", {"context_size": CONTEXT, "max_sequences": 1})
    statuses: Counter[int] = Counter()

    async def note(answer: httpx2.Response) -> None:
        statuses[answer.status_code] += 1

    everybody = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=None), event_hooks={"response": [note]})
    async with openai.AsyncOpenAI(
        base_url=f"{real.url}/v1", api_key=real.keys["SUPER_ADMIN"], max_retries=2, timeout=200, http_client=everybody
    ) as client:

        async def ask() -> str:
            answer = await client.completions.create(model="tiny", prompt="the quick", max_tokens=40)
            return answer.choices[0].finish_reason

        try:
            assert await ask() in ("length", "stop")
            assert set(await asyncio.gather(*(ask() for _ in range(count)))) <= {"length", "stop"}
        finally:
            real.post("/models/tiny/load", {"context_size": CONTEXT})
    assert statuses[200] == count + 1
    assert statuses[503] > refused


async def seconds_to_first_token(client: httpx2.AsyncClient) -> float:
    began = time.monotonic()
    async with client.stream("POST", "/inference/stream", json=BODY) as answer:
        await anext(answer.aiter_lines())
        return time.monotonic() - began


def test_a_request_that_the_model_does_not_support_is_rejected(real: RunningServer):
    assert real.post("/embeddings", {"model": "tiny", "input": "x"}).json()["error"]["code"] == "INVALID_REQUEST"
    assert real.post("/inference", BODY | {"model": "encoder"}).json()["error"]["code"] == "INVALID_REQUEST"


def test_embeddings_have_length_one(real: RunningServer):
    answer = real.post("/embeddings", {"model": "encoder", "input": ["a warm lamp", "the end"]})

    vectors = [item["embedding"] for item in answer.json()["data"]]
    assert [sum(number * number for number in vector) for vector in vectors] == pytest.approx([1, 1], abs=1e-5)
    assert answer.json()["usage"]["prompt_tokens"] > 2


def test_gpu_layers_run_on_the_cpu_without_a_gpu(real: RunningServer):
    loaded = real.post("/models/tiny/load", {"gpu_layers": 2, "context_size": CONTEXT}).json()
    assert (loaded["gpu_layers"], loaded["device"]) == (0, "cpu")
    assert "CPU" in loaded["warning"]


async def test_m6_a_model_killed_during_a_stream_ends_it_with_an_error_and_restarts(real: RunningServer):
    pid = await real.pid("tiny")
    async with real.client() as client:
        async with AsyncExitStack() as stack:  # beside others, it takes seconds on any machine
            for _ in range(16):
                answer = await stack.enter_async_context(client.stream("POST", "/inference/stream", json=LONG))
            lines = answer.aiter_lines()
            await anext(lines)
            os.kill(pid, signal.SIGKILL)
            last = [line async for line in lines if line][-1]
        deadline = time.monotonic() + 100
        while (await client.post("/inference", json=BODY)).status_code != 200:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
    await real.engine.close()

    assert json.loads(last[6:])["error"]["code"] == "INFERENCE_FAILED"
    assert await real.pid("tiny") != pid


def test_the_run_command_prints_the_text_of_the_service(real: RunningServer):
    options = ["--raw", "--seed", "5", "--max-tokens", "40", "--temperature", "1", "--top-p", "1", "--top-k", "0"]

    printed = run_manage(real.environment, "run", "tiny", "the quick", *options)

    whole = real.post("/inference", BODY | {"seed": 5}).json()["choices"][0]["text"]
    assert printed.stdout == whole + "\n"
    assert printed.stderr == ""


async def test_unload_ends_the_process(real: RunningServer):
    pid = await real.pid("encoder")

    assert real.post("/models/encoder/unload").json() == {"status": "unloaded", "model_id": "encoder"}

    assert not process_exists(pid)
    assert httpx2.get(f"{real.url}/health", timeout=60).json()["models_loaded"] == 1
    refused = real.post("/embeddings", {"model": "encoder", "input": "x"})
    assert refused.json()["error"]["code"] == "MODEL_NOT_LOADED"
