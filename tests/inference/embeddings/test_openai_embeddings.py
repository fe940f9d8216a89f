"""POST /v1/embeddings through the official client. Its strict mode refuses every answer in base64, which is what it
asks for by itself, OpenAI's own too; so that it is strict where numbers are asked for."""

from collections.abc import Iterator

import httpx2
import openai
import pytest

from tests.inference.running_server import RunningServer


@pytest.fixture
def client(stoa: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stoa.url}/v1", api_key=stoa.keys["STAFF"], max_retries=0) as client:
        yield client


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        ("abc", [3]),
        (["abc", "", "ab"], [3, 0, 2]),
        ([7, 8, 9, 10], [4]),
        ([[7, 8], [9]], [2, 1]),
    ],
)
def test_each_form_of_input_becomes_vectors_in_order(
    stoa: RunningServer, client: openai.OpenAI, given: list[str], lengths: list[int]
):
    with openai.OpenAI(
        base_url=f"{stoa.url}/v1", api_key=stoa.keys["STAFF"], max_retries=0, _strict_response_validation=True
    ) as strict:
        numbers = strict.embeddings.create(model="embedder", input=given, encoding_format="float")
    by_default = client.embeddings.create(model="embedder", input=given)

    assert (numbers.object, numbers.model) == ("list", "embedder")
    assert [(one.object, one.index, one.embedding) for one in numbers.data] == [
        ("embedding", index, [length, 1.0]) for index, length in enumerate(lengths)
    ]
    assert by_default == numbers
    assert (numbers.usage.prompt_tokens, numbers.usage.total_tokens) == (1, 1)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
def test_2048_inputs_are_embedded_in_order_and_one_more_is_refused(stoa: RunningServer, path: str):
    texts = ["a" * (number % 7) for number in range(2048)]

    answer = stoa.post(path, {"model": "embedder", "input": texts})
    refused = stoa.post(path, {"model": "embedder", "input": [*texts, "a"]})

    assert [one["embedding"][0] for one in answer.json()["data"]] == [len(text) for text in texts]
    assert refused.status_code == 400
    assert "2048" in refused.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
def test_background_work_is_told_by_the_priority_header(stoa: RunningServer, path: str):
    last = {}
    for priority in ("", "u=3", "u=5, i", "u=6", "u=7", "i, u=7", "u=77", "nonsense"):
        headers = stoa.headers() | {"Priority": priority}
        answer = httpx2.post(stoa.url + path, json={"model": "embedder", "input": "abc"}, headers=headers, timeout=60)
        last[priority] = answer.json()["data"][0]["embedding"][-1]

    assert [priority for priority, number in last.items() if number == 2] == ["u=6", "u=7", "i, u=7"]


def test_fewer_dimensions_are_the_first_numbers_scaled_to_length_one(client: openai.OpenAI):
    assert client.embeddings.create(model="embedder", input="abc", dimensions=1).data[0].embedding == [1.0]
    assert client.embeddings.create(model="embedder", input="abc", dimensions=2).data[0].embedding == [3.0, 1.0]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": [[1]] * 2049}, "input"),
        ({"input": ["a", 1]}, "input"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [2**31]}, "input[0]"),
        ({"input": None}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 3}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"model": "nobody"}, "model"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_i4_an_error_names_the_field_that_is_not_valid(stoa: RunningServer, wrong: dict[str, object], param: str):
    answer = stoa.post("/v1/embeddings", {"model": "embedder", "input": "a", "user": "u"} | wrong)

    assert answer.status_code == (404 if param == "model" else 400)
    assert answer.json()["error"]["param"] == param
