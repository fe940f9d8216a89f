"""POST /tokenize and POST /detokenize of a running server. The fake models' tokens are bytes."""

import pytest

from tests.inference.running_server import RunningServer


@pytest.mark.parametrize("model", ["talker", "embedder"])
def test_a_text_is_tokenized_and_detokenized(stoa: RunningServer, model: str):
    told = stoa.post("/tokenize", {"model": model, "prompt": "née"}, role="STAFF")
    assert told.json() == {"tokens": [110, 195, 169, 101], "count": 4, "max_model_len": 4096}

    back = stoa.post("/detokenize", {"model": model, "tokens": told.json()["tokens"]}, role="STAFF")
    assert back.json() == {"prompt": "née", "content": "née"}


def test_a_conversation_is_tokenized_with_its_tools_and_the_texts_of_its_tokens(stoa: RunningServer):
    body = {"model": "talker", "messages": [{"role": "user", "content": "a"}], "return_token_strs": True}
    body["tools"] = [{"type": "function", "function": {"name": "now"}}]

    told = stoa.post("/tokenize", body).json()

    assert "".join(told["token_strs"]) == "now()user:a;"
    assert told["tokens"] == [ord(letter) for letter in told["token_strs"]]
    assert told["count"] == 12


def test_a_text_is_tokenized_without_special_tokens_in_the_forms_of_vllm_and_llama_cpp(stoa: RunningServer):
    def tokens(**fields: object) -> object:
        return stoa.post("/tokenize", {"model": "talker"} | fields).json()["tokens"]

    assert tokens(prompt="a", add_special_tokens=False) == tokens(content="a") == [94, 97]
    assert tokens(prompt="a") == tokens(content="a", add_special=True) == [97]
    assert tokens(content="a", with_pieces=True) == [{"id": 94, "piece": "^"}, {"id": 97, "piece": "a"}]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/tokenize", {}, 400, "INVALID_REQUEST"),
        ("/tokenize", {"prompt": "a", "content": "a"}, 400, "INVALID_REQUEST"),
        (
            "/tokenize",
            {"prompt": "a", "tools": [{"type": "function", "function": {"name": "f"}}]},
            400,
            "INVALID_REQUEST",
        ),
        ("/tokenize", {"messages": []}, 400, "INVALID_REQUEST"),
        ("/tokenize", {"messages": [{"role": "user", "content": "a" * (2**18 + 1)}]}, 400, "INVALID_REQUEST"),
        (
            "/tokenize",
            {"messages": [{"role": "user", "content": "a"}], "add_special_tokens": True},
            400,
            "INVALID_REQUEST",
        ),
        ("/tokenize", {"prompt": "a", "chat_template": "{{ 1 }}"}, 400, "INVALID_REQUEST"),
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
