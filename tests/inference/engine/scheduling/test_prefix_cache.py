"""The prefix cache: prefixes are reused within a user, and outputs do not change."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.engine.model_status import LoadOptions
from inference.engine.outputs import FinishReason, GenerationOutput
from inference.engine.requests import GenerationRequest
from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.prefix_cache import common_prefix
from inference.engine.scheduling.scheduler import Scheduler
from tests.inference.engine.engine_runner import RememberingDecoder, running_engine
from tests.inference.engine.scheduling.test_equality import generated_by_transformers, loaded
from tests.inference.engine.sequences import end, generation, scheduler, step
from tests.inference.engine.tiny_models import CAUSAL, letter_tokenizer

LETTERS = letter_tokenizer()
START = "".join(chr(33 + place % 90) for place in range(60))


def asked(name: str, prompt: str, max_tokens: int = 5, **more: object) -> GenerationRequest:
    sampling = SamplingParams(temperature=0, max_tokens=max_tokens)
    return GenerationRequest(request_id=name, prompt=prompt, **{"sampling": sampling, **more})  # type: ignore[arg-type]


def cached_tokens(outputs: list[GenerationOutput]) -> int:
    assert outputs[-1].usage is not None
    return outputs[-1].usage.cached_tokens


def written(decoder: RememberingDecoder, prompt: str, tokens: int) -> str:
    """Return the decoder's greedy continuation of a prompt."""
    text: str = LETTERS.decode(decoder.greedy(LETTERS.encode(prompt), tokens))
    return text


@pytest.mark.parametrize(
    ("some", "others", "most", "shared"),
    [
        ([1, 2, 3], [1, 2, 3], 3, 3),
        ([1, 2, 3], [1, 2, 3], 2, 2),
        ([1, 2, 3], [1, 2, 4], 3, 2),
        ([1, 2, 3], [2, 2, 3], 3, 0),
        ([1], [], 0, 0),
        (list(range(1000)), [*range(777), 0, *range(778, 1000)], 1000, 777),
    ],
)
def test_the_common_prefix(some: list[int], others: list[int], most: int, shared: int) -> None:
    assert common_prefix(some, others, most) == shared


def test_the_prefix_of_a_finished_request_is_reused() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS) as (engine, collector):
        engine.submit(asked("first", START))
        first = collector.text("first")
        before = decoder.computed
        engine.submit(asked("second", START + first + "and on"))
        assert collector.text("second") == written(decoder, START + first + "and on", 5)
    # The last token that was sampled had not been computed.
    assert cached_tokens(collector.outputs("second")) == 64
    assert decoder.computed - before == len("x" + "and on") + 4
    assert first == written(decoder, START, 5)


def test_the_same_prompt_computes_its_last_token_only() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=1)) as (engine, collector):
        for name in ("first", "second"):
            engine.submit(asked(name, START))
        texts = [collector.text(name) for name in ("first", "second")]
        stats = engine.stats()
    assert texts == [written(decoder, START, 5)] * 2
    assert [cached_tokens(collector.outputs(name)) for name in ("first", "second")] == [0, 59]
    assert (stats.prefix_cache_queries, stats.prefix_cache_hits) == (120, 59)


def test_the_prefix_of_a_running_sequence_is_copied() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS) as (engine, collector):
        collector.at_token["writes", 2] = partial(engine.submit, asked("joins", START[:40] + "else"))
        engine.submit(asked("writes", START, 30))
        assert collector.text("joins") == written(decoder, START[:40] + "else", 5)
        assert collector.text("writes") == written(decoder, START, 30)
    assert cached_tokens(collector.outputs("joins")) == 40
    assert decoder.copies == [(0, 1, 40)]


def test_another_users_prefix_is_never_reused() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=1)) as (engine, collector):
        for name, user in [("first", "ann"), ("second", "bob"), ("third", "ann"), ("fourth", "ann")]:
            engine.submit(asked(name, START, user=user))
            collector.outputs(name)
    found = [cached_tokens(collector.outputs(name)) for name in ("first", "second", "third", "fourth")]
    assert found == [0, 0, 0, 59]


def test_a_reused_prefix_outlives_prefixes_used_once() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=3)) as (engine, collector):
        for turn in range(6):
            engine.submit(asked(f"useful {turn}", START))
            collector.outputs(f"useful {turn}")
            engine.submit(asked(f"once {turn}", chr(40 + turn) * 30))
            collector.outputs(f"once {turn}")
    found = [cached_tokens(collector.outputs(f"useful {turn}")) for turn in range(6)]
    assert found == [0, 59, 59, 59, 59, 59]


def test_a_short_common_prefix_is_copied_and_the_long_one_kept() -> None:
    one = scheduler(slots=3)
    long = generation("long", list(range(200)))
    one.add(long)
    step(one)
    end(one, long)
    one.add(generation("short", [*range(20), 7, 7]))
    plan = step(one)
    assert [(copy.source, copy.length) for copy in plan.copies] == [(0, 20)]
    again = generation("again", [*range(200), 7, 8])
    one.add(again)
    step(one)
    assert again.cached_tokens == 200


def test_invalidated_prefixes_are_not_reused() -> None:
    one = scheduler(slots=2)
    first = generation("first", list(range(50)))
    one.add(first)
    step(one)
    end(one, first)
    one.invalidate_prefixes()
    again = generation("again", list(range(50)))
    one.add(again)
    step(one)
    assert again.cached_tokens == 0


def left_in_a_prompt(user: str) -> Scheduler:
    """Return a scheduler with one slot, released after 16 of 100 prompt tokens and before any sampled token."""
    one = scheduler(slots=1, batch_size=16)
    left = generation("left", list(range(100)), user=user)
    one.add(left)
    step(one)
    end(one, left)
    return one


def test_a_slot_released_in_the_middle_of_a_prompt_is_cleared_for_the_next_sequence() -> None:
    one = left_in_a_prompt("ann")
    for name, cleared in (("next", [(0, 0)]), ("last", [])):
        other = generation(name, [*range(20)], user="bob" if name == "next" else "ann")
        one.add(other)
        assert step(one).cleared == cleared
        step(one)
        end(one, other)


def test_the_same_prompt_continues_from_the_computed_part() -> None:
    one = left_in_a_prompt("ann")
    again = generation("again", list(range(100)), user="ann")
    one.add(again)
    assert step(one).cleared == [(0, 16)]
    assert again.cached_tokens == 16


def test_a_prompt_with_nan_that_is_cancelled_half_way_affects_no_other(
    causal_folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(causal_folders["llama"], tmp_path / "llama")
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"][LETTERS.encode("~")] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with loaded(folder, LoadOptions(max_sequences=2, batch_size=8)) as (engine, collector):
        collector.at_token["beside", 2] = partial(engine.submit, asked("half", "~" + "x" * 60, user="ann"))
        collector.at_token["beside", 5] = partial(engine.cancel, "half")
        collector.at_token["half", 0] = partial(engine.submit, asked("whole", "hello", 8, user="bob"))
        engine.submit(asked("beside", START[:50], 30))
        assert collector.outputs("half")[-1].finish_reason is FinishReason.CANCELLED
        text = collector.text("whole")
    assert text == generated_by_transformers(causal_folders["llama"], "hello", max_new_tokens=8)[0]


@pytest.mark.parametrize("family", CAUSAL)
def test_cached_output_of_real_models_equals_generate(causal_folders: dict[str, Path], family: str) -> None:
    folder = causal_folders[family]
    prompts = [START[:30], START[:50], START[:50] + "!", START[:30] + "?", "?" + START[:30]]
    with loaded(folder, LoadOptions(max_sequences=2, batch_size=16)) as (engine, collector):
        for place, prompt in enumerate(prompts):
            engine.submit(asked(str(place), prompt, 20))
            if place != 2:
                collector.outputs(str(place))
        texts = [collector.text(str(place)) for place in range(len(prompts))]
        found = [cached_tokens(collector.outputs(str(place))) for place in range(len(prompts))]
    assert texts == [generated_by_transformers(folder, prompt, max_new_tokens=20)[0] for prompt in prompts]
    assert found == [0, 30, 50, 30, 0]


@pytest.mark.parametrize("family", CAUSAL)
def test_a_preempted_sequence_of_a_real_model_equals_generate(causal_folders: dict[str, Path], family: str) -> None:
    folder = causal_folders[family]
    with loaded(folder, LoadOptions(max_sequences=1, batch_size=16)) as (engine, collector):
        for token in (0, 5, 6):
            interactive = asked(str(token), START[token:30], 3)
            collector.at_token["batch", token] = partial(engine.submit, interactive)
        engine.submit(asked("batch", START[:20], 60, batch=True))
        text = collector.text("batch")
        for token in (0, 5, 6):
            assert collector.text(str(token)) == generated_by_transformers(folder, START[token:30], max_new_tokens=3)[0]
        preemptions = engine.stats().preemptions
    assert text == generated_by_transformers(folder, START[:20], max_new_tokens=60)[0]
    assert preemptions == 3
