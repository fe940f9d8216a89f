"""GGUF weights as tensors with transformers' names.

`GGUF_FAMILIES` are read here: any tensor, when it is needed. Others are read through transformers as float32 tensors.
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
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES, load_gguf_checkpoint

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.families import AFTER, AROUND, BEFORE, FAMILIES
from inference.engine.formats.gguf_config import ROPE_FREQUENCIES, llama3_rope, read_gguf_config, refuse_features
from inference.engine.formats.gguf_header import GGUFHeader, GGUFTensor, read_gguf_header
from inference.engine.formats.inspection import GGUF_FAMILIES

FLOATS = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}  # by the number of the type
BLOCK_SIZES: dict[int, tuple[int, int]] = {kind.value: size for kind, size in gguf.GGML_QUANT_SIZES.items()}
CUT_OFF = "The file ends before its last tensor. Copy or convert it again."

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
}
_FUSED_NAMES = {  # in place of those for one matrix each
    "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_up_proj": "ffn_up",
}
_NORM_NAMES = {
    BEFORE: {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"},
    AROUND: {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
    AFTER: {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"},
}
_INTERLEAVED = ("llama", "smollm3", "granite")  # the halves of each head of queries and keys take turns
# Architectures whose scaled positions transformers reads.
_SCALED_BY_TRANSFORMERS = ("gpt-oss", "gpt_oss")


class GGUFTensors(Mapping[str, Tensor]):
    """The tensors of a file by transformers' names. Each is read when it is asked for, and dequantized.

    Raises ModelLoadFailed for a type that GGUF does not have, a shape that it cannot store, and a file cut off.
    """

    def __init__(self, file: Path, header: GGUFHeader, heads: int, kv_heads: int) -> None:
        self._file = file
        self._header = header
        family = FAMILIES[GGUF_FAMILIES[header.architecture]]
        self._norm_offset = family.norm_offset
        self._heads = {"self_attn.q_proj": heads, "self_attn.k_proj": kv_heads}
        layers = range(int(header.values[f"{header.architecture}.block_count"]))
        layer_names = _LAYER_NAMES | _NORM_NAMES[family.norms]
        if family.is_fused:
            single = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
            layer_names = {name: short for name, short in layer_names.items() if not name.endswith(single)}
            layer_names |= _FUSED_NAMES
        names = _GLOBAL_NAMES | {
            f"model.layers.{layer}.{name}.{kind}": f"blk.{layer}.{short}.{kind}"
            for layer in layers
            for name, short in layer_names.items()
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
        tensor = self._in_order(name, _dequantized(self._read(described), described))
        # A file has norms as they are multiplied.
        return tensor.float() - self._norm_offset if self._norm_offset and name.endswith("norm.weight") else tensor

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
        """Return a tensor in transformers' order of rows."""
        heads = self._heads.get(name.removeprefix("model.layers.").partition(".")[2].rpartition(".")[0])
        if heads is None or self._header.architecture not in _INTERLEAVED:
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
    _check_ignored(header)
    read: Any = load_gguf_checkpoint  # untyped, as are the Auto classes
    auto: Any = AutoModelForCausalLM
    config = AutoConfig.for_model(**read(str(file))["config"])
    with torch.device("meta"):
        model = auto.from_config(config)  # without weights, for the names of its tensors
    tensors = read(str(file), return_tensors=True, model_to_load=model, torch_dtype=torch.float32)
    config.architectures = [type(model).__name__]
    return GGUFModel(config, {name: tensor.float() for name, tensor in tensors["tensors"].items()})


def _check_ignored(header: GGUFHeader) -> None:
    """Raise ModelLoadFailed for features and scaled positions where transformers ignores them."""
    read: Any = GGUF_CONFIG_MAPPING[header.architecture]
    refuse_features(header, read)
    has_factor = header.values.get(f"{header.architecture}.rope.scaling.factor", 1) != 1
    scaling = header.values.get(f"{header.architecture}.rope.scaling.type", "linear" if has_factor else "none")
    has_factors = any(name.startswith(("rope_freqs", "rope_factors")) for name in header.tensors)
    if (scaling != "none" or has_factors) and header.architecture not in _SCALED_BY_TRANSFORMERS:
        raise ModelLoadFailed(
            f"GGUF files of {header.architecture} with scaled rotary positions are not supported. Use its safetensors "
            "folder."
        )


def _read_family(file: Path, header: GGUFHeader) -> GGUFModel:
    config = read_gguf_config(header)
    tensors = GGUFTensors(file, header, config.num_attention_heads, config.num_key_value_heads)
    factors = tensors.rope_factors()
    if factors is not None:
        config.rope_parameters = llama3_rope(config, factors)
    return GGUFModel(config, tensors)


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
