"""langchain-openai against the model server's /v1: its own defaults, and how it parses the responses."""

import json
from typing import Any, Literal

import openai
import pydantic
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import SecretStr

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
MESSAGES = [
    SystemMessage("You write product descriptions for an online shop."),
    HumanMessage("Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base"),
]


class Stool(pydantic.BaseModel):
    """A stool, as a structured output."""

    colour: Literal["red", "blue"]


@tool
def paint(colour: Literal["red", "blue"]) -> str:
    """Paint the stool."""
    return f"painted {colour}"


def client_options(stoa: RunningStoa) -> dict[str, Any]:
    return {"base_url": f"{stoa.inference_url}/v1", "api_key": SecretStr(stoa.api_key), "max_retries": 0}


@pytest.fixture
def chat(stoa: RunningStoa) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, temperature=0, seed=1, **client_options(stoa))


def test_a_streamed_chat_equals_the_unstreamed_one(chat: ChatOpenAI):
    whole = chat.invoke(MESSAGES)
    chunks = list(chat.stream(MESSAGES, stream_usage=True))

    assert whole.content
    assert "".join(str(chunk.content) for chunk in chunks) == whole.content
    assert whole.response_metadata["finish_reason"] == "stop"
    assert isinstance(whole, AIMessage)
    assert whole.usage_metadata is not None
    (told,) = (chunk.usage_metadata for chunk in chunks if chunk.usage_metadata)
    assert told["total_tokens"] == whole.usage_metadata["total_tokens"] > 0


async def test_async_and_concurrent_chats_return_the_same_text(chat: ChatOpenAI):
    whole = await chat.ainvoke(MESSAGES)
    assert "".join([str(chunk.content) async for chunk in chat.astream(MESSAGES)]) == whole.content
    together = await chat.abatch([MESSAGES, [HumanMessage("A lamp")], MESSAGES])
    assert together[0].content == together[2].content == whole.content
    await chat.root_async_client.close()  # langchain itself never does


def test_parameters_have_the_names_of_the_openai_api(stoa: RunningStoa):
    chat = ChatOpenAI(
        model=MODEL, temperature=0.7, max_completion_tokens=5, top_p=0.9, n=2, logprobs=True, top_logprobs=2,
        stop_sequences=["\n\n"], presence_penalty=0.1, frequency_penalty=0.1, **client_options(stoa),
    )  # fmt: skip
    answer = chat.invoke(MESSAGES)
    assert answer.response_metadata["finish_reason"] == "length"
    assert len(answer.response_metadata["logprobs"]["content"]) == 5


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_a_structured_output_is_parsed_into_a_model(
    chat: ChatOpenAI, method: Literal["json_schema", "function_calling"]
):
    made = chat.with_structured_output(Stool, method=method).invoke(MESSAGES)
    assert isinstance(made, Stool)


def test_a_tool_is_called_and_its_result_is_sent_back(chat: ChatOpenAI):
    asked = chat.bind_tools([paint], tool_choice="paint", parallel_tool_calls=False, strict=True)
    calling = asked.invoke(MESSAGES)
    streamed = list(asked.stream(MESSAGES))

    (call,) = calling.tool_calls
    assert call["name"] == "paint"
    gathered = "".join(piece["args"] or "" for chunk in streamed for piece in chunk.tool_call_chunks)
    assert json.loads(gathered) == call["args"]
    answer = ToolMessage(paint.invoke(call["args"]), tool_call_id=str(call["id"]))
    assert chat.bind_tools([paint], tool_choice="none").invoke([*MESSAGES, calling, answer]).content


def test_a_prompt_is_completed_streamed_and_unstreamed(stoa: RunningStoa):
    writer = OpenAI(model=MODEL, temperature=0, max_tokens=12, **client_options(stoa))
    prompt = "The kettle is made of"
    whole = writer.invoke(prompt)
    assert whole
    assert "".join(writer.stream(prompt)) == whole
    assert [texts[0].text for texts in writer.generate([prompt, prompt]).generations] == [whole, whole]


def test_texts_are_embedded(stoa: RunningStoa):
    embedder = OpenAIEmbeddings(model="stoa-encoder", check_embedding_ctx_length=False, **client_options(stoa))
    vectors = embedder.embed_documents(["a brass lamp", "a quiet kettle"])
    assert vectors[1] == pytest.approx(embedder.embed_query("a quiet kettle"), abs=1e-5)
    assert sum(number * number for number in vectors[0]) == pytest.approx(1, abs=1e-5)


def test_errors_are_raised_as_the_errors_of_the_client(stoa: RunningStoa, chat: ChatOpenAI):
    with pytest.raises(openai.BadRequestError, match="context"):
        chat.invoke([HumanMessage("a lamp " * 5000)])
    with pytest.raises(openai.NotFoundError):
        ChatOpenAI(model="no-such-model", **client_options(stoa)).invoke(MESSAGES)


def test_the_responses_api_streams_calls_and_continues(stoa: RunningStoa, chat: ChatOpenAI):
    responses = ChatOpenAI(model=MODEL, temperature=0, use_responses_api=True, **client_options(stoa))
    whole = responses.invoke(MESSAGES)
    streamed = "".join(chunk.text for chunk in responses.stream(MESSAGES))
    [call] = responses.bind_tools([paint], tool_choice="paint").invoke(MESSAGES).tool_calls
    previous = whole.response_metadata["id"]
    continued = responses.invoke("Again.", previous_response_id=previous, max_tokens=5)

    assert whole.text == streamed == chat.invoke(MESSAGES).text
    assert call["name"] == "paint"
    assert call["args"]["colour"] in ("red", "blue")
    assert continued.text
    assert responses.with_structured_output(Stool).invoke(MESSAGES).colour in ("red", "blue")  # type: ignore[union-attr]
