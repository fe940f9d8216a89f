"""The engine's own decoders give transformers' logits, and a row does not depend on the rest of the step."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    Gemma3Config,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    SiglipVisionConfig,
    SmolLM3Config,
)

from inference.engine.formats import TEXT_GENERATION, LoadCache, inspect_model
from inference.engine.model_status import LoadOptions
from inference.engine.models import llama_family
from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import Checkpoint, FolderTensors
from inference.engine.models.decoders import open_decoder, read_config
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.interface import CPU, Placement
from inference.engine.models.layers.linear import DenseLinear, linear_maker
from inference.engine.models.llama_decoder import LlamaDecoder
from inference.engine.models.llama_family import FamilyDecoder, Kernels, fastest_kernels, make_decoder, placements
from inference.engine.models.native_decoder import NativeDecoder
from tests.inference.engine.family_configs import own_families

pytestmark = pytest.mark.timeout(400)  # a compiler at work on a busy machine

SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 36,
    "intermediate_size": 50,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
}
SCALED = {"original_max_position_embeddings": 64, "factor": 4.0}
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "llama with biases and tied embeddings": LlamaConfig(
        **SIZES | {"intermediate_size": 51}, attention_bias=True, mlp_bias=True, tie_word_embeddings=True
    ),
    "llama with llama3's rope": LlamaConfig(
        **SIZES, rope_scaling={**SCALED, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    ),
    "llama with yarn's rope": LlamaConfig(**SIZES, rope_scaling={**SCALED, "rope_type": "yarn"}),
    "llama with linear rope": LlamaConfig(**SIZES, rope_scaling={"rope_type": "linear", "factor": 2.0}),
    "llama of one key head": LlamaConfig(**SIZES | {"num_key_value_heads": 1, "head_dim": 40}),
    "mistral": MistralConfig(**SIZES),
    "mistral with a window": MistralConfig(**SIZES, sliding_window=19),
    "qwen3 with windows in some layers": Qwen3Config(
        **SIZES, use_sliding_window=True, sliding_window=7, max_window_layers=1
    ),
    "qwen2": Qwen2Config(**SIZES | {"head_dim": 6}),
    "qwen3": Qwen3Config(**SIZES, attention_bias=True),
    **own_families(SIZES | {"hidden_size": 48}, window=19),
    "Phi-3 with longrope": Phi3Config(
        **{name: size for name, size in SIZES.items() if name != "head_dim"} | {"hidden_size": 48},
        pad_token_id=None,
        original_max_position_embeddings=128,
        rope_scaling={"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [4.0] * 4},
    ),
    "SmolLM3 without positions": SmolLM3Config(**SIZES, pad_token_id=None, no_rope_layers=[0, 0]),
    "Granite with biases": GraniteConfig(**SIZES, attention_bias=True, mlp_bias=True),
}
for known in ("Llama", "Mistral", "Qwen2", "Qwen3"):  # above, with more settings
    del CONFIGS[known]
CONTEXT = 100
SLOTS = 16
EXACT_TOLERANCE = 1e-5  # of the largest logit
IDS = torch.randint(0, 300, (60,), generator=torch.Generator().manual_seed(5)).tolist()
OTHERS = torch.randint(0, 300, (SLOTS, 60), generator=torch.Generator().manual_seed(6)).tolist()
VARIANTS = {
    "float32": LoadOptions(),
    "bfloat16": LoadOptions(dtype="bfloat16"),
    "int8": LoadOptions(quantization="int8"),
}
# With `Kernels.multiplies_pairs`.
PRODUCTS = [*((variant, False) for variant in VARIANTS), ("bfloat16", True)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    for name, config in CONFIGS.items():
        torch.manual_seed(7)
        model = AutoModelForCausalLM.from_config(config)
        for parameter, values in model.named_parameters():
            if "norm" in parameter or "bias" in parameter:
                torch.nn.init.normal_(values, 1.0, 0.3)
        model.save_pretrained(root / name)
    return {name: root / name for name in CONFIGS}


@pytest.fixture(params=["torch", "compiled"])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL | None:
    return request.getfixturevalue("kernels") if request.param == "compiled" else None


def opened(
    folder: Path,
    library: ctypes.CDLL | None,
    options: LoadOptions | None = None,
    *,
    threads: int = 1,
    pairs: bool = False,
) -> FamilyDecoder:
    kernels = Kernels(library, threads, multiplies_pairs=pairs)
    return make_decoder(checkpoint(folder), options or LoadOptions(), kernels, slots=SLOTS, context_size=CONTEXT)


def checkpoint(folder: Path) -> Checkpoint:
    architecture = read_architecture(AutoConfig.from_pretrained(folder))
    assert architecture is not None
    return Checkpoint(FolderTensors(folder), architecture)


def by_transformers(folder: Path, ids: list[int]) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([ids])).logits[0]
    return logits


def difference(got: Tensor, wanted: Tensor) -> float:
    assert got.shape == wanted.shape
    return float((got - wanted).abs().max() / wanted.abs().max())


@pytest.mark.parametrize("family", CONFIGS)
def test_chunks_beside_decodes_give_transformers_logits(
    folders: dict[str, Path], library: ctypes.CDLL | None, family: str
) -> None:
    decoder, wanted = opened(folders[family], library), by_transformers(folders[family], IDS)
    assert (
        decoder.run(
            [
                TokenSpan(3, 0, IDS[:20], needs_logits=False),
                TokenSpan(9, 0, IDS[:5], all_logits=True, needs_logits=False),
            ]
        ).numel()
        == 0
    )
    got = decoder.run([TokenSpan(3, 20, IDS[20:21]), TokenSpan(9, 5, IDS[5:30], all_logits=True)])
    assert difference(got, wanted[[20, *range(5, 30)]]) < EXACT_TOLERANCE
    # Slots in any order, some with a gap between them, of very different lengths.
    got = decoder.run(
        [
            TokenSpan(9, 30, IDS[30:31]),
            TokenSpan(15, 0, IDS[:2]),
            TokenSpan(3, 21, IDS[21:22]),
            TokenSpan(0, 0, IDS[:1]),
        ]
    )
    assert difference(got, wanted[[30, 1, 21, 0]]) < EXACT_TOLERANCE


def test_the_logits_have_the_requested_precision(folders: dict[str, Path], library: ctypes.CDLL | None) -> None:
    wanted = by_transformers(folders["llama"], IDS)
    alike = {
        name: float(torch.cosine_similarity(got.double(), wanted.double()).min())
        for name, options in VARIANTS.items()
        for got in [opened(folders["llama"], library, options).run([TokenSpan(0, 0, IDS, all_logits=True)])]
    }
    assert alike["float32"] > 1 - 1e-9 > alike["bfloat16"] > 0.99
    assert 1 - 1e-9 > alike["int8"] > 0.9


@pytest.mark.parametrize("family", ["Gemma 2", "Phi-3", "OLMo 2"])
@pytest.mark.parametrize("variant", ["bfloat16", "int8"])
def test_rounded_weights_of_other_families_give_nearly_the_same_logits(
    folders: dict[str, Path], library: ctypes.CDLL | None, family: str, variant: str
) -> None:
    got = opened(folders[family], library, VARIANTS[variant]).run([TokenSpan(0, 0, IDS, all_logits=True)])
    assert torch.cosine_similarity(got, by_transformers(folders[family], IDS)).min() > 0.9


@pytest.mark.parametrize("family", ["llama", "llama with biases and tied embeddings", "Gemma 2", "OLMo 2"])
def test_rows_in_bfloat16_give_nearly_the_logits_of_rows_in_float32(
    folders: dict[str, Path], kernels: ctypes.CDLL, family: str
) -> None:
    widened, narrow = (
        opened(folders[family], kernels, VARIANTS["bfloat16"], pairs=pairs).run([TokenSpan(0, 0, IDS, all_logits=True)])
        for pairs in (False, True)
    )
    assert 0 < difference(narrow, widened) < 0.1
    assert torch.cosine_similarity(narrow, by_transformers(folders[family], IDS)).min() > 0.95


@pytest.mark.parametrize("family", ["llama", "qwen3", "Gemma 2", "OLMo 2"])
@pytest.mark.parametrize(("variant", "pairs"), PRODUCTS)
def test_the_compiled_step_gives_a_row_the_same_bits_in_any_batch(
    folders: dict[str, Path], kernels: ctypes.CDLL, family: str, variant: str, pairs: bool
) -> None:
    alone = opened(folders[family], kernels, VARIANTS[variant], pairs=pairs)
    whole = alone.run([TokenSpan(4, 0, IDS, all_logits=True)]).clone()
    # More threads than the machine has cores.
    crowded = opened(folders[family], kernels, VARIANTS[variant], threads=16, pairs=pairs)
    rows, threads = [], torch.get_num_threads()
    for start in range(0, len(IDS), 7):
        torch.set_num_threads((16, 1, 3)[start % 3])  # the number may change between steps
        others = [
            TokenSpan(slot, start, OTHERS[slot][start : start + 1 + slot % 9]) for slot in range(SLOTS) if slot != 4
        ]
        mine = TokenSpan(4, start, IDS[start : start + 7], all_logits=True)
        rows.append(crowded.run([*others[:7], mine, *others[7:]])[7 : 7 + len(mine.ids)].clone())
    torch.set_num_threads(threads)
    assert torch.equal(torch.cat(rows), whole)
    assert torch.equal(alone.run([TokenSpan(4, 59, IDS[59:])])[0], whole[59])


def test_many_more_threads_than_cores_hold_no_step_up(folders: dict[str, Path], kernels: ctypes.CDLL) -> None:
    """A caller that waited for a moment without any helper would wait for ever here."""
    alone, crowded = (opened(folders["llama"], kernels, threads=threads) for threads in (1, 32))
    for place in range(CONTEXT):
        spans = [TokenSpan(slot, place, [IDS[place % len(IDS)]]) for slot in range(4)]
        assert torch.equal(crowded.run(spans), alone.run(spans))


def test_keys_and_values_beside_quantized_weights_are_float16_unless_asked_otherwise(
    folders: dict[str, Path], kernels: ctypes.CDLL
) -> None:
    int8 = VARIANTS["int8"]
    half, whole = (
        opened(folders["qwen3"], kernels, msgspec.structs.replace(int8, cache_dtype=dtype))
        for dtype in ("auto", "float32")
    )
    assert (half.cache_dtype, whole.cache_dtype) == ("float16", "float32")
    assert half.cache_limit_bytes * 2 == whole.cache_limit_bytes
    assert half.cache_bytes == 0
    spans = [TokenSpan(2, 0, IDS, all_logits=True)]
    expected = whole.run(spans)
    assert 0 < difference(half.run(spans), expected) < 0.1  # int8 rounds some numbers to the next one
    assert 0 < half.cache_bytes < half.cache_limit_bytes
    assert opened(folders["qwen3"], kernels).cache_dtype == "float32"


def test_int8_gives_the_same_tokens_alone_and_in_a_batch_of_16(
    folders: dict[str, Path], library: ctypes.CDLL | None
) -> None:
    def continued(decoder: FamilyDecoder, others: list[list[int]]) -> list[int]:
        prompts = [IDS[:20], *(other[:20] for other in others)]
        spans = [TokenSpan(slot, 0, prompt) for slot, prompt in enumerate(prompts)]
        said: list[int] = []
        for place in range(20, 60):
            tokens = decoder.run(spans).argmax(-1).tolist()
            said.append(tokens[0])
            spans = [TokenSpan(slot, place, [token]) for slot, token in enumerate(tokens)]
        return said

    options = VARIANTS["int8"]
    alone = continued(opened(folders["llama"], library, options), [])
    assert continued(opened(folders["llama"], library, options), OTHERS[1:]) == alone
    assert len(set(alone)) > 10


def test_a_copied_prefix_gives_the_same_logits_as_a_computed_one(
    folders: dict[str, Path], library: ctypes.CDLL | None
) -> None:
    decoder, wanted = opened(folders["qwen2"], library), by_transformers(folders["qwen2"], IDS)
    decoder.run([TokenSpan(2, 0, IDS[:41]), TokenSpan(7, 0, OTHERS[0][:50])])
    decoder.copy(2, 7, 37)
    assert difference(decoder.run([TokenSpan(7, 37, IDS[37:])]), wanted[59:]) < EXACT_TOLERANCE
    assert difference(decoder.run([TokenSpan(2, 41, IDS[41:])]), wanted[59:]) < EXACT_TOLERANCE


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("context", [CONTEXT, 96])
def test_the_compiled_step_continues_from_the_cache_of_the_torch_decoder(
    folders: dict[str, Path], kernels: ctypes.CDLL, family: str, context: int
) -> None:
    before, after = (
        make_decoder(checkpoint(folders[family]), LoadOptions(), Kernels(library, 1), slots=SLOTS, context_size=context)
        for library in (None, kernels)
    )
    assert isinstance(before, LlamaDecoder)
    assert isinstance(after, NativeDecoder)
    before.run([TokenSpan(3, 0, IDS[:41]), TokenSpan(9, 0, IDS[:5])])
    for slot, length in ((3, 41), (9, 5)):
        after.import_slot(slot, before.export_slot(slot, length))
    wanted = by_transformers(folders[family], IDS)[[59, 9]]
    assert difference(after.run([TokenSpan(3, 41, IDS[41:]), TokenSpan(9, 5, IDS[5:10])]), wanted) < EXACT_TOLERANCE


def test_clear_removes_the_values_of_a_failed_step(folders: dict[str, Path], library: ctypes.CDLL | None) -> None:
    decoder = opened(folders["llama"], library)
    decoder.run([TokenSpan(0, 0, IDS[:8])])
    decoder.clear()
    rows = decoder.run([TokenSpan(0, 8, IDS[8:9])]).clone()
    assert torch.equal(rows, opened(folders["llama"], library).run([TokenSpan(0, 8, IDS[8:9])]))


@pytest.mark.parametrize("shared", [5, 16, 21])
def test_clear_removes_only_the_positions_after_the_prefix(
    folders: dict[str, Path], library: ctypes.CDLL | None, shared: int
) -> None:
    decoder = opened(folders["llama"], library)
    decoder.run([TokenSpan(3, 0, IDS[:shared] + OTHERS[0][shared:]), TokenSpan(4, 0, IDS[:40])])
    decoder.clear(3, shared)
    wanted = by_transformers(folders["llama"], IDS)
    got = decoder.run([TokenSpan(3, shared, IDS[shared : shared + 1]), TokenSpan(4, 40, IDS[40:41])])
    assert difference(got, wanted[[shared, 40]]) < EXACT_TOLERANCE
    decoder.clear(3)
    empty = opened(folders["llama"], library).run([TokenSpan(3, 8, IDS[8:9])]).clone()
    assert torch.equal(decoder.run([TokenSpan(3, 8, IDS[8:9])]), empty)


@pytest.mark.parametrize(("variant", "pairs"), PRODUCTS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nan_and_infinity_stay_visible_in_every_decoder(
    folders: dict[str, Path], tmp_path: Path, library: ctypes.CDLL | None, variant: str, pairs: bool, value: float
) -> None:
    """Finite logits would hide damaged weights."""
    weights = load_file(folders["llama"] / "model.safetensors")
    weights["model.embed_tokens.weight"][70] = value
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_bytes((folders["llama"] / "config.json").read_bytes())
    decoder = opened(tmp_path, library, VARIANTS[variant], pairs=pairs)
    broken, after, whole = decoder.run([TokenSpan(0, 0, [5, 70]), TokenSpan(1, 0, [70, 5]), TokenSpan(2, 0, [5, 6])])
    assert not broken.isfinite().any()
    assert not after.isfinite().any()
    assert whole.isfinite().all()


@pytest.mark.parametrize("token", [300, -1, 2**31 - 1])
def test_a_token_that_the_model_does_not_have_is_an_error(
    folders: dict[str, Path], library: ctypes.CDLL | None, token: int
) -> None:
    decoder = opened(folders["llama"], library)
    with pytest.raises(IndexError):
        decoder.run([TokenSpan(0, 0, [5, token])])
    assert decoder.run([TokenSpan(0, 0, [5])]).isfinite().all()


def test_bfloat16_files_are_computed_in_float32_with_half_the_memory(
    folders: dict[str, Path], kernels: ctypes.CDLL, tmp_path: Path
) -> None:
    source = folders["llama"]
    narrow = {name: tensor.bfloat16() for name, tensor in load_file(source / "model.safetensors").items()}
    logits, weights = {}, {}
    for name, tensors in (("narrow", narrow), ("wide", {key: value.float() for key, value in narrow.items()})):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_bytes((source / "config.json").read_bytes())
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        decoder = opened(folder, kernels)
        logits[name] = decoder.run([TokenSpan(0, 0, IDS, all_logits=True)]).clone()
        weights[name] = decoder.weight_bytes
    assert torch.equal(logits["narrow"], logits["wide"])
    assert weights["narrow"] < 0.6 * weights["wide"]


def test_the_last_layers_go_to_the_gpu() -> None:
    devices = [placement.device.type for placement in placements(4, 3, LoadOptions())]
    assert devices == ["cpu", "cuda", "cuda", "cuda"]
    assert [placement.device.type for placement in placements(2, 0, VARIANTS["int8"])] == ["cpu", "cpu"]


def test_layers_may_have_different_types_of_matrices(folders: dict[str, Path]) -> None:
    on_cpu = Placement(CPU, linear_maker(torch.float32, CPU))
    elsewhere = Placement(CPU, lambda matrix: DenseLinear(matrix, torch.bfloat16, CPU))
    decoder = LlamaDecoder(checkpoint(folders["llama"]), [on_cpu, elsewhere], slots=2, context_size=CONTEXT)
    assert difference(decoder.run([TokenSpan(1, 0, IDS)]), by_transformers(folders["llama"], IDS)[59:]) < 0.05


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("gpu_layers", [1, 2])
def test_a_model_split_between_cpu_and_gpu_gives_transformers_logits(folders: dict[str, Path], gpu_layers: int) -> None:
    cpu, gpu = CPU, torch.device("cuda", 0)
    places = [Placement(cpu, linear_maker(torch.float32, cpu))] * (2 - gpu_layers)
    places += [Placement(gpu, linear_maker(torch.float32, gpu))] * gpu_layers
    decoder = LlamaDecoder(checkpoint(folders["qwen3"]), places, slots=SLOTS, context_size=CONTEXT)
    decoder.run([TokenSpan(3, 0, IDS[:20], needs_logits=False), TokenSpan(9, 0, IDS[:5])])
    got = decoder.run([TokenSpan(3, 20, IDS[20:21]), TokenSpan(9, 5, IDS[5:30])])
    assert decoder.gpu_layers == gpu_layers
    assert difference(got, by_transformers(folders["qwen3"], IDS)[[20, 29]]) < 1e-3


@pytest.mark.parametrize("family", ["Gemma 2", "SmolLM3", "Phi-3", "Granite"])
def test_a_setting_that_the_family_does_not_compute_leaves_it_to_transformers(
    folders: dict[str, Path], family: str
) -> None:
    config = AutoConfig.from_pretrained(folders[family])
    assert read_architecture(config) is not None
    change: dict[str, object] = {"use_bidirectional_attention": True}
    if family == "SmolLM3":
        change = {"layer_types": ["full_attention", "chunked_attention"]}
    if family == "Granite":
        change = {"attention_multiplier": 0.0}
    if family == "Phi-3":
        change = {"rope_parameters": config.rope_parameters | {"partial_rotary_factor": 0.1}}
    assert read_architecture(changed(config, change)) is None


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
def test_the_text_part_of_a_model_with_images_is_computed(
    tmp_path: Path, library: ctypes.CDLL | None, prefix: str
) -> None:
    text = own_families(SIZES | {"hidden_size": 48}, window=7)["Gemma 3"]
    vision = SiglipVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8
    )
    torch.manual_seed(7)
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, eos_token_id=[1, 106])
    AutoModelForImageTextToText.from_config(config).save_pretrained(tmp_path)
    expected = by_transformers(tmp_path, IDS)
    weights = {
        re.sub(r"^(model\.)?language_model\.(model\.)?", prefix, name): tensor
        for name, tensor in load_file(tmp_path / "model.safetensors").items()
    }
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    config = read_config(tmp_path)
    architecture = read_architecture(config)
    assert architecture is not None
    assert config.eos_token_id == [1, 106]
    part = Checkpoint(FolderTensors(tmp_path), architecture)
    decoder = make_decoder(part, LoadOptions(), Kernels(library, 1), slots=1, context_size=CONTEXT)
    assert difference(decoder.run([TokenSpan(0, 0, IDS, all_logits=True)]), expected) < EXACT_TOLERANCE
    metadata = inspect_model(tmp_path)
    assert (metadata.architecture, metadata.capabilities) == ("Gemma3ForCausalLM", (TEXT_GENERATION,))
    assert metadata.cache_values == 2 * 2 * 2 * 8


def test_a_window_that_llama_does_not_read_has_no_effect() -> None:
    architecture = read_architecture(LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"], sliding_window=4))
    assert architecture is not None
    assert set(architecture.windows) == {0}


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        {"architectures": ["LlamaForSequenceClassification"]},
        {"architectures": ["MistralForCausalLM"]},
        {"num_attention_heads": 5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_unknown_architectures_are_left_to_transformers(change: dict[str, object]) -> None:
    assert read_architecture(changed(LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"]), {})) is not None
    assert read_architecture(changed(LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"]), change)) is None


def changed(config: PreTrainedConfig, change: dict[str, object]) -> PreTrainedConfig:
    for name, value in change.items():
        setattr(config, name, value)
    return config


def test_kernels_are_chosen_by_measuring(
    folders: dict[str, Path], kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def slowed(*args: Any) -> Tensor:
            return torch.stack([run(*args) for _ in range(30)])[0]

        return slowed

    sample, choices = checkpoint(folders["llama"]).truncated(), [Kernels(kernels, 1), Kernels(None, 1)]
    with monkeypatch.context() as patch:
        patch.setattr(NativeDecoder, "run", slow(NativeDecoder.run))
        assert fastest_kernels(sample, LoadOptions(), choices).compiled is None
    monkeypatch.setattr(LlamaDecoder, "run", slow(LlamaDecoder.run))
    assert fastest_kernels(sample, LoadOptions(), choices).compiled is not None


def test_a_reload_multiplies_as_the_first_load_did(
    folders: dict[str, Path], kernels: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[list[Kernels]] = []

    def choose(sample: Checkpoint, options: LoadOptions, choices: list[Kernels]) -> Kernels:
        offered.append(choices)
        return next(choice for choice in choices if choice.compiled and not choice.multiplies_pairs)

    monkeypatch.setattr(llama_family, "fastest_kernels", choose)
    options = LoadOptions(dtype="bfloat16", max_sequences=1)
    for _ in range(2):
        open_decoder(folders["llama"], options, CONTEXT, LoadCache(tmp_path / "loads", folders["llama"]))
    assert [choice.multiplies_pairs for choice in offered[0]] == [True] * kernels.multiplies_pairs() + [False, False]
    assert [(choice.compiled is not None, choice.multiplies_pairs) for choice in offered[1]] == [(True, False)]
