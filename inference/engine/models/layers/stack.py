"""The last layers of a decoder, with its norm and head, in torch's operations on one device."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.models.architecture import Architecture, Rope
from inference.engine.models.checkpoint import LayerWeights, Matrix
from inference.engine.models.layers.attention import DecodeAttention, LayerInputs, capped, window_masks
from inference.engine.models.layers.interface import CPU, Placement, StepBatch

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": partial(functional.gelu, approximate="tanh"),
}


class TorchStack:
    """The last layers of a decoder, with its norm and head, in torch's operations on one device."""

    kernels = "torch"
    cache_dtype = "float32"
    min_recorded_keys = 64
    copies_keys = True
    embeds = False

    def __init__(
        self, of: Architecture, *, rotations: dict[Rope, Tensor], placement: Placement, slots: int, context_size: int
    ) -> None:
        self.device = placement.device
        self._of, self._placement = of, placement
        self._cache_rows, self._context = slots * context_size, context_size
        self._rotations = {rope: angles.to(self.device) for rope, angles in rotations.items()}
        self.layers: list[TorchLayer] = []

    def add_layer(self, weights: LayerWeights, index: int) -> None:
        self.layers.append(TorchLayer(weights, self._of, index, self._placement, self._cache_rows))

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
        part = DecodeAttention(slots, slots, len(rows), window_masks(distances, self._of))
        rotations = {rope: angles[positions] for rope, angles in self._rotations.items()}
        inputs = LayerInputs(slots * self._context + positions, rotations, [part], self._context)
        for layer in self.layers:
            rows = layer.run(rows, inputs)
        return self._logits(rows)

    def _logits(self, rows: Tensor) -> Tensor:
        of = self._of
        logits = self._head(_rms_norm(rows, self._norm, of.norm_eps))
        if of.logit_divisor != 1:
            logits = logits / of.logit_divisor
        return capped(logits, of.logit_cap) if of.logit_cap else logits


class TorchLayer:
    def __init__(
        self, weights: LayerWeights, of: Architecture, index: int, placement: Placement, cache_rows: int
    ) -> None:
        self.device, linear = placement.device, placement.linear
        self._of, self._window, self._rope = of, of.windows[index], of.ropes[index]
        self._qkv = linear(_interleaved(weights.qkv[0], of))
        self._output = linear(weights.output)
        self._gate_up = linear(weights.gate_up)
        self._down = linear(weights.down)
        self._activate = ACTIVATIONS[of.activation]
        self._attention_norm, self._attention_output_norm, self._mlp_norm, self._mlp_output_norm = (
            None if norm is None else norm.to(self.device, copy=True)
            for norm in (
                weights.attention_norm,
                weights.attention_output_norm,
                weights.mlp_norm,
                weights.mlp_output_norm,
            )
        )
        self._query_key_norms = [norm.to(self.device) for norm in _query_key_norms(weights, of)]
        self.cache = torch.zeros(cache_rows, 2 * of.kv_heads, of.head_dim, device=self.device)

    @property
    def weight_bytes(self) -> int:
        matrices = (self._qkv, self._output, self._gate_up, self._down)
        norms = (self._attention_norm, self._attention_output_norm, self._mlp_norm, self._mlp_output_norm)
        return sum(part.nbytes for part in (*matrices, *norms) if part is not None)

    def run(self, rows: Tensor, inputs: LayerInputs) -> Tensor:
        rows = self._add(rows, self._attend(self._normalized(rows, self._attention_norm), inputs), is_mlp=False)
        gate, up = self._gate_up(self._normalized(rows, self._mlp_norm)).chunk(2, -1)
        return self._add(rows, self._down(self._activate(gate).mul_(up)), is_mlp=True)

    def _normalized(self, rows: Tensor, norm: Tensor | None) -> Tensor:
        return rows if norm is None else _rms_norm(rows, norm, self._of.norm_eps)

    def _add(self, rows: Tensor, branch: Tensor, *, is_mlp: bool) -> Tensor:
        """Return the rows with the output of attention or MLP added."""
        branch = self._normalized(branch, self._mlp_output_norm if is_mlp else self._attention_output_norm)
        return rows + branch if self._of.residual_scale == 1 else rows + branch * self._of.residual_scale

    def _attend(self, rows: Tensor, inputs: LayerInputs) -> Tensor:
        of = self._of
        states = self._qkv(rows).view(-1, of.qkv_heads, of.head_dim)
        if self._query_key_norms:
            self._normalize_heads(states)
        if self._rope is not None:
            # A complex product rotates each pair of numbers by its angle.
            rotated = states[:, : of.heads + of.kv_heads, : of.rotated]
            torch.view_as_complex(rotated.view(*rotated.shape[:2], -1, 2)).mul_(inputs.rotations[self._rope])
        self.cache.index_copy_(0, inputs.cache_rows, states[:, of.heads :])
        cache = self.cache.view(-1, inputs.context, 2, of.kv_heads, of.head_dim)
        queries = states[:, : of.heads].view(len(states), of.kv_heads, -1, of.head_dim)
        attended, row = [], 0
        for part in inputs.parts:
            attended.append(part.attend(queries[row : row + part.rows], cache, of, self._window))
            row += part.rows
        return self._output(torch.cat(attended) if len(attended) > 1 else attended[0])

    def _normalize_heads(self, states: Tensor) -> None:
        """Normalize queries and keys in place: each head, or all heads of queries and all of keys as one."""
        of, eps = self._of, self._of.norm_eps
        if of.family.query_key_norms == "head":
            heads = states[:, : of.heads + of.kv_heads]
            heads.copy_(_rms_norm(heads, self._query_key_norms[0], eps))
            return
        rows, queries = states.flatten(1), of.heads * of.head_dim
        parts = rows[:, :queries], rows[:, queries : queries + of.kv_heads * of.head_dim]
        for part, norm in zip(parts, self._query_key_norms, strict=True):
            part.copy_(_rms_norm(part, norm, eps))


def _rms_norm(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalize rows. torch's own function is slower on the CPU."""
    scale = (rows * rows).mean(-1, keepdim=True).add_(eps).rsqrt_()
    return (rows * scale).mul_(weight)


def rotary_pairs(of: Architecture) -> Tensor:
    """Return the order of a head's numbers in which rotated pairs are adjacent: transformers pairs i with i + half."""
    pairs = torch.arange(of.rotated).view(2, -1).t().flatten()
    return torch.cat([pairs, torch.arange(of.rotated, of.head_dim)])


def _interleaved(qkv: Matrix, of: Architecture) -> Matrix:
    """Return the matrix with queries and keys in the order of `rotary_pairs`. Their products do not change."""
    heads = torch.arange(of.qkv_heads * of.head_dim).view(of.qkv_heads, of.head_dim)
    rotated = of.heads + of.kv_heads
    order = torch.cat([heads[:rotated, rotary_pairs(of)], heads[rotated:]]).flatten()
    return Matrix(qkv.weight[order], None if qkv.bias is None else qkv.bias[order])


def _query_key_norms(weights: LayerWeights, of: Architecture) -> list[Tensor]:
    """Return the norms in the order of `rotary_pairs`: one, [heads + kv_heads, head_dim], or those of whole rows."""
    order, norms = rotary_pairs(of), [norm for norm in (weights.query_norm, weights.key_norm) if norm is not None]
    if not norms:
        return []
    queries, keys = (norm.view(-1, of.head_dim)[:, order] for norm in norms)
    if of.family.query_key_norms == "row":
        return [queries.flatten(), keys.flatten()]
    return [torch.cat([queries.expand(of.heads, -1), keys.expand(of.kv_heads, -1)])]
