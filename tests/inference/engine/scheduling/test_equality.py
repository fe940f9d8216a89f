"""Outputs of the engine equal transformers' `generate`, token for token."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    GPTNeoXConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
)

from inference.builtin import DESCRIBER
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.requests import GenerationRequest, Message, TokenizationRequest
from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.engine import Engine
from tests.inference.engine.engine_runner import Collector, ask
from tests.inference.engine.tiny_models import (
    BOS,
    CAUSAL,
    CONTEXT,
    END,
    PAD,
    letter_tokenizer,
    save_causal,
    save_config,
)

# As loaded on a machine with a compiler; torch's own decoder is in test_decoder.py.
pytestmark = pytest.mark.usefixtures("kernels")

MAX_TOKENS = 30
WORDS = ("brass", "oak", "leak-proof lid", "warm", "for two", "zurvelite", "red", "42 cm", "a gift")
on_each_device = pytest.mark.parametrize(
    "options",
    [
        LoadOptions(),
        pytest.param(
            LoadOptions(gpu_layers=99, dtype="float32"),
            marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
        ),
    ],
    ids=["CPU", "GPU"],
)


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


@lru_cache
def read_by_transformers(folder: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def generated_by_transformers(folder: Path, prompt: str, **parameters: object) -> tuple[str, int]:
    """The text and how many tokens it took, the end token included."""
    tokenizer, model = read_by_transformers(folder)
    ids = torch.tensor([tokenizer.encode(prompt)])
    with torch.inference_mode():
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **parameters)
    new = whole[0, ids.shape[1] :]
    return tokenizer.decode(new, skip_special_tokens=True), len(new)


@on_each_device
@pytest.mark.parametrize("family", CAUSAL)
def test_greedy_alone_equals_generate(causal_folders: dict[str, Path], family: str, options: LoadOptions) -> None:
    folder = causal_folders[family]
    with loaded(folder, options) as (engine, collector):
        for place, prompt in enumerate(prompts(4)):
            engine.submit(ask(str(place), prompt, SamplingParams(temperature=0, max_tokens=MAX_TOKENS)))
            got = collector.text(str(place)), len(collector.outputs(str(place)))
            assert got == generated_by_transformers(folder, prompt, max_new_tokens=MAX_TOKENS)


@on_each_device
@pytest.mark.parametrize("batch_size", [512, 7], ids=["whole prompts", "prompts in chunks of 7"])
@pytest.mark.parametrize("family", CAUSAL)
def test_greedy_in_a_changing_batch_equals_generate(
    causal_folders: dict[str, Path], family: str, batch_size: int, options: LoadOptions
) -> None:
    folder = causal_folders[family]
    # More requests than slots, so that some join when others have left.
    asked = prompts(21)
    with loaded(folder, msgspec.structs.replace(options, batch_size=batch_size)) as (engine, collector):
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


@pytest.mark.parametrize("family", [MistralConfig, Gemma2Config, Phi3Config, GPTNeoXConfig])
def test_other_families_equal_generate(tmp_path: Path, family: Callable[..., PreTrainedConfig]) -> None:
    tokenizer = letter_tokenizer()
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    tokens: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "eos_token_id": END,
        "bos_token_id": BOS,
        "pad_token_id": PAD,
    }
    grouped: dict[str, Any] = {} if family is GPTNeoXConfig else {"num_key_value_heads": 2, "head_dim": 8}
    config = family(**sizes, **tokens, **grouped, max_position_embeddings=CONTEXT, initializer_range=0.4)
    folder = save_config(tmp_path, config, tokenizer)
    asked = prompts(5)
    with loaded(folder, LoadOptions(batch_size=20)) as (engine, collector):
        for place, prompt in enumerate(asked):
            engine.submit(ask(str(place), prompt, SamplingParams(temperature=0, max_tokens=MAX_TOKENS)))
        got = [(collector.text(str(place)), len(collector.outputs(str(place)))) for place in range(len(asked))]
    assert got == [generated_by_transformers(folder, prompt, max_new_tokens=MAX_TOKENS) for prompt in asked]


def test_greedy_with_a_repetition_penalty_equals_generate(causal_folders: dict[str, Path]) -> None:
    folder = causal_folders["llama"]
    with loaded(folder, LoadOptions()) as (engine, collector):
        for place, prompt in enumerate(prompts(5)):
            sampling = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, repeat_penalty=1.0 + place / 4)
            engine.submit(ask(str(place), prompt, sampling))
        for place, prompt in enumerate(prompts(5)):
            wanted, _ = generated_by_transformers(
                folder, prompt, max_new_tokens=MAX_TOKENS, repetition_penalty=1.0 + place / 4
            )
            assert collector.text(str(place)) == wanted


def test_a_seed_gives_the_same_text_alone_and_in_a_batch(causal_folders: dict[str, Path]) -> None:
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
        assert engine.tokenize(TokenizationRequest(text="ab")).ids == (BOS, 69, 70)
        wanted, _ = generated_by_transformers(folder, "ab", max_new_tokens=MAX_TOKENS)
        assert collector.text("one") == wanted


def test_the_built_in_model_equals_generate_alone_and_with_16_others() -> None:
    tokenizer, model = read_by_transformers(DESCRIBER)
    products = [f"Describe the {name}. Keywords: {word}" for name in ("Velmo lamp", "KX-204") for word in WORDS][:17]
    wanted = []
    for product in products:
        chat = tokenizer.apply_chat_template(
            [{"role": "user", "content": product}], add_generation_prompt=True, return_tensors="pt"
        )
        with torch.inference_mode():
            whole = model.generate(**chat, do_sample=False, max_new_tokens=60)[0]
        new = whole[chat["input_ids"].shape[1] :]
        wanted.append((tokenizer.decode(new, skip_special_tokens=True), len(new)))

    def chat_request(name: str, product: str) -> GenerationRequest:
        sampling = SamplingParams(temperature=0, max_tokens=60)
        return GenerationRequest(request_id=name, messages=(Message("user", product),), sampling=sampling)

    with loaded(DESCRIBER, LoadOptions(max_sequences=17)) as (engine, collector):
        engine.submit(chat_request("alone", products[0]))
        assert (collector.text("alone"), len(collector.outputs("alone"))) == wanted[0]
        for place, product in enumerate(products):
            engine.submit(chat_request(str(place), product))
        got = [(collector.text(str(place)), len(collector.outputs(str(place)))) for place in range(len(products))]
    assert got == wanted
