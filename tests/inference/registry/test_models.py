"""The HTTP API of models and health."""

import asyncio
import json
import os
import shutil
import signal
import time
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from inference.engine import ModelState
from tests.inference.engine.fake_model import CACHE_BYTES
from tests.inference.engine.processes import eventually_in_state, process_exists, status_of
from tests.inference.registry.hostile_ids import HOSTILE_IDS
from tests.inference.running_server import (
    TALKER_CONFIG,
    RunningServer,
    add_model,
    wait_until_generating,
    wait_until_listed,
)

FIELDS = {
    "id", "name", "type", "size_bytes", "loaded", "context_size", "capabilities", "state", "error", "parameters",
    "base", "quantization", "dtype", "device", "progress", "memory_usage_bytes", "resident_bytes", "load_time_ms",
    "gpu_layers", "batch_size", "max_sequences", "warning", "weight_bytes", "cache_bytes", "cache_limit_bytes",
    "cache_dtype", "gpu_memory_bytes", "members", "engine", "replicas", "replica_states",
}  # fmt: skip
FILES_MISSING = "Its files are in no folder of STOA_MODELS_DIR: put them there to load it again, or unload it."


def test_every_model_is_listed_with_its_fields(stoa: RunningServer):
    answer = stoa.get("/models", role="STAFF")

    models = {model["id"]: model for model in answer.json()["models"]}
    assert all(model.keys() == FIELDS for model in models.values())
    talker = models["talker"]
    assert talker.pop("resident_bytes") > 2**20
    assert talker.pop("load_time_ms") > 0
    assert talker.pop("cache_bytes") in (0, CACHE_BYTES)  # from the first health check on
    assert talker == {
        "id": "talker",
        "name": "talker",
        "type": "safetensors",
        "size_bytes": 1000,
        "loaded": True,
        "context_size": 64,
        "capabilities": ["text-generation"],
        "state": "loaded",
        "error": None,
        "parameters": 210,
        "base": None,
        "quantization": "none",
        "dtype": "float32",
        "device": "cpu",
        "engine": "stoa",
        "progress": None,
        "memory_usage_bytes": 1,
        "weight_bytes": 0,
        "cache_limit_bytes": 0,
        "gpu_memory_bytes": 0,
        "cache_dtype": "float32",
        "gpu_layers": 0,
        "batch_size": 512,
        "max_sequences": 16,
        "warning": None,
        "members": None,
        "replicas": 1,
        "replica_states": None,
    }
    assert (models["idle"]["state"], models["idle"]["loaded"]) == ("unloaded", False)
    assert (models["idle"]["context_size"], models["embedder"]["capabilities"]) == (4096, ["embeddings"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"engine": "ollama"}, "stoa, vllm, llama.cpp, sglang"),
        ({"engine_options": {"threads": 2}}, "stoa has no 'threads'"),
        ({"engine": "llama.cpp", "engine_options": {"host": "::"}}, "threads, cache_type_k"),
        ({"engine": "llama.cpp", "engine_options": {"threads": "2"}}, "of type int"),
        ({"engine": "llama.cpp", "engine_options": {"threads": 10**30}}, "at most 1024"),
        ({"engine": "llama.cpp", "engine_options": {"threads": -5}}, "above 0"),
        ({"engine": "llama.cpp", "engine_options": {"flash_attn": "on --host x"}}, "letters"),
    ],
)
def test_an_unknown_engine_or_option_is_refused_with_those_that_exist(
    stoa: RunningServer, body: dict[str, object], words: str
):
    answer = stoa.post("/models/idle/load", body)

    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


def test_health_is_public_and_healthy(stoa: RunningServer):
    answer = httpx2.get(f"{stoa.url}/health", timeout=60)

    body = answer.json()
    assert answer.status_code == 200
    assert body.keys() == {"status", "version", "uptime_seconds", "models_loaded"}
    assert body["status"] == "healthy"
    assert body["models_loaded"] == 2
    assert isinstance(body["uptime_seconds"], int)


async def test_load_and_unload_start_and_end_a_model_process(stoa: RunningServer):
    loaded = stoa.post("/models/idle/load", {"context_size": 128, "gpu_layers": 3, "batch_size": 64})

    assert loaded.status_code == 200
    body = loaded.json()
    assert (body["status"], body["model_id"]) == ("loaded", "idle")
    assert (body["context_size"], body["gpu_layers"], body["batch_size"]) == (128, 0, 64)
    assert body.keys() >= {"memory_usage_bytes", "load_time_ms", "max_sequences", "quantization", "dtype", "device"}
    pid = await stoa.pid("idle")
    assert httpx2.get(f"{stoa.url}/health", timeout=60).json()["models_loaded"] == 3

    unloaded = stoa.post("/models/idle/unload")
    assert unloaded.json() == {"status": "unloaded", "model_id": "idle"}
    assert not process_exists(pid)
    assert httpx2.get(f"{stoa.url}/health", timeout=60).json() | {"uptime_seconds": 0} == {
        "status": "healthy",
        "version": "1.0.0",
        "uptime_seconds": 0,
        "models_loaded": 2,
    }
    assert stoa.post("/models/idle/unload").json() == {"status": "unloaded", "model_id": "idle"}


def read_model(stoa: RunningServer, model_id: str) -> dict[str, Any]:
    return next(model for model in stoa.get("/models").json()["models"] if model["id"] == model_id)


async def test_a_loaded_model_without_files_is_listed_serves_and_can_be_unloaded(stoa: RunningServer):
    folder = add_model(stoa.models_dir, "short-lived", dict(TALKER_CONFIG))
    assert stoa.post("/models/short-lived/load").status_code == 200
    pid = await stoa.pid("short-lived")
    shutil.rmtree(folder)

    info = read_model(stoa, "short-lived")
    assert (info["state"], info["loaded"], info["type"]) == ("loaded", True, "unknown")
    assert (info["error"], info["context_size"]) == (FILES_MISSING, 64)
    assert stoa.get("/health").json()["status"] == "degraded"
    assert stoa.post("/inference", {"model": "short-lived", "prompt": "speak", "max_tokens": 1}).status_code == 200
    refused = stoa.post("/models/short-lived/load", {"context_size": 32}).json()["error"]
    assert (refused["code"], FILES_MISSING in refused["message"]) == ("MODEL_NOT_FOUND", True)
    assert "short-lived" not in refused["details"]["available_models"]
    os.kill(pid, signal.SIGKILL)  # a crash after which it cannot be restarted
    await eventually_in_state(stoa.host, "short-lived", ModelState.FAILED)
    info = read_model(stoa, "short-lived")
    assert (info["state"], info["loaded"], info["error"]) == ("failed", False, FILES_MISSING)
    refused = stoa.post("/inference", {"model": "short-lived", "prompt": "speak"}).json()["error"]
    assert (refused["code"], FILES_MISSING in refused["message"]) == ("MODEL_NOT_FOUND", True)

    unloaded = stoa.post("/models/short-lived/unload")

    assert (unloaded.status_code, unloaded.json()) == (200, {"status": "unloaded", "model_id": "short-lived"})
    assert not process_exists(pid)
    assert httpx2.get(f"{stoa.url}/health", timeout=60).json()["status"] == "healthy"
    assert "short-lived" not in {model["id"] for model in stoa.get("/models").json()["models"]}
    assert stoa.post("/models/short-lived/unload").status_code == 404


def test_a_loaded_model_with_broken_files_is_listed_with_the_error_and_serves(stoa: RunningServer):
    folder = add_model(stoa.models_dir, "spoilt", dict(TALKER_CONFIG))
    assert stoa.post("/models/spoilt/load").status_code == 200
    (folder / "config.json").write_text("{}")

    info = read_model(stoa, "spoilt")
    assert (info["state"], info["loaded"]) == ("loaded", True)
    assert info["error"].startswith("config.json")
    assert stoa.get("/health").json()["status"] == "degraded"
    assert stoa.post("/inference", {"model": "spoilt", "prompt": "speak", "max_tokens": 1}).status_code == 200
    assert info["error"] in stoa.get("/v1/models/spoilt").json()["error"]["message"]
    stoa.post("/models/spoilt/unload")
    assert read_model(stoa, "spoilt")["state"] == "failed"
    shutil.rmtree(folder)


def test_a_load_without_a_body_uses_the_defaults(stoa: RunningServer):
    answer = httpx2.post(f"{stoa.url}/models/idle/load", headers=stoa.headers(), timeout=30)

    assert (answer.status_code, answer.json()["batch_size"]) == (200, 512)
    stoa.post("/models/idle/unload")


async def test_m5_concurrent_loads_of_a_model_load_it_once(stoa: RunningServer):
    loads = stoa.models_dir / "slow-one" / "loads"
    async with stoa.client() as client:
        answers = await asyncio.gather(*(client.post("/models/slow-one/load") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert len(loads.read_text().splitlines()) == 1
        await client.post("/models/slow-one/unload")


async def test_a_load_continues_when_its_client_disconnects(stoa: RunningServer):
    async with stoa.client() as client:
        with pytest.raises(httpx2.ReadTimeout):
            await client.post("/models/slow-one/load", timeout=0.3)
        deadline = time.monotonic() + 60
        while (status := await status_of(stoa.host, "slow-one")) is None or status.state != "loaded":
            assert time.monotonic() < deadline, status
            await asyncio.sleep(0.05)
        await client.post("/models/slow-one/unload")


async def test_a_request_for_a_loading_model_is_503_with_retry_after(stoa: RunningServer):
    async with stoa.client() as client:
        loading = asyncio.create_task(client.post("/models/slow-one/load"))
        await wait_until_listed(stoa, "slow-one")
        answer = await client.post("/inference", json={"model": "slow-one", "prompt": "speak"})
        await loading
        await client.post("/models/slow-one/unload")

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "MODEL_NOT_LOADED"
    assert int(answer.headers["retry-after"]) >= 1


async def test_unload_waits_for_running_streams(stoa: RunningServer):
    stoa.post("/models/idle/load")
    async with stoa.client() as client:
        body = {"model": "idle", "prompt": "speak", "max_tokens": 60}
        streaming = asyncio.create_task(client.post("/inference/stream", json=body))
        await wait_until_generating(stoa, "idle")
        await client.post("/models/idle/unload")
        events = (await streaming).text.strip().split("\n\n")
    await stoa.engine.close()

    assert len(events) == 61
    assert json.loads(events[-1][6:])["done"] is True


def test_a_context_size_above_the_models_limit_is_lowered_to_it_with_a_warning(stoa: RunningServer):
    loaded = stoa.post("/models/idle/load", {"gpu_layers": 0, "context_size": 4097, "batch_size": 512})
    try:
        assert loaded.status_code == 200, loaded.text
        body = loaded.json()
        assert (body["gpu_layers"], body["context_size"], body["batch_size"]) == (0, 4096, 512)
        assert body["warning"] == "context_size 4097 is above the model's limit: 4096 is used."
    finally:
        assert stoa.post("/models/idle/unload", {}).status_code == 200


def test_a_model_that_fails_to_load_reports_the_reason_and_the_service_stays_healthy(stoa: RunningServer):
    answer = stoa.post("/models/broken-one/load")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "INFERENCE_FAILED"
    assert "weights are missing" in answer.json()["error"]["message"]
    listed = {model["id"]: model for model in stoa.get("/models").json()["models"]}["broken-one"]
    assert (listed["state"], listed["loaded"]) == ("failed", False)
    assert "weights are missing" in listed["error"]
    assert stoa.get("/health").json()["status"] == "healthy"


def test_an_incomplete_model_folder_is_listed_as_failed_and_cannot_be_loaded(stoa: RunningServer):
    folder = stoa.models_dir / "half-made"
    folder.mkdir()
    (folder / "config.json").write_text("{}")

    listed = {model["id"]: model for model in stoa.get("/models").json()["models"]}["half-made"]
    refused = stoa.post("/models/half-made/load")

    assert listed["state"] == "failed"
    assert listed["error"] in refused.json()["error"]["message"]
    assert refused.status_code == 400
    (folder / "config.json").unlink()
    folder.rmdir()


@pytest.mark.parametrize("model_id", HOSTILE_IDS, ids=lambda model_id: model_id[:20])
def test_m1_hostile_model_ids_are_not_found(stoa: RunningServer, model_id: str):
    for method, path in (
        ("POST", f"/models/{model_id}/load"),
        ("POST", f"/models/{model_id}/unload"),
        ("GET", f"/v1/models/{model_id}"),
    ):
        as_written = quote(path, safe="".join(map(chr, range(33, 127))))
        status, _, body = stoa.ask_as_written(method, as_written, stoa.headers() | {"Content-Length": "0"})
        assert status == 404, body
        assert body["error"]["code"] == ("model_not_found" if path.startswith("/v1") else "MODEL_NOT_FOUND")
    answer = stoa.post("/inference", {"model": model_id, "prompt": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MODEL_NOT_FOUND")


def test_m1_a_model_outside_the_folders_cannot_be_loaded_by_a_path(stoa: RunningServer):
    outside = stoa.models_dir.parent / "outside"
    outside.mkdir()
    (outside / "config.json").write_text("{}")

    answer = stoa.post("/models/..%2Foutside/load")

    assert answer.status_code == 404
    assert not (outside / "loads").exists()
