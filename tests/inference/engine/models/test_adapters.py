"""An adapter on its base model gives the logits of the base with W + scale * B @ A, and bad adapters are refused."""

import ctypes
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats import LoadCache
from inference.engine.formats.gguf_weights import GGUFTensors, read_gguf
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models import llama_family
from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import AdaptedTensors, Checkpoint, FolderTensors
from inference.engine.models.decoders import open_decoder, read_config
from inference.engine.models.interface import TokenSpan
from inference.engine.models.llama_family import Kernels, make_decoder
from inference.engine.models.native_decoder import NativeDecoder
from tests.inference.engine.adapters import adapted, save_adapter
from tests.inference.engine.family_configs import own_families
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_causal, save_config

OPTIONS = LoadOptions(
    max_sequences=2, context_size=64, cache_dtype="float32"
)  # a float16 cache would round more than blocks do
IDS = list(range(5, 25))
SPANS = [TokenSpan(0, 0, IDS, all_logits=True)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sizes in whole blocks of 32, as GGUF's quantisations want them."""
    tokenizer = byte_tokenizer()
    config = causal_config("llama", len(tokenizer))
    config.hidden_size, config.intermediate_size, config.head_dim = 64, 96, 16
    return save_config(tmp_path_factory.mktemp("base") / "base", config, tokenizer)


def expected_logits(base: Path, weights: dict[str, Tensor]) -> Tensor:
    """Return the logits of transformers' own forward pass."""
    model: Any = AutoModelForCausalLM.from_config(read_config(base), dtype=torch.float32)
    model.load_state_dict(weights)
    with torch.inference_mode():
        logits: Tensor = model.eval()(input_ids=torch.tensor([IDS])).logits[0]
    return logits


def assert_equal_to_a_thousandth(logits: Tensor, expected: Tensor) -> None:
    assert (logits - expected).abs().max() < 1e-3 * expected.abs().max()


def test_an_adapter_of_a_model_with_images_is_added_to_the_text_part(base: Path, tmp_path: Path) -> None:
    def with_images(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name.replace("model.layers.", "model.language_model.layers."): t for name, t in tensors.items()}

    weights = load_file(base / "model.safetensors")
    adapter = save_adapter(tmp_path / "adapter", "base", weights, ("q_proj", "down_proj"))
    products = load_file(adapter / "adapter_model.safetensors")
    save_file(with_images(products), adapter / "adapter_model.safetensors", metadata={"format": "pt"})
    save_file(with_images(weights), tmp_path / "model.safetensors", metadata={"format": "pt"})
    tensors = AdaptedTensors(FolderTensors(tmp_path), adapter)
    expected = adapted(weights, products, 2.0)
    for name in ("model.layers.1.self_attn.q_proj.weight", "model.layers.0.mlp.down_proj.weight"):
        torch.testing.assert_close(tensors.tensor(name), expected[name])


@pytest.mark.parametrize("library", ["compiled", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("targets", "config", "scale"),
    [
        (("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), {}, 2.0),
        (("q_proj", "v_proj"), {"use_rslora": True}, 6 / math.sqrt(3)),
        (("up_proj",), {"lora_alpha": 1.5}, 0.5),
    ],
)
def test_an_adapter_of_a_folder_adds_its_products(
    library: str,
    dtype: torch.dtype,
    targets: tuple[str, ...],
    config: dict[str, Any],
    scale: float,
    base: Path,
    tmp_path: Path,
    kernels: ctypes.CDLL,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = {name: tensor.to(dtype) for name, tensor in load_file(base / "model.safetensors").items()}
    folder = save_config(tmp_path / "base", read_config(base), byte_tokenizer())
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    adapter = save_adapter(tmp_path / "adapter", "base", weights, targets, **config)
    choices = [Kernels(kernels if library == "compiled" else None, 1)]
    fastest = llama_family.fastest_kernels
    monkeypatch.setattr(llama_family, "fastest_kernels", lambda sample, options, _: fastest(sample, options, choices))

    decoder = open_decoder(folder, OPTIONS, 64, LoadCache(None, folder), adapter)

    assert decoder.kernels == library
    products = load_file(adapter / "adapter_model.safetensors")
    expected = expected_logits(folder, adapted(weights, products, scale))
    assert_equal_to_a_thousandth(decoder.run(SPANS), expected)
    without = expected_logits(folder, adapted(weights, {}, scale))
    assert (expected - without).abs().max() > 0.02 * without.abs().max()


@pytest.mark.parametrize(
    ("family", "targets"), [("OLMo 2", ("q_proj", "o_proj", "up_proj")), ("Phi-3", ("qkv_proj", "gate_up_proj"))]
)
def test_an_adapter_of_another_family_adds_its_products(family: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    sizes = causal_config("llama", len(tokenizer)).to_dict()
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    names += ("num_key_value_heads", "max_position_embeddings", "initializer_range")
    config = own_families({name: sizes[name] for name in names}, window=8)[family]
    folder = save_config(tmp_path / "base", config, tokenizer)
    weights = load_file(folder / "model.safetensors")
    adapter = save_adapter(tmp_path / "adapter", "base", weights, targets)
    decoder = open_decoder(folder, OPTIONS, 64, LoadCache(None, folder), adapter)
    products = load_file(adapter / "adapter_model.safetensors")
    assert_equal_to_a_thousandth(decoder.run(SPANS), expected_logits(folder, adapted(weights, products, 2.0)))


@pytest.mark.parametrize("form", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("targets", [("q_proj", "v_proj", "down_proj"), ("k_proj", "o_proj", "gate_proj", "up_proj")])
def test_an_adapter_of_a_gguf_file_leaves_its_blocks_and_adds_its_products(
    form: str, targets: tuple[str, ...], base: Path, tmp_path: Path, kernels: ctypes.CDLL
) -> None:
    model = read_gguf(save_gguf(base, tmp_path / "one.gguf", form))
    assert isinstance(model.tensors, GGUFTensors)
    weights = {name: model.tensors[name].float() for name in model.tensors}
    # 19 and 2 * 19 numbers: neither of them fills whole vectors
    adapter = save_adapter(tmp_path / "adapter", "one", weights, targets, r=19, lora_alpha=38)
    architecture = read_architecture(model.config)
    assert architecture is not None
    adapted_checkpoint = Checkpoint(AdaptedTensors(model.tensors, adapter), architecture)
    plain_checkpoint = Checkpoint(model.tensors, architecture)
    blocks, plain = (
        make_decoder(checkpoint, OPTIONS, Kernels(kernels, 1), slots=16, context_size=64)
        for checkpoint in (adapted_checkpoint, plain_checkpoint)
    )
    assert isinstance(blocks, NativeDecoder)
    assert isinstance(plain, NativeDecoder)
    assert blocks.is_all_blocks
    added = sum(tensor.numel() for tensor in load_file(adapter / "adapter_model.safetensors").values()) * 4
    assert added <= blocks.weight_bytes - plain.weight_bytes < 7 * added, "factors, filled up to vectors"

    whole = blocks.run(SPANS).clone()

    products = load_file(adapter / "adapter_model.safetensors")
    assert_equal_to_a_thousandth(whole, expected_logits(base, adapted(weights, products, 2.0)))
    rows = []  # the same to the last bit in pieces beside other sequences
    for start in range(0, len(IDS), 7):
        others = [TokenSpan(slot, start, IDS[slot : slot + 1 + slot % 5]) for slot in range(1, 16)]
        mine = TokenSpan(0, start, IDS[start : start + 7], all_logits=True)
        rows.append(blocks.run([*others[:7], mine, *others[7:]])[7 : 7 + len(mine.ids)].clone())
    assert torch.equal(torch.cat(rows), whole)


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("v_proj",), ("k_proj",), ("q_proj", "k_proj", "v_proj")])
def test_an_adapter_of_matrices_in_different_blocks_adds_the_product_of_each(
    targets: tuple[str, ...], base: Path, tmp_path: Path, kernels: ctypes.CDLL
) -> None:
    model = read_gguf(save_gguf(base, tmp_path / "one.gguf", "Q4_0", value_form="Q8_0"))
    assert isinstance(model.tensors, GGUFTensors)
    weights = {name: model.tensors[name].float() for name in model.tensors}
    adapter = save_adapter(tmp_path / "adapter", "one", weights, targets, r=8, lora_alpha=16)
    architecture = read_architecture(model.config)
    assert architecture is not None
    checkpoint = Checkpoint(AdaptedTensors(model.tensors, adapter), architecture)
    decoder = make_decoder(checkpoint, OPTIONS, Kernels(kernels, 1), slots=2, context_size=64)
    assert isinstance(decoder, NativeDecoder)
    assert decoder.is_all_blocks
    products = load_file(adapter / "adapter_model.safetensors")
    assert_equal_to_a_thousandth(decoder.run(SPANS), expected_logits(base, adapted(weights, products, 2.0)))


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_an_adapter_is_loaded_with_its_bases_tokenizer_and_verified(
    quantization: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = save_adapter(tmp_path / "adapter", "base", load_file(base / "model.safetensors"))
    options = msgspec.structs.replace(OPTIONS, quantization=quantization)
    verified = []
    verify = llama_family.verify
    monkeypatch.setattr(llama_family, "verify", lambda *args, **kwargs: verified.append(verify(*args, **kwargs)))

    report = load_model("adapter", adapter, options, lambda outputs: None, base).report

    assert (report.model_id, report.quantization) == ("adapter", quantization)
    assert len(verified) == 2


def refused(adapter: Path, base: Path, reason: str) -> None:
    with pytest.raises(ModelLoadFailed, match=reason):
        load_model("adapter", adapter, OPTIONS, lambda outputs: None, base)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"peft_type": "IA3"}, "`peft_type` must be LORA, not IA3"),
        ({"task_type": "SEQ_CLS"}, "`task_type` must be CAUSAL_LM, not SEQ_CLS"),
        ({"use_dora": True}, "has `use_dora`, which is not supported"),
        ({"bias": "lora_only"}, "has `bias`, which is not supported"),
        ({"lora_bias": True}, "has `lora_bias`, which is not supported"),
        ({"fan_in_fan_out": True}, "has `fan_in_fan_out`, which is not supported"),
        ({"modules_to_save": ["lm_head"]}, "has `modules_to_save`, which is not supported"),
        ({"rank_pattern": {"q_proj": 4}}, "has `rank_pattern`, which is not supported"),
        ({"a_setting_of_tomorrow": 1}, "has `a_setting_of_tomorrow`, which is not supported"),
        ({"init_lora_weights": "pissa"}, "`init_lora_weights` is pissa, which changes the base model"),
        ({"r": 0}, "`r` must be an integer from 1 to 65536, not 0"),
        ({"r": True}, "`r` must be an integer from 1 to 65536, not True"),
        ({"r": 4}, "does not have the adapter's rank 4"),
        ({"lora_alpha": "many"}, "`lora_alpha` must be a number, not many"),
        ({"lora_alpha": 1e300}, "`lora_alpha` must be a number"),
        ({"lora_alpha": 10**400, "use_rslora": True}, "`lora_alpha` must be a number"),
        ({"r": 10**400, "use_rslora": True}, "`r` must be an integer from 1 to 65536, not 1000"),
        ({"base_model_name_or_path": None}, "does not name its base model"),
        ({"base_model_name_or_path": "/"}, "does not name its base model"),
    ],
)
def test_a_configuration_of_anything_but_a_plain_lora_is_refused(
    changes: dict[str, Any], reason: str, base: Path, tmp_path: Path
) -> None:
    adapter = save_adapter(tmp_path / "adapter", "base", load_file(base / "model.safetensors"))
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    refused(adapter, base, reason)


PREFIX = "base_model.model.model.layers.0.self_attn"
Change = Callable[[dict[str, Tensor]], object]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda tensors: tensors.pop(f"{PREFIX}.q_proj.lora_B.weight"), "one of the two matrices of model.layers.0"),
        (lambda tensors: tensors.clear(), "has no tensors"),
        (
            lambda tensors: tensors.update({"base_model.model.lm_head.lora_A.weight": torch.ones(3, 64)}),
            "lm_head.lora_A.weight, which is not supported. An adapter can change these",
        ),
        (
            lambda tensors: tensors.update({f"{PREFIX}.q_proj.lora_magnitude_vector": torch.ones(64)}),
            "lora_magnitude_vector, which is not supported",
        ),
        (
            lambda tensors: tensors.update({f"{PREFIX}.q_proj.lora_A.weight": torch.ones(3, 64).int()}),
            "must hold float32, bfloat16 or float16",
        ),
        (
            lambda tensors: tensors.update({f"{PREFIX}.q_proj.lora_A.weight": torch.ones(3, 64, 1)}),
            r"has the shape \[3, 64, 1\]",
        ),
        (
            lambda tensors: tensors.update({f"{PREFIX}.q_proj.lora_A.weight": torch.ones(3, 65)}),
            r"for another base model: .*q_proj.weight, .* in the shape \[64, 65\], has the shape \[64, 64\]",
        ),
        (
            lambda tensors: tensors.update(
                {
                    f"base_model.model.model.layers.9.mlp.up_proj.lora_{factor}.weight": torch.ones(3, 3)
                    for factor in "AB"
                }
            ),
            "for another base model: model.layers.9.mlp.up_proj.weight, .* is not in base",
        ),
    ],
)
def test_weights_that_are_no_adapter_of_the_base_are_refused(
    change: Change, reason: str, base: Path, tmp_path: Path
) -> None:
    adapter = save_adapter(tmp_path / "adapter", "base", load_file(base / "model.safetensors"))
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    refused(adapter, base, reason)


def test_an_adapter_with_code_without_weights_or_with_other_digests_is_refused(base: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "adapter", "base", load_file(base / "model.safetensors"))
    (adapter / "SHA256SUMS").write_text(f"{'0' * 64}  adapter_model.safetensors\n")
    refused(adapter, base, "does not match its digest")
    (adapter / "SHA256SUMS").unlink()
    (adapter / "modeling.py").touch()
    refused(adapter, base, "holds code")
    (adapter / "modeling.py").unlink()
    file = adapter / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused(adapter, base, "does not hold")
    file.rename(adapter / "adapter_model.bin")
    refused(adapter, base, "has no adapter_model.safetensors")


def test_an_adapter_is_not_loaded_alone_or_on_a_model_of_another_kind(
    base: Path, tmp_path: Path, encoder_folder: Path
) -> None:
    adapter = save_adapter(tmp_path / "adapter", "base", load_file(base / "model.safetensors"))
    with pytest.raises(ModelLoadFailed, match="cannot be loaded without its base model"):
        load_model("adapter", adapter, OPTIONS, lambda outputs: None)
    refused(adapter, encoder_folder, "must be one that generates text")
    refused(adapter, save_causal(tmp_path / "gpt2", "gpt2", byte_tokenizer()), "Adapters of gpt2 models are not")


def test_a_load_of_an_adapter_does_not_take_its_verification_from_the_base(base: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "adapter", "base", load_file(base / "model.safetensors"))
    with LoadCache(tmp_path / "cache", base).new("verified") as folder:
        assert folder is not None
    assert LoadCache(tmp_path / "cache", base).find("verified") is not None
    assert LoadCache(tmp_path / "cache", base, adapter).find("verified") is None
