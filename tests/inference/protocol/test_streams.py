"""Streams of the native route and of OpenAI's chat, byte by byte."""

import msgspec

from inference.engine import FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta, Usage
from inference.protocol import sse
from inference.protocol.choices import GeneratedChoice
from inference.protocol.native.inference import stream_events
from inference.protocol.openai.chat import ChatStreamEncoder, build_chat_completion

USAGE = Usage(7, 2, cached_tokens=4)


def output(index: int, text: str, reason: FinishReason | None = None, error: str | None = None) -> GenerationOutput:
    usage = USAGE if reason else None
    return GenerationOutput(request_id="r", index=index, text=text, finish_reason=reason, usage=usage, error=error)


def native(*outputs: GenerationOutput) -> list[bytes]:
    return [sse.encode_event(event) for one in outputs for event in stream_events(one)]


def chat(*outputs: GenerationOutput, include_usage: bool = False) -> list[bytes]:
    stream = ChatStreamEncoder(completion_id="chatcmpl-1", created=5, model="m", include_usage=include_usage)
    return [stream.start(), *(event for one in outputs for event in stream.events(one))]


def test_a_native_stream_has_one_event_per_token_and_a_last_one_with_the_reason():
    assert native(output(0, "a\nb"), output(1, "", None), output(2, "é", FinishReason.STOP)) == [
        b'data: {"token":"a\\nb","index":0}\n\n',
        b'data: {"token":"","index":1}\n\n',
        'data: {"token":"é","index":2}\n\n'.encode(),
        b'data: {"done":true,"finish_reason":"stop"}\n\n',
    ]


def test_s11_a_failed_native_stream_ends_with_an_error_and_no_done():
    assert native(output(0, "a"), output(1, "", FinishReason.ERROR, "The model died.")) == [
        b'data: {"token":"a","index":0}\n\n',
        b'data: {"error":{"code":"INFERENCE_FAILED","message":"The model died."}}\n\n',
    ]


def test_a_cancelled_native_stream_ends_with_done_and_no_further_token():
    assert native(output(3, "", FinishReason.CANCELLED)) == [b'data: {"done":true,"finish_reason":"cancelled"}\n\n']


def test_chat_chunks_are_in_openais_order():
    head = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":'
    tail = b',"logprobs":null}]}\n\n'

    assert chat(output(0, "Hi"), output(1, ""), output(2, "", FinishReason.STOP)) == [
        head + b'[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null' + tail,
        head + b'[{"index":0,"delta":{"content":"Hi"},"finish_reason":null' + tail,
        head + b'[{"index":0,"delta":{},"finish_reason":"stop"' + tail,
        b"data: [DONE]\n\n",
    ]


CALLS = (ToolCallDelta(0, "call_1", "look", ""), ToolCallDelta(0, None, None, '{"at":1}'))
LOGPROB = TokenLogprob(7, "Hi", b"Hi", -0.5, (TokenLogprob(7, "Hi", b"Hi", -0.5), TokenLogprob(9, "�", b"\xe6", -2.0)))


def tool_call_output(index: int, *calls: ToolCallDelta) -> GenerationOutput:
    return GenerationOutput(request_id="r", index=index, text="", tool_calls=calls)


def test_tool_calls_are_streamed_in_pieces_in_openais_form():
    head = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":'
    tail = b',"logprobs":null}]}\n\n'

    assert chat(tool_call_output(0, CALLS[0]), tool_call_output(1, CALLS[1]), output(2, "", FinishReason.TOOL_CALLS))[
        1:
    ] == [
        head + b'[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"","name":"look"},"id":"call_1",'
        b'"type":"function"}]},"finish_reason":null' + tail,
        head + b'[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"at\\":1}"}}]},'
        b'"finish_reason":null' + tail,
        head + b'[{"index":0,"delta":{},"finish_reason":"tool_calls"' + tail,
        b"data: [DONE]\n\n",
    ]


def test_log_probabilities_are_in_the_event_of_their_text():
    told = b'{"content":[{"token":"Hi","logprob":-0.5,"bytes":[72,105],"top_logprobs":[{"token":"Hi","logprob":-0.5,'
    told += b'"bytes":[72,105]},{"token":"\xef\xbf\xbd","logprob":-2.0,"bytes":[230]}]}],"refusal":null}'
    one = msgspec.structs.replace(output(0, "Hi"), logprobs=(LOGPROB,))

    assert chat(one)[1].endswith(b'"delta":{"content":"Hi"},"finish_reason":null,"logprobs":' + told + b"}]}\n\n")
    assert native(one) == [b'data: {"token":"Hi","index":0,"logprobs":' + told + b"}\n\n"]


def test_a_whole_completion_has_tool_calls_and_log_probabilities():
    choice = GeneratedChoice(0)
    for one in (tool_call_output(0, CALLS[0]), tool_call_output(1, CALLS[1]), output(2, "", FinishReason.TOOL_CALLS)):
        choice.add(one)
    said = GeneratedChoice(1, pieces=["Hi"], logprobs=[LOGPROB], finish_reason=FinishReason.STOP)

    answer = msgspec.to_builtins(
        build_chat_completion(
            completion_id="c", created=5, model="m", choices=[choice, said], usage=USAGE, with_logprobs=True
        )
    )

    first, second = answer["choices"]
    assert first["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [{"id": "call_1", "function": {"name": "look", "arguments": '{"at":1}'}, "type": "function"}],
    }
    assert (first["finish_reason"], first["logprobs"]) == ("tool_calls", {"content": [], "refusal": None})
    assert second["message"] == {"role": "assistant", "content": "Hi", "refusal": None}
    assert [one["logprob"] for one in second["logprobs"]["content"][0]["top_logprobs"]] == [-0.5, -2.0]


def test_a_requested_usage_chunk_is_the_last_one():
    events = chat(output(0, "Hi", FinishReason.LENGTH), include_usage=True)

    assert all(b'"usage":null' in event for event in events[:-2])
    assert events[-2].endswith(
        b'"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,'
        b'"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}}}\n\n'
    )
    assert events[-1] == b"data: [DONE]\n\n"


def test_s11_a_failed_chat_stream_ends_with_an_error_and_no_done():
    events = chat(output(0, "Hi"), output(1, "", FinishReason.ERROR, "The model died."))

    assert events[-1] == (
        b'data: {"error":{"message":"The model died.","type":"server_error","param":null,'
        b'"code":"inference_failed"}}\n\n'
    )
