"""OpenAI's completions: requests to the engine, and responses from its outputs."""

import pytest

from inference.engine import FinishReason, GenerationOutput, InvalidRequest, TokenLogprob, Usage
from inference.protocol.choices import GeneratedChoice
from inference.protocol.openai.completion_logprobs import CompletionLogprobs, CompletionLogprobsBuilder
from inference.protocol.openai.completions import (
    CompletionStreamEncoder,
    build_text_completion,
    parse_completion_request,
)

BODY = {"model": "m", "prompt": "p"}
USAGE = Usage(7, 2, cached_tokens=4)


def token_logprob(text: str | bytes, logprob: float | None = -1.0, *top: tuple[str, float]) -> TokenLogprob:
    data = text.encode() if isinstance(text, str) else text
    best = tuple(TokenLogprob(9, other, other.encode(), its) for other, its in top)
    return TokenLogprob(1, data.decode(errors="replace"), data, logprob, best)


def test_a_completion_without_parameters_has_openais_defaults():
    (request,) = parse_completion_request(BODY).generation_requests("cmpl-1")

    assert (request.prompt, request.prompt_ids, request.messages) == ("p", None, None)
    assert (request.sampling.max_tokens, request.sampling.temperature, request.sampling.top_p) == (16, 1.0, 1.0)
    assert (request.sampling.top_k, request.sampling.repeat_penalty, request.sampling.stop) == (0, 1.0, ())
    assert (request.n, request.echo, request.sampling.logprobs) == (1, False, None)


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("a", [("a", None)]),
        (["a", "b"], [("a", None), ("b", None)]),
        ([5, 0], [(None, (5, 0))]),
        ([[5], [6, 7]], [(None, (5,)), (None, (6, 7))]),
        (["a"] * 64, [("a", None)] * 64),
        ([2**31 - 1] * 65, [(None, (2**31 - 1,) * 65)]),
    ],
)
def test_each_prompt_becomes_a_request_of_its_own(prompt: object, asked: list[tuple[object, object]]):
    fields = {"n": 3, "seed": 5, "echo": True, "logprobs": 2, "priority": 1, "timeout": 9, "stop": ".", "min_p": 0.5}
    requests = parse_completion_request(BODY | {"prompt": prompt} | fields).generation_requests("cmpl-1")

    assert [(request.prompt, request.prompt_ids) for request in requests] == asked
    assert len({request.request_id for request in requests}) == len(asked)
    for request in requests:
        assert (request.n, request.echo, request.priority, request.timeout) == (3, True, 1, 9.0)
        assert (request.sampling.seed, request.sampling.logprobs, request.sampling.stop) == (5, 2, (".",))
        assert request.sampling.min_p == 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": []},
        {"prompt": ["a", [1]]},
        {"prompt": [[1], [True]]},
        {"prompt": ["a"] * 65},
        {"best_of": 1.5},
        {"suffix": "x"},
        {"logprobs": -1},
        {"max_tokens": 0},
        {"regex": 1},
        {"stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_obfuscation": True}},
    ],
    ids=str,
)
def test_i4_an_error_names_the_field_that_is_not_valid(fields: dict[str, object]):
    with pytest.raises(InvalidRequest) as refused:
        parse_completion_request(BODY | fields).generation_requests("cmpl-1")

    assert str(refused.value.details["field"]).startswith(list(fields)[-1])


def test_log_probabilities_have_four_arrays_and_the_token_among_the_most_probable():
    formed = CompletionLogprobsBuilder().add(
        "a lamp",
        [
            token_logprob("a", None),
            token_logprob(" la", -0.5, (" la", -0.5), (" b", -2.0)),
            token_logprob("mp", -3.0, ("x", -1.0)),
        ],
    )

    assert formed == CompletionLogprobs(
        tokens=["a", " la", "mp"],
        token_logprobs=[None, -0.5, -3.0],
        top_logprobs=[None, {" la": -0.5, " b": -2.0}, {"x": -1.0, "mp": -3.0}],
        text_offset=[0, 1, 4],
    )


@pytest.mark.parametrize(
    ("text", "tokens", "offsets"),
    [
        ("hello", ["<s>", "hel", "lo"], [0, 0, 3]),  # a control token is not in the text
        ("the cat", [" the", " cat"], [0, 3]),  # nor is the space that a tokenizer puts before it
        ("née", ["n", b"\xc3", b"\xa9", "e"], [0, 1, 1, 2]),
        ("日x", [b"\xe6\x97", b"\xa5", "x"], [0, 0, 1]),
        ("a lam", ["a", " lamp"], [0, 1]),  # the end was a stop sequence's
        ("aé", ["a", b"\xff", "é"], [0, 1, 1]),  # no character at all
        ("", ["a"], [0]),
    ],
)
def test_each_token_has_its_offset_in_the_text(text: str, tokens: list[str | bytes], offsets: list[int]):
    assert CompletionLogprobsBuilder().add(text, [token_logprob(token) for token in tokens]).text_offset == offsets


def test_offsets_continue_over_pieces_with_held_back_text():
    builder = CompletionLogprobsBuilder()

    offsets = [
        builder.add(text, [token_logprob(token) for token in tokens]).text_offset
        for text, tokens in [("a", ["a"]), ("", []), (" la", [" lamp"]), ("m", []), ("ps ", ["s"]), ("x", [" ", "x"])]
    ]

    assert offsets == [[0], [], [1], [], [6], [7, 8]]


def test_a_partial_character_is_named_by_its_bytes_and_infinity_is_a_number():
    formed = CompletionLogprobsBuilder().add("é", [token_logprob(b"\xc3"), token_logprob(b"\xa9", float("-inf"))])

    assert formed.tokens == ["bytes:\\xc3", "bytes:\\xa9"]
    assert formed.token_logprobs == [-1.0, -9999.0]
    assert formed.top_logprobs[1] == {"bytes:\\xa9": -9999.0}


def output(index: int, text: str, reason: FinishReason | None = None, **more: object) -> GenerationOutput:
    usage = USAGE if reason else None
    plain = {"request_id": "r", "index": index, "text": text, "finish_reason": reason, "usage": usage}
    return GenerationOutput(**plain | more)  # type: ignore[arg-type]


def streamed(*outputs: GenerationOutput, **options: bool) -> list[bytes]:
    stream = CompletionStreamEncoder(
        **{"completion_id": "cmpl-1", "created": 5, "model": "m", "include_usage": False} | options  # type: ignore[arg-type]
    )
    return [event for one in outputs for event in stream.events(one)]


HEAD = b'data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":'


def test_chunks_are_in_openais_order_and_a_held_back_token_has_none():
    assert streamed(output(0, "Hi"), output(1, ""), output(2, " you", FinishReason.LENGTH)) == [
        HEAD + b'[{"text":"Hi","index":0,"logprobs":null,"finish_reason":null}]}\n\n',
        HEAD + b'[{"text":" you","index":0,"logprobs":null,"finish_reason":"length"}]}\n\n',
        b"data: [DONE]\n\n",
    ]


def test_the_usage_is_in_the_last_chunk_and_null_before():
    assert streamed(output(0, "Hi", FinishReason.STOP, choice=3), include_usage=True) == [
        HEAD + b'[{"text":"Hi","index":3,"logprobs":null,"finish_reason":"stop"}],"usage":null}\n\n',
        HEAD + b'[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,'
        b'"prompt_tokens_details":{"cached_tokens":4}}}\n\n',
        b"data: [DONE]\n\n",
    ]


def test_log_probabilities_are_streamed_for_each_choice():
    first, other = streamed(
        output(0, "ab", logprobs=(token_logprob("a"), token_logprob("b"))),
        output(0, "c", choice=1, logprobs=(token_logprob("c"),)),
        with_logprobs=True,
    )  # fmt: skip

    assert b'"token_logprobs":[-1.0,-1.0],"top_logprobs":[{"a":-1.0},{"b":-1.0}],"text_offset":[0,1]' in first
    assert b'"text_offset":[0]' in other


@pytest.mark.parametrize("reason", [FinishReason.ERROR, FinishReason.CANCELLED])
def test_s11_a_failed_stream_ends_with_an_error_and_no_done(reason: FinishReason):
    events = streamed(output(0, "a"), output(1, "", reason))

    assert len(events) == 2
    assert b'"error":{"message":' in events[1]
    assert b'"code":"inference_failed"' in events[1]


def test_a_whole_completion_has_every_choice():
    choice = GeneratedChoice(0)
    choice.add(output(0, "a", logprobs=(token_logprob("a"),)))
    choice.add(output(1, "b", FinishReason.STOP, logprobs=(token_logprob("b"),)))
    made = {"completion_id": "cmpl-1", "created": 5, "model": "m", "usage": USAGE}

    whole = build_text_completion(choices=[choice], with_logprobs=True, **made)  # type: ignore[arg-type]
    plain = build_text_completion(choices=[choice], **made)  # type: ignore[arg-type]

    assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("ab", "stop")
    assert whole.choices[0].logprobs is not None
    assert whole.choices[0].logprobs.text_offset == [0, 1]
    assert plain.choices[0].logprobs is None
    assert (plain.usage.total_tokens, plain.usage.prompt_tokens_details.cached_tokens) == (9, 4)
