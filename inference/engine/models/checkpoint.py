"""The Llama family's checkpoints: architecture from a configuration, and tensors."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats import ADAPTER_WEIGHTS, FAMILIES, factor_name, read_adapter, read_json

ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # their frequencies do not depend on the length
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Architecture:
    """Sizes and features of a model of the family.

    frequencies: of rotary positions, [head_dim / 2].
    rope_scale: factor of cosine and sine.
    windows: of each layer, the last positions that a token attends to, itself included; 0 is all.
    """

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    frequencies: Tensor
    rope_scale: float
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    head_norms: bool
    tied: bool
    windows: tuple[int, ...]

    @property
    def qkv_heads(self) -> int:
        return self.heads + 2 * self.kv_heads

    def truncated(self) -> "Architecture":
        """Return the architecture with one layer and few tokens, for verification."""
        return replace(self, layers=1, vocabulary=min(self.vocabulary, 64), windows=self.windows[:1])


def read_architecture(config: PreTrainedConfig) -> Architecture | None:
    """Return the architecture of a configuration, or None if any of it is unknown to this code."""
    family = FAMILIES.get((config.architectures or [""])[0])
    rope = config.rope_parameters if family else {}
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads if family else 0
    is_known = (
        family == config.model_type
        and config.hidden_act == "silu"
        and rope.get("rope_type") in ROPE_TYPES
        and rope.get("partial_rotary_factor", 1.0) == 1.0
        and head_dim % 2 == 0
        and config.num_attention_heads % config.num_key_value_heads == 0
    )
    if not is_known:
        return None
    frequencies, rope_scale = _rope(config, head_dim)
    bias = bool(getattr(config, "attention_bias", False)) and family in ("llama", "qwen3")
    return Architecture(
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        norm_eps=config.rms_norm_eps,
        frequencies=frequencies,
        rope_scale=rope_scale,
        qkv_bias=bias or family == "qwen2",
        output_bias=bias,
        mlp_bias=family == "llama" and bool(config.mlp_bias),
        head_norms=family == "qwen3",
        tied=bool(config.tie_word_embeddings),
        windows=_windows(config),
    )


def _windows(config: PreTrainedConfig) -> tuple[int, ...]:
    """Return the window of each layer. Without types of layers, a window is that of all."""
    window = getattr(config, "sliding_window", None) or 0
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    return tuple(window if kind == "sliding_attention" else 0 for kind in types)


def _rope(config: PreTrainedConfig, head_dim: int) -> tuple[Tensor, float]:
    kind = config.rope_parameters["rope_type"]
    if kind != "default":
        frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
        return frequencies, float(scale)
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float) / head_dim
    return 1.0 / (config.rope_parameters["rope_theta"] ** exponents), 1.0


@dataclass(frozen=True)
class LowRank:
    """The matrix `up @ down`, [outputs, rank] and [rank, inputs] in float32."""

    down: Tensor
    up: Tensor


@dataclass(frozen=True)
class Matrix:
    """A matrix of a checkpoint: `weight` [outputs, inputs] in the file's own type, `bias` [outputs] in float32.

    blocks: name of GGUF's quantization, if `weight` is the file's own blocks, [outputs, bytes].
    low_rank: what an adapter adds to blocks. It is added to other weights already.
    """

    weight: Tensor
    bias: Tensor | None = None
    blocks: str | None = None
    low_rank: LowRank | None = None


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer: gate and up in one matrix. Norms are float32.

    qkv: queries, keys and values in one matrix, or in three if their blocks differ.
    """

    qkv: Sequence[Matrix]
    output: Matrix
    gate_up: Matrix
    down: Matrix
    attention_norm: Tensor
    mlp_norm: Tensor
    query_norm: Tensor | None
    key_norm: Tensor | None


class Tensors(Protocol):
    """A source of a model's tensors."""

    def __contains__(self, name: str) -> bool: ...

    def shape(self, name: str) -> list[int]: ...

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        """Return a tensor, or its first `rows`."""

    def kind(self, name: str) -> str | None:
        """Return the name of a tensor's quantization, or None if it is not quantized."""

    def blocks(self, name: str, rows: int | None = None) -> tuple[str, Tensor] | None:
        """Return a tensor's quantization and blocks, [rows, bytes], or None if it is not quantized."""

    def low_rank(self, name: str) -> LowRank | None:
        """Return what `tensor` adds to the tensor's blocks, or None."""


class FolderTensors:
    """Tensors of a folder's safetensors files. They are memory-mapped: only a copy of a tensor takes memory."""

    def __init__(self, folder: Path) -> None:
        index = folder / "model.safetensors.index.json"
        names = set(read_json(index)["weight_map"].values()) if index.exists() else {"model.safetensors"}
        files = [safe_open(folder / name, framework="pt") for name in sorted(names)]
        self._files: dict[str, Any] = {key: file for file in files for key in _names(file)}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def shape(self, name: str) -> list[int]:
        return list(self._files[name].get_slice(name).get_shape())

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        file = self._files[name]
        tensor: Tensor = file.get_tensor(name) if rows is None else file.get_slice(name)[:rows]
        return tensor

    def kind(self, name: str) -> None:
        """Return None: safetensors are not quantized."""

    def blocks(self, name: str, rows: int | None = None) -> None:
        """Return None: safetensors are not quantized."""

    def low_rank(self, name: str) -> None:
        """Return None: the tensors are as the files have them."""


class AdaptedTensors:
    """The tensors of a base model with an adapter's products added to them, in float32.

    A tensor that the base has in GGUF's blocks keeps them, and has its product as `low_rank`. Raises ModelLoadFailed if
    the adapter was made for another base.
    """

    def __init__(self, base: Tensors, folder: Path) -> None:
        adapter = read_adapter(folder)
        self._base = base
        self._products: dict[str, LowRank] = {}
        with safe_open(folder / ADAPTER_WEIGHTS, framework="pt") as opened:
            file: Any = opened
            for module in adapter.modules:
                down, up = (file.get_tensor(factor_name(module, factor)).float() for factor in "AB")
                self._products[f"{module}.weight"] = LowRank(down, up * adapter.scale)
        for name, product in self._products.items():
            shape = [len(product.up), product.down.shape[1]]
            base_shape = base.shape(name) if name in base else None
            if base_shape != shape:
                has = f"has the shape {base_shape} in" if base_shape else "is not in"
                raise ModelLoadFailed(
                    f"The adapter is for another base model: {name}, which it expects in the shape {shape}, {has} "
                    f"{adapter.base}. Put the base model that it was trained on under this name."
                )

    def __contains__(self, name: str) -> bool:
        return name in self._base

    def shape(self, name: str) -> list[int]:
        return self._base.shape(name)

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        tensor, product = self._base.tensor(name, rows), self._products.get(name)
        if product is None or tensor.dtype not in FLOATS:  # other types are refused as those of a base alone
            return tensor
        return tensor.float().addmm(product.up[:rows], product.down)

    def kind(self, name: str) -> str | None:
        return self._base.kind(name)

    def blocks(self, name: str, rows: int | None = None) -> tuple[str, Tensor] | None:
        return self._base.blocks(name, rows)

    def low_rank(self, name: str) -> LowRank | None:
        return self._products.get(name)


def _names(file: Any) -> list[str]:
    names: list[str] = file.keys()
    return names


class Checkpoint:
    """The tensors of a model of the family.

    Raises ModelLoadFailed if a tensor is missing, or has an unexpected shape or type.
    """

    def __init__(self, tensors: Tensors, architecture: Architecture) -> None:
        self.architecture = architecture
        self._tensors = tensors
        missing = [name for name, _ in self._expected() if name not in tensors]
        if missing:
            raise ModelLoadFailed(f"The weights lack {len(missing)} tensors, among them {missing[0]}.")
        for name, shape in self._expected():
            actual = tensors.shape(name)
            if actual != shape:
                raise ModelLoadFailed(f"{name} has the shape {actual}; the configuration says {shape}.")

    def has_own_head(self) -> bool:
        """Return whether there is a head. Beside tied embeddings, only transformers knows which one is used."""
        return "lm_head.weight" in self._tensors

    @property
    def is_quantized(self) -> bool:
        """Return whether the layers' matrices are quantized in the file."""
        return self._tensors.kind("model.layers.0.mlp.down_proj.weight") is not None

    def embedding(self) -> Tensor:
        return self._tensor("model.embed_tokens.weight", self.architecture.vocabulary)

    def embedding_blocks(self, kinds: Collection[str]) -> Matrix | None:
        """Return the embedding as the file's own blocks, if it has blocks of these kinds."""
        return self._in_blocks(["model.embed_tokens.weight"], None, kinds, self.architecture.vocabulary)

    def head(self, kinds: Collection[str] = ()) -> Matrix:
        """Return the head, as the file's own blocks if they are of these kinds."""
        name = "model.embed_tokens.weight" if self.architecture.tied else "lm_head.weight"
        blocks = self._in_blocks([name], None, kinds, self.architecture.vocabulary)
        return blocks or Matrix(self._tensor(name, self.architecture.vocabulary))

    def norm(self) -> Tensor:
        return self._tensor("model.norm.weight").float()

    def layers(self, kinds: Collection[str] = ()) -> Iterator[LayerWeights]:
        """Yield the weights of each layer. Matrices of these kinds of GGUF blocks stay as they are in the file."""
        for layer in range(self.architecture.layers):
            yield self._layer(f"model.layers.{layer}", kinds)

    def truncated(self) -> "Checkpoint":
        """Return the same tensors as a model of one layer and few tokens."""
        return _TruncatedCheckpoint(self._tensors, self.architecture)

    def state(self) -> dict[str, Tensor]:
        """Return all tensors by transformers' names, float32."""
        per_token = ("model.embed_tokens.weight", "lm_head.weight")
        return {
            name: self._tensor(name, self.architecture.vocabulary if name in per_token else None).float()
            for name, _ in self._expected()
        }

    def _layer(self, prefix: str, kinds: Collection[str]) -> LayerWeights:
        attention, mlp, of = f"{prefix}.self_attn", f"{prefix}.mlp", self.architecture
        return LayerWeights(
            qkv=self._qkv([f"{attention}.{kind}_proj" for kind in "qkv"], kinds),
            output=self._fused([f"{attention}.o_proj"], bias=of.output_bias, kinds=kinds),
            gate_up=self._fused([f"{mlp}.gate_proj", f"{mlp}.up_proj"], bias=of.mlp_bias, kinds=kinds),
            down=self._fused([f"{mlp}.down_proj"], bias=of.mlp_bias, kinds=kinds),
            attention_norm=self._tensor(f"{prefix}.input_layernorm.weight").float(),
            mlp_norm=self._tensor(f"{prefix}.post_attention_layernorm.weight").float(),
            query_norm=self._tensor(f"{attention}.q_norm.weight").float() if of.head_norms else None,
            key_norm=self._tensor(f"{attention}.k_norm.weight").float() if of.head_norms else None,
        )

    def _qkv(self, names: list[str], kinds: Collection[str]) -> list[Matrix]:
        """Return one matrix, or three if a file has blocks of these kinds for each, but not the same."""
        bias = self.architecture.qkv_bias
        found = [self._tensors.kind(f"{name}.weight") for name in names]
        if len(set(found)) > 1 and all(kind in kinds for kind in found):
            return [self._fused([name], bias=bias, kinds=kinds) for name in names]
        return [self._fused(names, bias=bias, kinds=kinds)]

    def _fused(self, names: list[str], *, bias: bool, kinds: Collection[str]) -> Matrix:
        biases = torch.cat([self._tensor(f"{name}.bias").float() for name in names]) if bias else None
        if blocks := self._in_blocks([f"{name}.weight" for name in names], biases, kinds):
            return blocks
        weights = [self._tensor(f"{name}.weight") for name in names]
        return Matrix(torch.cat(weights) if len(weights) > 1 else weights[0], biases)

    def _in_blocks(
        self, names: list[str], bias: Tensor | None, kinds: Collection[str], rows: int | None = None
    ) -> Matrix | None:
        """Return the matrix of these tensors below each other, if all have blocks of the same kind among `kinds`."""
        found = {self._tensors.kind(name) for name in names}
        if len(found) > 1 or not found <= set(kinds):
            return None
        parts = [part for name in names if (part := self._tensors.blocks(name, rows))]
        stacked = [blocks for _, blocks in parts]
        low_rank = _below_each_other([self._tensors.low_rank(name) for name in names], [len(part) for part in stacked])
        return Matrix(torch.cat(stacked), bias, parts[0][0], low_rank)

    def _tensor(self, name: str, rows: int | None = None) -> Tensor:
        tensor = self._tensors.tensor(name, rows)
        if tensor.dtype not in FLOATS:
            raise ModelLoadFailed(f"{name} must be float32, bfloat16 or float16, not {tensor.dtype}.")
        return tensor

    def _expected(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the names and shapes of the configuration's tensors."""
        of = self.architecture
        queries, keys = of.heads * of.head_dim, of.kv_heads * of.head_dim
        yield "model.embed_tokens.weight", [self._rows, of.hidden]
        if not of.tied:
            yield "lm_head.weight", [self._rows, of.hidden]
        for layer in range(of.layers):
            prefix = f"model.layers.{layer}"
            for name, outputs, inputs, bias in (
                ("self_attn.q_proj", queries, of.hidden, of.qkv_bias),
                ("self_attn.k_proj", keys, of.hidden, of.qkv_bias),
                ("self_attn.v_proj", keys, of.hidden, of.qkv_bias),
                ("self_attn.o_proj", of.hidden, queries, of.output_bias),
                ("mlp.gate_proj", of.intermediate, of.hidden, of.mlp_bias),
                ("mlp.up_proj", of.intermediate, of.hidden, of.mlp_bias),
                ("mlp.down_proj", of.hidden, of.intermediate, of.mlp_bias),
            ):
                yield f"{prefix}.{name}.weight", [outputs, inputs]
                if bias:
                    yield f"{prefix}.{name}.bias", [outputs]
            if of.head_norms:
                yield f"{prefix}.self_attn.q_norm.weight", [of.head_dim]
                yield f"{prefix}.self_attn.k_norm.weight", [of.head_dim]
            yield f"{prefix}.input_layernorm.weight", [of.hidden]
            yield f"{prefix}.post_attention_layernorm.weight", [of.hidden]
        yield "model.norm.weight", [of.hidden]

    @property
    def _rows(self) -> int:
        """Return the number of tokens in the embedding tensors."""
        return self.architecture.vocabulary


def _below_each_other(products: Sequence[LowRank | None], outputs: Sequence[int]) -> LowRank | None:
    """Return the low-rank additions to matrices with these numbers of outputs as one."""
    parts = [
        product or LowRank(torch.empty(0, 0), torch.empty(count, 0))
        for product, count in zip(products, outputs, strict=True)
    ]
    downs = [part.down for part in parts if len(part.down)]
    if not downs:
        return None
    ups: Tensor = torch.block_diag(*(part.up for part in parts))  # type: ignore[no-untyped-call]
    return LowRank(torch.cat(downs), ups)


class _TruncatedCheckpoint(Checkpoint):
    def __init__(self, tensors: Tensors, full: Architecture) -> None:
        self._full_vocabulary = full.vocabulary
        super().__init__(tensors, full.truncated())

    @property
    def _rows(self) -> int:
        return self._full_vocabulary
