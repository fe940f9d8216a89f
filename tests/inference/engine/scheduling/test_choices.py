"""Several choices of a request, echoed prompts with log probabilities, preemption and coalesced outputs."""

from functools import partial

import msgspec
import pytest
import torch

from inference.engine.errors import InvalidRequest
from inference.engine.model_status import LoadOptions
from inference.engine.outputs import FinishReason, GenerationOutput
from inference.engine.requests import GenerationRequest
from inference.engine.sampling import SamplingParams
from tests.inference.engine.engine_runner import RememberingDecoder, running_engine
from tests.inference.engine.tiny_models import byte_tokenizer, letter_tokenizer

LETTERS = letter_tokenizer()
BYTES = byte_tokenizer()
DRAWN = SamplingParams(seed=11, max_tokens=12, temperature=1.5, repeat_penalty=1.2, frequency_penalty=0.5)


def asked(name: str, sampling: SamplingParams = DRAWN, **more: object) -> GenerationRequest:
    return GenerationRequest(request_id=name, sampling=sampling, **{"prompt": "hello, world", **more})  # type: ignore[arg-type]


def by_choice(outputs: list[GenerationOutput]) -> dict[int, list[GenerationOutput]]:
    found: dict[int, list[GenerationOutput]] = {}
    for output in outputs:
        found.setdefault(output.choice, []).append(output)
    return found


def texts(outputs: list[GenerationOutput]) -> list[str]:
    found = by_choice(outputs)
    return ["".join(output.text for output in found[choice]) for choice in sorted(found)]


def test_choices_share_one_prefill_and_have_different_texts() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS) as (engine, collector):
        engine.submit(asked("four", n=4))
        outputs = collector.outputs("four")
        engine.submit(asked("one"))
        alone = texts(collector.outputs("one"))
    assert len(set(texts(outputs))) == 4
    assert texts(outputs)[0] == alone[0]
    assert [len(made) for made in by_choice(outputs).values()] == [12] * 4
    for made in by_choice(outputs).values():
        assert [output.index for output in made] == list(range(12))
        assert [output.finish_reason for output in made] == [None] * 11 + [FinishReason.LENGTH]
    usages = [output.usage for output in outputs if output.usage]
    assert [(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) for usage in usages] == [(12, 48, 0)]
    assert outputs[-1].usage is not None
    first_step = decoder.steps[0]
    assert first_step == [(0, 0, 12)]
    assert decoder.copies[:3] == [(0, 1, 11), (0, 2, 11), (0, 3, 11)]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_more_choices_than_slots_give_the_same_texts(slots: int) -> None:
    wanted = []
    for options in (LoadOptions(), LoadOptions(max_sequences=slots)):
        with running_engine(RememberingDecoder(len(LETTERS)), LETTERS, options) as (engine, collector):
            engine.submit(asked("eight", n=8))
            engine.submit(asked("another"))
            wanted.append((texts(collector.outputs("eight")), texts(collector.outputs("another"))))
    assert wanted[0] == wanted[1]


def test_a_cancellation_ends_each_choice_once() -> None:
    decoder = RememberingDecoder(len(LETTERS), pause=0.005)
    endless = SamplingParams(temperature=0)
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=2), 100_000) as (engine, collector):
        engine.submit(asked("three", endless, n=3))
        collector.wait_for_tokens("three", 9)
        engine.cancel("three")
        outputs = collector.outputs("three")
        stats = engine.stats()
    ends = [output for output in outputs if output.finish_reason]
    assert [output.finish_reason for output in ends] == [FinishReason.CANCELLED] * 3
    assert ends[-1].usage is not None
    assert ends[-1].usage.completion_tokens == len(outputs) - 3
    assert (stats.running, stats.waiting) == (0, 0)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_i4_fields_out_of_bounds_are_rejected_by_name(place: int) -> None:
    name, values = [("n", (0, -1, 9, 2**40)), ("priority", (-11, 11)), ("prompt_ids", ((-1,), (10**6,), (2**70,)))][
        place
    ]
    for value in values:
        decoder = RememberingDecoder(len(LETTERS))
        with running_engine(decoder, LETTERS) as (engine, _), pytest.raises(InvalidRequest) as refused:
            engine.submit(asked("one", **{"prompt": None if name == "prompt_ids" else "x", name: value}))
        assert refused.value.details == {"parameter": name}
        assert decoder.computed == 0


def test_a_prompt_may_be_token_ids() -> None:
    ids = tuple(LETTERS.encode("hello, world"))
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS) as (engine, collector):
        engine.submit(asked("text"))
        assert engine.submit(asked("ids", prompt=None, prompt_ids=ids)).prompt_tokens == 12
        assert texts(collector.outputs("text")) == texts(collector.outputs("ids"))


def test_an_echo_begins_each_choice_with_the_prompt() -> None:
    ids = tuple(LETTERS.encode("hello, world"))
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS) as (engine, collector):
        engine.submit(asked("plain", n=2))
        engine.submit(asked("echo", n=2, echo=True))
        engine.submit(asked("ids", n=2, echo=True, prompt=None, prompt_ids=ids))
        plain, echo, of_ids = (texts(collector.outputs(name)) for name in ("plain", "echo", "ids"))
    assert echo == of_ids == ["hello, world" + text for text in plain]


def test_a_prompt_alone_is_echoed_with_its_log_probabilities_and_no_token() -> None:
    sampling = SamplingParams(temperature=0, max_tokens=1, logprobs=1)
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS) as (engine, collector):
        engine.submit(asked("echo", sampling, n=2, echo=True))
        engine.submit(asked("alone", sampling, n=2, echo=True, prompt_only=True))
        echo, alone = by_choice(collector.outputs("echo")), by_choice(collector.outputs("alone"))
        with pytest.raises(InvalidRequest, match="needs `echo`"):
            engine.submit(asked("wrong", sampling, prompt_only=True))
    for choice in range(2):
        [output] = alone[choice]
        assert (output.text, output.finish_reason) == ("hello, world", FinishReason.LENGTH)
        assert output.logprobs == echo[choice][0].logprobs[: len("hello, world")]
    usage = next(output.usage for outputs in alone.values() for output in outputs if output.usage)
    assert (usage.prompt_tokens, usage.completion_tokens) == (len("hello, world"), 0)


def test_a_stop_token_ends_the_text_before_it_even_if_end_tokens_are_ignored() -> None:
    greedy = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS) as (engine, collector):
        engine.submit(asked("whole", greedy))
        whole = texts(collector.outputs("whole"))[0]
        stop = LETTERS.encode(whole[5])[0]
        first = whole.index(whole[5])
        engine.submit(asked("stopped", msgspec.structs.replace(greedy, stop_token_ids=(stop,))))
        engine.submit(asked("later", msgspec.structs.replace(greedy, stop_token_ids=(stop,), min_tokens=first + 1)))
        outputs = collector.outputs("stopped")
        assert (texts(outputs), outputs[-1].finish_reason) == ([whole[:first]], FinishReason.STOP)
        assert len(texts(collector.outputs("later"))[0]) > first


@pytest.mark.parametrize(("size", "batch_size"), [(1, 512), (2, 512), (70, 512), (130, 512), (70, 7)])
def test_an_echo_has_the_prompts_log_probabilities(size: int, batch_size: int) -> None:
    prompt = "".join(chr(33 + place * 7 % 90) for place in range(size))
    ids = LETTERS.encode(prompt)
    decoder = RememberingDecoder(len(LETTERS))
    sampling = SamplingParams(temperature=0, max_tokens=3, logprobs=2)
    with running_engine(decoder, LETTERS, LoadOptions(batch_size=batch_size)) as (engine, collector):
        for turn in ("cold", "cached"):
            engine.submit(asked(turn, sampling, prompt=prompt, echo=True, n=2))
        told = [by_choice(collector.outputs(turn)) for turn in ("cold", "cached")]
    for choice in (told[0][0], told[0][1], told[1][0], told[1][1]):
        logprobs = [one for output in choice for one in output.logprobs]
        written = decoder.greedy(ids, 3)
        assert [one.token for one in logprobs] == ids + written
        assert [one.text for one in logprobs] == list(prompt) + [LETTERS.decode([token]) for token in written]
        assert len(choice[0].logprobs) == size + 1
        assert (logprobs[0].logprob, logprobs[0].top) == (None, ())
        for place, one in enumerate(logprobs[1:], 1):
            expected = torch.log_softmax(decoder.row((ids + written)[:place]), 0)
            assert one.logprob == pytest.approx(float(expected[one.token]), abs=1e-4)
            best = expected.topk(2)
            assert [other.token for other in one.top] == best.indices.tolist()
            assert [other.logprob for other in one.top] == pytest.approx(best.values.tolist(), abs=1e-4)


def test_too_many_log_probabilities_of_a_prompt_are_rejected() -> None:
    sampling = SamplingParams(max_tokens=1, logprobs=20)
    decoder = RememberingDecoder(len(LETTERS))
    with (
        running_engine(decoder, LETTERS, context_size=20_000) as (engine, _),
        pytest.raises(InvalidRequest) as refused,
    ):
        engine.submit(asked("one", sampling, prompt="x" * 15_000, echo=True))
    assert refused.value.details == {"parameter": "logprobs"}


def test_log_probabilities_come_with_the_text_of_their_tokens() -> None:
    with running_engine(RememberingDecoder(len(BYTES)), BYTES) as (engine, collector):
        for seed in range(12):
            stop = ("e", "th") if seed % 2 else ()
            engine.submit(asked(str(seed), SamplingParams(seed=seed, max_tokens=60, logprobs=1, stop=stop)))
        for seed in range(12):
            outputs = collector.outputs(str(seed))
            text, told = "", b""
            for output in outputs:
                text += output.text
                told += b"".join(one.data for one in output.logprobs)
                assert len(told.decode(errors="replace")) >= len(text)
                assert all(one.logprob is not None and one.logprob <= 0 for one in output.logprobs)
            assert text == told.decode(errors="replace")[: len(text)]
            if seed % 2 == 0:
                assert sum(len(output.logprobs) for output in outputs) == len(outputs) == 60


def test_min_tokens_delays_end_tokens_and_stop_sequences() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    written = LETTERS.decode(decoder.greedy(LETTERS.encode("hello, world"), 30))
    stop = written[3]
    later = written.find(stop, 8)
    with running_engine(decoder, LETTERS) as (engine, collector):
        for name, least in [("none", 0), ("some", 9)]:
            engine.submit(asked(name, SamplingParams(temperature=0, max_tokens=30, min_tokens=least, stop=(stop,))))
        none, some = (texts(collector.outputs(name))[0] for name in ("none", "some"))
    assert none == written[:3]
    assert some == (written if later < 0 else written[:later])


def test_a_preempted_sequence_gives_the_same_output() -> None:
    requests = [asked(f"batch {place}", SamplingParams(seed=place, max_tokens=40), batch=True) for place in range(4)]
    requests[1] = asked("batch 1", SamplingParams(seed=1, max_tokens=40, logprobs=2, repeat_penalty=1.3), batch=True)
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS) as (engine, collector):
        for request in requests:
            engine.submit(request)
        undisturbed = [collector.outputs(request.request_id) for request in requests]
    interactive = [asked(f"interactive {place}", prompt=f"now {place}") for place in range(8)]
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=2)) as (engine, collector):
        for place, request in enumerate(interactive):
            collector.at_token[f"batch {place // 2}", 3 + place % 2 * 20] = partial(engine.submit, request)
        for request in requests:
            engine.submit(request)
        disturbed = [collector.outputs(request.request_id) for request in requests]
        for request in interactive:
            collector.outputs(request.request_id)
        preemptions = engine.stats().preemptions
    assert preemptions >= 8
    for before, after in zip(undisturbed, disturbed, strict=True):
        assert texts(after) == texts(before)
        assert [output.logprobs for output in after] == [output.logprobs for output in before]
        assert after[-1].finish_reason == before[-1].finish_reason


def test_a_preempted_echo_is_complete() -> None:
    sampling = SamplingParams(temperature=0, max_tokens=2, logprobs=0)
    prompt = "a long prompt in small pieces " * 10
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=1, batch_size=16)) as (engine, collector):
        decoder.at_step[10] = partial(engine.submit, asked("interactive"))
        engine.submit(asked("echo", sampling, prompt=prompt, echo=True, batch=True))
        outputs = collector.outputs("echo")
        assert engine.stats().preemptions == 1
        assert len(collector.outputs("interactive")) == 12
    assert [one.text for one in outputs[0].logprobs[: len(prompt)]] == list(prompt)
    assert outputs[0].text.startswith(prompt)


def test_r5_a_second_user_gets_a_slot_at_the_next_step() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    steps: list[int] = []
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=4)) as (engine, collector):

        def come() -> None:
            steps.append(len(decoder.steps))
            engine.submit(asked("one", user="one"))

        collector.at_token["many 3", 2] = come
        collector.at_token["one", 0] = lambda: steps.append(len(decoder.steps))
        for place in range(20):
            engine.submit(asked(f"many {place}", SamplingParams(temperature=0, max_tokens=200), user="many"))
        collector.outputs("one")
    came, first_token = steps
    assert first_token - came == 1


def test_coalesced_outputs_join_to_the_same_content() -> None:
    sampling = SamplingParams(seed=5, max_tokens=150, temperature=1.5, logprobs=2)
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS) as (engine, collector):
        engine.submit(asked("single", sampling, n=2, echo=True))
        single = by_choice(collector.outputs("single"))
        engine.submit(asked("gathered", sampling, n=2, echo=True, coalesce_outputs=True))
        gathered = by_choice(collector.outputs("gathered"))

    for choice, outputs in gathered.items():
        assert [output.index for output in outputs] == [0, 64, 128]
        assert [output.tokens for output in outputs] == [64, 64, 22]
        assert [output.finish_reason for output in outputs] == [None, None, FinishReason.LENGTH]
        assert texts(outputs) == texts(single[choice])
        told = [logprob for output in single[choice] for logprob in output.logprobs]
        assert [logprob for output in outputs for logprob in output.logprobs] == told
    usages = [output.usage for outputs in gathered.values() for output in outputs if output.usage]
    assert [(usage.prompt_tokens, usage.completion_tokens) for usage in usages] == [(12, 300)]


def test_coalesced_tokens_of_a_cancelled_request_count_in_usage() -> None:
    sampling = SamplingParams(max_tokens=100_000)
    with running_engine(RememberingDecoder(len(LETTERS)), LETTERS, context_size=200_000) as (engine, collector):
        engine.submit(asked("long", sampling, coalesce_outputs=True))
        collector.wait_for_tokens("long", 1)
        engine.cancel("long")
        *_, last = collector.outputs("long")
    assert (last.finish_reason, last.text) == (FinishReason.CANCELLED, "")
    assert last.usage is not None
    assert last.usage.completion_tokens == last.index >= 64
