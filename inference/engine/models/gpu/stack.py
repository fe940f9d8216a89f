"""The last layers of a decoder with its norm and head, in Triton kernels on one GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.models.architecture import Architecture, Rope
from inference.engine.models.checkpoint import LayerWeights, Matrix
from inference.engine.models.gpu import kernels
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.interface import StepBatch

MIN_SCALE = 1e-30  # of a row of zeros


class FusedMatrix:
    """A matrix on the GPU in bfloat16, or in int8 with one scale per output."""

    def __init__(self, matrix: Matrix, device: torch.device, *, is_int8: bool) -> None:
        weight = matrix.weight.to(device)
        self.scale = None
        if is_int8:
            weight = weight.float()
            self.scale = weight.abs().amax(1).clamp_min_(MIN_SCALE).div_(127)
            weight = (weight / self.scale[:, None]).round_().to(torch.int8)
        self.weight = weight if is_int8 else weight.bfloat16()
        self.bias = None if matrix.bias is None else matrix.bias.to(device)
        self._parts = kernels.part_count(*weight.shape)

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.weight, self.scale, self.bias) if tensor is not None)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return sums whose total is the product with bfloat16 rows, float32 [sums, rows, outputs]."""
        return kernels.multiply(rows, self.weight, self.scale, self.bias, self._parts)

    def gated(self, rows: Tensor) -> Tensor:
        """Return silu(gate) * up, bfloat16, of the products with a matrix [gate; up]."""
        return kernels.multiply_gated(rows, self.weight, self.scale, self.bias)


@dataclass(frozen=True)
class _Step:
    """Rows of a step: first `decodes` rows of one token of a slot each, then the tiles of longer spans.

    keys: at least the largest position of the first rows plus 1.
    """

    positions: Tensor
    cache_rows: Tensor
    decodes: int
    keys: int
    tiles: Tensor | None = None


class _FusedLayer:
    def __init__(
        self,
        weights: LayerWeights,
        of: Architecture,
        device: torch.device,
        *,
        cache_rows: int,
        split: int,
        window: int,
        is_int8: bool,
    ) -> None:
        self._of, self._window = of, window
        self._split = split
        self._qkv = FusedMatrix(weights.qkv[0], device, is_int8=is_int8)
        self._output = FusedMatrix(weights.output, device, is_int8=is_int8)
        self._gate_up = FusedMatrix(weights.gate_up, device, is_int8=is_int8)
        self._down = FusedMatrix(weights.down, device, is_int8=is_int8)
        assert weights.attention_norm is not None
        assert weights.mlp_norm is not None
        self._attention_norm = weights.attention_norm.to(device, copy=True)
        self._mlp_norm = weights.mlp_norm.to(device, copy=True)
        self._head_norms = None
        if weights.query_norm is not None and weights.key_norm is not None:
            self._head_norms = torch.stack([weights.query_norm, weights.key_norm]).to(device)
        self.cache = torch.zeros(cache_rows, 2 * of.kv_heads, of.head_dim, dtype=torch.bfloat16, device=device)

    @property
    def weight_bytes(self) -> int:
        matrices = (self._qkv, self._output, self._gate_up, self._down)
        return sum(part.nbytes for part in (*matrices, self._attention_norm, self._mlp_norm))

    def run(self, rows: Tensor, sums: Tensor | None, angles: Tensor, step: _Step) -> Tensor:
        """Add the sums of the layer before, and this layer's attention, to the rows in place.

        Return the sums that the next layer adds.
        """
        of = self._of
        normalized = kernels.add_and_normalize(rows, sums, self._attention_norm, of.norm_eps)
        queries = kernels.rotate(
            self._qkv(normalized),
            angles,
            step.positions,
            step.cache_rows,
            self._head_norms,
            self.cache,
            of.heads,
            of.norm_eps,
        )
        attended = torch.empty(len(rows), of.heads * of.head_dim, dtype=torch.bfloat16, device=rows.device)
        window = self._window
        if step.decodes:
            kernels.attend_decodes(
                queries[: step.decodes],
                self.cache,
                step.positions,
                step.cache_rows,
                attended,
                keys=step.keys,
                split=self._split,
                window=window,
            )
        if step.tiles is not None:
            kernels.attend_prefills(
                queries, self.cache, step.positions, step.cache_rows, step.tiles, attended, window=window
            )
        normalized = kernels.add_and_normalize(rows, self._output(attended), self._mlp_norm, of.norm_eps)
        return self._down(self._gate_up.gated(normalized))


class FusedStack:
    """Layers, norm and head on one GPU.

    Weights are bfloat16 or int8, rows between layers float32, keys and values bfloat16.
    """

    kernels = "triton"
    cache_dtype = "bfloat16"
    min_recorded_keys = 2048  # a recorded step reads no more keys than there are
    copies_keys = False
    embeds = True

    def __init__(
        self,
        of: Architecture,
        *,
        rotations: dict[Rope, Tensor],
        device: torch.device,
        slots: int,
        context_size: int,
        is_int8: bool,
    ) -> None:
        """Make the stack without its layers, of an architecture that `is_plain`. rotations: see `MakeStack`."""
        self.device = device
        self._of, self._is_int8 = of, is_int8
        self._cache_rows, self._context = slots * context_size, context_size
        [complex_angles] = rotations.values()
        self._angles = torch.view_as_real(complex_angles[:, 0]).contiguous().to(device)
        self.layers: list[_FusedLayer] = []

    def add_layer(self, weights: LayerWeights, index: int) -> None:
        layer = _FusedLayer(
            weights,
            self._of,
            self.device,
            cache_rows=self._cache_rows,
            split=kernels.split_keys(self._context),
            window=self._of.windows[index],
            is_int8=self._is_int8,
        )
        self.layers.append(layer)

    def add_head(self, norm: Tensor, head: Matrix) -> None:
        self._norm = norm.to(self.device, copy=True)
        self._head = FusedMatrix(head, self.device, is_int8=self._is_int8)

    @property
    def weight_bytes(self) -> int:
        layers = sum(layer.weight_bytes for layer in self.layers)
        return layers + self._head.nbytes + self._norm.nbytes + self._angles.nbytes

    def run(self, rows: Tensor, batch: StepBatch, logit_rows: list[int]) -> Tensor:
        positions = torch.tensor([batch.positions, batch.slots]).to(self.device)
        tiles = list(self._tiles(len(batch.decodes), batch.longer))
        step = _Step(
            positions=positions[0],
            cache_rows=positions[1] * self._context + positions[0],
            decodes=len(batch.decodes),
            keys=max((span.end for span in batch.decodes), default=0),
            tiles=torch.tensor(tiles).t().contiguous().to(self.device) if tiles else None,
        )
        # The layers add to the rows in place.
        return self._logits(rows.clone(), step, torch.tensor(logit_rows, dtype=torch.long, device=self.device))

    def decode(self, rows: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        step = _Step(positions, slots * self._context + positions, len(rows), keys)
        return self._logits(rows.clone(), step, None)

    def _tiles(self, first: int, spans: Sequence[TokenSpan]) -> Iterator[tuple[int, int]]:
        size = kernels.prefill_tokens(self._of.heads, self._of.kv_heads)
        for span in spans:
            for start in range(0, len(span.ids), size):
                yield first + start, min(size, len(span.ids) - start)
            first += len(span.ids)

    def _logits(self, rows: Tensor, step: _Step, chosen: Tensor | None) -> Tensor:
        sums: Tensor | None = None
        for layer in self.layers:
            sums = layer.run(rows, sums, self._angles, step)
        normalized = kernels.add_and_normalize(rows, sums, self._norm, self._of.norm_eps)
        if chosen is not None:
            normalized = normalized[chosen]
        if not len(normalized):
            return torch.empty(0, self._of.vocabulary, device=self.device)
        sums = self._head(normalized)
        logits = sums[0]
        for more in sums[1:]:
            logits += more
        return logits
