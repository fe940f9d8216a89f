"""The two models in the package: small enough, loadable by anyone's transformers, and good for something."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from inference.builtin import DESCRIBER, ENCODER
from inference.builtin.corpus.examples import draw_case, draw_example
from inference.builtin.evaluate import Describer, describer_figures, nearest_share
from inference.builtin.export import save_describer
from inference.builtin.network import Llama, Shape
from inference.builtin.tokenizer import encode_chats

MEGABYTE = 1_000_000


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("folder", "most"), [(DESCRIBER, 12 * MEGABYTE), (ENCODER, 8 * MEGABYTE)])
def test_a_model_is_whole_and_small(folder: Path, most: int) -> None:
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= most
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= {p.name for p in folder.iterdir()}
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.bfloat16}
    assert AutoConfig.from_pretrained(folder).model_type == "llama"


def test_the_chat_template_takes_a_system_message_or_none() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DESCRIBER)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Describe the Velmo."}]
    whole = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert whole == "<|system|>Be brief.<|end|><|user|>Describe the Velmo.<|end|><|assistant|>"
    assert tokenizer.apply_chat_template(turns[1:], tokenize=False) == "<|user|>Describe the Velmo.<|end|>"


def test_training_sees_the_tokens_that_the_chat_template_forms() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DESCRIBER)
    plain = Tokenizer.from_file(str(DESCRIBER / "tokenizer.json"))
    example = draw_example(Random("tokens"))
    chat = [{"role": role, "content": content} for role, content in example.turns]
    ids, learned = encode_chats(plain, [example])[0]
    assert ids == tokenizer(tokenizer.apply_chat_template(chat, tokenize=False))["input_ids"]
    said = [token for token, wanted in zip(ids, learned, strict=True) if wanted]
    assert tokenizer.decode(said, skip_special_tokens=True) == example.turns[-1][1]


def test_text_survives_the_tokenizer() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DESCRIBER)
    text = "Velmö KX-204, 100 % cotton\n- “soft” 漢字 🙂"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_describer_names_products_it_never_saw_and_stops_by_itself() -> None:
    random = Random("shipped")
    cases = [draw_case(random) for _ in range(40)]
    figures = describer_figures(list(Describer(DESCRIBER).write(cases, temperature=0.7, seed=1)))
    assert figures["names the product"] >= 0.8
    assert figures["ends by itself within 160 tokens"] >= 0.9


def test_the_encoder_finds_the_product_of_a_description() -> None:
    assert nearest_share(ENCODER, count=100, seed=2) >= 0.85


def test_the_network_that_trains_is_the_network_that_transformers_loads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = Tokenizer.from_file(str(DESCRIBER / "tokenizer.json"))
    ours = Llama(Shape(hidden_size=64, intermediate_size=96, num_hidden_layers=2))
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    save_describer(tmp_path, ours, tokenizer)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    ids = torch.randint(5, 3000, (2, 17))
    expected = theirs.model(input_ids=ids).last_hidden_state.float()
    assert torch.nn.functional.cosine_similarity(ours(ids).float(), expected, dim=-1).min() > 0.999
