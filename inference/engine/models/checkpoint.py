"""The checkpoints of families that the engine's own decoders compute."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats import ADAPTER_WEIGHTS, factor_name, read_adapter, read_json
from inference.engine.models.architecture import Architecture

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


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
    """Weights of one layer: gate and up in one matrix. Norms are float32, and None where the family has none.

    qkv: queries, keys and values in one matrix, or in three if their blocks differ.
    query_norm, key_norm: of each head, [head_dim], or of all together, [heads * head_dim].
    """

    qkv: Sequence[Matrix]
    output: Matrix
    gate_up: Matrix
    down: Matrix
    attention_norm: Tensor | None
    attention_output_norm: Tensor | None
    mlp_norm: Tensor | None
    mlp_output_norm: Tensor | None
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
    """Tensors of a folder's safetensors files. They are memory-mapped: only a copy of a tensor takes memory.

    Those of the text part of a model with images have the names that they have in a model of text alone.
    """

    def __init__(self, folder: Path) -> None:
        index = folder / "model.safetensors.index.json"
        names = set(read_json(index)["weight_map"].values()) if index.exists() else {"model.safetensors"}
        files = [safe_open(folder / name, framework="pt") for name in sorted(names)]
        self._places: dict[str, tuple[Any, str]] = {
            _text_name(name): (file, name) for file in files for name in _names(file)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def shape(self, name: str) -> list[int]:
        file, stored = self._places[name]
        return list(file.get_slice(stored).get_shape())

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        file, stored = self._places[name]
        tensor: Tensor = file.get_tensor(stored) if rows is None else file.get_slice(stored)[:rows]
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
                self._products[_text_name(f"{module}.weight")] = LowRank(down, up * adapter.scale)
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


def _text_name(name: str) -> str:
    """Return a tensor's name in a model of text alone. Transformers has written both prefixes."""
    return name.removeprefix("language_model.").replace("model.language_model.", "model.", 1)


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

    def refuse_unused(self, names: Iterable[str]) -> None:
        """Raise ModelLoadFailed if any of these tensors has no place in the architecture, for example a bias."""
        if unused := set(names) - {name for name, _ in self._expected()}:
            family = self.architecture.family.name
            raise ModelLoadFailed(
                f"The file has {len(unused)} tensors that {family} models here do not use, among them {min(unused)}. "
                "Without them its text would be wrong. Use another model."
            )

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
        return self._norm("model.norm")

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
        names, has_head_norms = of.family.norms, of.family.query_key_norms != "none"
        qkv, gate_up = _matrix_names(of)
        return LayerWeights(
            qkv=self._qkv([f"{prefix}.{name}" for name in qkv], kinds),
            output=self._fused([f"{attention}.o_proj"], bias=of.output_bias, kinds=kinds),
            gate_up=self._fused([f"{prefix}.{name}" for name in gate_up], bias=of.mlp_bias, kinds=kinds),
            down=self._fused([f"{mlp}.down_proj"], bias=of.mlp_bias, kinds=kinds),
            attention_norm=self._layer_norm(prefix, names.attention),
            attention_output_norm=self._layer_norm(prefix, names.attention_output),
            mlp_norm=self._layer_norm(prefix, names.mlp),
            mlp_output_norm=self._layer_norm(prefix, names.mlp_output),
            query_norm=self._norm(f"{attention}.q_norm") if has_head_norms else None,
            key_norm=self._norm(f"{attention}.k_norm") if has_head_norms else None,
        )

    def _layer_norm(self, prefix: str, name: str) -> Tensor | None:
        return self._norm(f"{prefix}.{name}") if name else None

    def _norm(self, name: str) -> Tensor:
        return self._tensor(f"{name}.weight").float() + self.architecture.family.norm_offset

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
        yield "model.embed_tokens.weight", [self._rows, of.hidden]
        if not of.tied:
            yield "lm_head.weight", [self._rows, of.hidden]
        for layer in range(of.layers):
            prefix = f"model.layers.{layer}"
            for name, outputs, inputs, bias in _matrices(of):
                yield f"{prefix}.{name}.weight", [outputs, inputs]
                if bias:
                    yield f"{prefix}.{name}.bias", [outputs]
            if of.family.query_key_norms != "none":
                is_each = of.family.query_key_norms == "head"
                yield f"{prefix}.self_attn.q_norm.weight", [of.head_dim * (1 if is_each else of.heads)]
                yield f"{prefix}.self_attn.k_norm.weight", [of.head_dim * (1 if is_each else of.kv_heads)]
            for name in filter(None, astuple(of.family.norms)):
                yield f"{prefix}.{name}.weight", [of.hidden]
        yield "model.norm.weight", [of.hidden]

    @property
    def _rows(self) -> int:
        """Return the number of tokens in the embedding tensors."""
        return self.architecture.vocabulary


def _matrix_names(of: Architecture) -> tuple[list[str], list[str]]:
    """Return the names of a layer's matrices of queries, keys and values, and of gate and up."""
    if of.family.is_fused:
        return ["self_attn.qkv_proj"], ["mlp.gate_up_proj"]
    return [f"self_attn.{kind}_proj" for kind in "qkv"], ["mlp.gate_proj", "mlp.up_proj"]


def _matrices(of: Architecture) -> Iterator[tuple[str, int, int, bool]]:
    """Yield the name, outputs and inputs of each matrix of a layer, and whether it has a bias."""
    qkv, gate_up = _matrix_names(of)
    queries, keys = of.heads * of.head_dim, of.kv_heads * of.head_dim
    for name, outputs in zip(qkv, [queries + 2 * keys] if of.family.is_fused else [queries, keys, keys], strict=True):
        yield name, outputs, of.hidden, of.qkv_bias
    yield "self_attn.o_proj", of.hidden, queries, of.output_bias
    for name in gate_up:
        yield name, of.intermediate * 2 // len(gate_up), of.hidden, of.mlp_bias
    yield "mlp.down_proj", of.hidden, of.intermediate, of.mlp_bias


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
