"""Two servers: one in front, whose models the other one runs."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.inference.served import ServedStoa, run_manage, served_stoa

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def front(stoa: ServedStoa) -> Iterator[ServedStoa]:
    """A server that has no models of its own but knows those of `stoa`, and of one that is not there."""
    behind = {"base_url": f"{stoa.url}/v1", "api_key": stoa.keys["STAFF"], "dialect": "stoa"}
    remote = [
        behind | {"id": "far-talker", "model": "talker"},
        behind | {"id": "far-embedder", "model": "embedder", "capabilities": ["embeddings"], "context_size": 512},
        behind | {"id": "far-idle", "model": "idle"},
        behind | {"id": "plain-talker", "model": "talker", "dialect": "openai"},
        behind | {"id": "keyless", "model": "talker", "api_key": "stoa_wrong"},
        behind | {"id": "gone", "base_url": "http://127.0.0.1:9/v1"},
    ]
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        run_dir = Path(stoa.environment["STOA_RUN_DIR"])  # so that it needs no host
        extra = {"STOA_REMOTE_MODELS": json.dumps(remote), "STOA_LOAD": ""}
        with served_stoa(Path(home), run_dir, Path(home) / "models", load=[], extra=extra) as served:
            yield served


def test_remote_models_are_listed_beside_the_others(front: ServedStoa):
    models = {model["id"]: model for model in front.get("/models").json()["models"]}

    told = {name: models["far-talker"][name] for name in ("type", "state", "loaded", "size_bytes", "capabilities")}
    assert told == {
        "type": "remote", "state": "loaded", "loaded": True, "size_bytes": 0, "capabilities": ["text-generation"],
    }  # fmt: skip
    assert (models["far-embedder"]["context_size"], models["far-embedder"]["capabilities"]) == (512, ["embeddings"])
    assert (models["gone"]["state"], models["gone"]["error"]) == ("failed", "The remote server does not answer.")
    assert (models["keyless"]["state"], "key" in models["keyless"]["error"]) == ("failed", True)
    assert "far-talker" in {model["id"] for model in front.get("/v1/models").json()["data"]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/inference", {"prompt": "speak", "max_tokens": 4, "n": 2}),
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 3, "top_k": 7, "priority": 0}),
        ("/v1/completions", {"prompt": ["speak", "again"], "max_tokens": 3}),
    ],
)
def test_every_surface_answers_as_the_server_behind_it(
    stoa: ServedStoa, front: ServedStoa, path: str, body: dict[str, object]
):
    there = stoa.post(path, body | {"model": "talker"}).json()
    here = front.post(path, body | {"model": "far-talker"}).json()

    assert here["choices"] == there["choices"]
    assert here["usage"] == there["usage"]


def test_a_native_stream_works(front: ServedStoa):
    answer = front.post("/inference/stream", {"model": "far-talker", "prompt": "speak", "max_tokens": 3})

    events = [json.loads(event[6:]) for event in answer.text.strip().split("\n\n")]
    assert "".join(event.get("token", "") for event in events) == "w0 w1 w2 "
    assert events[-1] == {"done": True, "finish_reason": "length"}


def test_embeddings_are_those_of_the_server_behind_it(stoa: ServedStoa, front: ServedStoa):
    there = stoa.post("/embeddings", {"model": "embedder", "input": ["a", "b"]}).json()
    here = front.post("/embeddings", {"model": "far-embedder", "input": ["a", "b"]}).json()

    assert (here["data"], here["usage"]) == (there["data"], there["usage"])


def test_embeddings_in_openais_form_are_too(stoa: ServedStoa, front: ServedStoa):
    there = stoa.post("/v1/embeddings", {"model": "embedder", "input": ["a", "b"]}).json()
    here = front.post("/v1/embeddings", {"model": "far-embedder", "input": ["a", "b"]}).json()

    assert (here["data"], here["usage"]) == (there["data"], there["usage"])


def test_the_official_client_streams_a_chat_with_its_usage(front: ServedStoa):
    with openai.OpenAI(base_url=f"{front.url}/v1", api_key=front.keys["STAFF"], max_retries=0) as client:
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


async def test_who_leaves_the_server_in_front_frees_the_one_behind(stoa: ServedStoa, front: ServedStoa):
    body = {"model": "far-talker", "messages": HELLO, "max_tokens": 2000, "stream": True}
    async with front.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        lines = answer.aiter_lines()  # kept: a dropped iterator closes the connection
        assert "error" not in await anext(lines)
        assert (await stoa.engine.stats("talker")).running == 1
    async with asyncio.timeout(30):
        while (await stoa.engine.stats("talker")).running:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.02)
    await stoa.engine.close()


def test_what_the_server_behind_it_cannot_follow_is_refused(front: ServedStoa):
    refused = front.post("/inference", {"model": "plain-talker", "prompt": "speak", "top_k": 40})
    given = front.post("/v1/chat/completions", {"model": "plain-talker", "messages": HELLO, "min_p": 0.1})

    assert (refused.status_code, refused.json()["error"]["details"]) == (400, {"field": "top_k"})
    assert (given.status_code, given.json()["error"]["param"]) == (400, "min_p")


def test_the_contracts_defaults_are_not_asked_of_a_server_that_cannot_follow_them(front: ServedStoa):
    answer = front.post("/inference", {"model": "plain-talker", "prompt": "speak", "max_tokens": 3})
    ran = run_manage(front.environment, "run", "plain-talker", "hello", "--max-tokens", "3")

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
def test_its_failures_have_our_codes(front: ServedStoa, model: str, status: int, code: str, retries: bool):
    answer = front.post("/inference", {"model": model, "prompt": "speak", "top_k": 0, "repeat_penalty": 1.0})

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert ("retry-after" in answer.headers) is retries
    assert "127.0.0.1" not in answer.text


def test_a_prompt_that_is_too_long_over_there_is_told_in_its_words(front: ServedStoa):
    answer = front.post("/inference", {"model": "far-talker", "prompt": "long"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "CONTEXT_LENGTH_EXCEEDED")
    assert answer.json()["error"]["message"] == "Too long."


def test_it_is_neither_loaded_nor_unloaded_from_here(front: ServedStoa):
    for verb in ("load", "unload"):
        answer = front.post(f"/models/far-talker/{verb}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
        assert "another server" in answer.json()["error"]["message"]
