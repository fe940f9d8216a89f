"""GGUF files give what the folders that they were made of give, within what their own quantisation loses."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.gguf_weights import read_gguf
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models.decoders import open_decoder
from inference.engine.models.interface import TokenSpan
from inference.engine.text.tokenizer import load_tokenizer
from tests.inference.engine.gguf_files import KEPT_WHOLE, dequantised, save_gguf
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config

OPTIONS = LoadOptions(max_sequences=2, context_size=64)
IDS = list(range(5, 25))


def saved(folder: Path, family: str, *, tied: bool) -> Path:
    """Sizes in whole blocks of 32, as GGUF's quantisations want them."""
    tokenizer = byte_tokenizer()
    config = causal_config(family, len(tokenizer))
    config.hidden_size, config.intermediate_size, config.head_dim = 64, 96, 16
    config.tie_word_embeddings = tied
    return save_config(folder, config, tokenizer)


def logits(source: Path) -> torch.Tensor:
    model = read_gguf(source) if source.suffix == ".gguf" else source
    return open_decoder(model, OPTIONS, 64).run([TokenSpan(0, 0, IDS, all_logits=True)])


@pytest.mark.parametrize(("family", "tied"), [("llama", False), ("llama", True), ("qwen2", False), ("qwen2", True)])
def test_an_unquantized_gguf_file_gives_the_logits_of_its_folder(family: str, tied: bool, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", family, tied=tied)
    torch.testing.assert_close(logits(save_gguf(folder, tmp_path / "one.gguf")), logits(folder))


@pytest.mark.parametrize("form", ["Q8_0", "Q4_0", "F16"])
def test_a_quantized_gguf_file_loses_only_the_precision_of_its_format(form: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    file = save_gguf(folder, tmp_path / "one.gguf", form)
    weights = load_file(folder / "model.safetensors")
    whole = logits(folder)
    for name, tensor in weights.items():
        if tensor.ndim == 2 and not any(part in name for part in KEPT_WHOLE):
            weights[name] = dequantised(tensor, form)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert (logits(file) - whole).abs().max() > 1e-4
    torch.testing.assert_close(logits(file), logits(folder), rtol=1e-4, atol=1e-4)


def test_a_gguf_file_has_its_tokenizer_and_chat_template(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    file = save_gguf(folder, tmp_path / "one.gguf")
    ours, theirs = load_tokenizer(file, file), load_tokenizer(folder)
    for text in ("a warm lamp", "naïve 日本 🙂", "<|user|>x<|end|>"):
        assert ours.encode(text) == theirs.encode(text)
    assert ours.eos_id == theirs.eos_id


@pytest.mark.parametrize(("quantization", "told"), [("none", True), ("int8", False)])
def test_a_load_says_that_the_weights_were_dequantized(quantization: str, told: bool, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    file = save_gguf(folder, tmp_path / "one.gguf", "Q8_0")
    options = LoadOptions(context_size=64, max_sequences=2, quantization=quantization)
    report = load_model("one", file, options, lambda outputs: None).report
    assert ("dequantized" in (report.warning or "")) is told
    assert report.memory_usage_bytes > file.stat().st_size or quantization == "int8"


def test_an_unsupported_architecture_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    file = save_gguf(folder, tmp_path / "one.gguf")
    file.write_bytes(file.read_bytes().replace(b"llama", b"glama"))
    with pytest.raises(ModelLoadFailed, match="GGUF files of glama are not supported"):
        load_model("one", file, OPTIONS, lambda outputs: None)


def test_a_damaged_file_fails_to_load_with_a_reason(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    file = save_gguf(folder, tmp_path / "one.gguf")
    file.write_bytes(file.read_bytes()[:-4000])
    with pytest.raises(ModelLoadFailed, match="one could not be loaded"):
        load_model("one", file, OPTIONS, lambda outputs: None)
