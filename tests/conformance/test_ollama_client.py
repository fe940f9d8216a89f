"""The official ollama client against the model server."""

import json
from collections.abc import Iterator

import ollama
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
MESSAGES = [
    {"role": "system", "content": "You write product descriptions for an online shop."},
    {"role": "user", "content": "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet"},
]
GREEDY = {"temperature": 0, "num_predict": 100}


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[ollama.Client]:
    with ollama.Client(host=stoa.inference_url, headers=stoa.headers()) as client:
        yield client


def test_a_streamed_chat_equals_the_whole_one(client: ollama.Client):
    whole = client.chat(model=MODEL, messages=MESSAGES, options=GREEDY)
    parts = list(client.chat(model=f"{MODEL}:latest", messages=MESSAGES, options=GREEDY, stream=True))

    assert whole.message.content
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert (whole.done_reason, parts[-1].done_reason) == ("stop", "stop")
    assert parts[-1].prompt_eval_count == whole.prompt_eval_count
    assert parts[-1].eval_count == whole.eval_count


def test_a_prompt_is_continued_or_answered(client: ollama.Client):
    raw = client.generate(model=MODEL, prompt="The kettle is made of", raw=True, options=GREEDY)
    answered = client.generate(
        model=MODEL, prompt=MESSAGES[1]["content"], system=MESSAGES[0]["content"], options=GREEDY
    )
    assert raw.response
    assert answered.response == client.chat(model=MODEL, messages=MESSAGES, options=GREEDY).message.content


def test_structured_output_and_tools_are_followed(client: ollama.Client):
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    schema["additionalProperties"] = False
    formatted = client.chat(model=MODEL, messages=MESSAGES, format=schema, options=GREEDY)
    assert json.loads(formatted.message.content)["colour"] in ("red", "blue")

    def paint(colour: str) -> str:
        """Paint the stool.

        Args:
            colour: The colour.
        """
        return f"painted {colour}"

    answer = client.chat(model=MODEL, messages=MESSAGES, tools=[paint], options=GREEDY)
    assert answer.message.content or answer.message.tool_calls


def test_texts_are_embedded_and_long_ones_are_cut(client: ollama.Client):
    short = client.embed(model="stoa-encoder", input=["a brass lamp", "a quiet kettle"])
    assert len(short.embeddings) == 2
    assert sum(number * number for number in short.embeddings[0]) == pytest.approx(1, abs=1e-4)
    long = "lamp " * 3000
    assert len(client.embed(model="stoa-encoder", input=long).embeddings[0]) == len(short.embeddings[0])
    with pytest.raises(ollama.ResponseError, match="maximum context length"):
        client.embed(model="stoa-encoder", input=long, truncate=False)


def test_models_are_listed_shown_and_running(client: ollama.Client):
    assert {MODEL, "stoa-encoder"} <= {model.model for model in client.list().models}
    assert {MODEL, "stoa-encoder"} <= {model.model for model in client.ps().models}
    assert client.show(MODEL).capabilities == ["completion", "tools"]
    assert client.show("stoa-encoder").capabilities == ["embedding"]
