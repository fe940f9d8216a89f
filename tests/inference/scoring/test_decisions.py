"""POST /v1/decisions through the official client in strict mode, and its errors.

The fake gives each answer its share of the letters of all answers.
"""

from collections.abc import Iterator
from math import log
from typing import Any

import openai
import pytest

from tests.inference.running_server import RunningServer

PREDICATE = {"type": "predicate", "name": "refund", "instructions": "The customer wants a refund."}
CHOICE = {
    "type": "choice",
    "instructions": "Which one?",
    "choices": [{"value": "true"}, {"value": True, "description": "It is so."}, {"value": "no"}],
}
SCORE = {"type": "score", "name": "", "instructions": "How much?", "levels": [{"label": "a"}, {"label": "abcd"}]}
BODY = {"model": "talker", "input": "I was charged twice.", "questions": [PREDICATE]}


@pytest.fixture
def client(scoring: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{scoring.url}/v1", api_key=scoring.keys["STAFF"], max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_each_kind_of_question_is_answered_in_order(client: openai.OpenAI):
    answer = client.decisions.create(model="talker", input="I was charged twice.", questions=[PREDICATE, CHOICE, SCORE])

    predicate, choice, score = answer.answers
    assert predicate.type == "predicate"
    assert (predicate.name, predicate.probability) == ("refund", pytest.approx(3 / 5))
    assert choice.type == "choice"
    assert [(one.value, one.probability) for one in choice.probabilities] == [
        ("true", pytest.approx(6 / 14)),
        (True, pytest.approx(4 / 14)),
        ("no", pytest.approx(4 / 14)),
    ]
    assert (choice.name, choice.choice) == (None, "true")
    entropy = -sum(one / 14 * log(one / 14) for one in (6, 4, 4))
    assert choice.confidence == pytest.approx(1 - entropy / log(3))
    assert score.type == "score"
    assert [(one.label, one.value, one.probability) for one in score.probabilities] == [
        ("a", 0, pytest.approx(3 / 9)),
        ("abcd", 1, pytest.approx(6 / 9)),
    ]
    assert (score.name, score.score) == ("", pytest.approx(6 / 9))
    assert answer.model == "talker"


def test_usage_counts_the_input_once_and_shows_the_shared_prefix(client: openai.OpenAI):
    one = client.decisions.create(model="talker", input="x" * 500, questions=[PREDICATE]).usage
    two = client.decisions.create(model="talker", input="x" * 500, questions=[PREDICATE] * 2).usage

    own = two.input_tokens - one.input_tokens
    shared = one.input_tokens - own
    assert shared > 500
    assert own > len(str(PREDICATE["instructions"]))
    assert (one.input_tokens_details.cached_tokens, one.input_tokens_details.cache_write_tokens) == (0, shared)
    assert two.input_tokens_details.cached_tokens == shared
    assert (two.output_tokens, two.output_tokens_details.reasoning_tokens) == (0, 0)
    assert two.total_tokens == two.input_tokens


def test_a_conversation_with_tools_and_json_is_an_input(client: openai.OpenAI):
    answer = client.decisions.create(
        model="talker",
        input=[
            {"role": "system", "content": [{"type": "input_text", "text": "Be kind."}]},
            {"role": "user", "content": [{"type": "input_json", "data": {"order": 7}}]},
            {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "found"}]},
            {"type": "custom_tool_call", "call_id": "d", "name": "look", "input": "here"},
            {"type": "custom_tool_call_output", "call_id": "d", "output": "nothing"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        ],
        questions=[PREDICATE | {"instructions": [{"type": "input_text", "text": "It was rude."}]}],
        prompt_cache_key="tickets",
        prompt_cache_options={"mode": "implicit", "ttl": "30m"},
        safety_identifier="user-7",
    )
    assert [one.type for one in answer.answers] == ["predicate"]


def test_p5_400_questions_are_answered_and_401_rejected(scoring: RunningServer):
    assert len(scoring.post("/v1/decisions", BODY | {"questions": [PREDICATE] * 400}).json()["answers"]) == 400
    assert scoring.post("/v1/decisions", BODY | {"questions": [PREDICATE] * 401}).status_code == 400


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": [{"role": "robot", "content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "video"}]}]}, "input[0].content"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]},
            "input[0].content[0]",
        ),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, "input[0].call_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_json", "data": {"a": [0] * 10_001}}]}]}, "input[0]"),
        ({"questions": []}, "questions"),
        ({"questions": {}}, "questions"),
        ({"questions": [{"type": "essay", "instructions": "a"}]}, "questions[0]"),
        ({"questions": [PREDICATE, PREDICATE | {"instructions": ""}]}, "questions[1].instructions"),
        ({"questions": [PREDICATE | {"levels": []}]}, "questions[0].levels"),
        ({"questions": [CHOICE | {"choices": [{"value": "a"}]}]}, "questions[0].choices"),
        ({"questions": [CHOICE | {"choices": [{"value": "a"}] * 2}]}, "questions[0].choices"),
        ({"questions": [CHOICE | {"choices": [{"value": 1}, {"value": 2}]}]}, "questions[0].choices"),
        ({"questions": [CHOICE | {"choices": [{"value": str(one)} for one in range(256)]}]}, "questions[0].choices"),
        ({"questions": [SCORE | {"levels": [{"label": "a"}]}]}, "questions[0].levels"),
        ({"questions": [SCORE | {"levels": [{"label": str(one)} for one in range(11)]}]}, "questions[0].levels"),
        ({"safety_identifier": 7}, "safety_identifier"),
        ({"temperature": 0}, "temperature"),
        ({"model": 7}, "model"),
    ],
    ids=lambda part: str(part)[:60],
)
def test_p5_a_wrong_field_is_named(scoring: RunningServer, wrong: dict[str, Any], param: str):
    answer = scoring.post("/v1/decisions", BODY | wrong)

    assert answer.status_code == 400
    assert str(answer.json()["error"]["param"]).startswith(param)


def test_p5_deep_json_is_rejected(scoring: RunningServer):
    deep: Any = {}
    for _ in range(40):
        deep = {"a": deep}
    part = {"type": "input_json", "data": deep}
    answer = scoring.post("/v1/decisions", BODY | {"input": [{"role": "user", "content": [part]}]})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input[0].content[0].data"


def test_a_model_that_does_not_generate_says_which_one_could(scoring: RunningServer):
    for model in ("reranker", "embedder", "labeler"):
        answer = scoring.post("/v1/decisions", BODY | {"model": model})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].endswith("Loaded models that could: talker.")
        assert answer.json()["error"]["param"] == "model"
    assert scoring.post("/v1/decisions", BODY | {"model": "nobody"}).status_code == 404
