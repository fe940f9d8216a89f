"""Layers in Triton kernels on a GPU: their logits, and their independence of the batch."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import Checkpoint, FolderTensors
from inference.engine.models.cuda_graphs import GraphRecorder
from inference.engine.models.decoders import read_config
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.interface import CPU, Placement
from inference.engine.models.layers.linear import linear_maker
from inference.engine.models.llama_decoder import LlamaDecoder
from inference.engine.models.llama_family import GPU, GPU_DTYPES
from tests.inference.engine.family_configs import own_families
from tests.inference.engine.tiny_models import letter_tokenizer, save_causal, save_config

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

SLOTS, CONTEXT = 70, 300
IDS = torch.randint(0, 300, (290,), generator=torch.Generator().manual_seed(5)).tolist()
SIZES = {
    "vocab_size": 300,
    "hidden_size": 1536,
    "intermediate_size": 520,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 40,
    "initializer_range": 0.04,
}
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "qwen2": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=50, max_window_layers=1),
    "qwen3": Qwen3Config(**SIZES),
}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(7)
    path = tmp_path_factory.mktemp("fused")
    AutoModelForCausalLM.from_config(FAMILIES[request.param]).save_pretrained(path)
    return path


def opened(folder: Path, *, gpu_layers: int = 2, is_int8: bool = False, recorded: bool = False) -> LlamaDecoder:
    from inference.engine.models.gpu.stack import FusedStack

    architecture = read_architecture(read_config(folder))
    assert architecture is not None
    places = [Placement(CPU, linear_maker(torch.float32, CPU))] * (2 - gpu_layers)
    places += [Placement(GPU, linear_maker(GPU_DTYPES["auto"], GPU))] * gpu_layers
    return LlamaDecoder(
        Checkpoint(FolderTensors(folder), architecture),
        places,
        slots=SLOTS,
        context_size=CONTEXT,
        record=GraphRecorder() if recorded else None,
        make_stack=partial(FusedStack, device=GPU, slots=SLOTS, context_size=CONTEXT, is_int8=is_int8),
    )


def by_transformers(folder: Path) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([IDS])).logits[0]
    return logits


@pytest.mark.parametrize(("is_int8", "gpu_layers"), [(False, 2), (True, 2), (False, 1)])
def test_logits_are_near_those_of_transformers_in_float32(folder: Path, gpu_layers: int, *, is_int8: bool) -> None:
    expected = by_transformers(folder)
    decoder = opened(folder, gpu_layers=gpu_layers, is_int8=is_int8, recorded=True)
    prompt = decoder.run([TokenSpan(3, 0, IDS[:200], all_logits=True), TokenSpan(5, 0, IDS[:7])])[:200].clone()
    decodes = [decoder.run([TokenSpan(3, place, [IDS[place]])])[0].clone() for place in range(200, 290)]
    difference = (torch.cat([prompt, torch.stack(decodes)]) - expected).abs().max()
    assert difference < (0.1 if is_int8 else 0.03) * expected.abs().max()


def test_logits_do_not_depend_on_the_batch_to_the_last_bit(folder: Path) -> None:
    alone, busy = opened(folder), opened(folder, recorded=True)
    alone.run([TokenSpan(7, 0, IDS[:150])])
    busy.run([TokenSpan(7, 0, IDS[:20])])
    busy.run([TokenSpan(7, 20, IDS[20:30]), TokenSpan(8, 0, IDS[:100])])
    busy.run([TokenSpan(9, 0, IDS[:120]), TokenSpan(7, 30, IDS[30:150])])
    for place, others in enumerate([0, 1, 7, 15, 16, 31, 40, 63], 150):
        slots = [7, *(slot for slot in range(SLOTS) if slot != 7)][: others + 1]
        got = busy.run([TokenSpan(slot, place, [IDS[place]]) for slot in slots])[0]
        assert torch.equal(got, alone.run([TokenSpan(7, place, [IDS[place]])])[0]), others


def test_a_token_that_the_model_does_not_have_is_an_error(folder: Path) -> None:
    decoder = opened(folder)
    for token in (300, -1):
        with pytest.raises(IndexError):
            decoder.run([TokenSpan(0, 0, [5, token])])
    assert decoder.run([TokenSpan(0, 0, [5])]).isfinite().all()


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_a_load_reports_the_memory_on_the_gpu(tmp_path: Path, quantization: str) -> None:
    folder = save_causal(tmp_path / "llama", "llama", letter_tokenizer())
    report = load_model("tiny", folder, LoadOptions(gpu_layers=9, quantization=quantization), lambda _: None).report
    assert (report.device, report.gpu_layers, report.kernels, report.cache_dtype) == ("cuda", 2, "triton", "bfloat16")
    assert 0 < report.gpu_memory_bytes <= report.memory_usage_bytes


def test_a_model_that_does_not_fit_into_the_gpu_says_so(tmp_path: Path) -> None:
    folder = save_causal(tmp_path / "llama", "llama", letter_tokenizer())
    with pytest.raises(ModelLoadFailed, match="does not fit into the GPU's memory"):
        load_model("tiny", folder, LoadOptions(gpu_layers=9, max_sequences=2**27), lambda _: None)


def test_torch_computes_a_family_that_the_fused_kernels_do_not(tmp_path: Path) -> None:
    config = own_families(SIZES | {"max_position_embeddings": CONTEXT}, window=50)["Gemma 3"]
    folder = save_config(tmp_path, config, letter_tokenizer())
    report = load_model("tiny", folder, LoadOptions(gpu_layers=9), lambda _: None).report
    assert (report.device, report.gpu_layers, report.kernels) == ("cuda", 2, "torch")
    with pytest.raises(InvalidRequest, match="int8 on a GPU is not for Gemma 3 models"):
        load_model("tiny", folder, LoadOptions(gpu_layers=9, quantization="int8"), lambda _: None)
