"""GGUF files give what the folders that they were made of give, within what their own quantisation loses."""

import ctypes
import dataclasses
import os
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats import LoadCache, gguf_weights, read_gguf_header
from inference.engine.formats.block_records import BLOCK_KINDS
from inference.engine.formats.gguf_weights import GGUFTensors, read_gguf
from inference.engine.host.loading import LoadedModel, load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models import FOLDER_VARIABLE, llama_family
from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import Checkpoint
from inference.engine.models.decoders import open_decoder
from inference.engine.models.interface import TokenSpan
from inference.engine.models.kv_cache import LazyZeros
from inference.engine.models.llama_family import Kernels, make_decoder
from inference.engine.models.native_decoder import NativeDecoder
from inference.engine.requests import TokenizationRequest
from inference.engine.text.tokenizer import Tokenizer, load_tokenizer
from tests.inference.engine.gguf_files import K_FORMS, KEPT_WHOLE, dequantised, save_gguf
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config

OPTIONS = LoadOptions(max_sequences=2, context_size=64)
IDS = list(range(5, 25))
FAMILIES = ["gemma2", "gemma3_text", "phi3", "smollm3", "olmo2", "granite"]


def saved(folder: Path, family: str, *, tied: bool, form: str = "") -> Path:
    """Sizes in whole blocks of 32, as GGUF's quantisations want them, or of 256 for the K forms."""
    tokenizer = byte_tokenizer()
    config = causal_config(family, len(tokenizer))
    config.hidden_size, config.intermediate_size, config.head_dim = 64, 96, 16
    if form in K_FORMS:
        config.hidden_size, config.intermediate_size, config.head_dim = 256, 512, 64
        config.initializer_range = 0.1
    config.tie_word_embeddings = tied
    return save_config(folder, config, tokenizer)


def logits(source: Path) -> torch.Tensor:
    model = read_gguf(source) if source.suffix == ".gguf" else source
    return open_decoder(model, OPTIONS, 64, LoadCache(None, source)).run([TokenSpan(0, 0, IDS, all_logits=True)])


@pytest.mark.parametrize(("family", "tied"), [("llama", False), ("llama", True), ("qwen2", False), ("qwen2", True)])
def test_an_unquantized_gguf_file_gives_the_logits_of_its_folder(family: str, tied: bool, tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", family, tied=tied)
    torch.testing.assert_close(logits(save_gguf(folder, tmp_path / "one.gguf")), logits(folder))


@pytest.mark.parametrize("form", ["F32", "Q8_0"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_of_another_family_gives_the_logits_of_its_folder(family: str, form: str, tmp_path: Path) -> None:
    """Also beyond the window, and with scaled positions and norms that differ from 1."""
    folder = saved_family(tmp_path / "folder", family, form)
    file = save_gguf(folder, tmp_path / "one.gguf", form)
    torch.testing.assert_close(logits(file), logits(folder), rtol=1e-3, atol=1e-3)
    model, config = read_gguf(file), AutoConfig.from_pretrained(folder)
    assert isinstance(model.tensors, GGUFTensors)
    windows = () if family == "smollm3" else ("layer_types", "sliding_window")  # has them only by a setting
    for name in (*windows, "query_pre_attn_scalar", "final_logit_softcapping", "no_rope_layers"):
        assert getattr(model.config, name, None) == getattr(config, name, None), name


def saved_family(folder: Path, family: str, form: str) -> Path:
    """The weights are those that the form has, so that a folder and its file have the same."""
    tokenizer = byte_tokenizer()
    config = causal_config("llama", len(tokenizer)).to_dict() | {"hidden_size": 64, "intermediate_size": 96}
    config |= {"model_type": family, "num_hidden_layers": {"gemma3_text": 6, "smollm3": 4}.get(family, 2)}
    config |= {"head_dim": 16, "tie_word_embeddings": family not in ("phi3", "olmo2")}
    if family in ("gemma2", "gemma3_text", "phi3"):
        config["sliding_window"] = 6
    if family.startswith("gemma"):
        config["query_pre_attn_scalar"] = 16
    if family == "granite":
        config |= {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
        config["logits_scaling"] = 4.0
    if family == "gemma3_text":
        linear = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
        config["rope_parameters"] = {"full_attention": linear, "sliding_attention": {"rope_type": "default"}}
    for name in ("architectures", "layer_types"):
        config.pop(name, None)
    save_config(folder, AutoConfig.for_model(config.pop("model_type"), **config), tokenizer)
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if "norm" in name:
            weights[name] = torch.linspace(0.5, 1.5, len(tensor))
        elif form != "F32":
            weights[name] = dequantised(tensor, form)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("family", "key", "value", "reason"),
    [
        ("phi3", "rope.dimension_count", 8, "rope.dimension_count differs"),
        ("gemma3_text", "attention.sliding_window_pattern", 2, "another pattern of windows"),
        ("llama", "attention.sliding_window", 6, "with attention.sliding_window are not supported"),
        ("olmo2", "attention.sliding_window", 6, "with attention.sliding_window are not supported"),
        ("granite", "rope.scaling.finetuned", False, "without rotary positions"),
    ],
)
def test_a_setting_that_is_not_read_is_refused(
    family: str, key: str, value: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=False) if family == "llama" else None
    folder = folder or saved_family(tmp_path / "folder", family, "F32")
    file = save_gguf(folder, tmp_path / "one.gguf")
    header = read_gguf_header(file)
    header.values[f"{header.architecture}.{key}"] = value
    monkeypatch.setattr(gguf_weights, "read_gguf_header", lambda _: header)
    with pytest.raises(ModelLoadFailed, match=reason):
        read_gguf(file)


@pytest.mark.parametrize(("family", "key"), [("granite", "embedding_scale"), ("gemma2", "final_logit_softcapping")])
def test_an_array_in_place_of_a_number_is_refused(
    family: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_gguf(saved_family(tmp_path / "folder", family, "F32"), tmp_path / "one.gguf")
    header = read_gguf_header(file)
    del header.values[f"{family}.{key}"]
    header.array_lengths[f"{family}.{key}"] = 2
    monkeypatch.setattr(gguf_weights, "read_gguf_header", lambda _: header)
    with pytest.raises(ModelLoadFailed, match=f"{key} must be a positive number"):
        read_gguf(file)


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
    with pytest.raises(ModelLoadFailed, match="ends before its last tensor"):
        load_model("one", file, OPTIONS, lambda outputs: None)


def test_a_files_own_reading_equals_that_of_transformers(tmp_path: Path) -> None:
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf", "Q4_1")
    model = read_gguf(file)
    config = AutoConfig.for_model(**load_gguf_checkpoint(str(file))["config"])
    with torch.device("meta"):
        names = AutoModelForCausalLM.from_config(config)
    expected = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=names)["tensors"]
    assert expected.keys() == set(model.tensors)
    for name, tensor in expected.items():
        assert torch.equal(model.tensors[name].float(), tensor), name
    settings = config.to_dict()
    same = ("rope_parameters", "rms_norm_eps", "head_dim", "vocab_size", "eos_token_id", "num_key_value_heads")
    assert {key: model.config.to_dict()[key] for key in same} == {key: settings[key] for key in same}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("llama.block_count", 0, "block_count must be one number from 1"),
        ("llama.block_count", 2**31, "block_count must be one number"),
        ("llama.block_count", 1000, "more layers than the file has tensors"),
        ("llama.embedding_length", 2**30, "embedding_length must be one number"),
        ("llama.attention.layer_norm_rms_epsilon", -1.0, "must be a positive number"),
        ("llama.rope.freq_base", float("inf"), "must be a positive number"),
        ("llama.rope.dimension_count", 8, "differs from its head size"),
        ("llama.rope.scaling.type", "longrope", "rope scaling longrope are not supported"),
        ("llama.rope.scaling.yarn_beta_fast", 8.0, "with rope.scaling.yarn_beta_fast are not supported"),
        ("llama.rope.scale_linear", 4.0, "with rope.scale_linear are not supported"),
        ("llama.logit_scale", 0.5, "with logit_scale are not supported"),
        ("llama.expert_count", 8, "with expert_count are not supported"),
        ("llama.attention.head_count", 2, "shape"),
    ],
)
def test_a_header_that_would_be_computed_wrongly_is_refused(
    key: str, value: float | str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf")
    header = read_gguf_header(file)
    changed = dataclasses.replace(header, values=header.values | {key: value})
    monkeypatch.setattr(gguf_weights, "read_gguf_header", lambda file: changed)
    with pytest.raises(ModelLoadFailed, match=reason):
        load_model("one", file, OPTIONS, lambda outputs: None)


@pytest.mark.parametrize("scaling", ["llama3", "linear", "yarn"])
def test_scaled_positions_of_a_gguf_file_are_those_of_its_folder(scaling: str, tmp_path: Path) -> None:
    """transformers ignores a file's scaling."""
    parameters = {
        "llama3": {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "linear": {"factor": 4.0},
        "yarn": {"factor": 4.0},
    }[scaling] | {"rope_type": scaling, "rope_theta": 10_000.0}
    if scaling != "linear":
        parameters["original_max_position_embeddings"] = 8192
    config = causal_config("llama", len(byte_tokenizer()))
    config.head_dim, config.hidden_size, config.intermediate_size = 32, 64, 96
    config.rope_parameters = parameters
    folder = save_config(tmp_path / "folder", config, byte_tokenizer())
    file = save_gguf(folder, tmp_path / "one.gguf")
    torch.testing.assert_close(logits(file), logits(folder))


def test_a_factor_of_positions_without_a_type_is_linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in llama.cpp, and in files of its first converters."""
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf")
    header = read_gguf_header(file)
    header.values["llama.rope.scaling.factor"] = 4.0
    monkeypatch.setattr(gguf_weights, "read_gguf_header", lambda _: header)
    rope = read_gguf(file).config.rope_parameters
    assert (rope["rope_type"], rope["factor"]) == ("linear", 4.0)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("attention.sliding_window", 6, r"starcoder2 with attention\.sliding_window are not"),
        ("rope.scaling.factor", 4.0, "starcoder2 with scaled rotary positions are not"),
    ],
)
def test_a_setting_that_transformers_does_not_read_is_refused(
    key: str, value: float, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf")
    header = read_gguf_header(file)
    header = dataclasses.replace(header, architecture="starcoder2", values={f"starcoder2.{key}": value})
    monkeypatch.setattr(gguf_weights, "read_gguf_header", lambda _: header)
    with pytest.raises(ModelLoadFailed, match=reason):
        read_gguf(file)


def test_a_tensor_that_the_architecture_does_not_use_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", "qwen2", tied=False)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.1.self_attn.o_proj.bias"] = torch.ones(64)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = read_gguf(save_gguf(folder, tmp_path / "one.gguf"))
    with pytest.raises(ModelLoadFailed, match=r"Qwen2 models here do not use, .* model\.layers\.1\.self_attn\.o_"):
        open_decoder(model, OPTIONS, 64, LoadCache(None, folder))


def test_divisors_of_frequencies_without_a_known_formula_are_refused(tmp_path: Path) -> None:
    file = save_gguf(
        saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf", rope_factors=[1.0, 3.0] * 4
    )
    with pytest.raises(ModelLoadFailed, match="divisors in rope_freqs"):
        read_gguf(file)


def test_a_tensor_that_the_engine_does_not_know_is_refused(tmp_path: Path) -> None:
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf")
    file.write_bytes(file.read_bytes().replace(b"blk.1.ffn_gate.weight", b"blk.1.ffn_gatf.weight"))
    with pytest.raises(ModelLoadFailed, match=r"does not know, among them blk\.1\.ffn_gatf"):
        read_gguf(file)


def test_a_second_load_takes_the_tokenizer_and_the_verification_from_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "compiled"))
    monkeypatch.setattr(llama_family, "compiled_kernels", lambda: None)
    file = save_gguf(saved(tmp_path / "folder", "llama", tied=False), tmp_path / "one.gguf")

    def loaded() -> LoadedModel:
        return load_model("one", file, OPTIONS, lambda outputs: None)

    first = loaded()
    entries = sorted(entry.name[33:] for entry in (tmp_path / "compiled" / "loads").iterdir())
    assert entries == ["tokenizer", "verified-torch-auto-none-auto-0"]

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("done again")

    with monkeypatch.context() as patch:
        patch.setattr(llama_family, "verify", fail)
        patch.setattr(Tokenizer, "check_template", fail)
        second = loaded()
        os.utime(file, ns=(1, 1))
        with pytest.raises(ModelLoadFailed, match="done again"):
            loaded()
    assert first.engine is not None
    assert second.engine is not None
    for text in ("a warm lamp", "naïve 日本 🙂", "<|user|>x<|end|>"):
        request = TokenizationRequest(text=text)
        assert second.engine.tokenize(request) == first.engine.tokenize(request)
    for entry in (tmp_path / "compiled" / "loads").iterdir():  # files lost
        for part in entry.iterdir():
            part.unlink()
    assert loaded().engine is not None


def test_a_cache_takes_memory_as_it_is_filled_and_gives_it_back_when_it_is_cleared() -> None:
    memory = LazyZeros(4, 8, 4096)
    assert memory.resident_bytes == 0
    memory.tensor[1, :2] = 7.0
    assert memory.resident_bytes == 2 * 4096 * 4
    memory.clear((8 + 1) * 4096 * 4 - 8, memory.nbytes)
    assert memory.resident_bytes == 4096 * 4
    assert memory.tensor[1, 0, :-2].unique().tolist() == [7.0]
    assert not memory.tensor[1, 0, -2:].any()
    assert not memory.tensor[1, 1:].any()


@pytest.mark.parametrize(
    ("form", "value_form"), [*((form, form) for form in BLOCK_KINDS), ("Q4_K", "Q6_K"), ("Q5_0", "Q8_0")]
)
@pytest.mark.parametrize("tied", [False, True])
def test_compiled_kernels_compute_with_the_files_own_blocks(
    form: str, value_form: str, tied: bool, tmp_path: Path, kernels: ctypes.CDLL
) -> None:
    folder = saved(tmp_path / "folder", "llama", tied=tied, form=form)
    model = read_gguf(save_gguf(folder, tmp_path / "one.gguf", form, value_form=value_form))
    architecture = read_architecture(model.config)
    assert architecture is not None
    assert isinstance(model.tensors, GGUFTensors)

    def decoder(options: LoadOptions) -> NativeDecoder:
        checkpoint = Checkpoint(model.tensors, architecture)
        made = make_decoder(checkpoint, options, Kernels(kernels, 1), slots=16, context_size=64)
        assert isinstance(made, NativeDecoder)
        return made

    # A float16 cache would round more than the blocks do.
    blocks = decoder(msgspec.structs.replace(OPTIONS, cache_dtype="float32"))
    dequantized = decoder(msgspec.structs.replace(OPTIONS, dtype="float32"))
    assert blocks.is_all_blocks
    assert not dequantized.is_all_blocks
    assert blocks.weight_bytes < 0.5 * dequantized.weight_bytes
    whole = blocks.run([TokenSpan(0, 0, IDS, all_logits=True)]).clone()
    expected = dequantized.run([TokenSpan(0, 0, IDS, all_logits=True)])
    assert (whole - expected).abs().max() < 1e-3 * (expected.max() - expected.min())
    # The same to the last bit in pieces beside other sequences.
    rows = []
    for start in range(0, len(IDS), 7):
        others = [TokenSpan(slot, start, IDS[slot : slot + 1 + slot % 5]) for slot in range(1, 16)]
        mine = TokenSpan(0, start, IDS[start : start + 7], all_logits=True)
        rows.append(blocks.run([*others[:7], mine, *others[7:]])[7 : 7 + len(mine.ids)].clone())
    assert torch.equal(torch.cat(rows), whole)


@pytest.mark.parametrize("form", ["Q4_1", "Q6_K"])
def test_a_model_in_its_files_own_blocks_is_loaded_without_warning(
    form: str, tmp_path: Path, kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    fastest = llama_family.fastest_kernels
    monkeypatch.setattr(
        llama_family, "fastest_kernels", lambda sample, options, _: fastest(sample, options, [Kernels(kernels, 1)])
    )
    file = save_gguf(saved(tmp_path / "folder", "qwen2", tied=False, form=form), tmp_path / "one.gguf", form)
    report = load_model("one", file, OPTIONS, lambda outputs: None).report
    assert (report.kernels, report.warning) == ("compiled", None)


@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_kernels_compute_with_the_blocks_of_another_family(
    family: str, tmp_path: Path, kernels: ctypes.CDLL
) -> None:
    folder = saved_family(tmp_path / "folder", family, "Q8_0")
    model = read_gguf(save_gguf(folder, tmp_path / "one.gguf", "Q8_0"))
    architecture = read_architecture(model.config)
    assert architecture is not None
    assert isinstance(model.tensors, GGUFTensors)
    options = msgspec.structs.replace(OPTIONS, cache_dtype="float32")
    checkpoint = Checkpoint(model.tensors, architecture)
    decoder = make_decoder(checkpoint, options, Kernels(kernels, 1), slots=2, context_size=64)
    assert isinstance(decoder, NativeDecoder)
    assert decoder.is_all_blocks
    expected = logits(folder)
    got = decoder.run([TokenSpan(0, 0, IDS, all_logits=True)])
    assert (got - expected).abs().max() < 1e-3 * expected.abs().max()
