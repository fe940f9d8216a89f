"""GGUF weights as tensors with transformers' names.

The architectures of the Llama family are read here: any tensor, when it is needed. Others are read through transformers
as float32 tensors.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, PreTrainedConfig
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES, load_gguf_checkpoint
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.gguf_header import GGUFHeader, GGUFTensor, read_gguf_header
from inference.engine.formats.inspection import GGUF_FAMILIES

FLOATS = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}  # by the number of the type
BLOCK_SIZES: dict[int, tuple[int, int]] = {kind.value: size for kind, size in gguf.GGML_QUANT_SIZES.items()}
CUT_OFF = "The file ends before its last tensor. Copy or convert it again."
ROPE_FREQUENCIES = "rope_freqs.weight"
MAX_SIZE = 2**24  # of a dimension; the largest known vocabulary is a sixtieth of it

_GLOBAL_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_SIZES = ("block_count", "embedding_length", "feed_forward_length", "attention.head_count")
# Keys of features that the Llama family's decoders do not have, with the values that turn them off.
_UNSUPPORTED = {"expert_count": (0,), "attention.sliding_window": (0,), "attention.causal": (True,)}


class GGUFTensors(Mapping[str, Tensor]):
    """The tensors of a file by transformers' names. Each is read when it is asked for, and dequantized.

    Raises ModelLoadFailed for a type that GGUF does not have, a shape that it cannot store, and a file cut off.
    """

    def __init__(self, file: Path, header: GGUFHeader, heads: int, kv_heads: int) -> None:
        self._file = file
        self._header = header
        self._heads = {"self_attn.q_proj": heads, "self_attn.k_proj": kv_heads}
        layers = range(int(header.values[f"{header.architecture}.block_count"]))
        names = _GLOBAL_NAMES | {
            f"model.layers.{layer}.{name}.{kind}": f"blk.{layer}.{short}.{kind}"
            for layer in layers
            for name, short in _LAYER_NAMES.items()
            for kind in ("weight", "bias")
        }
        self._described = {name: header.tensors[short] for name, short in names.items() if short in header.tensors}
        if unknown := header.tensors.keys() - set(names.values()) - {ROPE_FREQUENCIES}:
            raise ModelLoadFailed(
                f"The file has {len(unknown)} tensors that this engine does not know, among them {min(unknown)}. "
                "Without them its text would be wrong. Use another model."
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)

    def __contains__(self, name: object) -> bool:
        return name in self._described

    def __getitem__(self, name: str) -> Tensor:
        return self.tensor(name)

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        """Return a tensor, or its first rows, in its own floating type, or in float32 if it is quantized."""
        described = self._described[name]
        if rows is not None:
            described = replace(described, shape=(min(rows, described.shape[0]), *described.shape[1:]))
        return self._in_order(name, _dequantized(self._read(described), described))

    def blocks(self, name: str, rows: int | None = None) -> tuple[str, Tensor] | None:
        """Return the name of a tensor's quantization and its blocks, [rows, bytes], or None if it is not quantized."""
        described = self._described[name]
        if described.kind in FLOATS:
            return None
        if rows is not None:
            described = replace(described, shape=(min(rows, described.shape[0]), *described.shape[1:]))
        blocks = self._read(described).view(described.shape[0], -1)
        return gguf.GGMLQuantizationType(described.kind).name, self._in_order(name, blocks)

    def kind(self, name: str) -> str | None:
        """Return the name of a tensor's quantization, or None."""
        kind = self._described[name].kind
        return None if kind in FLOATS or kind not in BLOCK_SIZES else gguf.GGMLQuantizationType(kind).name

    def low_rank(self, name: str) -> None:
        """Return None: the tensors are as the file has them."""

    def shape(self, name: str) -> list[int]:
        return list(self._described[name].shape)

    def rope_factors(self) -> Tensor | None:
        """Return the divisors of the rotary frequencies, [head_dim / 2], or None."""
        described = self._header.tensors.get(ROPE_FREQUENCIES)
        return _dequantized(self._read(described), described) if described else None

    def _read(self, described: GGUFTensor) -> Tensor:
        size = _byte_count(described)
        if described.offset + size > self._file.stat().st_size:
            raise ModelLoadFailed(CUT_OFF)
        content = bytearray(size)  # not mapped: a mapped file that is cut off meanwhile would end the process
        with self._file.open("rb", buffering=0) as stream:
            stream.seek(described.offset)
            if stream.readinto(content) < size:
                raise ModelLoadFailed(CUT_OFF)
        return torch.frombuffer(content, dtype=torch.uint8)

    def _in_order(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor in transformers' order of rows: a Llama's queries and keys have half pairs interleaved."""
        heads = self._heads.get(name.removeprefix("model.layers.").partition(".")[2].rpartition(".")[0])
        if heads is None or self._header.architecture != "llama":
            return tensor
        return tensor.view(heads, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


@dataclass(frozen=True)
class GGUFModel:
    """The content of a GGUF file. tensors: by transformers' names."""

    config: PreTrainedConfig
    tensors: GGUFTensors | dict[str, Tensor]


def read_gguf(file: Path) -> GGUFModel:
    """Return the content of a file.

    Raise ModelLoadFailed for an architecture or a feature that would be computed wrongly, and whatever transformers
    raises.
    """
    header = read_gguf_header(file)
    if header.architecture in GGUF_FAMILIES:
        return _read_family(file, header)
    if header.architecture not in GGUF_SUPPORTED_ARCHITECTURES:
        raise ModelLoadFailed(f"GGUF files of {header.architecture} are not supported. Use its safetensors folder.")
    read: Any = load_gguf_checkpoint  # untyped, as are the Auto classes
    auto: Any = AutoModelForCausalLM
    config = AutoConfig.for_model(**read(str(file))["config"])
    with torch.device("meta"):
        model = auto.from_config(config)  # without weights, for the names of its tensors
    tensors = read(str(file), return_tensors=True, model_to_load=model, torch_dtype=torch.float32)
    config.architectures = [type(model).__name__]
    return GGUFModel(config, {name: tensor.float() for name, tensor in tensors["tensors"].items()})


def _read_family(file: Path, header: GGUFHeader) -> GGUFModel:
    config = _read_config(header)
    tensors = GGUFTensors(file, header, config.num_attention_heads, config.num_key_value_heads)
    factors = tensors.rope_factors()
    if factors is not None:
        config.rope_parameters = _llama3_rope(config, factors)
    return GGUFModel(config, tensors)


def _read_config(header: GGUFHeader) -> PreTrainedConfig:
    """Return transformers' configuration of a header."""
    architecture, values = header.architecture, header.values
    for key, allowed in _UNSUPPORTED.items():
        if values.get(f"{architecture}.{key}", allowed[0]) not in allowed:
            raise ModelLoadFailed(f"GGUF files of {architecture} with {key} are not supported. Use another model.")
    sizes = {key: _size(header, key) for key in _SIZES}
    if sizes["block_count"] > len(header.tensors):
        raise ModelLoadFailed("The header claims more layers than the file has tensors. Convert it again.")
    heads = sizes["attention.head_count"]
    head_dim = _size(header, "attention.key_length", max(1, sizes["embedding_length"] // heads))
    for key in ("rope.dimension_count", "attention.value_length"):
        if _size(header, key, head_dim) != head_dim:
            raise ModelLoadFailed(f"The header's {key} differs from its head size {head_dim}, which is not supported.")
    renamed: Any = GGUF_CONFIG_MAPPING["tokenizer"]
    tokens = {name: values[f"tokenizer.{key}"] for key, name in renamed.items() if f"tokenizer.{key}" in values}
    embedding = header.tensors.get("token_embd.weight")
    biased = "blk.0.attn_q.bias" in header.tensors and architecture != "qwen2"
    config: PreTrainedConfig = AutoConfig.for_model(
        architecture,
        architectures=[GGUF_FAMILIES[architecture]],
        max_position_embeddings=header.context_size,
        num_hidden_layers=sizes["block_count"],
        hidden_size=sizes["embedding_length"],
        intermediate_size=sizes["feed_forward_length"],
        num_attention_heads=heads,
        num_key_value_heads=_size(header, "attention.head_count_kv", heads),
        head_dim=head_dim,
        rms_norm_eps=_positive_number(header, "attention.layer_norm_rms_epsilon"),
        rope_parameters=_rope(header),
        vocab_size=embedding.shape[0] if embedding and embedding.shape else 0,
        tie_word_embeddings="output.weight" not in header.tensors,
        **({"attention_bias": True} if biased else {}),
        **({"mlp_bias": True} if "blk.0.ffn_gate.bias" in header.tensors else {}),
        **tokens,
    )
    return config


def _rope(header: GGUFHeader) -> dict[str, Any]:
    """Return transformers' parameters of rotary positions. Raise ModelLoadFailed for a scaling without formula here."""
    rope = {"rope_type": "default", "rope_theta": _positive_number(header, "rope.freq_base", 10_000.0)}
    kind = header.values.get(f"{header.architecture}.rope.scaling.type", "none")
    if kind == "none":
        return rope
    if kind not in ("linear", "yarn"):
        raise ModelLoadFailed(f"GGUF files with rope scaling {str(kind)[:40]} are not supported. Use another model.")
    rope |= {"rope_type": kind, "factor": _positive_number(header, "rope.scaling.factor")}
    if kind == "yarn":
        rope["original_max_position_embeddings"] = _size(header, "rope.scaling.original_context_length")
    return rope


def _llama3_rope(config: PreTrainedConfig, factors: Tensor) -> dict[str, Any]:
    """Return the parameters that a Llama 3 file's divisors of frequencies were made with.

    Raise ModelLoadFailed for other divisors.
    """
    rope: dict[str, Any] = config.rope_parameters | {
        "rope_type": "llama3",
        "factor": float(factors.max()),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float) / config.head_dim
    stated = 1.0 / (rope["rope_theta"] ** exponents * factors) if len(factors) == len(exponents) else None
    llama3 = LlamaConfig(head_dim=config.head_dim, rope_parameters=rope)
    frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](llama3, torch.device("cpu"))
    if stated is None or not torch.allclose(frequencies, stated, rtol=1e-4):
        raise ModelLoadFailed(f"The divisors in {ROPE_FREQUENCIES} are not Llama 3's. Use another model.")
    return rope


def _size(header: GGUFHeader, key: str, default: int | None = None) -> int:
    """Return a size from 1 to MAX_SIZE."""
    name = f"{header.architecture}.{key}"
    value = header.values.get(name, None if name in header.array_lengths else default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_SIZE:
        raise ModelLoadFailed(f"The header's {name} must be one number from 1 to {MAX_SIZE}. Convert the file again.")
    return value


def _positive_number(header: GGUFHeader, key: str, default: float | None = None) -> float:
    name = f"{header.architecture}.{key}"
    value = header.values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelLoadFailed(f"The header's {name} must be a positive number. Convert the file again.")
    return float(value)


def _byte_count(described: GGUFTensor) -> int:
    if described.kind not in BLOCK_SIZES:
        raise ModelLoadFailed(f"The file has tensors of type {described.kind}, which is not supported.")
    numbers, size = BLOCK_SIZES[described.kind]
    if not described.shape or described.shape[-1] % numbers:
        raise ModelLoadFailed(f"A tensor of shape {list(described.shape)} is not in whole blocks of {numbers} numbers.")
    return math.prod(described.shape) // numbers * size


def _dequantized(content: Tensor, described: GGUFTensor) -> Tensor:
    """Return a tensor in its own floating type, or in float32 if it is quantized."""
    if described.kind in FLOATS:
        return content.view(FLOATS[described.kind]).view(described.shape)
    kind = gguf.GGMLQuantizationType(described.kind)
    try:
        return torch.from_numpy(gguf.quants.dequantize(np.asarray(content), kind)).float().view(described.shape)
    except NotImplementedError as error:
        raise ModelLoadFailed(f"The file has tensors of type {kind.name}, which is not supported.") from error
