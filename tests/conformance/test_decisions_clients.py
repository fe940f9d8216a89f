"""The official openai client and LangChain's OpenAIDecisions against decisions and moderations, on the describer."""

from collections.abc import Iterator

import openai
import pytest
from langchain_openai.decisions import Choice, OpenAIDecisions, Predicate, Score

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
INPUT = "I was charged twice for my order of a brass lamp. Please return the money."


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_the_client_gets_probabilities_that_add_up_to_one(client: openai.OpenAI):
    answer = client.decisions.create(
        model=MODEL,
        input=[{"role": "user", "content": INPUT}],
        questions=[
            {"type": "predicate", "name": "refund", "instructions": "The customer wants a refund."},
            {
                "type": "choice",
                "instructions": "Which department?",
                "choices": [{"value": f"department {number}"} for number in range(40)],
            },
            {"type": "score", "instructions": "How urgent?", "levels": [{"label": "low"}, {"label": "high"}]},
        ],
    )

    predicate, choice, score = answer.answers
    assert predicate.type == "predicate"
    assert 0 < predicate.probability < 1
    assert choice.type == "choice"
    assert len(choice.probabilities) == 40
    assert sum(one.probability for one in choice.probabilities) == pytest.approx(1, abs=1e-4)
    assert choice.choice == max(choice.probabilities, key=lambda one: one.probability).value
    assert score.type == "score"
    assert sum(one.probability for one in score.probabilities) == pytest.approx(1, abs=1e-6)
    assert score.score == pytest.approx(score.probabilities[1].probability)
    assert answer.usage.input_tokens_details.cached_tokens > 20
    assert answer.usage.input_tokens > answer.usage.input_tokens_details.cached_tokens


def test_the_demo_moderates_by_decisions(client: openai.OpenAI):
    answer = client.moderations.create(input=[INPUT, "a warm lamp of brass and oak"], model="omni-moderation-latest")

    assert (answer.model, len(answer.results)) == (MODEL, 2)
    scores = [list(result.category_scores.model_dump().values()) for result in answer.results]
    assert all(0 < score < 1 for row in scores for score in row)
    assert scores[0] != scores[1]
    assert len(set(scores[0])) > 1


def test_the_same_question_has_the_same_answer_alone_and_among_400(client: openai.OpenAI):
    questions = [{"type": "predicate", "instructions": f"It is about lamp {number}."} for number in range(400)]
    together = client.decisions.create(model=MODEL, input=INPUT, questions=questions)
    alone = client.decisions.create(model=MODEL, input=INPUT, questions=questions[7:8])

    assert len(together.answers) == 400
    assert together.answers[7].type == alone.answers[0].type == "predicate"
    assert together.answers[7].probability == pytest.approx(alone.answers[0].probability, abs=1e-4)
    assert len({one.probability for one in together.answers if one.type == "predicate"}) > 300


@pytest.mark.filterwarnings("ignore:The class `OpenAIDecisions` is in beta")
def test_langchains_decisions_are_answered_by_name(stoa: RunningStoa):
    decisions = OpenAIDecisions(model=MODEL, base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key)

    answer = decisions.invoke(
        {
            "input": INPUT,
            "questions": {
                "refund": Predicate(instructions="The customer wants a refund."),
                "department": Choice(instructions="Which?", choices={"billing": "Payments.", "technical": None}),
                "urgency": Score(instructions="How urgent?", levels=["low", "middle", "high"]),
            },
        }
    )

    assert 0 < answer.predicates["refund"].probability < 1
    assert answer.choices["department"].choice in ("billing", "technical")
    assert answer.scores["urgency"].legend == {0: "low", 1: "middle", 2: "high"}
    assert sum(answer.scores["urgency"].probabilities.values()) == pytest.approx(1, abs=1e-6)
