"""POST /v1/moderations by a classifier, by decisions, and without a configured model.

The fake classifier's score of a label is the share of a text's letters that the label has; the fake generating model
gives each answer its share of the letters of all answers.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from inference.scoring.moderations import CATEGORIES
from tests.inference.engine.processes import running_host
from tests.inference.running_server import RunningServer, add_model, running_server
from tests.inference.scoring.conftest import MODELS

EXTRA = {"STOA_MODERATION_MODEL": "talker", "STOA_MODERATION_LABELS": "threat=harassment/threatening"}


@pytest.fixture(scope="module")
def moderating() -> Iterator[RunningServer]:
    """A server that is configured to moderate by decisions of `talker`, with a category for a label of `labeler`."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder, running_host() as host:
        home = Path(folder)
        for name, config in MODELS.items():
            add_model(home / "models", name, config)
        with running_server(home, host.run_dir, home / "models", load=list(MODELS), extra=EXTRA) as stoa:
            yield stoa


@pytest.fixture
def client(moderating: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{moderating.url}/v1",
        api_key=moderating.keys["STAFF"],
        max_retries=0,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.mark.parametrize("model", [None, "omni-moderation-latest", "talker"])
def test_decisions_score_every_category_in_openais_form(client: openai.OpenAI, model: str | None):
    chosen = {} if model is None else {"model": model}
    answer = client.moderations.create(input=["a lamp", "a kettle"], **chosen)

    assert (answer.model, len(answer.results), answer.id[:5]) == ("talker", 2, "modr-")
    for result in answer.results:
        scores = result.category_scores.model_dump(by_alias=True)
        assert scores.keys() == CATEGORIES.keys()
        assert list(scores.values()) == pytest.approx([3 / 5] * 13)  # the letters of Yes and No
        assert result.flagged
        assert set(result.categories.model_dump().values()) == {True}
        assert result.category_applied_input_types.violence == ["text"]


def test_a_text_in_parts_is_one_input(client: openai.OpenAI):
    parts: Any = [{"type": "text", "text": "a lamp"}, {"type": "text", "text": "a kettle"}]
    assert len(client.moderations.create(input=parts).results) == 1
    assert len(client.moderations.create(input="a lamp").results) == 1


def test_a_classifier_scores_its_labels_under_their_categories(moderating: RunningServer):
    answer = moderating.post("/v1/moderations", {"model": "labeler", "input": ["hat", "xxxh"]})

    assert answer.status_code == 200, answer.text
    first, second = answer.json()["results"]
    assert first["category_scores"] == {"hate": pytest.approx(1), "harassment/threatening": pytest.approx(1)}
    assert first["categories"] == {"hate": True, "harassment/threatening": True}
    assert second["category_scores"] == {"hate": pytest.approx(1 / 4), "harassment/threatening": pytest.approx(1 / 4)}
    assert (first["flagged"], second["flagged"]) == (True, False)
    assert first["category_applied_input_types"] == {"hate": ["text"], "harassment/threatening": ["text"]}


def test_without_a_configured_model_the_error_names_what_to_load(scoring: RunningServer):
    for model in ({}, {"model": "omni-moderation-latest"}):
        answer = scoring.post("/v1/moderations", {"input": "a"} | model)
        assert answer.status_code == 400
        assert "Load a classifier or a text-generation model" in answer.json()["error"]["message"]
        assert "STOA_MODERATION_MODEL" in answer.json()["error"]["message"]
    assert scoring.post("/v1/moderations", {"input": "a", "model": "talker"}).status_code == 200
    assert scoring.post("/v1/moderations", {"input": "a", "model": "labeler"}).json()["results"][0]["categories"] == {
        "hate": True
    }


@pytest.mark.parametrize("model", ["reranker", "embedder"])
def test_a_model_that_cannot_moderate_says_which_one_could(moderating: RunningServer, model: str):
    answer = moderating.post("/v1/moderations", {"input": "a", "model": model})

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("Loaded models that could: talker.")


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": 7}, "input"),
        ({"input": ["a"] * 33}, "input"),
        ({"input": ["a", {"type": "text", "text": "b"}]}, "input"),
        ({"input": [{"type": "image_url", "image_url": {"url": "data:"}}]}, "input[0]"),
        ({"input": [{"type": "audio"}]}, "input[0]"),
        ({"threshold": 1}, "threshold"),
        ({"model": 7}, "model"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_p5_a_wrong_field_is_named(moderating: RunningServer, wrong: dict[str, Any], param: str):
    answer = moderating.post("/v1/moderations", {"input": "a"} | wrong)

    assert answer.status_code == 400
    assert str(answer.json()["error"]["param"]).startswith(param)


def test_a_moderation_counts_once_in_usage(moderating: RunningServer):
    def requests() -> int:
        rows = moderating.get("/usage?group_by=model", role="STORE_OWNER").json()["data"]
        return next((int(row["requests"]) for row in rows if row["model"] == "talker"), 0)

    before = requests()
    assert moderating.post("/v1/moderations", {"input": ["a", "b"]}, role="STORE_OWNER").status_code == 200
    assert requests() == before + 1
