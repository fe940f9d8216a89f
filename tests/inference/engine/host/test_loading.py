"""The loader: options in effect, reports, and rejected models."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BloomConfig, GPTNeoConfig, MambaConfig, PreTrainedConfig, VaultGemmaConfig

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.host.loading import LoadedModel, load_model
from inference.engine.model_status import LoadOptions
from inference.engine.processors import physical_cores
from tests.inference.engine.tiny_models import CONTEXT, byte_tokenizer, save_config


def load(folder: Path, **options: int) -> LoadedModel:
    return load_model("tiny", folder, LoadOptions(**options), lambda outputs: None)


def test_the_report_has_options_in_effect_and_measured_costs(causal_folders: dict[str, Path]) -> None:
    loaded = load(causal_folders["llama"], context_size=100, batch_size=32, max_sequences=4)
    weights = sum(4 * tensor.numel() for tensor in load_file(causal_folders["llama"] / "model.safetensors").values())
    cache = 2 * 2 * 4 * 2 * 100 * 8 * 4  # keys and values, layers, slots, heads, context, dim, bytes
    turns = 100 * 4 * 8  # places, frequencies, bytes of a complex number
    report = loaded.report
    assert loaded.engine is not None
    assert loaded.embedder is None
    assert report.memory_usage_bytes == weights + cache + turns
    assert (report.weight_bytes, report.cache_limit_bytes, report.cache_dtype) == (weights + turns, cache, "float32")
    assert (report.context_size, report.batch_size, report.max_sequences) == (100, 32, 4)
    assert (report.dtype, report.device, report.gpu_layers, report.warning) == ("float32", "cpu", 0, None)


def test_layers_that_stay_on_the_cpu_are_reported(causal_folders: dict[str, Path]) -> None:
    report = load(causal_folders["llama"], gpu_layers=20).report
    assert report.gpu_layers == 0
    assert report.warning is not None


def test_the_context_is_at_most_the_models_own(causal_folders: dict[str, Path]) -> None:
    assert load(causal_folders["gpt2"]).report.context_size == CONTEXT
    clamped = load(causal_folders["gpt2"], gpu_layers=0, context_size=CONTEXT + 1, batch_size=512).report
    assert (clamped.gpu_layers, clamped.context_size, clamped.batch_size) == (0, CONTEXT, 512)
    assert clamped.warning == f"context_size {CONTEXT + 1} is above the model's limit: {CONTEXT} is used."
    assert load(causal_folders["gpt2"], context_size=CONTEXT).report.warning is None


def test_the_default_context_is_2048(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: config.update(max_position_embeddings=9000))
    assert load(folder, max_sequences=1).report.context_size == 2048
    assert load(folder, max_sequences=1, context_size=5000).report.context_size == 5000


def test_a_model_without_a_limit_of_its_own_has_the_default_context(
    causal_folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: config.update(max_position_embeddings=0))
    report = load(folder, max_sequences=1).report
    assert (report.context_size, report.warning) == (2048, None)


def test_a_sliding_window_of_the_llama_family_does_not_limit_the_context(
    causal_folders: dict[str, Path], tmp_path: Path
) -> None:
    def slide(config: dict[str, object]) -> None:
        config.update(use_sliding_window=True, sliding_window=48, max_window_layers=1, layer_types=None)

    report = load(changed(causal_folders["qwen2"], tmp_path, slide)).report
    assert (report.context_size, report.warning) == (CONTEXT, None)


@pytest.mark.parametrize("requested", [None, 100])
def test_a_sliding_window_of_a_family_that_is_not_tested_limits_the_context_with_a_warning(
    tmp_path: Path, requested: int | None
) -> None:
    sizes = {"vocab_size": 320, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
    config = VaultGemmaConfig(
        **sizes, num_attention_heads=4, num_key_value_heads=4, sliding_window=48, max_position_embeddings=128
    )
    folder = save_config(tmp_path, config, byte_tokenizer())
    report = load_model("tiny", folder, LoadOptions(context_size=requested), lambda outputs: None).report
    assert report.context_size == 48
    assert "up to its sliding window only, which limits the context to 48 tokens" in (report.warning or "")


def test_local_attention_limits_the_context(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 48}
    config = GPTNeoConfig(vocab_size=320, hidden_size=32, num_heads=4, max_position_embeddings=128, **kinds)
    assert load(save_config(tmp_path, config, byte_tokenizer())).report.context_size == 48


@pytest.mark.parametrize(
    "config",
    [
        BloomConfig(vocab_size=320, hidden_size=32, n_layer=1, n_head=4),
        MambaConfig(vocab_size=320, hidden_size=32, num_hidden_layers=1),
    ],
    ids=["positions as a bias", "no keys and values"],
)
def test_an_architecture_that_does_not_run_on_slots_is_rejected(tmp_path: Path, config: PreTrainedConfig) -> None:
    with pytest.raises(ModelLoadFailed, match=r"does not run on this engine|not supported"):
        load(save_config(tmp_path, config, byte_tokenizer()))


def test_an_unknown_type_of_the_cache_is_rejected(causal_folders: dict[str, Path]) -> None:
    with pytest.raises(InvalidRequest, match="`cache_dtype` must be one of auto, float32"):
        load_model("tiny", causal_folders["llama"], LoadOptions(cache_dtype="int8"), lambda outputs: None)


@pytest.mark.parametrize("option", ["context_size", "batch_size", "max_sequences"])
def test_options_below_one_are_rejected(causal_folders: dict[str, Path], option: str) -> None:
    with pytest.raises(InvalidRequest, match=option):
        load(causal_folders["llama"], **{option: 0})


def changed(source: Path, target: Path, change: Callable[[dict[str, object]], None], name: str = "config.json") -> Path:
    """A copy of a model folder with one JSON file changed."""
    folder = target / "changed"
    shutil.copytree(source, folder)
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize(
    "extra",
    [
        {"auto_map": {"AutoModelForCausalLM": "evil.Model"}},
        {"nested": [{"auto_map": {}}]},
        {"_attn_implementation_internal": "evil/kernel"},
        {"attn_implementation": "evil/kernel"},
        {"_experts_implementation_internal": "eager"},
        {"quantization_config": {"quant_method": "gptq"}},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_m2_keys_that_would_run_code_are_rejected(
    causal_folders: dict[str, Path], tmp_path: Path, extra: dict[str, object], name: str
) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: config.update(extra), name)
    with pytest.raises(ModelLoadFailed, match="not supported"):
        load(folder)


def test_m2_a_folder_with_code_is_rejected(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    with pytest.raises(ModelLoadFailed, match=r"modeling_evil\.py"):
        load(folder)


def test_m2_pickled_weights_are_never_read(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    (folder / "model.safetensors").unlink()
    canary = tmp_path / "canary"
    pickled = f"cos\nsystem\n(S'touch {canary}'\ntR.".encode()
    for name in ("pytorch_model.bin", "model.safetensors.bin"):
        (folder / name).write_bytes(pickled)
    with pytest.raises(ModelLoadFailed, match=r"no model\.safetensors"):
        load(folder)
    (folder / "model.safetensors").write_bytes(pickled)
    with pytest.raises(ModelLoadFailed):
        load(folder)
    assert not canary.exists()


@pytest.mark.parametrize(
    "header", [b"", b"\xff" * 8, (2**40).to_bytes(8, "little") + b"{}", b"\x02" + b"\0" * 7 + b"[]"]
)
def test_m2_a_false_weights_header_is_rejected(causal_folders: dict[str, Path], tmp_path: Path, header: bytes) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    (folder / "model.safetensors").write_bytes(header)
    with pytest.raises(ModelLoadFailed, match="tiny"):
        load(folder)


def test_m2_an_index_that_points_outside_the_folder_is_rejected(
    causal_folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    shutil.move(folder / "model.safetensors", tmp_path / "outside.safetensors")
    index = {"metadata": {}, "weight_map": {"model.norm.weight": "../outside.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelLoadFailed, match="not in the folder"):
        load(folder)


def test_missing_weights_are_an_error(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelLoadFailed, match=r"model\.norm\.weight"):
        load(folder)


def test_weights_of_other_shapes_are_rejected(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed):
        load(changed(causal_folders["llama"], tmp_path, lambda config: config.update(intermediate_size=64)))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "nobody-knows-it", "architectures": ["X"]}', "{}"])
def test_an_invalid_config_is_rejected(causal_folders: dict[str, Path], tmp_path: Path, content: str) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelLoadFailed):
        load(folder)


def test_a_load_error_does_not_disclose_the_models_path(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(causal_folders["llama"], tmp_path, lambda config: None)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelLoadFailed) as failed:
        load(folder)
    assert str(tmp_path) not in failed.value.message
    with pytest.raises(ModelLoadFailed, match="does not exist"):
        load(tmp_path / "nowhere")


def test_loading_sets_at_most_as_many_threads_as_there_are_cores(causal_folders: dict[str, Path]) -> None:
    load(causal_folders["llama"])
    assert torch.get_num_threads() <= physical_cores()
