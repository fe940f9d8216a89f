"""A store owner's first description from the built-in model, and the failures of the model process."""

import asyncio
import json
import os
import signal
import time

import httpx2
import psutil

from inference.engine import EngineClient, HostClient, ModelState
from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
PRODUCT = {"product_name": "Brunvale Teapot", "keywords": ["hand-glazed", "drip-free spout"]}
PROMPT = "The Brunvale Teapot is"


def describe(stoa: RunningStoa, token: str | None, **fields: object) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.post(
        f"{stoa.commerce_url}/api/generate-descriptions", json=PRODUCT | fields, headers=headers, timeout=60
    )


def generate(stoa: RunningStoa, **fields: object) -> httpx2.Response:
    body = {"model": MODEL, "prompt": PROMPT, "temperature": 0, "max_tokens": 30} | fields
    return httpx2.post(f"{stoa.inference_url}/inference", json=body, headers=stoa.headers(), timeout=60)


async def stream_text(stoa: RunningStoa, **fields: object) -> str:
    """Return the joined tokens of a stream that ended without an error."""
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 60} | fields
    async with (
        httpx2.AsyncClient(timeout=60, headers=stoa.headers()) as client,
        client.stream("POST", f"{stoa.inference_url}/inference/stream", json=body) as response,
    ):
        assert response.status_code == 200
        events = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]
    assert events[-1]["done"] is True
    assert [event["index"] for event in events[:-1]] == list(range(len(events) - 1))
    return "".join(event["token"] for event in events[:-1])


def test_a_store_owner_gets_a_description_of_a_product_outside_the_training_data(stoa: RunningStoa):
    response = describe(stoa, stoa.login("STORE_OWNER"))

    assert response.status_code == 200, response.text
    assert "Brunvale Teapot" in response.json()["description"]
    assert response.json()["result"] == response.json()["description"]


def test_a_customer_gets_403_and_an_anonymous_request_401(stoa: RunningStoa):
    assert describe(stoa, stoa.login("CUSTOMER")).status_code == 403
    assert describe(stoa, None).status_code == 401


def test_a_checked_description_streams_sentence_by_sentence(stoa: RunningStoa):
    response = describe(stoa, stoa.login("STAFF"), stream=True)

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    *pieces, end = [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line]
    assert end["done"]
    assert "".join(piece["text"] for piece in pieces) == end["description"]
    assert all(fact in end["description"] for fact in ("Brunvale Teapot", *PRODUCT["keywords"]))


def test_an_answer_to_a_free_prompt_streams_while_it_is_generated(stoa: RunningStoa):
    headers = {"Authorization": f"Bearer {stoa.login('STAFF')}"}
    body = {"prompt": "Describe the Brunvale Teapot.", "stream": True}
    response = httpx2.post(f"{stoa.commerce_url}/api/generate-descriptions", json=body, headers=headers, timeout=60)

    assert response.status_code == 200
    assert response.text.count("data: ") > 5


def test_a_token_of_one_project_works_in_the_other(stoa: RunningStoa):
    token = stoa.login("STORE_OWNER")

    response = httpx2.get(f"{stoa.inference_url}/models", headers={"Authorization": f"Bearer {token}"}, timeout=60)

    assert response.status_code == 200
    assert MODEL in [model["id"] for model in response.json()["models"]]


async def test_sixteen_concurrent_streams_return_the_same_texts_as_sequential_ones(stoa: RunningStoa):
    requests = [{"prompt": f"The Brunvale {noun} is", "seed": seed} for seed, noun in enumerate(["Teapot", "Lamp"] * 8)]
    alone = [await stream_text(stoa, **request) for request in requests]

    together = await asyncio.gather(*(stream_text(stoa, **request) for request in requests))

    assert together == alone
    assert len(set(alone)) > 8


async def test_s2_a_disconnect_frees_the_slot(stoa: RunningStoa):
    engine = EngineClient(stoa.run_dir)
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 900, "temperature": 2.0, "repeat_penalty": 2.0}
    async with httpx2.AsyncClient(timeout=60, headers=stoa.headers()) as client:
        for _ in range(10):
            async with client.stream("POST", f"{stoa.inference_url}/inference/stream", json=body) as response:
                async for _ in response.aiter_lines():
                    break
    for _ in range(50):
        if (await engine.stats(MODEL)).running == 0:
            break
        await asyncio.sleep(0.1)
    assert (await engine.stats(MODEL)).running == 0
    await engine.close()


async def test_m6_a_killed_model_process_ends_its_streams_with_an_error_and_restarts(stoa: RunningStoa):
    host = HostClient(stoa.run_dir)
    pid = next(model.pid for model in await host.models() if model.model_id == MODEL)
    assert pid is not None
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 900, "ignore_eos": True}
    events: list[dict[str, object]] = []
    async with (
        httpx2.AsyncClient(timeout=60, headers=stoa.headers()) as client,
        client.stream("POST", f"{stoa.inference_url}/inference/stream", json=body) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                if not events:
                    os.kill(pid, signal.SIGKILL)
                events.append(json.loads(line[6:]))

    assert events[-1]["error"]["code"] == "INFERENCE_FAILED"  # type: ignore[index]
    assert not any("done" in event for event in events)
    deadline = time.monotonic() + 60
    while (response := generate(stoa)).status_code != 200 and time.monotonic() < deadline:
        assert response.status_code == 503, response.text
        assert int(response.headers["Retry-After"]) > 0
        await asyncio.sleep(0.2)
    assert response.status_code == 200


async def test_unloading_ends_the_model_process_and_the_shop_returns_a_provider_error(stoa: RunningStoa):
    host = HostClient(stoa.run_dir)
    pid = next(model.pid for model in await host.models() if model.model_id == MODEL)
    assert pid is not None
    loaded = httpx2.get(f"{stoa.inference_url}/health", timeout=60).json()["models_loaded"]
    owner = stoa.login("STORE_OWNER")

    unloaded = httpx2.post(f"{stoa.inference_url}/models/{MODEL}/unload", headers=stoa.headers(), timeout=60)
    assert unloaded.json() == {"status": "unloaded", "model_id": MODEL}
    assert not psutil.pid_exists(pid)
    assert httpx2.get(f"{stoa.inference_url}/health", timeout=60).json()["models_loaded"] == loaded - 1
    assert generate(stoa).json()["error"]["code"] == "MODEL_NOT_LOADED"

    started = time.monotonic()
    response = describe(stoa, owner)
    assert response.status_code == 500
    assert response.json()["code"] == "ai_provider_error"
    assert time.monotonic() - started < 20
    assert (
        httpx2.get(f"{stoa.commerce_url}/api/me", headers={"Authorization": f"Bearer {owner}"}, timeout=60).status_code
        == 200
    )

    again = httpx2.post(f"{stoa.inference_url}/models/{MODEL}/load", headers=stoa.headers(), timeout=60)
    assert again.json()["status"] == "loaded", again.text
    assert [model.state for model in await host.models() if model.model_id == MODEL] == [ModelState.LOADED]
