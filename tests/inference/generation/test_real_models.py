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


async def test_r4_six_hundred_concurrent_requests_succeed_with_two_retries(real: RunningServer):
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
            assert set(await asyncio.gather(*(ask() for _ in range(600)))) <= {"length", "stop"}
        finally:
            real.post("/models/tiny/load", {"context_size": CONTEXT})
    assert statuses[200] == 601
    assert statuses[503] > 200


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


def test_a_context_above_the_models_limit_is_rejected_and_gpu_layers_run_on_the_cpu(real: RunningServer):
    assert real.post("/models/tiny/load", {"context_size": CONTEXT + 1}).status_code == 400

    loaded = real.post("/models/tiny/load", {"gpu_layers": 2, "context_size": CONTEXT}).json()
    assert (loaded["gpu_layers"], loaded["device"]) == (0, "cpu")
    assert "CPU" in loaded["warning"]


async def test_m6_a_model_killed_during_a_stream_ends_it_with_an_error_and_restarts(real: RunningServer):
    pid = await real.pid("tiny")
    async with real.client() as client:
        async with client.stream("POST", "/inference/stream", json=LONG) as answer:
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
