"""Our own forward for the Llama family, in torch: on the CPU, on a GPU, or split between them by layers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.models.checkpoint import Architecture, Checkpoint, LayerWeights, Matrix
from inference.engine.models.cuda_graphs import Record, Replays
from inference.engine.models.interface import Span
from inference.engine.models.linear import Linear

CPU = torch.device("cpu")
# Reading a slot in between that nobody asked for costs a third of copying one that somebody did.
GAPS_PER_SLOT = 3


@dataclass(frozen=True)
class Placement:
    """Where a layer lives, and how its matrices are held there."""

    device: torch.device
    linear: Callable[[Matrix], Linear]


class LlamaDecoder:
    """A Decoder. Rows of all spans go through each matrix together; attention is by span.

    The cache is one tensor a layer, [slots * context, 2 * kv_heads, head_dim], keys before values. record: how steps of
    the layers on the last one's device are recorded; None: they are not.
    """

    kernels = "torch"

    def __init__(
        self,
        checkpoint: Checkpoint,
        placements: Sequence[Placement],
        *,
        slots: int,
        context_size: int,
        record: Record | None = None,
    ) -> None:
        of = self._of = checkpoint.architecture
        self._context = context_size
        self.gpu_layers = sum(placement.device != CPU for placement in placements)
        # In the file's own type: it is only looked up.
        self._embedding = checkpoint.embedding().clone()
        self._layers = [
            _Layer(weights, of, placement, slots * context_size)
            for weights, placement in zip(checkpoint.layers(), placements, strict=True)
        ]
        last = placements[-1]
        self._split = next(number for number, layer in enumerate(self._layers) if layer.device == last.device)
        self._norm = checkpoint.norm().to(last.device)
        self._head = last.linear(checkpoint.head())
        angles = torch.outer(torch.arange(context_size, dtype=torch.float), of.frequencies)
        self._turns = torch.polar(torch.full_like(angles, of.rope_scale), angles)[:, None]
        self._last_turns = self._turns.to(last.device)
        self._replays: Replays | None = None
        if record:
            self._replays = Replays(
                self._decode,
                record,
                device=last.device,
                most_rows=slots,
                context=context_size,
                hidden=of.hidden,
                place_bytes=self._layers[-1].cache[0].nbytes,
            )
            self.clear()

    @property
    def weight_bytes(self) -> int:
        matrices = sum(layer.weight_bytes for layer in self._layers)
        return matrices + self._head.nbytes + self._embedding.nbytes + self._norm.nbytes + self._turns.nbytes

    @property
    def cache_bytes(self) -> int:
        return sum(layer.cache.nbytes for layer in self._layers)

    @torch.inference_mode()
    def run(self, spans: Sequence[Span]) -> Tensor:
        batch = _Batch(spans, self._context, self._turns)
        rows = functional.embedding(torch.tensor(batch.ids), self._embedding).float()
        first, last = self._layers[: self._split], self._layers[self._split :]
        for layer in first:
            rows = layer.run(rows, batch.on(CPU))
        if self._replays and len(batch.ids) == len(spans):
            logits = self._replays.run(rows, batch.slots, batch.positions)
            if logits is not None:
                return logits[batch.wanted_rows(spans)].to(CPU)
        device = last[0].device
        rows = rows.to(device)
        for layer in last:
            rows = layer.run(rows, batch.on(device))
        return self._logits(rows[batch.wanted_rows(spans)]).to(CPU)

    def _decode(self, rows: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        """A token of each of `slots` through the last layers, with nothing in it that waits for the device."""
        hidden = torch.arange(keys, device=rows.device) > positions[:, None]
        mask = torch.zeros(hidden.shape, device=rows.device).masked_fill_(hidden, -torch.inf)
        part = _Decodes(slots, slots, len(rows), mask[:, None, None])
        inputs = _Inputs(slots * self._context + positions, self._last_turns[positions], [part], self._context)
        for layer in self._layers[self._split :]:
            rows = layer.run(rows, inputs)
        return self._logits(rows)

    def _logits(self, rows: Tensor) -> Tensor:
        return self._head(_rms_norm(rows, self._norm, self._of.norm_eps))

    def copy(self, source: int, target: int, length: int) -> None:
        for layer in self._layers:
            slots = layer.cache.view(-1, self._context, *layer.cache.shape[1:])
            slots[target, :length] = slots[source, :length]

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        places = slice(None) if slot is None else slice(slot * self._context + start, (slot + 1) * self._context)
        for layer in self._layers:
            layer.cache[places].zero_()

    def export_slot(self, slot: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each layer the keys and values in the first places of a slot, [length, kv_heads, head_dim], on the CPU."""
        order, first = _pairs(self._of).argsort(), slot * self._context
        for layer in self._layers:
            keys, values = layer.cache[first : first + length].to(CPU).chunk(2, 1)
            yield keys[..., order], values


class _Batch:
    """The spans of a step as tensors: spans of one token first, in the order of their slots, then longer ones."""

    def __init__(self, spans: Sequence[Span], context: int, turns: Tensor) -> None:
        decodes = sorted((span for span in spans if len(span.ids) == 1), key=lambda span: span.slot)
        self._ordered = [*decodes, *(span for span in spans if len(span.ids) > 1)]
        self._decodes, self._context, self._turns = decodes, context, turns
        self._on: dict[torch.device, _Inputs] = {}
        self.ids = [token for span in self._ordered for token in span.ids]
        self.positions = [place for span in self._ordered for place in range(span.start, span.end)]
        self.slots = [span.slot for span in self._ordered for _ in span.ids]

    def on(self, device: torch.device) -> "_Inputs":
        if device not in self._on:
            self._on[device] = self._made() if device == CPU else self.on(CPU).to(device)
        return self._on[device]

    def _made(self) -> "_Inputs":
        positions = torch.tensor(self.positions)
        parts: list[_Decodes | _Prefill] = [_Decodes.of(self._decodes)] if self._decodes else []
        parts += [_Prefill.of(span) for span in self._ordered[len(self._decodes) :]]
        places = torch.tensor(self.slots) * self._context + positions
        return _Inputs(places, self._turns[positions], parts, self._context)

    def wanted_rows(self, spans: Sequence[Span]) -> list[int]:
        """Which rows get logits, in the order of `spans`."""
        ends, end = {}, 0
        for span in self._ordered:
            end += len(span.ids)
            ends[span.slot] = end
        return [row for span in spans for row in range(ends[span.slot] - span.rows, ends[span.slot])]


@dataclass(frozen=True)
class _Inputs:
    """What every layer of one device needs: places in the cache, turns [rows, 1, head_dim / 2], who attends to what."""

    places: Tensor
    turns: Tensor
    parts: "list[_Decodes | _Prefill]"
    context: int

    def to(self, device: torch.device) -> "_Inputs":
        parts = [part.to(device) for part in self.parts]
        return _Inputs(self.places.to(device), self.turns.to(device), parts, self.context)


class _Layer:
    def __init__(self, weights: LayerWeights, of: Architecture, placement: Placement, places: int) -> None:
        self.device, linear = placement.device, placement.linear
        self._of = of
        self._qkv = linear(_interleaved(weights.qkv, of))
        self._output = linear(weights.output)
        self._gate_up = linear(weights.gate_up)
        self._down = linear(weights.down)
        self._attention_norm = weights.attention_norm.to(self.device, copy=True)
        self._mlp_norm = weights.mlp_norm.to(self.device, copy=True)
        self._head_norms = _head_norms(weights, of).to(self.device) if of.head_norms else None
        self.cache = torch.zeros(places, 2 * of.kv_heads, of.head_dim, device=self.device)

    @property
    def weight_bytes(self) -> int:
        matrices = (self._qkv, self._output, self._gate_up, self._down)
        return sum(part.nbytes for part in (*matrices, self._attention_norm, self._mlp_norm))

    def run(self, rows: Tensor, inputs: _Inputs) -> Tensor:
        rows = rows + self._attend(_rms_norm(rows, self._attention_norm, self._of.norm_eps), inputs)
        gate, up = self._gate_up(_rms_norm(rows, self._mlp_norm, self._of.norm_eps)).chunk(2, -1)
        return rows + self._down(functional.silu(gate).mul_(up))

    def _attend(self, rows: Tensor, inputs: _Inputs) -> Tensor:
        of = self._of
        states = self._qkv(rows).view(-1, of.qkv_heads, of.head_dim)
        turned = states[:, : of.heads + of.kv_heads]
        if self._head_norms is not None:
            turned.copy_(_rms_norm(turned, self._head_norms, of.norm_eps))
        # A complex product turns each pair of numbers by its angle.
        torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(inputs.turns)
        self.cache.index_copy_(0, inputs.places, states[:, of.heads :])
        cache = self.cache.view(-1, inputs.context, 2, of.kv_heads, of.head_dim)
        queries = states[:, : of.heads].view(len(states), of.kv_heads, -1, of.head_dim)
        attended, row = [], 0
        for part in inputs.parts:
            attended.append(part.attend(queries[row : row + part.rows], cache))
            row += part.rows
        return self._output(torch.cat(attended) if len(attended) > 1 else attended[0])


@dataclass(frozen=True)
class _Decodes:
    """One token of each of several slots. `hidden` [slots, 1, 1, keys] is minus infinity where they must not look."""

    slots: slice | Tensor
    among: Tensor  # which of `slots` are asked for
    rows: int
    hidden: Tensor

    @classmethod
    def of(cls, spans: Sequence[Span]) -> "_Decodes":
        slots = [span.slot for span in spans]
        first, last = slots[0], slots[-1]
        ends = torch.tensor([span.end for span in spans])
        among = torch.arange(len(slots))
        read: slice | Tensor = torch.tensor(slots)
        if last - first < GAPS_PER_SLOT * len(slots):
            read, among = slice(first, last + 1), torch.tensor(slots) - first
            # Those in between look at their first place, for nobody.
            ends = torch.ones(last - first + 1, dtype=torch.long).index_copy_(0, among, ends)
        hidden = torch.arange(int(ends.max())) >= ends[:, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        return cls(read, among, len(slots), mask[:, None, None])

    def to(self, device: torch.device) -> "_Decodes":
        slots = self.slots.to(device) if isinstance(self.slots, Tensor) else self.slots
        return _Decodes(slots, self.among.to(device), self.rows, self.hidden.to(device))

    def attend(self, queries: Tensor, cache: Tensor) -> Tensor:
        """queries [rows, kv_heads, group, dim]; the group of queries of one key head takes the place of a length."""
        states = cache[self.slots, : self.hidden.shape[-1]]
        keys, values = states.unbind(2)
        if len(states) != self.rows:
            queries = queries.new_zeros(len(states), *queries.shape[1:]).index_copy_(0, self.among, queries)
        attended = functional.scaled_dot_product_attention(
            queries, keys.transpose(1, 2), values.transpose(1, 2), self.hidden
        )
        if len(states) != self.rows:
            attended = attended[self.among]
        return attended.flatten(1)


@dataclass(frozen=True)
class _Prefill:
    """Tokens of one slot. `hidden` [tokens, keys] is minus infinity where a token must not look."""

    slot: int
    rows: int
    hidden: Tensor

    @classmethod
    def of(cls, span: Span) -> "_Prefill":
        hidden = torch.arange(span.end) > torch.arange(span.start, span.end)[:, None]
        return cls(span.slot, len(span.ids), torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf))

    def to(self, device: torch.device) -> "_Prefill":
        return _Prefill(self.slot, self.rows, self.hidden.to(device))

    def attend(self, queries: Tensor, cache: Tensor) -> Tensor:
        """queries [rows, kv_heads, group, dim]; the group takes the place of a batch that shares keys and values."""
        keys, values = cache[self.slot, : self.hidden.shape[-1]].unbind(1)
        group = queries.shape[2]
        attended = functional.scaled_dot_product_attention(
            queries.permute(2, 1, 0, 3),
            keys.transpose(0, 1).expand(group, -1, -1, -1),
            values.transpose(0, 1).expand(group, -1, -1, -1),
            self.hidden,
        )
        return attended.permute(2, 1, 0, 3).flatten(1)


def _rms_norm(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """By hand: torch's own takes longer on the CPU."""
    scale = (rows * rows).mean(-1, keepdim=True).add_(eps).rsqrt_()
    return (rows * scale).mul_(weight)


def _pairs(of: Architecture) -> Tensor:
    """transformers turns number i with i + half; in this order those two are neighbours."""
    return torch.arange(of.head_dim).view(2, -1).t().flatten()


def _interleaved(qkv: Matrix, of: Architecture) -> Matrix:
    """Queries and keys with `_pairs` side by side. Their products do not change."""
    heads = torch.arange(of.qkv_heads * of.head_dim).view(of.qkv_heads, of.head_dim)
    turned = of.heads + of.kv_heads
    order = torch.cat([heads[:turned, _pairs(of)], heads[turned:]]).flatten()
    return Matrix(qkv.weight[order], None if qkv.bias is None else qkv.bias[order])


def _head_norms(weights: LayerWeights, of: Architecture) -> Tensor:
    """[heads + kv_heads, head_dim]"""
    assert weights.query_norm is not None
    assert weights.key_norm is not None
    norms = [weights.query_norm[_pairs(of)].expand(of.heads, -1), weights.key_norm[_pairs(of)].expand(of.kv_heads, -1)]
    return torch.cat(norms)
