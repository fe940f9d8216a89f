"""POST /embeddings of a running server. The fake model's vector of a text is its length and one."""

import base64
import struct

import pytest

from tests.inference.running_server import RunningServer


def test_texts_become_vectors_in_order(stoa: RunningServer):
    answer = stoa.post("/embeddings", {"model": "embedder", "input": ["abc", "", "ab"]})

    assert answer.json() == {
        "model": "embedder",
        "data": [
            {"embedding": [3.0, 1.0], "index": 0},
            {"embedding": [0.0, 1.0], "index": 1},
            {"embedding": [2.0, 1.0], "index": 2},
        ],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def test_a_single_string_is_a_list_of_one_and_base64_is_float32(stoa: RunningServer):
    answer = stoa.post("/embeddings", {"model": "embedder", "input": "abc", "encoding_format": "base64"})

    (vector,) = answer.json()["data"]
    assert struct.unpack("<2f", base64.b64decode(vector["embedding"])) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "embedder", "input": []}, 400, "INVALID_REQUEST"),
        ({"model": "embedder", "input": "a", "encoding_format": "int8"}, 400, "INVALID_REQUEST"),
        ({"model": "embedder", "input": "a", "dimensions": 1}, 400, "INVALID_REQUEST"),
        ({"model": "talker", "input": "a"}, 400, "INVALID_REQUEST"),
        ({"model": "idle", "input": "a"}, 400, "MODEL_NOT_LOADED"),
        ({"model": "nobody", "input": "a"}, 404, "MODEL_NOT_FOUND"),
    ],
)
def test_an_invalid_request_is_rejected(stoa: RunningServer, body: dict[str, object], status: int, code: str):
    answer = stoa.post("/embeddings", body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
