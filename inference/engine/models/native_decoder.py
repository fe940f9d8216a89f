"""The decoder of Llama and families like it in kernels.cpp: one call per step.

A row's result does not depend on other rows.
"""

import ctypes
from array import array
from collections.abc import Iterable, Sequence
from ctypes import c_float, c_int32, c_void_p

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.formats.block_records import BLOCK_KINDS, block_records, record_inputs
from inference.engine.models.architecture import Architecture, Rope
from inference.engine.models.checkpoint import Checkpoint, LayerWeights, LowRank, Matrix
from inference.engine.models.interface import TokenSpan
from inference.engine.models.kv_cache import LazyZeros

FLOAT32, BFLOAT16, INT8, PAIRS = range(4)
MATRICES = ("qkv", "key", "value", "output", "gate", "up", "down")
KINDS = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.int8: INT8}
NORMS = ("attention_norm", "attention_output_norm", "mlp_norm", "mlp_output_norm", "query_norm", "key_norm")
SCALES = ("query_scalar", "attention_cap", "logit_cap", "logit_divisor", "embedding_scale", "residual_scale")
ACTIVATIONS = {"silu": 0, "gelu": 1}
MIN_SCALE = 1e-30  # of an output whose weights are all zeros
DEPTHS = {INT8: 4, PAIRS: 2}  # numbers in a word: products add so many at once


class _MatrixStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("kind", "outputs", "inputs", "rank")),
        *((name, c_void_p) for name in ("packed", "bias", "scale", "offset", "down_factor", "up_factor")),
    )


class _LayerStruct(ctypes.Structure):
    _fields_ = (
        *((name, _MatrixStruct) for name in MATRICES),
        *((name, c_void_p) for name in (*NORMS, "keys", "values", "cosine", "sine")),
        *((name, c_int32) for name in ("window", "unused")),
    )


class _ModelStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("vocabulary", "hidden", "intermediate", "layers", "heads", "kv_heads", "dim")),
        *((name, c_int32) for name in ("context", "threads", "embedding_packed")),
        ("norm_eps", c_float),
        ("embedding_kind", c_int32),
        *((name, c_void_p) for name in ("layer", "embedding", "norm")),
        ("head", _MatrixStruct),
        *((name, c_int32) for name in ("half_cache", "rotated", "activation", "row_norms")),
        *((name, c_float) for name in SCALES),
    )


class _StepStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("rows", "groups", "wanted", "threads")),
        *((name, c_void_p) for name in ("tokens", "slots", "positions", "group_first", "group_rows", "wanted_rows")),
        ("logits", c_void_p),
    )


class NativeDecoder:
    """A `Decoder` with compiled kernels. They keep the weights of bfloat16 files and widen them exactly.

    dtype: torch.bfloat16 rounds other weights, torch.int8 quantizes all, torch.float32 keeps them.
    threads: the most that a step uses. It uses as many as torch does on the calling thread.
    keeps_blocks: matrices that a GGUF file has in `BLOCK_KINDS` stay so, with any type.
    cache_dtype: of keys and values, torch.float32 or torch.float16.
    multiplies_pairs: bfloat16 weights, if `dtype` is bfloat16, are multiplied by rows rounded to bfloat16, two at once.
        Sums are float32.
    """

    kernels = "compiled"
    gpu_layers = 0
    gpu_bytes = 0

    def __init__(
        self,
        kernels: ctypes.CDLL,
        checkpoint: Checkpoint,
        *,
        dtype: torch.dtype,
        threads: int,
        slots: int,
        context_size: int,
        keeps_blocks: bool = False,
        cache_dtype: torch.dtype = torch.float32,
        multiplies_pairs: bool = False,
    ) -> None:
        self._cache_dtype = cache_dtype
        self._multiplies_pairs = multiplies_pairs and dtype == torch.bfloat16
        self._kinds = BLOCK_KINDS if keeps_blocks else {}
        self._of = checkpoint.architecture
        self._slots = slots
        self.threads = threads
        self._kernels = _typed(kernels)
        self._width = int(kernels.vector_width())
        self._dtype = dtype
        self._tensors: list[Tensor] = []  # memory that the kernels point to
        layers = [self._layer(weights) for weights in checkpoint.layers(self._kinds)]
        self._cache = [self._layer_cache(slots, context_size) for _ in layers]
        for layer, (keys, values) in zip(layers, self._cache, strict=True):
            layer.keys, layer.values = keys.tensor.data_ptr(), values.tensor.data_ptr()
        self._rotations = {rope: self._rotation(rope, context_size) for rope in self._of.ropes if rope}
        for layer, window, rope in zip(layers, self._of.windows, self._of.ropes, strict=True):
            layer.window = window
            layer.cosine, layer.sine = self._rotations[rope] if rope else (None, None)
        self._layers = (_LayerStruct * len(layers))(*layers)
        self._logits = torch.empty(0, _up(self._of.vocabulary, self._width))
        self._model = self._describe(checkpoint, context_size, threads)
        self._runner = self._kernels.make_runner(ctypes.byref(self._model))
        self._group_rows = max(1, int(kernels.queries_at_once()) // (self._of.heads // self._of.kv_heads))

    def __del__(self) -> None:
        if runner := getattr(self, "_runner", None):
            self._kernels.end_runner(runner)

    @property
    def weight_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors)

    @property
    def is_all_blocks(self) -> bool:
        """Return whether all matrices are blocks of their GGUF file."""
        layer_matrices = (getattr(layer, name) for layer in self._layers for name in MATRICES)
        kinds = {matrix.kind for matrix in (*layer_matrices, self._model.head) if matrix.outputs}
        kinds.add(self._model.embedding_kind)
        return kinds <= set(BLOCK_KINDS.values())

    @property
    def cache_bytes(self) -> int:
        return sum(memory.resident_bytes for pair in self._cache for memory in pair)

    @property
    def cache_limit_bytes(self) -> int:
        return sum(memory.nbytes for pair in self._cache for memory in pair)

    @property
    def cache_dtype(self) -> str:
        return str(self._cache_dtype).removeprefix("torch.")

    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        tokens, slots, positions, firsts, counts, logit_rows = (array("i") for _ in range(6))
        for span in spans:
            row, count = len(tokens), len(span.ids)
            tokens.extend(span.ids)
            slots.extend([span.slot] * count)
            positions.extend(range(span.start, span.end))
            logit_rows.extend(range(row + count - span.rows, row + count))
            for first in range(0, count, self._group_rows):
                firsts.append(row + first)
                counts.append(min(self._group_rows, count - first))
        # The kernels do not check bounds.
        if tokens and not 0 <= min(tokens) <= max(tokens) < self._of.vocabulary:
            raise IndexError("a token that the model does not have")
        assert all(0 <= span.slot < self._slots and span.end <= self._model.context for span in spans)
        if len(self._logits) < len(logit_rows):
            self._logits = torch.empty(len(logit_rows), self._logits.shape[1])
        arrays = (tokens, slots, positions, firsts, counts, logit_rows)
        pointers = [values.buffer_info()[0] for values in arrays]
        step = _StepStruct(
            len(tokens), len(firsts), len(logit_rows), torch.get_num_threads(), *pointers, self._logits.data_ptr()
        )
        self._kernels.run_step(self._runner, ctypes.byref(step))
        return self._logits[: len(logit_rows), : self._of.vocabulary]

    def copy(self, source: int, target: int, length: int) -> None:
        # Positions of the last block beyond `length` are overwritten before they are read.
        blocks = _up(length, self._width) // self._width
        for keys, values in self._cache:
            keys.tensor[target, :, :blocks] = keys.tensor[source, :, :blocks]
            values.tensor[target, :, :length] = values.tensor[source, :, :length]

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        heads = self._of.kv_heads
        regions = range(self._slots * heads) if slot is None else range(slot * heads, (slot + 1) * heads)
        for pair in self._cache:
            for memory, first in zip(pair, (_up(start, self._width), start), strict=True):
                # Remaining keys of a block are never read: their scores are overwritten.
                region = memory.nbytes // (self._slots * heads)
                skipped = region // _up(self._model.context, self._width) * first
                for index in regions:
                    memory.clear(index * region + skipped, (index + 1) * region)

    def import_slot(self, slot: int, layers: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Write keys and values to the first positions of a slot, per layer [length, kv_heads, head_dim]."""
        dim, width = self._of.head_dim, self._width
        for (keys, values), (new_keys, new_values) in zip(self._cache, layers, strict=True):
            length = len(new_keys)
            padded = functional.pad(new_keys, (0, 0, 0, 0, 0, _up(length, width) - length))
            blocks = padded.reshape(-1, width, self._of.kv_heads, dim).permute(2, 0, 3, 1)
            keys.tensor[slot, :, : blocks.shape[1]] = blocks
            values.tensor[slot, :, :length, :dim] = new_values.transpose(0, 1)

    def _layer_cache(self, slots: int, context_size: int) -> tuple[LazyZeros, LazyZeros]:
        positions, dim, width = _up(context_size, self._width), self._of.head_dim, self._width
        keys = LazyZeros(slots, self._of.kv_heads, positions // width, dim, width, dtype=self._cache_dtype)
        return keys, LazyZeros(slots, self._of.kv_heads, positions, _up(dim, width), dtype=self._cache_dtype)

    def _layer(self, weights: LayerWeights) -> _LayerStruct:
        of, layer = self._of, _LayerStruct()
        gate, up = _halves(weights.gate_up, of)
        for name, matrix in (
            *zip(MATRICES, weights.qkv, strict=False),
            ("output", weights.output),
            ("gate", gate),
            ("up", up),
            ("down", weights.down),
        ):
            setattr(layer, name, self._matrix(matrix))
        for name in NORMS:
            norm = getattr(weights, name)
            setattr(layer, name, None if norm is None else self._keep(norm.clone()))
        return layer

    def _rotation(self, rope: Rope, context_size: int) -> tuple[int, int]:
        """Return the memory of cosine and sine, [context, rotated / 2]."""
        angles = torch.outer(torch.arange(context_size, dtype=torch.float), rope.frequencies)
        return self._keep(angles.cos() * rope.scale), self._keep(angles.sin() * rope.scale)

    def _matrix(self, matrix: Matrix) -> _MatrixStruct:
        width, weight = self._width, matrix.weight
        outputs, inputs = weight.shape
        extra = _up(outputs, width) - outputs
        scale = offset = bias = None
        if matrix.bias is not None:
            bias = self._keep(functional.pad(matrix.bias, (0, extra)))
        if matrix.blocks:
            inputs = record_inputs(matrix.blocks, weight)
            records = self._keep(block_records(matrix.blocks, weight, width))
            described = _MatrixStruct(BLOCK_KINDS[matrix.blocks], outputs, inputs, 0, records, bias)
            if matrix.low_rank is not None:
                self._add_low_rank(described, matrix.low_rank, extra)
            return described
        if self._dtype == torch.int8:
            scales = weight.float().abs().amax(1).clamp_min(MIN_SCALE) / 127
            weight = (weight.float() / scales[:, None]).round_().to(torch.int8)
            scale = self._keep(functional.pad(scales, (0, extra)))
            offset = self._keep(functional.pad(128 * weight.sum(1, dtype=torch.int32), (0, extra)))
        elif weight.dtype != torch.bfloat16:
            weight = weight.to(self._dtype)
        kind = PAIRS if self._multiplies_pairs else KINDS[weight.dtype]
        depth = DEPTHS.get(kind, 1)
        padded = functional.pad(weight, (0, _up(inputs, depth) - inputs, 0, extra))
        blocks = padded.view(-1, width, padded.shape[1] // depth, depth).transpose(1, 2)
        packed = self._keep(blocks.contiguous() if blocks is not weight else blocks.clone())
        return _MatrixStruct(kind, outputs, inputs, 0, packed, bias, scale, offset)

    def _add_low_rank(self, described: _MatrixStruct, product: LowRank, extra: int) -> None:
        """Point to the factors of a low-rank addition. extra: number of outputs to fill up."""
        described.rank = len(product.down)
        down = functional.pad(product.down.t(), (0, _up(described.rank, self._width) - described.rank))
        up = functional.pad(product.up, (0, 0, 0, extra)).view(-1, self._width, described.rank).transpose(1, 2)
        described.down_factor, described.up_factor = self._keep(down.contiguous()), self._keep(up.contiguous())

    def _describe(self, checkpoint: Checkpoint, context_size: int, threads: int) -> _ModelStruct:
        of = self._of
        head = self._matrix(checkpoint.head(self._kinds))
        shared = of.tied and head.kind != INT8
        blocks = None if shared else checkpoint.embedding_blocks(self._kinds)
        if shared:
            embedding, kind = head.packed, head.kind
        elif blocks:
            matrix = self._matrix(blocks)
            embedding, kind = matrix.packed, matrix.kind
        else:
            table = checkpoint.embedding().clone()
            table = table if table.dtype == torch.bfloat16 else table.float()
            embedding, kind = self._keep(table), KINDS[table.dtype]
        model = _ModelStruct(of.vocabulary, of.hidden, of.intermediate, of.layers, of.heads, of.kv_heads, of.head_dim)
        model.context, model.threads, model.norm_eps = context_size, threads, of.norm_eps
        model.embedding_packed, model.embedding_kind, model.embedding = shared, kind, embedding
        model.layer = ctypes.addressof(self._layers)
        model.norm = self._keep(checkpoint.norm().clone())
        model.head = head
        model.half_cache, model.rotated = self._cache_dtype == torch.float16, of.rotated
        model.activation, model.row_norms = ACTIVATIONS[of.activation], of.family.query_key_norms == "row"
        for name in (
            "query_scalar",
            "attention_cap",
            "logit_cap",
            "logit_divisor",
            "embedding_scale",
            "residual_scale",
        ):
            setattr(model, name, getattr(of, name))
        return model

    def _keep(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return tensor.data_ptr()


def _typed(kernels: ctypes.CDLL) -> ctypes.CDLL:
    kernels.make_runner.restype = c_void_p
    kernels.make_runner.argtypes = [c_void_p]
    kernels.run_step.argtypes = [c_void_p, c_void_p]
    kernels.run_step.restype = kernels.end_runner.restype = None
    kernels.end_runner.argtypes = [c_void_p]
    return kernels


def _halves(gate_up: Matrix, of: Architecture) -> list[Matrix]:
    parts = slice(of.intermediate), slice(of.intermediate, None)
    bias, low_rank = gate_up.bias, gate_up.low_rank
    return [
        Matrix(
            gate_up.weight[part],
            None if bias is None else bias[part],
            gate_up.blocks,
            None if low_rank is None else LowRank(low_rank.down, low_rank.up[part]),
        )
        for part in parts
    ]


def _up(count: int, unit: int) -> int:
    return (count + unit - 1) // unit * unit
