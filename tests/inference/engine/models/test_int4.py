"""`quantization` int4: a folder's matrices in blocks of four bits, as a GGUF file of them would have them."""

import ctypes
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.formats import LoadCache
from inference.engine.formats.gguf_weights import read_gguf
from inference.engine.host.loading import NO_INT4, load_model
from inference.engine.model_status import LoadOptions, LoadReport
from inference.engine.models import llama_family
from inference.engine.models.decoders import open_decoder
from inference.engine.models.interface import TokenSpan
from inference.engine.models.llama_family import Kernels
from tests.inference.engine.gguf_files import dequantised, save_gguf
from tests.inference.engine.models.test_gguf_models import saved
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config

INT4 = LoadOptions(max_sequences=2, context_size=64, quantization="int4", cache_dtype="float32")
IDS = list(range(5, 25))


@pytest.fixture(params=["compiled", "torch"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let models be computed by this library alone: on tiny ones either may be the fastest."""
    compiled = request.getfixturevalue("kernels") if request.param == "compiled" else None
    set_library(compiled, monkeypatch)
    return str(request.param)


def set_library(library: ctypes.CDLL | None, monkeypatch: pytest.MonkeyPatch) -> None:
    fastest = llama_family.fastest_kernels
    monkeypatch.setattr(
        llama_family, "fastest_kernels", lambda sample, options, _: fastest(sample, options, [Kernels(library, 1)])
    )


def logits(source: Path, options: LoadOptions) -> torch.Tensor:
    model = read_gguf(source) if source.suffix == ".gguf" else source
    return open_decoder(model, options, 64, LoadCache(None, source)).run([TokenSpan(0, 0, IDS, all_logits=True)])


def report(source: Path, options: LoadOptions) -> LoadReport:
    return load_model("one", source, options, lambda outputs: None).report


def as_dequantised(folder: Path) -> Path:
    """Replace a folder's matrices by what is left of them in four and eight bits."""
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if tensor.ndim == 2:
            weights[name] = dequantised(tensor, "Q4_0" if "_proj" in name else "Q8_0")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(("family", "tied"), [("llama", True), ("qwen2", False)])
def test_logits_are_those_of_the_rounded_weights(family: str, tied: bool, library: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", family, tied=tied)
    whole, found = logits(folder, LoadOptions(context_size=64, dtype="float32")), logits(folder, INT4)
    expected = logits(as_dequantised(folder), LoadOptions(context_size=64, dtype="float32"))
    # torch has no products of four bits: it rounds once more, to eight, and the inputs too.
    tolerance = {"compiled": 1e-3, "torch": 0.15}[library]
    assert (found - expected).abs().max() < tolerance * (expected.max() - expected.min())
    assert (whole - expected).abs().max() > 1e-3 * (expected.max() - expected.min())


def test_a_load_says_what_it_took(library: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    loaded, whole = report(folder, INT4), report(folder, LoadOptions(context_size=64, dtype="float32"))
    assert (loaded.quantization, loaded.kernels) == ("int4", library)
    assert loaded.warning == {"compiled": None, "torch": NO_INT4}[library]
    assert loaded.weight_bytes < {"compiled": 0.25, "torch": 0.45}[library] * whole.weight_bytes


def test_matrices_that_a_file_has_quantized_stay_as_they_are(
    kernels: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_library(kernels, monkeypatch)
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf", "Q5_1")
    none = LoadOptions(max_sequences=2, context_size=64, cache_dtype="float32")
    assert torch.equal(logits(file, INT4), logits(file, none))
    whole = save_gguf(saved(tmp_path / "other", "llama", tied=False), tmp_path / "whole.gguf")
    assert report(whole, INT4).weight_bytes < 0.25 * report(whole, none).weight_bytes


def test_blocks_that_the_kernels_do_not_read_become_those_that_they_do(
    kernels: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_library(kernels, monkeypatch)
    folder = saved(tmp_path / "folder", "llama", tied=False, form="Q4_K")  # with rows of 256, which TQ1_0 needs
    file = save_gguf(folder, tmp_path / "one.gguf", "TQ1_0")
    whole = LoadOptions(max_sequences=2, context_size=64, dtype="float32")
    assert report(file, INT4).weight_bytes < 0.2 * report(file, whole).weight_bytes


@pytest.mark.parametrize("quantization", ["none", "int4"])
def test_weights_of_another_type_are_refused(quantization: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False)
    name = "model.layers.0.mlp.down_proj.weight"
    weights = load_file(folder / "model.safetensors")
    weights[name] = weights[name].to(torch.float8_e4m3fn)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadFailed, match=f"{name} must be float32, bfloat16 or float16"):
        report(folder, LoadOptions(context_size=64, quantization=quantization))


def test_matrices_with_rows_of_other_lengths_stay_whole(
    kernels: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_library(kernels, monkeypatch)
    tokenizer = byte_tokenizer()
    config = causal_config("llama", len(tokenizer))
    config.hidden_size, config.intermediate_size, config.head_dim = 48, 40, 12
    config.num_attention_heads, config.num_key_value_heads = 4, 2
    folder = save_config(tmp_path / "folder", config, tokenizer)
    torch.testing.assert_close(logits(folder, INT4), logits(folder, LoadOptions(context_size=64, dtype="float32")))


def test_encoders_and_other_architectures_refuse_it(encoder_folder: Path, causal_folders: dict[str, Path]) -> None:
    for folder, reason in (
        (encoder_folder, "must be none or int8 for encoders"),
        (causal_folders["gpt2"], "must be none or int8 for GPT2LMHeadModel"),
    ):
        with pytest.raises(InvalidRequest, match=reason):
            report(folder, INT4)
