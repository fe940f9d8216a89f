"""The API over remote models: a gateway server whose models run on an upstream server."""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.inference.running_server import RunningServer, run_commands, run_manage, running_server

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def gateway(stoa: RunningServer) -> Iterator[RunningServer]:
    """A server without local models. Its remote models run on `stoa`, and one on a server that does not exist."""
    upstream = {"base_url": f"{stoa.url}/v1", "api_key": stoa.keys["STAFF"], "dialect": "stoa"}
    remote = [
        upstream | {"id": "far-talker", "model": "talker"},
        upstream | {"id": "far-embedder", "model": "embedder", "capabilities": ["embeddings"], "context_size": 512},
        upstream | {"id": "far-idle", "model": "idle"},
        upstream | {"id": "plain-talker", "model": "talker", "dialect": "openai"},
        upstream | {"id": "keyless", "model": "talker", "api_key": "stoa_wrong"},
        upstream | {"id": "gone", "base_url": "http://127.0.0.1:9/v1"},
    ]
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        run_dir = Path(stoa.environment["STOA_RUN_DIR"])  # the upstream's, so that it needs no host
        extra = {"STOA_REMOTE_MODELS": json.dumps(remote), "STOA_LOAD": ""}
        with running_server(Path(home), run_dir, Path(home) / "models", load=[], extra=extra) as server:
            yield server


def test_remote_models_are_listed_with_local_ones(gateway: RunningServer):
    models = {model["id"]: model for model in gateway.get("/models").json()["models"]}

    fields = {name: models["far-talker"][name] for name in ("type", "state", "loaded", "size_bytes", "capabilities")}
    assert fields == {
        "type": "remote", "state": "loaded", "loaded": True, "size_bytes": 0, "capabilities": ["text-generation"],
    }  # fmt: skip
    assert (models["far-embedder"]["context_size"], models["far-embedder"]["capabilities"]) == (512, ["embeddings"])
    assert (models["gone"]["state"], models["gone"]["error"]) == ("failed", "The remote server does not answer.")
    assert (models["keyless"]["state"], "key" in models["keyless"]["error"]) == ("failed", True)
    assert "far-talker" in {model["id"] for model in gateway.get("/v1/models").json()["data"]}
    [member] = models["keyless"]["members"]
    assert (member["state"], member["error"]) == ("failed", models["keyless"]["error"])
    assert models["far-talker"]["members"][0]["state"] == "ready"
    listed = gateway.get("/models", role="READER").json()["models"]
    assert {model["members"] for model in listed} == {None}


def test_metrics_tell_members_apart(gateway: RunningServer):
    gateway.get("/models")  # checks every member
    gateway.post("/inference", {"model": "far-talker", "prompt": "speak", "max_tokens": 3})

    samples = gateway.get("/metrics").text.splitlines()

    up = {line.split('model="')[1].split('"')[0]: line[-3:] for line in samples if "pool_member_up{" in line}
    assert (up["far-talker"], up["gone"], up["keyless"]) == ("1.0", "0.0", "0.0")
    [completed] = [
        line
        for line in samples
        if "pool_requests_total{" in line and 'model="far-talker"' in line and "completed" in line
    ]
    assert float(completed.rpartition(" ")[2]) >= 1
    assert 'member="127.0.0.1-' in completed


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/inference", {"prompt": "speak", "max_tokens": 4, "n": 2}),
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 3, "top_k": 7, "priority": 0}),
        ("/v1/completions", {"prompt": ["speak", "again"], "max_tokens": 3}),
    ],
)
def test_every_endpoint_returns_the_upstreams_results(
    stoa: RunningServer, gateway: RunningServer, path: str, body: dict[str, object]
):
    direct = stoa.post(path, body | {"model": "talker"}).json()
    proxied = gateway.post(path, body | {"model": "far-talker"}).json()

    assert proxied["choices"] == direct["choices"]
    assert proxied["usage"] == direct["usage"]


def test_tokens_of_a_remote_model_are_not_counted_by_a_generation(stoa: RunningServer, gateway: RunningServer):
    before = stoa.get("/usage", role="STAFF").json()["total"]

    refused = gateway.post("/v1/responses/input_tokens", {"model": "far-talker", "input": "speak"})

    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
    assert stoa.get("/usage", role="STAFF").json()["total"] == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/rerank", {"model": "far-embedder", "query": "a", "documents": ["b"]}),
        ("/score", {"model": "far-embedder", "text_1": "a", "text_2": "b"}),
        (
            "/v1/decisions",
            {"model": "far-talker", "input": "a", "questions": [{"type": "predicate", "instructions": "b"}]},
        ),
        ("/v1/moderations", {"model": "far-talker", "input": "a"}),
    ],
)
def test_scores_by_a_remote_model_are_refused_with_the_models_that_could(
    gateway: RunningServer, path: str, body: dict[str, object]
):
    refused = gateway.post(path, body)

    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert f"{body['model']} runs on another server, which cannot score" in message
    hint = message.partition("Use a model of this server. ")[2]
    assert hint.startswith(("Loaded models that could: ", "No loaded model could: load one first."))
    assert "far-" not in hint


def test_a_native_stream_is_forwarded(gateway: RunningServer):
    answer = gateway.post("/inference/stream", {"model": "far-talker", "prompt": "speak", "max_tokens": 3})

    events = [json.loads(event[6:]) for event in answer.text.strip().split("\n\n")]
    assert "".join(event.get("token", "") for event in events) == "w0 w1 w2 "
    assert events[-1] == {"done": True, "finish_reason": "length"}


def test_embeddings_are_the_upstreams(stoa: RunningServer, gateway: RunningServer):
    direct = stoa.post("/embeddings", {"model": "embedder", "input": ["a", "b"]}).json()
    proxied = gateway.post("/embeddings", {"model": "far-embedder", "input": ["a", "b"]}).json()

    assert (proxied["data"], proxied["usage"]) == (direct["data"], direct["usage"])


def test_embeddings_in_openais_form_are_the_upstreams(stoa: RunningServer, gateway: RunningServer):
    direct = stoa.post("/v1/embeddings", {"model": "embedder", "input": ["a", "b"]}).json()
    proxied = gateway.post("/v1/embeddings", {"model": "far-embedder", "input": ["a", "b"]}).json()

    assert (proxied["data"], proxied["usage"]) == (direct["data"], direct["usage"])


def test_the_official_client_streams_a_remote_chat_with_usage(gateway: RunningServer):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.keys["STAFF"], max_retries=0) as client:
        stream = client.chat.completions.create(
            model="plain-talker",
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=3,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "w0 w1 w2 "
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 3


async def test_a_disconnect_from_the_gateway_cancels_the_upstream_request(stoa: RunningServer, gateway: RunningServer):
    body = {"model": "far-talker", "messages": HELLO, "max_tokens": 2000, "stream": True}
    async with gateway.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        lines = answer.aiter_lines()  # kept, since a garbage-collected iterator closes the connection
        assert "error" not in await anext(lines)
        assert (await stoa.engine.stats("talker")).running == 1
    async with asyncio.timeout(30):
        while (await stoa.engine.stats("talker")).running:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.02)
    await stoa.engine.close()


def test_parameters_that_the_upstream_does_not_support_are_refused(gateway: RunningServer):
    refused = gateway.post("/inference", {"model": "plain-talker", "prompt": "speak", "top_k": 40})
    given = gateway.post("/v1/chat/completions", {"model": "plain-talker", "messages": HELLO, "min_p": 0.1})

    assert (refused.status_code, refused.json()["error"]["details"]) == (400, {"field": "top_k"})
    assert (given.status_code, given.json()["error"]["param"]) == (400, "min_p")


def test_unsupported_default_parameters_are_not_sent_upstream(gateway: RunningServer):
    answer = gateway.post("/inference", {"model": "plain-talker", "prompt": "speak", "max_tokens": 3})
    ran = run_manage(gateway.environment, "run", "plain-talker", "hello", "--max-tokens", "3")

    assert (answer.status_code, answer.json()["choices"][0]["text"]) == (200, "w0 w1 w2 ")
    assert (ran.returncode, ran.stdout) == (0, "w0 w1 w2 \n"), ran.stderr


@pytest.mark.parametrize(
    ("model", "status", "code", "retries"),
    [
        ("gone", 503, "INFERENCE_FAILED", True),
        ("keyless", 503, "INFERENCE_FAILED", True),
        ("far-idle", 400, "MODEL_NOT_LOADED", False),
    ],
)
def test_upstream_failures_have_our_error_codes(
    gateway: RunningServer, model: str, status: int, code: str, retries: bool
):
    answer = gateway.post("/inference", {"model": model, "prompt": "speak", "top_k": 0, "repeat_penalty": 1.0})

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert ("retry-after" in answer.headers) is retries
    assert "127.0.0.1" not in answer.text


def test_a_context_length_error_quotes_the_upstream(gateway: RunningServer):
    answer = gateway.post("/inference", {"model": "far-talker", "prompt": "long"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "CONTEXT_LENGTH_EXCEEDED")
    assert answer.json()["error"]["message"] == "Too long."


def test_a_remote_model_cannot_be_loaded_or_unloaded(gateway: RunningServer):
    for action in ("load", "unload"):
        answer = gateway.post(f"/models/far-talker/{action}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
        assert "another server" in answer.json()["error"]["message"]


def test_the_first_start_says_that_it_imported_the_setting_and_a_changed_one_is_refused(gateway: RunningServer):
    assert "remote_models_imported" in gateway.log.read_text()
    changed = json.loads(gateway.environment["STOA_REMOTE_MODELS"])
    changed[0]["api_key"] = "a-changed-key"

    refused = run_manage(gateway.environment | {"STOA_REMOTE_MODELS": json.dumps(changed)}, "serve", "--port", "0")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "STOA_REMOTE_MODELS was imported into the database at" in refused.stderr
    assert "`stoa pools add`" in refused.stderr
    assert "a-changed-key" not in refused.stderr


def test_pools_are_managed_on_the_command_line_without_showing_a_key(
    stoa: RunningServer, gateway: RunningServer, tmp_path: Path
):
    key, upstream = stoa.keys["STAFF"], f"{stoa.url}/v1"
    (tmp_path / "key").write_text(f"{key}\n")
    options = ["--model-name", "talker", "--kind", "stoa", "--api-key-file", str(tmp_path / "key")]
    added, again, bad, *rest = run_commands(
        gateway.environment,
        ["pools", "add", "pooled", upstream, "--name", "one", "--weight", "2", *options],
        ["pools", "add", "pooled", upstream, "--name", "one"],
        ["pools", "add", "pooled", "ftp://elsewhere/v1"],
        ["pools", "add", "pooled", "http://127.0.0.1:9/v1", "--name", "gone"],
        ["pools", "drain", "pooled", "gone"],
        ["pools", "list", "--json"],
        ["pools", "test", "pooled"],
        ["pools", "test", "pooled", "one"],
        ["pools", "drain", "pooled", "gone", "--undo"],
        ["pools", "remove", "pooled", "gone"],
        ["pools", "remove", "pooled", "gone"],
        ["pools", "list"],
    )
    listed, tested_all, tested_one, table = rest[2], rest[3], rest[4], rest[-1]

    assert (added.returncode, again.returncode, bad.returncode) == (0, 2, 2), added.stderr
    assert "The pool has a member of this name" in again.stderr
    assert "Write it like https://gpu.example:8000/v1" in bad.stderr
    states = {one["member"]: one for one in json.loads(listed.stdout) if one["model"] == "pooled"}
    assert (states["one"]["state"], states["one"]["weight"], states["one"]["has_api_key"]) == ("ready", 2, True)
    assert (states["gone"]["state"], states["gone"]["error"]) == ("draining", "The remote server does not answer.")
    assert (tested_all.returncode, tested_one.returncode, tested_one.stdout) == (1, 0, "member\tresult\none\tok\n")
    assert [one.returncode for one in rest[-4:]] == [0, 0, 4, 0], rest[-4:]
    assert "pooled\tone\t" in table.stdout
    assert not [one for one in (added, again, *rest) if key in one.stdout + one.stderr]
    until = time.monotonic() + 4  # a server uses a change within four seconds
    while "pooled" not in {model["id"] for model in gateway.get("/models").json()["models"]}:
        assert time.monotonic() < until
        time.sleep(0.1)
    answer = gateway.post("/inference", {"model": "pooled", "prompt": "speak", "max_tokens": 3})
    assert (answer.status_code, answer.json()["choices"][0]["text"]) == (200, "w0 w1 w2 ")
    assert key not in gateway.log.read_text()


def test_a_change_of_a_member_keeps_the_rest_and_sends_no_stored_key_to_another_server(
    stoa: RunningServer, gateway: RunningServer, tmp_path: Path
):
    key, upstream, elsewhere = stoa.keys["STAFF"], f"{stoa.url}/v1", "http://127.0.0.1:9/v1"
    (tmp_path / "key").write_text(f"{key}\n")
    with_key = ["--api-key-file", str(tmp_path / "key")]
    change = ["pools", "change", "edited", "one"]
    added, changed, kept, tested, *refused, unmoved, keyless, moved, back, again, removed = run_commands(
        gateway.environment,
        ["pools", "add", "edited", upstream, "--name", "old", "--kind", "stoa", "--weight", "2", *with_key],
        ["pools", "change", "edited", "old", "--name", "one", "--model-name", "talker", "--first-token-timeout", "7.5"],
        ["pools", "list", "--json"],
        ["pools", "test", "edited", "one"],
        change,
        ["pools", "change", "edited", "two", "--weight", "3"],
        [*change, *with_key, "--remove-api-key"],
        [*change, "--token-timeout", "0"],
        [*change, "--base-url", elsewhere, "--weight", "5"],
        ["pools", "list", "--json"],
        [*change, "--base-url", elsewhere, "--remove-api-key", "--batches"],
        ["pools", "list", "--json"],
        [*change, "--base-url", upstream, "--no-batches", *with_key],
        ["pools", "test", "edited"],
        ["pools", "remove", "edited", "one"],
    )
    done = (added, changed, kept, tested, unmoved, keyless, moved, back, again, removed)
    assert [one.stderr for one in done if one.returncode] == []
    fields = {
        "model": "edited", "member": "one", "base_url": upstream, "kind": "stoa", "model_name": "talker", "weight": 2,
        "connect_timeout": 5.0, "first_token_timeout": 7.5, "token_timeout": 60.0, "takes_batches": False,
        "has_api_key": True,
    }  # fmt: skip
    assert [listed_fields(one, fields) for one in (kept, unmoved)] == [fields, fields]
    assert listed_fields(moved, fields) == fields | {"base_url": elsewhere, "has_api_key": False, "takes_batches": True}
    assert [one.returncode for one in refused] == [2, 4, 2, 2, 2]
    for one, message in zip(
        refused,
        [
            "Give at least one option",
            "The pool of edited has: one.",
            "not both",
            "`token_timeout` is invalid",
            "The stored API key was given for another server than this URL names. Enter the key of this server, or "
            "remove the stored one. Use --api-key-file FILE or --remove-api-key.",
        ],
        strict=True,
    ):
        assert message in one.stderr
    assert not [one for one in (*done, *refused) if key in one.stdout + one.stderr]


def listed_fields(listed: subprocess.CompletedProcess[str], fields: Iterable[str]) -> dict[str, Any]:
    """Return these fields of the one member of the pool `edited`, as `stoa pools list --json` printed them."""
    [member] = [one for one in json.loads(listed.stdout) if one["model"] == "edited"]
    return {name: member[name] for name in fields}
