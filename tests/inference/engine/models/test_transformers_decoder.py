"""Models that transformers' code computes over the slot cache give its own logits, beyond the window and packed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig

from inference.engine.errors import InvalidRequest
from inference.engine.formats import WINDOWED_TYPES, LoadCache
from inference.engine.model_status import LoadOptions
from inference.engine.models import decoders
from inference.engine.models.architecture import rope_limit
from inference.engine.models.decoders import open_decoder
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.linear import packs
from inference.engine.models.transformers_decoder import TransformersDecoder
from tests.inference.engine.family_configs import other_families, own_families

SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
}
WINDOW, CONTEXT, SLOTS = 9, 64, 3
CONFIGS = other_families(SIZES, window=WINDOW)
IDS = torch.randint(0, 300, (40,), generator=torch.Generator().manual_seed(5)).tolist()


def saved(folder: Path, config: PreTrainedConfig) -> Path:
    torch.manual_seed(7)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def opened(folder: Path, **options: Any) -> TransformersDecoder:
    decoder = open_decoder(folder, LoadOptions(max_sequences=SLOTS, **options), CONTEXT, LoadCache(None, folder))
    assert isinstance(decoder, TransformersDecoder)
    return decoder


def by_transformers(folder: Path) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([IDS])).logits[0]
    return logits


def run_all(decoder: TransformersDecoder) -> Tensor:
    """Return the logits of a prompt in two chunks and of decodes, beside another sequence."""
    prompt = decoder.run([TokenSpan(1, 0, IDS[:7], all_logits=True)])
    rest = decoder.run([TokenSpan(1, 7, IDS[7:25], all_logits=True), TokenSpan(0, 0, IDS[:5], needs_logits=False)])
    decodes = [
        decoder.run([TokenSpan(1, place, [IDS[place]]), TokenSpan(0, place - 20, [IDS[place]])])[:1]
        for place in range(25, 40)
    ]
    return torch.cat([prompt, rest, *decodes])


@pytest.mark.parametrize("family", CONFIGS)
def test_chunks_and_decodes_beyond_the_window_give_transformers_logits(tmp_path: Path, family: str) -> None:
    folder = saved(tmp_path, CONFIGS[family])
    expected = by_transformers(folder)
    assert (run_all(opened(folder)) - expected).abs().max() < 1e-4 * expected.abs().max()


@pytest.mark.parametrize("family", ["Llama", "OLMo 2", "Granite"])
def test_a_window_that_the_code_of_a_family_does_not_read_has_no_effect(tmp_path: Path, family: str) -> None:
    config = own_families(SIZES, window=WINDOW)[family]
    config.sliding_window = WINDOW
    config.rope_parameters |= {"rope_type": "dynamic", "factor": 2.0}  # no own decoder computes these positions
    folder = saved(tmp_path, config)
    expected = by_transformers(folder)
    assert (run_all(opened(folder)) - expected).abs().max() < 1e-4 * expected.abs().max()


def test_types_of_layers_that_the_code_of_a_family_does_not_read_have_no_effect(tmp_path: Path) -> None:
    config = other_families(SIZES, window=WINDOW)["Mixtral"]
    config.layer_types = ["full_attention", "sliding_attention"]
    folder = saved(tmp_path, config)
    expected = by_transformers(folder)
    assert (run_all(opened(folder)) - expected).abs().max() < 1e-4 * expected.abs().max()


def test_prompts_of_the_same_length_give_the_logits_of_each_alone(tmp_path: Path) -> None:
    folder = saved(tmp_path, CONFIGS["Cohere 2"])
    together, alone = opened(folder), opened(folder)
    together.run([TokenSpan(1, 0, IDS[:3])])
    got = together.run([TokenSpan(2, 0, IDS[10:25]), TokenSpan(0, 0, IDS[20:35]), TokenSpan(1, 3, IDS[3:18])])
    expected = [alone.run([TokenSpan(0, 0, ids)])[0] for ids in (IDS[10:25], IDS[20:35], IDS[:18])]
    torch.testing.assert_close(got, torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_every_type_with_a_window_is_tested() -> None:
    tested = {**own_families(SIZES, window=WINDOW), **CONFIGS}.values()
    assert {config.model_type for config in tested} >= WINDOWED_TYPES


@pytest.mark.skipif(not packs(torch.int8), reason="no int8 kernels")
@pytest.mark.parametrize("family", ["GPT-2", "GPT-NeoX"])
def test_int8_takes_less_memory_and_gives_nearly_the_same_logits(tmp_path: Path, family: str) -> None:
    folder = saved(tmp_path, CONFIGS[family])
    whole, packed = opened(folder), opened(folder, quantization="int8")
    assert packed.weight_bytes < 0.8 * whole.weight_bytes
    assert torch.cosine_similarity(run_all(packed), run_all(whole)).min() > 0.95


@pytest.mark.skipif(not packs(torch.bfloat16), reason="no bfloat16 kernels")
def test_bfloat16_rounds_the_weights(tmp_path: Path) -> None:
    folder = saved(tmp_path, CONFIGS["GPT-NeoX"])
    alike = torch.cosine_similarity(run_all(opened(folder, dtype="bfloat16")), by_transformers(folder)).min()
    assert 1 - 1e-9 > alike > 0.95


def test_a_model_whose_code_reads_its_weights_stays_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutWeight(torch.nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return rows @ self.weight.t()

    def pack(model: Any, dtype: torch.dtype) -> int:
        model.lm_head = WithoutWeight()
        return 1

    folder = saved(tmp_path, CONFIGS["Phi"])
    expected = by_transformers(folder)
    monkeypatch.setattr(decoders, "pack_linears", pack)
    monkeypatch.setattr(decoders, "packs", lambda dtype: True)
    assert (run_all(opened(folder)) - expected).abs().max() < 1e-4 * expected.abs().max()
    with pytest.raises(InvalidRequest, match="The matrices of PhiForCausalLM cannot be packed"):
        opened(folder, quantization="int8")


def test_four_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="`quantization` must be none or int8 for PhiForCausalLM"):
        opened(saved(tmp_path, CONFIGS["Phi"]), quantization="int4")


def test_rotary_positions_that_change_with_the_length_limit_the_context() -> None:
    config = own_families(SIZES, window=WINDOW)["Phi-3"]
    assert rope_limit(config) is None
    factors = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0], "original_max_position_embeddings": 64}
    config.rope_parameters |= {"rope_type": "longrope", **factors}
    assert rope_limit(config) == 64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("auto", 0.1)])
def test_a_gpu_computes_the_whole_model(tmp_path: Path, dtype: str, tolerance: float) -> None:
    folder = saved(tmp_path, CONFIGS["Cohere 2"])
    expected, decoder = by_transformers(folder), opened(folder, gpu_layers=2, dtype=dtype)
    assert (run_all(decoder) - expected).abs().max() < tolerance * expected.abs().max()
    assert (decoder.gpu_layers, decoder.gpu_bytes) == (2, decoder.weight_bytes + decoder.cache_bytes)
    with pytest.raises(InvalidRequest, match="`gpu_layers` must be 0, or 2 or more"):
        opened(folder, gpu_layers=1)
