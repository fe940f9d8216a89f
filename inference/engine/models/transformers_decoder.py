"""The decoder of any causal model in transformers, over the slot cache."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.models.interface import TokenSpan
from inference.engine.models.kv_cache import DecodeView, PrefillView, SlotCache


class TransformersDecoder:
    """A `Decoder` with one forward pass for all spans of one token, and one for each longer span.

    The first run allocates the cache.
    """

    kernels = "transformers"
    gpu_layers = 0
    cache_dtype = "float32"

    def __init__(self, model: PreTrainedModel, *, slots: int, context_size: int) -> None:
        self._model = model
        self._cache = SlotCache(slots, context_size)

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of weights and buffers; shared ones count once."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        return sum(storages.values())

    @property
    def cache_bytes(self) -> int:
        return self._cache.nbytes

    @property
    def cache_limit_bytes(self) -> int:
        return self.cache_bytes

    @torch.inference_mode()
    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        rows: dict[int, Tensor] = {}
        decodes = sorted((span for span in spans if len(span.ids) == 1), key=lambda span: span.slot)
        if decodes:
            rows.update(zip((span.slot for span in decodes), self._decode(decodes), strict=True))
        for span in spans:
            if len(span.ids) > 1:
                rows[span.slot] = self._prefill(span)
        logits = [rows[span.slot] for span in spans if span.needs_logits]
        return torch.cat(logits) if logits else torch.empty(0, self._model.config.get_text_config().vocab_size)

    def copy(self, source: int, target: int, length: int) -> None:
        self._cache.copy(source, target, length)

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        self._cache.clear(slot, start)

    def _prefill(self, span: TokenSpan) -> Tensor:
        """Return logits [tokens, vocabulary], or only the last token's."""
        positions = torch.arange(span.start, span.end)
        hidden = torch.arange(span.end)[None, :] > positions[:, None]
        view = PrefillView(self._cache, span.slot, span.start)
        return self._forward([span.ids], positions[None], hidden[None], view, keep=span.rows or 1)[0]

    def _decode(self, spans: list[TokenSpan]) -> Tensor:
        """Return logits [spans, 1, vocabulary] of one token per slot. Slots ascend."""
        starts = [span.start for span in spans]
        view = DecodeView(self._cache, [span.slot for span in spans], starts)
        positions = torch.tensor(starts)[:, None]
        hidden = torch.arange(view.length)[None, :] > positions
        return self._forward([span.ids for span in spans], positions, hidden[:, None], view, keep=1)

    def _forward(
        self, ids: list[list[int]], positions: Tensor, hidden: Tensor, view: DecodeView | PrefillView, *, keep: int
    ) -> Tensor:
        """Return the logits of the last `keep` tokens of each row.

        positions: [rows, tokens]. hidden: [rows, tokens, keys], True at masked keys.
        """
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)
        output = self._model(
            input_ids=torch.tensor(ids),
            attention_mask=mask[:, None],
            position_ids=positions,
            past_key_values=view,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: Tensor = output.logits[:, -keep:]
        return logits
