"""POST /rerank, /v1/rerank, /v2/rerank and /score. A fake score is the share of a text's letters that its query has."""

import time
from typing import Any

import pytest

from tests.inference.running_server import RunningServer

ROUTES = ("/rerank", "/v1/rerank", "/v2/rerank")
BODY = {"model": "reranker", "query": "lamp", "documents": ["kettle", "lamp", "palms", "lampshade"]}
SCORES = [(1, 1.0), (2, 0.8), (3, 5 / 9), (0, 1 / 6)]


def rerank(stoa: RunningServer, route: str = "/rerank", **fields: Any) -> Any:
    answer = stoa.post(route, BODY | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("route", ROUTES)
def test_documents_come_in_the_order_of_their_relevance(scoring: RunningServer, route: str):
    body = rerank(scoring, route, documents=["kettle", "lamp", "palms", {"text": "lampshade"}])

    assert [one["index"] for one in body["results"]] == [index for index, _ in SCORES]
    assert [one["relevance_score"] for one in body["results"]] == pytest.approx([score for _, score in SCORES])
    assert (body["object"], body["model"]) == ("list", "reranker")
    assert body["id"].startswith("rerank-")
    assert body["usage"] == {"prompt_tokens": 24 + 4 * 4, "total_tokens": 40}
    assert body["meta"] == {"tokens": {"input_tokens": 40}}
    documents = [one.get("document") for one in body["results"]]
    texts = [{"text": text} for text in ("lamp", "palms", "lampshade", "kettle")]
    assert documents == ([None] * 4 if route == "/v2/rerank" else texts)


def test_top_n_cuts_the_results_and_documents_are_returned_as_asked(scoring: RunningServer):
    assert [one["index"] for one in rerank(scoring, top_n=2)["results"]] == [1, 2]
    assert len(rerank(scoring, top_n=0)["results"]) == len(rerank(scoring, top_n=99)["results"]) == 4
    assert "document" not in rerank(scoring, return_documents=False)["results"][0]
    assert rerank(scoring, "/v2/rerank", return_documents=True)["results"][0]["document"] == {"text": "lamp"}


def test_equally_relevant_documents_keep_their_order(scoring: RunningServer):
    assert [one["index"] for one in rerank(scoring, documents=["a", "l", "m", "x"])["results"]] == [0, 1, 2, 3]


def test_an_embedding_model_reranks_too(scoring: RunningServer):
    assert [one["index"] for one in rerank(scoring, model="embedder")["results"]] == [1, 2, 3, 0]


def test_pairs_of_texts_are_scored_in_their_order(scoring: RunningServer):
    before = int(time.time())
    one_to_all = scoring.post("/score", {"model": "reranker", "text_1": "lamp", "text_2": ["lax", "map"]}).json()
    each = scoring.post("/score", {"model": "reranker", "text_1": ["lamp", "b"], "text_2": ["lax", "bus"]}).json()
    single = scoring.post("/score", {"model": "reranker", "text_1": "lamp", "text_2": "pal"}).json()

    assert [(one["index"], one["object"]) for one in one_to_all["data"]] == [(0, "score"), (1, "score")]
    assert [one["score"] for one in one_to_all["data"]] == pytest.approx([2 / 3, 1])
    assert [one["score"] for one in each["data"]] == pytest.approx([2 / 3, 1 / 3])
    assert [one["score"] for one in single["data"]] == pytest.approx([1])
    assert one_to_all["usage"] == {"prompt_tokens": 14, "total_tokens": 14}
    assert (one_to_all["object"], one_to_all["model"]) == ("list", "reranker")
    assert before <= one_to_all["created"] <= time.time()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": 1}, "query"),
        ({"query": None}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": ["a"] * 1001}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": [["a"]]}, "documents"),
        ({"documents": [{"text": 1}]}, "documents"),
        ({"documents": [{"text": "a", "title": "b"}]}, "documents"),
        ({"top_n": -1}, "top_n"),
        ({"top_n": 2**31}, "top_n"),
        ({"top_n": True}, "top_n"),
        ({"return_documents": "yes"}, "return_documents"),
        ({"max_tokens_per_doc": 0}, "max_tokens_per_doc"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"truncation": False, "max_tokens_per_doc": 5}, "max_tokens_per_doc"),
        ({"rank_fields": ["title"]}, "rank_fields"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_p5_a_wrong_field_is_named_in_each_apis_own_error(scoring: RunningServer, wrong: dict[str, Any], field: str):
    answers = [scoring.post(route, BODY | wrong) for route in ROUTES]

    assert [answer.status_code for answer in answers] == [400, 400, 400]
    native, openai, cohere = (answer.json() for answer in answers)
    assert native["error"]["code"] == cohere["code"] == "INVALID_REQUEST"
    assert native["error"]["message"] == openai["error"]["message"] == cohere["message"]
    assert f"`{field}" in cohere["message"]
    assert openai["error"]["param"].startswith(field)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"text_1": []}, "text_1"),
        ({"text_1": ["a", "b"]}, "text_1"),
        ({"text_2": ["a"] * 1001}, "text_2"),
        ({"text_2": {}}, "text_2"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"softmax": True}, "softmax"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_p5_a_wrong_field_of_a_score_is_named(scoring: RunningServer, wrong: dict[str, Any], field: str):
    answer = scoring.post("/score", {"model": "reranker", "text_1": "a", "text_2": ["a", "b", "c"]} | wrong)

    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["field"].startswith(field)


def test_p5_a_thousand_documents_are_answered(scoring: RunningServer):
    documents = [f"document {number}" for number in range(1000)]
    assert len(rerank(scoring, documents=documents)["results"]) == 1000


@pytest.mark.parametrize(
    ("path", "body", "kind", "able"),
    [
        ("/rerank", BODY | {"model": "talker"}, "talker generates text", ["embedder", "reranker"]),
        ("/rerank", BODY | {"model": "labeler"}, "is a classifier with 3 labels", ["embedder", "reranker"]),
        ("/inference", {"model": "reranker", "prompt": "a"}, "reranker is a cross-encoder", ["talker"]),
        ("/inference", {"model": "labeler", "prompt": "a"}, "labeler is a classifier", ["talker"]),
        ("/inference", {"model": "embedder", "prompt": "a"}, "embedder makes embeddings", ["talker"]),
        ("/embeddings", {"model": "reranker", "input": "a"}, "reranker is a cross-encoder", ["embedder"]),
        ("/embeddings", {"model": "talker", "input": "a"}, "talker generates text", ["embedder"]),
    ],
    ids=lambda part: str(part)[:40],
)
def test_a_model_of_another_kind_says_what_it_is_and_which_loaded_ones_could(
    scoring: RunningServer, path: str, body: dict[str, Any], kind: str, able: list[str]
):
    answer = scoring.post(path, body)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "INVALID_REQUEST")
    assert kind in error["message"]
    assert error["message"].endswith(f"Loaded models that could: {', '.join(able)}.")
    assert error["details"] == {"field": "model", "loaded_models": able}


def test_an_unknown_model_is_not_found(scoring: RunningServer):
    assert scoring.post("/rerank", BODY | {"model": "nobody"}).status_code == 404
    assert scoring.post("/score", {"model": "nobody", "text_1": "a", "text_2": "b"}).status_code == 404


def test_capabilities_tell_cross_encoders_and_classifiers_apart(scoring: RunningServer):
    models = {model["id"]: model["capabilities"] for model in scoring.get("/models").json()["models"]}

    assert {name: models[name] for name in ("talker", "embedder", "reranker", "labeler")} == {
        "talker": ["text-generation"],
        "embedder": ["embeddings"],
        "reranker": ["rerank"],
        "labeler": ["classification"],
    }


def test_a_reranking_counts_once_in_usage(scoring: RunningServer):
    def used() -> dict[str, Any]:
        rows = scoring.get("/usage?group_by=model", role="STORE_OWNER").json()["data"]
        return next((row for row in rows if row["model"] == "reranker"), {"requests": 0, "prompt_tokens": 0})

    before = used()
    assert scoring.post("/v2/rerank", BODY, role="STORE_OWNER").status_code == 200
    after = used()

    assert after["requests"] - before["requests"] == 1
    assert after["prompt_tokens"] - before["prompt_tokens"] == 24 + 4 * 4
