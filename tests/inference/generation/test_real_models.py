"""The whole way with real models of random weights: HTTP, model host, engine, and back."""

import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.inference.engine.processes import eventually_idle, process_exists
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config, save_encoder
from tests.inference.served import ServedStoa, run_manage, served_stoa

pytestmark = pytest.mark.timeout(300)  # starting real models takes long where cores are shared

BODY = {"model": "tiny", "prompt": "the quick", "max_tokens": 40, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
CONTEXT = 2048
LONG = BODY | {"max_tokens": 2000, "temperature": 0, "repeat_penalty": 1.0}  # greedy, it goes round and round


@pytest.fixture(scope="module")
def real() -> Iterator[ServedStoa]:
    """A server that starts its own model host, with a causal model and an encoder."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        tokenizer = byte_tokenizer()
        config = causal_config("llama", len(tokenizer))
        config.max_position_embeddings = CONTEXT
        save_config(home / "models" / "tiny", config, tokenizer)
        save_encoder(home / "models" / "encoder")
        with served_stoa(home, home / "run", home / "models", load=["tiny", "encoder"]) as stoa:
            yield stoa


def text_of(stream: str) -> str:
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    assert events[-1]["done"] is True
    assert [event["index"] for event in events[:-1]] == list(range(len(events) - 1))
    return "".join(event["token"] for event in events[:-1])


def test_a_joined_stream_equals_the_text_at_once(real: ServedStoa):
    whole = real.post("/inference", BODY | {"seed": 5}).json()["choices"][0]["text"]

    assert text_of(real.post("/inference/stream", BODY | {"seed": 5}).text) == whole
    assert whole


async def test_sixteen_streams_at_once_each_have_the_text_that_they_have_alone(real: ServedStoa):
    async with real.client() as client:

        async def stream(seed: int) -> str:
            return text_of((await client.post("/inference/stream", json=BODY | {"seed": seed})).text)

        alone = [await stream(seed) for seed in range(16)]
        together = await asyncio.gather(*map(stream, range(16)))

    assert list(together) == alone
    assert len(set(alone)) == 16


async def test_s2_a_client_that_leaves_frees_its_slot(real: ServedStoa):
    for _ in range(5):
        async with real.client() as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
            await anext(answer.aiter_lines())
    await eventually_idle(real.engine, "tiny", seconds=10)
    await real.engine.close()


def test_a_prompt_over_the_context_is_refused_with_its_numbers(real: ServedStoa):
    answer = real.post("/inference", BODY | {"prompt": "fox " * 3000})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "CONTEXT_LENGTH_EXCEEDED"
    details = answer.json()["error"]["details"]
    assert (details["context_size"], details["max_tokens"]) == (CONTEXT, 40)
    assert details["prompt_tokens"] >= 3000


def test_what_a_model_cannot_do_is_refused(real: ServedStoa):
    assert real.post("/embeddings", {"model": "tiny", "input": "x"}).json()["error"]["code"] == "INVALID_REQUEST"
    assert real.post("/inference", BODY | {"model": "encoder"}).json()["error"]["code"] == "INVALID_REQUEST"


def test_embeddings_have_length_one(real: ServedStoa):
    answer = real.post("/embeddings", {"model": "encoder", "input": ["a warm lamp", "the end"]})

    vectors = [item["embedding"] for item in answer.json()["data"]]
    assert [sum(number * number for number in vector) for vector in vectors] == pytest.approx([1, 1], abs=1e-5)
    assert answer.json()["usage"]["prompt_tokens"] > 2


def test_more_than_the_context_cannot_be_loaded_and_gpu_layers_run_on_the_cpu(real: ServedStoa):
    assert real.post("/models/tiny/load", {"context_size": CONTEXT + 1}).status_code == 400

    loaded = real.post("/models/tiny/load", {"gpu_layers": 2, "context_size": CONTEXT}).json()
    assert (loaded["gpu_layers"], loaded["device"]) == (0, "cpu")
    assert "CPU" in loaded["warning"]


async def test_m6_a_model_killed_in_mid_stream_ends_it_with_an_error_and_comes_back(real: ServedStoa):
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


def test_run_in_the_terminal_has_the_text_of_the_service(real: ServedStoa):
    options = ["--raw", "--seed", "5", "--max-tokens", "40", "--temperature", "1", "--top-p", "1", "--top-k", "0"]

    printed = run_manage(real.environment, "run", "tiny", "the quick", *options)

    whole = real.post("/inference", BODY | {"seed": 5}).json()["choices"][0]["text"]
    assert printed.stdout == whole + "\n"
    assert printed.stderr == ""


async def test_unload_ends_the_process(real: ServedStoa):
    pid = await real.pid("encoder")

    assert real.post("/models/encoder/unload").json() == {"status": "unloaded", "model_id": "encoder"}

    assert not process_exists(pid)
    assert httpx2.get(f"{real.url}/health", timeout=60).json()["models_loaded"] == 1
    refused = real.post("/embeddings", {"model": "encoder", "input": "x"})
    assert refused.json()["error"]["code"] == "MODEL_NOT_LOADED"
