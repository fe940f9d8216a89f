"""Runs any causal model that transformers has modelling code for, over the slot cache."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.kv_cache import DecodeView, PrefillView, SlotCache


class HFDecoder:
    """Two verbs, `prefill` and `decode`; both give float32 logits of the next token. Used from one thread."""

    def __init__(self, model: PreTrainedModel, *, slots: int, context_size: int) -> None:
        self._model = model
        self._cache = SlotCache(slots, context_size)

    @property
    def cache_bytes(self) -> int:
        return self._cache.nbytes

    @torch.inference_mode()
    def prefill(self, slot: int, ids: list[int], start: int) -> Tensor:
        """Runs `ids` as the tokens from `start` on in `slot`; what came before is there. Returns [vocabulary]."""
        end = start + len(ids)
        positions = torch.arange(start, end)
        hidden = torch.arange(end)[None, :] > positions[:, None]
        return self._forward([ids], positions[None], hidden[None], PrefillView(self._cache, slot, start))[0]

    @torch.inference_mode()
    def decode(self, slots: list[int], ids: list[int], positions: list[int]) -> Tensor:
        """One token a slot, each at its own position; `slots` ascending. Returns [slots, vocabulary]."""
        view = DecodeView(self._cache, slots, positions)
        places = torch.tensor(positions)[:, None]
        hidden = torch.arange(view.length)[None, :] > places
        return self._forward([[token] for token in ids], places, hidden[:, None], view)

    def _forward(
        self, ids: list[list[int]], positions: Tensor, hidden: Tensor, view: DecodeView | PrefillView
    ) -> Tensor:
        """positions [rows, tokens]; hidden [rows, tokens, keys], true where a token must not look."""
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)
        output = self._model(
            input_ids=torch.tensor(ids),
            attention_mask=mask[:, None],
            position_ids=positions,
            past_key_values=view,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def clear(self) -> None:
        """Forgets every slot, after a step that failed."""
        self._cache.clear()

    def verify(self) -> None:
        """Checks on a few tokens that prefill in chunks and decode beside another slot equal a plain forward.

        Also allocates the cache. Raises ValueError, or whatever the modelling code raises.
        """
        ids = [token % self._model.config.get_text_config().vocab_size for token in range(1, 6)]
        last = min(self._cache.slots, 2) - 1
        with torch.inference_mode():
            expected = self._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        self.prefill(0, ids[:2], 0)
        prefilled = self.prefill(last, ids[:2], 0), self.prefill(last, ids[2:4], 2)
        slots = list(range(last + 1))
        decoded = self.decode(slots, [ids[2], ids[4]][-len(slots) :], [2, 4][-len(slots) :])
        pairs = [(prefilled[0], expected[1]), (prefilled[1], expected[3]), (decoded[last], expected[4])]
        if last:
            pairs.append((decoded[0], expected[2]))
        for got, wanted in pairs:
            if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max())):
                raise ValueError("its answers differ with and without a cache")
