"""POST /tokenize and POST /detokenize of a running server. The fake models' tokens are bytes."""

import pytest

from tests.inference.running_server import RunningServer


@pytest.mark.parametrize("model", ["talker", "embedder"])
def test_a_text_is_tokenized_and_detokenized(stoa: RunningServer, model: str):
    told = stoa.post("/tokenize", {"model": model, "prompt": "née"}, role="STAFF")
    assert told.json() == {"tokens": [110, 195, 169, 101], "count": 4}

    back = stoa.post("/detokenize", {"model": model, "tokens": told.json()["tokens"]}, role="STAFF")
    assert back.json() == {"prompt": "née"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/tokenize", {"prompt": "a", "add_special_tokens": False}, 400, "INVALID_REQUEST"),
        ("/tokenize", {"prompt": ["a"]}, 400, "INVALID_REQUEST"),
        ("/tokenize", {"prompt": "a" * (2**18 + 1)}, 400, "INVALID_REQUEST"),
        ("/tokenize", {"prompt": "a", "model": "nobody"}, 404, "MODEL_NOT_FOUND"),
        ("/tokenize", {"prompt": "a", "model": "idle"}, 400, "MODEL_NOT_LOADED"),
        ("/detokenize", {"tokens": [-1]}, 400, "INVALID_REQUEST"),
        ("/detokenize", {"tokens": [True]}, 400, "INVALID_REQUEST"),
        ("/detokenize", {"tokens": [2**31]}, 400, "INVALID_REQUEST"),
        ("/detokenize", {"tokens": [256]}, 400, "INVALID_REQUEST"),
        ("/detokenize", {"tokens": "1"}, 400, "INVALID_REQUEST"),
    ],
)
def test_i4_an_invalid_request_is_rejected(
    stoa: RunningServer, path: str, body: dict[str, object], status: int, code: str
):
    answer = stoa.post(path, {"model": "talker"} | body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_tokens_need_the_permission_run_inference(stoa: RunningServer, path: str):
    assert stoa.post(path, {"model": "talker", "prompt": "a", "tokens": []}, role="CUSTOMER").status_code == 403
    assert stoa.get(path).status_code == 405
