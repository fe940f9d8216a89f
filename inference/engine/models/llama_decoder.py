"""The decoder of Llama and families like it in torch: on the CPU, on a GPU, or split between them by layers."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.models.architecture import Rope
from inference.engine.models.checkpoint import Checkpoint
from inference.engine.models.cuda_graphs import RecordedSteps, RecordStep
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.attention import SpanBatch
from inference.engine.models.layers.interface import CPU, CachedLayer, MakeStack, Placement
from inference.engine.models.layers.stack import TorchLayer, TorchStack, rotary_pairs


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
        threads: int = 0,
        record: RecordStep | None = None,
        make_stack: MakeStack | None = None,
    ) -> None:
        """Allocate weights and cache.

        threads: see `Decoder`.
        record: recorder of decode steps on the last layer's device, or None.
        make_stack: makes the stack of the layers on the last layer's device; None is one of torch's operations.
        """
        of = self._of = checkpoint.architecture
        self._context = context_size
        self.threads = threads
        self.gpu_layers = sum(placement.device != CPU for placement in placements)
        self._rotations = {rope: _rotations(rope, context_size) for rope in of.ropes if rope}
        last = placements[-1]
        if make_stack is None:
            make_stack = partial(TorchStack, placement=last, slots=slots, context_size=context_size)
        self._last = make_stack(of, rotations=self._rotations)
        self._first: list[TorchLayer] = []
        for index, (weights, placement) in enumerate(zip(checkpoint.layers(), placements, strict=True)):
            if placement.device == last.device:
                self._last.add_layer(weights, index)
            else:
                self._first.append(TorchLayer(weights, of, index, placement, slots * context_size))
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
        return matrices + self._embedding.nbytes + sum(angles.nbytes for angles in self._rotations.values())

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
        batch = SpanBatch(spans, self._context, self._rotations, self._of)
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
            return self._embedded(torch.tensor(ids))
        if min(ids) < 0 or max(ids) >= len(self._embedding):  # a GPU could not be used any more
            raise IndexError("A token is not in the model's vocabulary.")
        return torch.tensor(ids)

    def _rows(self, inputs: Tensor) -> Tensor:
        return self._embedded(inputs) if inputs.dtype == torch.long else inputs

    def _embedded(self, ids: Tensor) -> Tensor:
        rows, scale = functional.embedding(ids, self._embedding).float(), self._of.embedding_scale
        return rows if scale == 1 else rows * scale

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
        order, first = rotary_pairs(self._of).argsort(), slot * self._context
        for layer in self._layers:
            keys, values = layer.cache[first : first + length].to(CPU).chunk(2, 1)
            yield keys[..., order], values


def _rotations(rope: Rope, context_size: int) -> Tensor:
    """Return the rotation of each position, complex numbers [context, 1, rotated / 2]."""
    angles = torch.outer(torch.arange(context_size, dtype=torch.float), rope.frequencies)
    return torch.polar(torch.full_like(angles, rope.scale), angles)[:, None]
