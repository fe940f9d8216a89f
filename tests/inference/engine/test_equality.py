"""What the engine writes is what transformers' `generate` writes, token for token."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.engine.engine import Engine
from inference.engine.loading import load_model
from inference.engine.request import LoadOptions, SamplingParams
from tests.inference.engine.collecting import Collector, ask
from tests.inference.engine.tiny_models import BOS, CAUSAL, letter_tokenizer, save_causal

MAX_TOKENS = 30


@contextmanager
def loaded(folder: Path, options: LoadOptions) -> Iterator[tuple[Engine, Collector]]:
    collector = Collector()
    engine = load_model("tiny", folder, options, collector.emit).engine
    assert engine is not None
    engine.start()
    try:
        yield engine, collector
    finally:
        engine.stop()


def prompts(count: int) -> list[str]:
    draw = Random(3)
    return ["".join(chr(draw.randrange(33, 127)) for _ in range(draw.randrange(1, 60))) for _ in range(count)]


def generated_by_transformers(folder: Path, prompt: str, **parameters: object) -> tuple[str, int]:
    """The text and how many tokens it took, the end token included."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([tokenizer.encode(prompt)])
    with torch.inference_mode():
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **parameters)
    new = whole[0, ids.shape[1] :]
    return tokenizer.decode(new, skip_special_tokens=True), len(new)


@pytest.mark.parametrize("family", CAUSAL)
def test_greedy_alone_equals_generate(causal_folders: dict[str, Path], family: str) -> None:
    folder = causal_folders[family]
    with loaded(folder, LoadOptions()) as (engine, collector):
        for place, prompt in enumerate(prompts(4)):
            engine.submit(ask(str(place), prompt, SamplingParams(temperature=0, max_tokens=MAX_TOKENS)))
            got = collector.text(str(place)), len(collector.outputs(str(place)))
            assert got == generated_by_transformers(folder, prompt, max_new_tokens=MAX_TOKENS)


@pytest.mark.parametrize("batch_size", [512, 7], ids=["whole prompts", "prompts in chunks of 7"])
@pytest.mark.parametrize("family", CAUSAL)
def test_greedy_among_others_that_come_and_go_equals_generate(
    causal_folders: dict[str, Path], family: str, batch_size: int
) -> None:
    folder = causal_folders[family]
    # More requests than slots, so that some join when others have left.
    asked = prompts(21)
    with loaded(folder, LoadOptions(batch_size=batch_size)) as (engine, collector):
        for place, prompt in enumerate(asked):
            sampling = SamplingParams(temperature=0, max_tokens=MAX_TOKENS - place)
            engine.submit(ask(str(place), prompt, sampling))
        got = [(collector.text(str(place)), len(collector.outputs(str(place)))) for place in range(len(asked))]
    wanted = [
        generated_by_transformers(folder, prompt, max_new_tokens=MAX_TOKENS - place)
        for place, prompt in enumerate(asked)
    ]
    assert got == wanted
    assert len({text for text, _ in wanted}) > 15


def test_greedy_with_a_repetition_penalty_equals_generate(causal_folders: dict[str, Path]) -> None:
    folder = causal_folders["llama"]
    with loaded(folder, LoadOptions()) as (engine, collector):
        for place, prompt in enumerate(prompts(5)):
            sampling = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, repeat_penalty=1.0 + place / 2)
            engine.submit(ask(str(place), prompt, sampling))
        for place, prompt in enumerate(prompts(5)):
            wanted, _ = generated_by_transformers(
                folder, prompt, max_new_tokens=MAX_TOKENS, repetition_penalty=1.0 + place / 2
            )
            assert collector.text(str(place)) == wanted


def test_a_seed_gives_the_same_text_alone_and_among_others(causal_folders: dict[str, Path]) -> None:
    prompt = prompts(1)[0]
    variants = [
        SamplingParams(max_tokens=MAX_TOKENS, seed=5),
        SamplingParams(max_tokens=MAX_TOKENS, seed=5, temperature=0.7, top_p=0.9, top_k=40),
        SamplingParams(max_tokens=MAX_TOKENS, seed=5, top_p=0.8, repeat_penalty=1.2),
    ]
    alone = []
    with loaded(causal_folders["llama"], LoadOptions()) as (engine, collector):
        for place, sampling in enumerate(variants):
            engine.submit(ask(str(place), prompt, sampling))
            alone.append(collector.text(str(place)))
    with loaded(causal_folders["llama"], LoadOptions()) as (engine, collector):
        for place, other in enumerate(prompts(13)):
            sampling = SamplingParams(max_tokens=MAX_TOKENS, top_k=place * 20, temperature=place / 10, top_p=0.95)
            engine.submit(ask(f"other {place}", other, sampling))
        for place, sampling in enumerate(variants):
            engine.submit(ask(str(place), prompt, sampling))
        crowded = [collector.text(str(place)) for place in range(len(variants))]
    assert crowded == alone


def test_other_seeds_give_other_texts_and_none_gives_a_new_one_each_time(causal_folders: dict[str, Path]) -> None:
    prompt = prompts(1)[0]
    seeds = [1, -1, 2, 2**63 - 1, None, None, None]
    with loaded(causal_folders["llama"], LoadOptions()) as (engine, collector):
        for place, seed in enumerate(seeds):
            engine.submit(ask(str(place), prompt, SamplingParams(max_tokens=MAX_TOKENS, seed=seed)))
        texts = {collector.text(str(place)) for place in range(len(seeds))}
    assert len(texts) == len(seeds)


def test_the_tokenizers_own_first_token_is_part_of_a_raw_prompt(tmp_path: Path) -> None:
    folder = save_causal(tmp_path, "llama", letter_tokenizer(adds_bos=True))
    with loaded(folder, LoadOptions()) as (engine, collector):
        usage = engine.submit(ask("one", "ab", SamplingParams(temperature=0, max_tokens=MAX_TOKENS)))
        assert usage.prompt_tokens == 3
        assert engine.tokenize("ab") == [BOS, 69, 70]
        wanted, _ = generated_by_transformers(folder, "ab", max_new_tokens=MAX_TOKENS)
        assert collector.text("one") == wanted
