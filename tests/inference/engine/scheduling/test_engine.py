"""The engine loop: submission, cancellation, stopping and failures, with a scripted decoder."""

import re
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from inference.engine.errors import ContextLengthExceeded, EngineOverloaded, InvalidRequest
from inference.engine.model_status import LoadOptions
from inference.engine.outputs import FinishReason
from inference.engine.requests import GenerationRequest, Message, Tool, ToolCall
from inference.engine.sampling import SamplingParams
from inference.engine.text.tokenizer import Tokenizer
from tests.inference.engine.engine_runner import RememberingDecoder, ScriptedDecoder, ask, running_engine
from tests.inference.engine.tiny_models import END, byte_tokenizer, letter_tokenizer

LETTERS = letter_tokenizer()
BYTES = byte_tokenizer()
ENDLESS = SamplingParams(temperature=0)


def scripted(text: str, *, end: bool = True, pause: float = 0.0) -> ScriptedDecoder:
    """Writes `text`, and then ends or begins anew."""
    script = BYTES.encode(text) + [END] * end
    return ScriptedDecoder(script, len(BYTES), pause)


def stopping_at(*stop: str) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=60, stop=stop)


def test_the_end_token_is_the_last_output_and_has_no_text() -> None:
    with running_engine(scripted("brass lamp"), BYTES) as (engine, collector):
        assert engine.submit(ask("one", "hello")).prompt_tokens == len(BYTES.encode("hello"))
        outputs = collector.outputs("one")
    tokens = len(BYTES.encode("brass lamp")) + 1
    assert [output.index for output in outputs] == list(range(tokens))
    assert "".join(output.text for output in outputs) == "brass lamp"
    assert (outputs[-1].text, outputs[-1].finish_reason) == ("", FinishReason.STOP)
    assert outputs[-1].usage is not None
    assert outputs[-1].usage.completion_tokens == tokens
    assert all(output.finish_reason is output.usage is None for output in outputs[:-1])


def test_max_tokens_end_with_length() -> None:
    with running_engine(scripted("brass lamp", end=False), BYTES) as (engine, collector):
        engine.submit(ask("one", "hello", SamplingParams(temperature=0, max_tokens=3)))
        outputs = collector.outputs("one")
    assert len(outputs) == 3
    assert outputs[-1].finish_reason == FinishReason.LENGTH


def test_without_max_tokens_the_context_is_filled() -> None:
    with running_engine(scripted("brass lamp", end=False), LETTERS, context_size=40) as (engine, collector):
        engine.submit(ask("one", "x" * 15, ENDLESS))
        outputs = collector.outputs("one")
    assert len(outputs) == 25
    assert outputs[-1].finish_reason == FinishReason.LENGTH


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (("lamp",), "a brass "),
        (("s l",), "a bras"),
        (("a brass lamp, warm",), ""),
        (("nothing of this", "warm", "p, w"), "a brass lam"),
        (("zzz", "lampion"), "a brass lamp, warm"),
        (("warm!",), "a brass lamp, warm"),
    ],
)
def test_no_part_of_a_stop_sequence_is_returned(stop: tuple[str, ...], expected: str) -> None:
    with running_engine(scripted("a brass lamp, warm"), BYTES) as (engine, collector):
        engine.submit(ask("one", "hello", stopping_at(*stop)))
        outputs = collector.outputs("one")
    assert "".join(output.text for output in outputs) == expected
    assert outputs[-1].finish_reason == FinishReason.STOP
    assert [output.index for output in outputs] == list(range(len(outputs)))


def test_held_back_text_is_returned_at_the_end() -> None:
    with running_engine(scripted("the lam", end=False), BYTES) as (engine, collector):
        count = len(BYTES.encode("the lam"))
        engine.submit(ask("one", "hello", SamplingParams(temperature=0, max_tokens=count, stop=("lamp",))))
        outputs = collector.outputs("one")
    assert "".join(output.text for output in outputs) == "the lam"
    assert outputs[-1].text == "lam"


def test_characters_of_several_tokens_are_returned_whole() -> None:
    text = "naïve 日本 👩‍🔧 ok"
    with running_engine(scripted(text), BYTES) as (engine, collector):
        engine.submit(ask("one", "hello"))
        outputs = collector.outputs("one")
    assert "".join(output.text for output in outputs) == text
    assert not any("\ufffd" in output.text for output in outputs)
    assert sum(output.text == "" for output in outputs) > 5


def test_an_incomplete_character_at_the_end_is_dropped() -> None:
    tokens = len(BYTES.encode("ok 日")) - 1
    with running_engine(scripted("ok 日"), BYTES) as (engine, collector):
        engine.submit(ask("one", "hello", SamplingParams(temperature=0, max_tokens=tokens)))
        assert collector.text("one") == "ok "


def test_a_cancelled_request_ends_once_and_frees_its_slot() -> None:
    options = LoadOptions(max_sequences=1)
    with running_engine(scripted("on and on ", end=False, pause=0.002), BYTES, options) as (engine, collector):
        engine.submit(ask("first", "hello", ENDLESS))
        engine.submit(ask("second", "hello", SamplingParams(temperature=0, max_tokens=2)))
        collector.wait_for_tokens("first", 3)
        engine.cancel("first")
        engine.cancel("first")
        engine.cancel("never heard of")
        last = collector.outputs("first")[-1]
        assert collector.outputs("second")[-1].finish_reason == FinishReason.LENGTH
        stats = engine.stats()
    assert last.finish_reason == FinishReason.CANCELLED
    assert (last.text, last.index) == ("", len(collector.outputs("first")) - 1)
    assert last.usage is not None
    assert last.usage.completion_tokens == last.index
    assert (stats.running, stats.waiting, stats.slots) == (0, 0, 1)


def test_a_waiting_request_can_be_cancelled() -> None:
    options = LoadOptions(max_sequences=1)
    with running_engine(scripted("on and on ", end=False, pause=0.002), BYTES, options) as (engine, collector):
        engine.submit(ask("first", "hello", ENDLESS))
        engine.submit(ask("second", "hello", ENDLESS))
        engine.cancel("second")
        outputs = collector.outputs("second")
        assert len(outputs) == 1
        assert outputs[0].finish_reason == FinishReason.CANCELLED


def test_stopping_cancels_all_requests_and_rejects_new_ones() -> None:
    with running_engine(scripted("on and on ", end=False, pause=0.002), BYTES) as (engine, collector):
        for name in ("first", "second"):
            engine.submit(ask(name, "hello", ENDLESS))
        collector.wait_for_tokens("second", 1)
        engine.stop()
        assert {collector.outputs(name)[-1].finish_reason for name in ("first", "second")} == {FinishReason.CANCELLED}
        with pytest.raises(EngineOverloaded) as refused:
            engine.submit(ask("third", "hello"))
    assert refused.value.details["reason"] == "stopping"


def test_a_full_queue_rejects_requests_with_retry_after() -> None:
    options = LoadOptions(max_sequences=1, max_queue=2)
    with running_engine(scripted("on and on ", end=False, pause=0.002), BYTES, options) as (engine, collector):
        engine.submit(ask("runs", "hello", ENDLESS))
        collector.wait_for_tokens("runs", 1)
        for name in ("waits", "waits too"):
            engine.submit(ask(name, "hello", ENDLESS))
        with pytest.raises(EngineOverloaded, match="Try again in") as refused:
            engine.submit(ask("one too many", "hello", ENDLESS))
        assert (engine.stats().running, engine.stats().waiting) == (1, 2)
    assert refused.value.details["reason"] == "queue_full"
    assert 1 <= refused.value.details["retry_after"] <= 120


def test_a_failed_step_ends_running_requests_with_an_error_and_the_loop_continues() -> None:
    decoder = scripted("on and on ", end=False, pause=0.002)
    with running_engine(decoder, BYTES) as (engine, collector):
        decoder.fails_at = 12
        for name in ("first", "second"):
            engine.submit(ask(name, "hello", ENDLESS))
        for name in ("first", "second"):
            last = collector.outputs(name)[-1]
            assert last.finish_reason == FinishReason.ERROR
            assert last.error is not None
            assert "The engine failed" in last.error
        engine.submit(ask("third", "hello", SamplingParams(temperature=0, max_tokens=4)))
        assert collector.text("third") == BYTES.decode(BYTES.encode("on and on ")[:4])


def test_a_text_with_logits_that_are_not_finite_ends_only_its_own_request() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    (decoder.breaks_on,) = LETTERS.encode("~")
    few = SamplingParams(temperature=0, max_tokens=20, logit_bias={decoder.breaks_on: -100})
    prompts = {"healthy": "a lamp", "astray": "a lamp ~", "after": "a lamp of brass", "again": "a lamp ~ again"}
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=2), vocabulary=len(LETTERS)) as (engine, collector):
        for name in prompts:
            engine.submit(ask(name, prompts[name], few))
        last = {name: collector.outputs(name)[-1] for name in prompts}
        texts = {name: collector.text(name) for name in ("healthy", "after")}
    for name in ("astray", "again"):
        assert last[name].finish_reason == FinishReason.ERROR
        assert "NaN or infinity" in str(last[name].error)
    for name, text in texts.items():
        assert last[name].finish_reason == FinishReason.LENGTH
        alone = RememberingDecoder(len(LETTERS))
        with running_engine(alone, LETTERS, vocabulary=len(LETTERS)) as (engine, collector):
            engine.submit(ask(name, prompts[name], few))
            assert collector.text(name) == text


def test_each_step_emits_one_token_of_each_request_at_once() -> None:
    with running_engine(scripted("on and on ", end=False, pause=0.002), BYTES) as (engine, collector):
        for name in "abcd":
            engine.submit(ask(name, "hello", SamplingParams(temperature=0, max_tokens=40)))
        for name in "abcd":
            collector.outputs(name)
    assert max(len(step) for step in collector.steps) == 4
    assert all(len({output.request_id for output in step}) == len(step) for step in collector.steps)


def test_long_prompts_run_in_chunks_beside_decodes() -> None:
    decoder = scripted("on and on ", end=False, pause=0.002)
    with running_engine(decoder, LETTERS, LoadOptions(batch_size=8)) as (engine, collector):
        engine.submit(ask("writes", "x", ENDLESS))
        collector.wait_for_tokens("writes", 1)
        engine.submit(ask("long", "y" * 60, SamplingParams(temperature=0, max_tokens=1)))
        collector.outputs("long")
    chunks = [place for place, call in enumerate(decoder.calls) if call.startswith("prefill")]
    assert [decoder.calls[place] for place in chunks] == ["prefill 1", *["prefill 8"] * 7, "prefill 4"]
    assert all(decoder.calls[place - 1] == "decode 1" for place in chunks[1:])


@pytest.mark.parametrize(("prompt_tokens", "max_tokens"), [(40, None), (41, None), (30, 11), (1, 10**9)])
def test_a_prompt_over_the_context_is_rejected_with_the_numbers(prompt_tokens: int, max_tokens: int | None) -> None:
    with running_engine(scripted("x"), LETTERS, context_size=40) as (engine, _):
        sampling = SamplingParams(temperature=0, max_tokens=max_tokens)
        with pytest.raises(ContextLengthExceeded) as refused:
            engine.submit(ask("one", "x" * prompt_tokens, sampling))
    assert refused.value.details == {"context_size": 40, "prompt_tokens": prompt_tokens, "max_tokens": max_tokens}


@pytest.mark.parametrize("form", ["prompt", "messages", "ids"])
def test_m8_a_prompt_far_too_long_is_rejected_without_tokenizing(form: str) -> None:
    text = "x" * (9 * 2**20)
    more: dict[str, Any] = {
        "prompt": {"prompt": text},
        "messages": {"messages": (Message("user", text[:9]), Message("user", text[9:]))},
        "ids": {"prompt_ids": (5,) * len(text)},
    }[form]
    with running_engine(scripted("x"), BYTES) as (engine, _), pytest.raises(ContextLengthExceeded) as refused:
        engine.submit(GenerationRequest(request_id="one", sampling=ENDLESS, **more))
    # Every x is a token of its own; had they been counted, there would be as many.
    longest = Tokenizer(BYTES).longest_token
    assert longest > 1
    least = len(text) if form == "ids" else -(-len(text) // longest)
    assert refused.value.details == {"context_size": 512, "prompt_tokens": least, "max_tokens": None}


def test_a_prompt_of_long_added_tokens_is_accepted() -> None:
    source = byte_tokenizer()
    source.add_tokens(" " * 24)
    with running_engine(scripted("brass lamp"), source, vocabulary=len(source), context_size=64) as (engine, collector):
        assert engine.submit(ask("one", " " * 24 * 30)).prompt_tokens == 30
        collector.outputs("one")


def test_a_prompt_that_fills_the_context_runs() -> None:
    with running_engine(scripted("on and on", end=False), LETTERS, context_size=40) as (engine, collector):
        engine.submit(ask("one", "x" * 30, SamplingParams(temperature=0, max_tokens=10)))
        assert len(collector.outputs("one")) == 10


@pytest.mark.parametrize(
    "request_",
    [
        GenerationRequest(request_id="one"),
        GenerationRequest(request_id="one", prompt="x", messages=(Message("user", "x"),)),
        GenerationRequest(request_id="one", prompt=""),
        GenerationRequest(request_id="one", messages=()),
        GenerationRequest(request_id="one", messages=(Message("judge", "x"),)),
        GenerationRequest(request_id="one", prompt="half \ud800 a character"),
        GenerationRequest(request_id="one", prompt="x", sampling=SamplingParams(top_k=-1)),
    ],
)
def test_an_invalid_request_is_rejected_at_submission(request_: GenerationRequest) -> None:
    with running_engine(scripted("x"), BYTES) as (engine, _):
        with pytest.raises(InvalidRequest):
            engine.submit(request_)
        assert engine.stats().waiting == engine.stats().running == 0


def test_a_request_id_in_use_is_rejected() -> None:
    with running_engine(scripted("on and on ", end=False, pause=0.002), BYTES) as (engine, _):
        engine.submit(ask("one", "hello", ENDLESS))
        with pytest.raises(InvalidRequest, match="'one' is running"):
            engine.submit(ask("one", "hello", ENDLESS))


def test_many_threads_may_submit_and_cancel_at_once() -> None:
    decoder = scripted("brass lamp", pause=0.0005)
    with running_engine(decoder, BYTES) as (engine, collector):

        def client(number: int) -> None:
            for turn in range(10):
                name = f"{number}.{turn}"
                engine.submit(ask(name, f"hello {number}"))
                if turn % 3 == 0:
                    engine.cancel(name)
                assert collector.outputs(name)[-1].finish_reason in (FinishReason.STOP, FinishReason.CANCELLED)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert engine.stats().running == engine.stats().waiting == 0
    finished = [collector.outputs(f"{number}.1")[-1].finish_reason for number in range(24)]
    assert finished == [FinishReason.STOP] * 24


def test_a_decoder_is_replaced_between_two_steps_and_running_requests_continue() -> None:
    before, after = scripted("a" * 40, pause=0.02), scripted("b" * 40)

    def go_on(held: Mapping[int, int]) -> ScriptedDecoder:
        for slot in held:
            after.copy_slot_from(slot, before)
        return after

    with running_engine(before, BYTES) as (engine, collector):
        engine.submit(ask("early", "hello, who is there?", SamplingParams(temperature=0, max_tokens=1)))
        collector.outputs("early")
        engine.submit(ask("running", "hello, who is there?", ENDLESS))
        collector.wait_for_tokens("running", 2)
        engine.replace_decoder(go_on)
        text = collector.text("running")
        cached = [collector.outputs(name)[-1].usage for name in ("early", "running")]
        for name in ("later", "last"):
            engine.submit(ask(name, "hello, who is there?", ENDLESS))
            assert collector.text(name) == "b" * 40
            cached.append(collector.outputs(name)[-1].usage)
    assert re.fullmatch("a{2,39}b+", text)
    assert len(text) == 40
    # What other kernels left is nobody's prefix.
    assert [usage.cached_tokens > 0 for usage in cached if usage] == [False, True, False, True]


def test_the_prefix_of_a_cancelled_request_is_reused() -> None:
    with running_engine(scripted("brass lamp", end=False, pause=0.01), BYTES) as (engine, collector):
        for name in ("first", "again"):
            engine.submit(ask(name, "hello, who is there?", ENDLESS))
            collector.wait_for_tokens(name, 2)
            engine.cancel(name)
            assert collector.outputs(name)[-1].finish_reason == FinishReason.CANCELLED
        usage = collector.outputs("again")[-1].usage
    assert usage is not None
    assert usage.cached_tokens > 10


def test_a_failed_decoder_replacement_keeps_the_current_decoder() -> None:
    def fail(held: Mapping[int, int]) -> ScriptedDecoder:
        raise RuntimeError("not enough memory: you tried to allocate 48 bytes")

    with running_engine(scripted("brass lamp", pause=0.02), BYTES) as (engine, collector):
        engine.submit(ask("running", "hello", ENDLESS))
        collector.wait_for_tokens("running", 2)
        engine.replace_decoder(fail)
        assert collector.text("running") == "brass lamp"
        engine.submit(ask("later", "hello", ENDLESS))
        assert collector.text("later") == "brass lamp"


@pytest.mark.parametrize("form", ["ids", "messages"])
def test_a_token_that_the_model_lacks_is_rejected_and_affects_no_other_request(form: str) -> None:
    source = byte_tokenizer()
    source.add_special_tokens({"additional_special_tokens": ["<|new|>"]})
    source.chat_template = "<|new|>{{ messages[0].content }}"
    unknown = source.convert_tokens_to_ids("<|new|>")
    more: dict[str, Any] = {
        "ids": {"prompt_ids": (5, unknown)},
        "messages": {"messages": (Message("user", "a"),)},
    }[form]
    decoder = scripted("brass lamp")
    with running_engine(decoder, source, vocabulary=len(BYTES)) as (engine, collector):
        engine.submit(ask("other", "hello", ENDLESS))
        with pytest.raises(InvalidRequest):
            engine.submit(GenerationRequest(request_id="one", sampling=ENDLESS, **more))
        assert collector.text("other") == "brass lamp"


def test_i4_the_limit_of_prompt_log_probabilities_counts_every_choice() -> None:
    sampling = SamplingParams(temperature=0, max_tokens=1, logprobs=20)
    prompt_ids = (5,) * 4000
    with running_engine(scripted("x"), LETTERS, context_size=4096) as (engine, _):
        with pytest.raises(InvalidRequest, match="over all choices"):
            engine.submit(GenerationRequest(request_id="8", prompt_ids=prompt_ids, echo=True, n=8, sampling=sampling))
        engine.submit(GenerationRequest(request_id="1", prompt_ids=prompt_ids, echo=True, n=1, sampling=sampling))


def test_m8_tools_far_too_long_are_rejected_without_tokenizing() -> None:
    text = "x" * (9 * 2**20)
    message = Message("user", "a")
    request = GenerationRequest(
        request_id="one", messages=(message,), tools=(Tool("look", text),), sampling=SamplingParams(temperature=0)
    )
    with running_engine(scripted("x"), BYTES) as (engine, _), pytest.raises(ContextLengthExceeded) as refused:
        engine.submit(request)
    least = -(-(len("a") + len("look") + len(text)) // Tokenizer(BYTES).longest_token)
    assert refused.value.details == {"context_size": 512, "prompt_tokens": least, "max_tokens": None}


@pytest.mark.parametrize("place", ["name", "id", "answer", "messages"])
def test_m8_a_conversation_far_too_long_outside_its_contents_is_rejected_without_tokenizing(place: str) -> None:
    text = "x" * (9 * 2**20)
    messages = {
        "name": (Message("assistant", "", tool_calls=(ToolCall("c", text, ""),)),),
        "id": (Message("assistant", "", tool_calls=(ToolCall(text, "c", ""),)),),
        "answer": (Message("tool", "x", tool_call_id=text),),
        "messages": (Message("user", ""),) * 300_000,
    }[place]
    with running_engine(scripted("x"), BYTES) as (engine, _), pytest.raises(ContextLengthExceeded) as refused:
        engine.submit(GenerationRequest(request_id="one", messages=messages, sampling=ENDLESS))
    least = 300_000 if place == "messages" else -(-(len(text) + 1) // Tokenizer(BYTES).longest_token)
    assert refused.value.details == {"context_size": 512, "prompt_tokens": least, "max_tokens": None}


def test_m8_the_parameters_of_all_tools_count() -> None:
    parameters = {"description": "x" * 200_000}
    tools = (Tool("look"), Tool("see", parameters=parameters))
    request = GenerationRequest(
        request_id="one", messages=(Message("user", "a"),), tools=tools, tool_choice="look", sampling=ENDLESS
    )
    with running_engine(scripted("x"), BYTES) as (engine, _), pytest.raises(ContextLengthExceeded) as refused:
        engine.submit(request)
    characters = len("a") + len("look") + len("see") + len('{"description":""}') + 200_000
    least = -(-characters // Tokenizer(BYTES).longest_token)
    assert refused.value.details == {"context_size": 512, "prompt_tokens": least, "max_tokens": None}
