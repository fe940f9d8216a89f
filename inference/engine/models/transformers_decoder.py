"""The decoder of any causal model in transformers, over the slot cache."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.formats import WINDOWED_TYPES
from inference.engine.models.architecture import FULL, SLIDING
from inference.engine.models.interface import TokenSpan
from inference.engine.models.kv_cache import SlotCache, SpanView
from inference.engine.models.packing import PackedModule
from inference.engine.processors import physical_cores


class TransformersDecoder:
    """A `Decoder` with one forward pass for all spans of the same length.

    The first run allocates the cache. It computes sliding windows of `WINDOWED_TYPES`; others need a context that is
    no longer than the window.
    """

    kernels = "transformers"

    def __init__(self, model: PreTrainedModel, *, slots: int, context_size: int) -> None:
        self._model, self._device = model, model.device
        self._cache = SlotCache(slots, context_size)
        text = model.config.get_text_config()
        self._window: int = (model.config.model_type in WINDOWED_TYPES and getattr(text, "sliding_window", None)) or 0
        self._has_types = hasattr(type(text), "layer_types")  # a setting of another class's has no effect
        self.gpu_layers: int = 0 if self._device.type == "cpu" else text.num_hidden_layers
        self.threads = physical_cores() if self._device.type == "cpu" else 0
        self.cache_dtype = str(model.dtype).removeprefix("torch.")

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of weights and buffers; shared ones count once."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        packed = sum(module.nbytes for module in self._model.modules() if isinstance(module, PackedModule))
        return sum(storages.values()) + packed

    @property
    def gpu_bytes(self) -> int:
        """Return the memory of weights and cache on the GPU."""
        return self.weight_bytes + self.cache_bytes if self.gpu_layers else 0

    @property
    def cache_bytes(self) -> int:
        return self._cache.nbytes

    @property
    def cache_limit_bytes(self) -> int:
        return self.cache_bytes

    @torch.inference_mode()
    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        groups: dict[tuple[int, int], list[TokenSpan]] = {}
        for span in sorted(spans, key=lambda span: span.slot):
            groups.setdefault((len(span.ids), span.rows or 1), []).append(span)
        rows: dict[int, Tensor] = {}
        for (_, keep), group in groups.items():
            rows.update(zip((span.slot for span in group), self._forward(group, keep=keep), strict=True))
        logits = [rows[span.slot] for span in spans if span.needs_logits]
        if not logits:
            return torch.empty(0, self._model.config.get_text_config().vocab_size)
        return torch.cat(logits).float().cpu()

    def copy(self, source: int, target: int, length: int) -> None:
        self._cache.copy(source, target, length)

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        self._cache.clear(slot, start)

    def _forward(self, spans: list[TokenSpan], *, keep: int) -> Tensor:
        """Return the logits of the last `keep` tokens, [spans, keep, vocabulary], of spans of the same length."""
        view = SpanView(self._cache, [span.slot for span in spans], [span.start for span in spans], len(spans[0].ids))
        distances = view.positions[..., None] - torch.arange(view.length)
        masks = {FULL: self._mask(distances < 0)}
        if self._window:
            masks[SLIDING] = self._mask((distances < 0) | (distances >= self._window))
        output = self._model(
            input_ids=torch.tensor([span.ids for span in spans], device=self._device),
            # A model with types of layers takes a mask of each; another one has a single mask.
            attention_mask=masks if self._window and self._has_types else [*masks.values()][-1],
            position_ids=view.positions.to(self._device),
            past_key_values=view,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: Tensor = output.logits[:, -keep:]
        return logits

    def _mask(self, hidden: Tensor) -> Tensor:
        """Return what is added to scores, [spans, 1, tokens, keys]. hidden: True at masked keys."""
        dtype = self._model.dtype
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)
        return mask[:, None].to(self._device)
