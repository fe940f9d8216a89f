"""The Llama family's decoder in torch: on the CPU, on a GPU, or split between them by layers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.models.checkpoint import Architecture, Checkpoint, LayerWeights, Matrix
from inference.engine.models.cuda_graphs import RecordedSteps, RecordStep
from inference.engine.models.interface import TokenSpan
from inference.engine.models.linear import Linear

CPU = torch.device("cpu")
# Reading an unused slot between used ones costs a third of copying a used one.
MAX_RANGE_PER_SLOT = 3


@dataclass(frozen=True)
class Placement:
    """The device of a layer, and the function that makes its matrices there."""

    device: torch.device
    linear: Callable[[Matrix], Linear]


class CachedLayer(Protocol):
    """A layer with its part of the cache, [slots * context, 2 * kv_heads, head_dim]."""

    cache: Tensor


class StepBatch(Protocol):
    """The rows of a step: spans of one token first, then longer ones."""

    decodes: list[TokenSpan]
    longer: list[TokenSpan]
    positions: list[int]
    slots: list[int]

    def inputs(self) -> "_LayerInputs":
        """Return the inputs of torch's layers, on the CPU."""


class Stack(Protocol):
    """The last layers of a decoder, with its norm and head, on one device.

    kernels, cache_dtype: see `LoadReport`.
    min_recorded_keys: keys of the smallest recorded step.
    copies_keys: a recorded step copies the keys that it reads.
    embeds: the embedding goes to the device, too, if all layers are there.
    """

    device: torch.device
    kernels: str
    cache_dtype: str
    min_recorded_keys: int
    copies_keys: bool
    embeds: bool

    @property
    def layers(self) -> Sequence[CachedLayer]: ...

    @property
    def weight_bytes(self) -> int: ...

    def add_layer(self, weights: LayerWeights, window: int) -> None:
        """Add the next layer."""

    def add_head(self, norm: Tensor, head: Matrix) -> None:
        """Add what follows the last layer."""

    def run(self, rows: Tensor, batch: StepBatch, logit_rows: list[int]) -> Tensor:
        """Return the logits of some rows. rows: float32 [rows, hidden], on the device."""

    def decode(self, rows: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        """Return the logits of one token per slot. No operation waits for the device."""


class MakeStack(Protocol):
    """Makes a stack without layers. rotations: complex numbers [context, 1, head_dim / 2]."""

    def __call__(self, of: Architecture, /, *, rotations: Tensor) -> Stack: ...


class LlamaDecoder:
    """A `Decoder` that runs the rows of all spans through each matrix together, and attention by span.

    The cache is one tensor per layer, [slots * context, 2 * kv_heads, head_dim], keys before values.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        placements: Sequence[Placement],
        *,
        slots: int,
        context_size: int,
        record: RecordStep | None = None,
        make_stack: MakeStack | None = None,
    ) -> None:
        """Allocate weights and cache.

        record: recorder of decode steps on the last layer's device, or None.
        make_stack: makes the stack of the layers on the last layer's device; None is one of torch's operations.
        """
        of = self._of = checkpoint.architecture
        self._context = context_size
        self.gpu_layers = sum(placement.device != CPU for placement in placements)
        angles = torch.outer(torch.arange(context_size, dtype=torch.float), of.frequencies)
        self._rotations = torch.polar(torch.full_like(angles, of.rope_scale), angles)[:, None]
        last = placements[-1]
        if make_stack is None:
            make_stack = partial(TorchStack, placement=last, slots=slots, context_size=context_size)
        self._last = make_stack(of, rotations=self._rotations)
        self._first: list[_TorchLayer] = []
        for weights, placement, window in zip(checkpoint.layers(), placements, of.windows, strict=True):
            if placement.device == last.device:
                self._last.add_layer(weights, window)
            else:
                self._first.append(_TorchLayer(weights, of, placement, slots * context_size, window))
        # In the file's own type: it is a lookup table.
        self._embedding = checkpoint.embedding().clone()
        if self._last.embeds and not self._first:
            self._embedding = self._embedding.to(last.device)
        self._last.add_head(checkpoint.norm(), checkpoint.head())
        self._host_logits: Tensor | None = None
        if last.device != CPU:  # copied at ten times the speed of other memory
            self._host_logits = torch.empty(slots, of.vocabulary, pin_memory=True)
        self._recorded_steps: RecordedSteps | None = None
        if record:
            self._recorded_steps = RecordedSteps(
                self._decode,
                record,
                device=last.device,
                max_rows=slots,
                context=context_size,
                row=self._inputs([0])[0],
                min_keys=self._last.min_recorded_keys,
                position_bytes=self._last.layers[-1].cache[0].nbytes if self._last.copies_keys else 0,
            )
            self.clear()

    @property
    def kernels(self) -> str:
        return self._last.kernels

    @property
    def cache_dtype(self) -> str:
        return self._last.cache_dtype

    @property
    def _layers(self) -> Sequence["CachedLayer"]:
        return [*self._first, *self._last.layers]

    @property
    def weight_bytes(self) -> int:
        matrices = sum(layer.weight_bytes for layer in self._first) + self._last.weight_bytes
        return matrices + self._embedding.nbytes + self._rotations.nbytes

    @property
    def cache_bytes(self) -> int:
        return sum(layer.cache.nbytes for layer in self._layers)

    @property
    def cache_limit_bytes(self) -> int:
        return self.cache_bytes

    @property
    def gpu_bytes(self) -> int:
        """Return the memory of weights and cache on the GPU."""
        if self._last.device == CPU:
            return 0
        cache = sum(layer.cache.nbytes for layer in self._last.layers)
        return cache + self._last.weight_bytes + (0 if self._embedding.device == CPU else self._embedding.nbytes)

    @torch.inference_mode()
    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        batch = _SpanBatch(spans, self._context, self._rotations, self._of)
        inputs = self._inputs(batch.ids)
        for layer in self._first:
            inputs = layer.run(inputs, batch.inputs())
        logit_rows, logits = batch.logit_rows(spans), None
        if self._recorded_steps and len(batch.ids) == len(spans):
            logits = self._recorded_steps.run(inputs, batch.slots, batch.positions)
            if logits is not None and logit_rows != [*range(len(logits))]:
                logits = logits[logit_rows]
        if logits is None:
            logits = self._last.run(self._rows(inputs.to(self._last.device)), batch, logit_rows)
        return self._on_cpu(logits)

    def _on_cpu(self, logits: Tensor) -> Tensor:
        """Return the logits on the CPU, through memory that the GPU reaches itself if they fit there."""
        if self._host_logits is None or len(logits) > len(self._host_logits):
            return logits.to(CPU)
        return self._host_logits[: len(logits)].copy_(logits)

    def _inputs(self, ids: list[int]) -> Tensor:
        """Return what a step starts from, on the CPU: rows, or ids if the embedding is on the GPU."""
        if self._embedding.device == CPU:
            return functional.embedding(torch.tensor(ids), self._embedding).float()
        if min(ids) < 0 or max(ids) >= len(self._embedding):  # a GPU could not be used any more
            raise IndexError("A token is not in the model's vocabulary.")
        return torch.tensor(ids)

    def _rows(self, inputs: Tensor) -> Tensor:
        if inputs.dtype == torch.long:
            return functional.embedding(inputs, self._embedding).float()
        return inputs

    def _decode(self, inputs: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        """Return the logits of one token per slot through the last layers. No operation waits for the device."""
        return self._last.decode(self._rows(inputs), slots, positions, keys)

    def copy(self, source: int, target: int, length: int) -> None:
        for layer in self._layers:
            slots = layer.cache.view(-1, self._context, *layer.cache.shape[1:])
            slots[target, :length] = slots[source, :length]

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        positions = slice(None) if slot is None else slice(slot * self._context + start, (slot + 1) * self._context)
        for layer in self._layers:
            layer.cache[positions].zero_()

    def export_slot(self, slot: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each layer's keys and values of a slot's first positions, [length, kv_heads, head_dim], on the CPU."""
        order, first = _pairs(self._of).argsort(), slot * self._context
        for layer in self._layers:
            keys, values = layer.cache[first : first + length].to(CPU).chunk(2, 1)
            yield keys[..., order], values


class _SpanBatch:
    """The spans of a step as tensors: spans of one token first, in the order of their slots, then longer ones."""

    def __init__(self, spans: Sequence[TokenSpan], context: int, rotations: Tensor, of: Architecture) -> None:
        self.decodes = sorted((span for span in spans if len(span.ids) == 1), key=lambda span: span.slot)
        self.longer = [span for span in spans if len(span.ids) > 1]
        self._ordered = [*self.decodes, *self.longer]
        self._context, self._rotations = context, rotations
        self._of = of
        self._inputs: _LayerInputs | None = None
        self.ids = [token for span in self._ordered for token in span.ids]
        self.positions = [position for span in self._ordered for position in range(span.start, span.end)]
        self.slots = [span.slot for span in self._ordered for _ in span.ids]

    def inputs(self) -> "_LayerInputs":
        """Return the inputs of torch's layers, on the CPU."""
        if self._inputs is None:
            positions = torch.tensor(self.positions)
            parts: list[_Decodes | _Prefill] = [_Decodes.of(self.decodes, self._of)] if self.decodes else []
            parts += [_Prefill.of(span, self._of) for span in self.longer]
            cache_rows = torch.tensor(self.slots) * self._context + positions
            self._inputs = _LayerInputs(cache_rows, self._rotations[positions], parts, self._context)
        return self._inputs

    def logit_rows(self, spans: Sequence[TokenSpan]) -> list[int]:
        """Return the rows that get logits, in the order of `spans`."""
        ends, end = {}, 0
        for span in self._ordered:
            end += len(span.ids)
            ends[span.slot] = end
        return [row for span in spans for row in range(ends[span.slot] - span.rows, ends[span.slot])]


@dataclass(frozen=True)
class _LayerInputs:
    """Inputs of all layers of one device: rows of the cache, rotations [rows, 1, head_dim / 2], and attention parts."""

    cache_rows: Tensor
    rotations: Tensor
    parts: "list[_Decodes | _Prefill]"
    context: int

    def to(self, device: torch.device) -> "_LayerInputs":
        parts = [part.to(device) for part in self.parts]
        return _LayerInputs(self.cache_rows.to(device), self.rotations.to(device), parts, self.context)


class TorchStack:
    """The last layers of a decoder, with its norm and head, in torch's operations on one device."""

    kernels = "torch"
    cache_dtype = "float32"
    min_recorded_keys = 64
    copies_keys = True
    embeds = False

    def __init__(
        self, of: Architecture, *, rotations: Tensor, placement: Placement, slots: int, context_size: int
    ) -> None:
        self.device = placement.device
        self._of, self._placement = of, placement
        self._cache_rows, self._context = slots * context_size, context_size
        self._rotations = rotations.to(self.device)
        self.layers: list[_TorchLayer] = []

    def add_layer(self, weights: LayerWeights, window: int) -> None:
        self.layers.append(_TorchLayer(weights, self._of, self._placement, self._cache_rows, window))

    def add_head(self, norm: Tensor, head: Matrix) -> None:
        self._norm = norm.to(self.device)
        self._head = self._placement.linear(head)

    @property
    def weight_bytes(self) -> int:
        return sum(layer.weight_bytes for layer in self.layers) + self._head.nbytes + self._norm.nbytes

    def run(self, rows: Tensor, batch: "StepBatch", logit_rows: list[int]) -> Tensor:
        inputs = batch.inputs() if self.device == CPU else batch.inputs().to(self.device)
        for layer in self.layers:
            rows = layer.run(rows, inputs)
        return self._logits(rows[logit_rows])

    def decode(self, rows: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        distances = positions[:, None] - torch.arange(keys, device=rows.device)
        part = _Decodes(slots, slots, len(rows), _masks(distances, self._of))
        inputs = _LayerInputs(slots * self._context + positions, self._rotations[positions], [part], self._context)
        for layer in self.layers:
            rows = layer.run(rows, inputs)
        return self._logits(rows)

    def _logits(self, rows: Tensor) -> Tensor:
        return self._head(_rms_norm(rows, self._norm, self._of.norm_eps))


class _TorchLayer:
    def __init__(
        self, weights: LayerWeights, of: Architecture, placement: Placement, cache_rows: int, window: int
    ) -> None:
        self.device, linear = placement.device, placement.linear
        self._window = window
        self._of = of
        self._qkv = linear(_interleaved(weights.qkv[0], of))
        self._output = linear(weights.output)
        self._gate_up = linear(weights.gate_up)
        self._down = linear(weights.down)
        self._attention_norm = weights.attention_norm.to(self.device, copy=True)
        self._mlp_norm = weights.mlp_norm.to(self.device, copy=True)
        self._head_norms = _head_norms(weights, of).to(self.device) if of.head_norms else None
        self.cache = torch.zeros(cache_rows, 2 * of.kv_heads, of.head_dim, device=self.device)

    @property
    def weight_bytes(self) -> int:
        matrices = (self._qkv, self._output, self._gate_up, self._down)
        return sum(part.nbytes for part in (*matrices, self._attention_norm, self._mlp_norm))

    def run(self, rows: Tensor, inputs: _LayerInputs) -> Tensor:
        rows = rows + self._attend(_rms_norm(rows, self._attention_norm, self._of.norm_eps), inputs)
        gate, up = self._gate_up(_rms_norm(rows, self._mlp_norm, self._of.norm_eps)).chunk(2, -1)
        return rows + self._down(functional.silu(gate).mul_(up))

    def _attend(self, rows: Tensor, inputs: _LayerInputs) -> Tensor:
        of = self._of
        states = self._qkv(rows).view(-1, of.qkv_heads, of.head_dim)
        rotated = states[:, : of.heads + of.kv_heads]
        if self._head_norms is not None:
            rotated.copy_(_rms_norm(rotated, self._head_norms, of.norm_eps))
        # A complex product rotates each pair of numbers by its angle.
        torch.view_as_complex(rotated.view(*rotated.shape[:2], -1, 2)).mul_(inputs.rotations)
        self.cache.index_copy_(0, inputs.cache_rows, states[:, of.heads :])
        cache = self.cache.view(-1, inputs.context, 2, of.kv_heads, of.head_dim)
        queries = states[:, : of.heads].view(len(states), of.kv_heads, -1, of.head_dim)
        attended, row = [], 0
        for part in inputs.parts:
            attended.append(part.attend(queries[row : row + part.rows], cache, self._window))
            row += part.rows
        return self._output(torch.cat(attended) if len(attended) > 1 else attended[0])


@dataclass(frozen=True)
class _Decodes:
    """Attention of one token in each of several slots.

    slots: the slots to read, which may include unused ones.
    used: indices of the used ones among them.
    masks: by the layer's window, [slots, keys], minus infinity at masked keys.
    """

    slots: slice | Tensor
    used: Tensor
    rows: int
    masks: dict[int, Tensor]

    @classmethod
    def of(cls, spans: Sequence[TokenSpan], architecture: Architecture) -> "_Decodes":
        slots = [span.slot for span in spans]
        first, last = slots[0], slots[-1]
        ends = torch.tensor([span.end for span in spans])
        used = torch.arange(len(slots))
        read: slice | Tensor = torch.tensor(slots)
        if last - first < MAX_RANGE_PER_SLOT * len(slots):
            read, used = slice(first, last + 1), torch.tensor(slots) - first
            # Unused slots attend to their first position, and the result is dropped.
            ends = torch.ones(last - first + 1, dtype=torch.long).index_copy_(0, used, ends)
        distances = ends[:, None] - 1 - torch.arange(int(ends.max()))
        return cls(read, used, len(slots), _masks(distances, architecture))

    def to(self, device: torch.device) -> "_Decodes":
        slots = self.slots.to(device) if isinstance(self.slots, Tensor) else self.slots
        return _Decodes(slots, self.used.to(device), self.rows, _moved(self.masks, device))

    def attend(self, queries: Tensor, cache: Tensor, window: int) -> Tensor:
        """Return the attention of queries [rows, kv_heads, group, dim], with a key head's group as the length."""
        mask = self.masks[window]
        states = cache[self.slots, : mask.shape[-1]]
        keys, values = states.unbind(2)
        if len(states) != self.rows:
            queries = queries.new_zeros(len(states), *queries.shape[1:]).index_copy_(0, self.used, queries)
        attended = functional.scaled_dot_product_attention(
            queries, keys.transpose(1, 2), values.transpose(1, 2), mask[:, None, None]
        )
        if len(states) != self.rows:
            attended = attended[self.used]
        return attended.flatten(1)


@dataclass(frozen=True)
class _Prefill:
    """Attention of several tokens of one slot. masks: by the layer's window, [tokens, keys]."""

    slot: int
    rows: int
    masks: dict[int, Tensor]

    @classmethod
    def of(cls, span: TokenSpan, architecture: Architecture) -> "_Prefill":
        distances = torch.arange(span.start, span.end)[:, None] - torch.arange(span.end)
        return cls(span.slot, len(span.ids), _masks(distances, architecture))

    def to(self, device: torch.device) -> "_Prefill":
        return _Prefill(self.slot, self.rows, _moved(self.masks, device))

    def attend(self, queries: Tensor, cache: Tensor, window: int) -> Tensor:
        """Return the attention of queries [rows, kv_heads, group, dim], with the group as a batch of shared keys."""
        mask = self.masks[window]
        keys, values = cache[self.slot, : mask.shape[-1]].unbind(1)
        group = queries.shape[2]
        attended = functional.scaled_dot_product_attention(
            queries.permute(2, 1, 0, 3),
            keys.transpose(0, 1).expand(group, -1, -1, -1),
            values.transpose(0, 1).expand(group, -1, -1, -1),
            mask,
        )
        return attended.permute(2, 1, 0, 3).flatten(1)


def _masks(distances: Tensor, of: Architecture) -> dict[int, Tensor]:
    """Return the mask of each window: minus infinity at keys after the token or before its window, and else 0.

    distances: from each key to each token, [tokens, keys].
    """
    masks = {}
    for window in set(of.windows):
        hidden = (distances < 0) | (distances >= window) if window else distances < 0
        masks[window] = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, -torch.inf)
    return masks


def _moved(masks: dict[int, Tensor], device: torch.device) -> dict[int, Tensor]:
    return {window: mask.to(device) for window, mask in masks.items()}


def _rms_norm(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalize rows. torch's own function is slower on the CPU."""
    scale = (rows * rows).mean(-1, keepdim=True).add_(eps).rsqrt_()
    return (rows * scale).mul_(weight)


def _pairs(of: Architecture) -> Tensor:
    """Return the order of a head's numbers in which rotated pairs are adjacent: transformers pairs i with i + half."""
    return torch.arange(of.head_dim).view(2, -1).t().flatten()


def _interleaved(qkv: Matrix, of: Architecture) -> Matrix:
    """Return the matrix with queries and keys in the order of `_pairs`. Their products do not change."""
    heads = torch.arange(of.qkv_heads * of.head_dim).view(of.qkv_heads, of.head_dim)
    rotated = of.heads + of.kv_heads
    order = torch.cat([heads[:rotated, _pairs(of)], heads[rotated:]]).flatten()
    return Matrix(qkv.weight[order], None if qkv.bias is None else qkv.bias[order])


def _head_norms(weights: LayerWeights, of: Architecture) -> Tensor:
    """Return the norms of query and key heads in the order of `_pairs`, [heads + kv_heads, head_dim]."""
    assert weights.query_norm is not None
    assert weights.key_norm is not None
    norms = [weights.query_norm[_pairs(of)].expand(of.heads, -1), weights.key_norm[_pairs(of)].expand(of.kv_heads, -1)]
    return torch.cat(norms)
