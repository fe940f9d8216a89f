"""What requests are held to by what they have seen: the tokens of each slot, and what the penalties take off them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.engine.sampling import SamplingParams

LEAST_PENALTY = 1e-6  # smaller ones would leave the range of float32


@dataclass(frozen=True)
class History:
    """What `park` takes out of a slot."""

    places: dict[int, int]
    tokens: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    written: "np.ndarray[tuple[int], np.dtype[np.float32]]"


@dataclass(frozen=True)
class PenaltyRows:
    """Penalties of some rows of a batch, each [rows, 1]. `rows` of the logits belong to `slots`, in this order."""

    rows: Tensor
    slots: Tensor
    repeat: Tensor
    presence: Tensor
    frequency: Tensor

    @staticmethod
    def of(rows: dict[int, tuple[int, SamplingParams]]) -> "PenaltyRows | None":
        """rows: slot and parameters of each row that has penalties. None where none has."""
        if not rows:
            return None
        params = [one for _, one in rows.values()]
        return PenaltyRows(
            torch.tensor(list(rows))[:, None],
            torch.tensor([slot for slot, _ in rows.values()]),
            torch.tensor([[max(one.repeat_penalty, LEAST_PENALTY)] for one in params]),
            torch.tensor([[one.presence_penalty] for one in params]),
            torch.tensor([[one.frequency_penalty] for one in params]),
        )


class Histories:
    """The distinct tokens that each slot has seen, prompt first, and how often the request has written each itself.

    Places beyond those of a slot repeat its first token, so that rows of any length can be used side by side.
    """

    def __init__(self, *, slots: int, context_size: int) -> None:
        self._tokens = np.zeros((slots, context_size), dtype=np.int64)
        self._written = np.zeros((slots, context_size), dtype=np.float32)
        self._places: list[dict[int, int]] = [{} for _ in range(slots)]

    @staticmethod
    def wanted(params: SamplingParams) -> bool:
        """Whether anything hangs on what such a request has seen."""
        return params.repeat_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0

    def admit(self, slot: int, prompt_ids: list[int]) -> None:
        """Begins anew in a slot."""
        distinct = list(dict.fromkeys(prompt_ids))
        self._places[slot] = {token: place for place, token in enumerate(distinct)}
        self._tokens[slot] = distinct[0]
        self._tokens[slot, : len(distinct)] = distinct
        self._written[slot] = 0

    def add(self, slot: int, token: int) -> None:
        """Notes a token that the request wrote."""
        places = self._places[slot]
        place = places.setdefault(token, len(places))
        if place == self._tokens.shape[1]:
            del places[token]  # the context is full: nothing looks back at this one
            return
        if self._tokens[slot, place] != token:
            self._tokens[slot, place] = token
            self._written[slot, place] = 0
        self._written[slot, place] += 1
        if place == 0:
            self._written[slot, len(places) :] = self._written[slot, 0]

    def park(self, slot: int) -> History:
        size = len(self._places[slot])
        return History(self._places[slot], self._tokens[slot, :size].copy(), self._written[slot, :size].copy())

    def resume(self, slot: int, history: History) -> None:
        size = len(history.places)
        self._places[slot] = history.places
        self._tokens[slot], self._written[slot] = history.tokens[0], history.written[0]
        self._tokens[slot, :size], self._written[slot, :size] = history.tokens, history.written

    def penalise(self, logits: Tensor, of: PenaltyRows) -> None:
        """Takes the penalties off in place: repetition first (arXiv 1909.05858), then OpenAI's two."""
        width = max(len(self._places[slot]) for slot in of.slots.tolist())
        seen = torch.from_numpy(self._tokens[:, :width])[of.slots]
        written = torch.from_numpy(self._written[:, :width])[of.slots]
        scores = logits[of.rows, seen]
        scores = torch.where(scores < 0, scores * of.repeat, scores / of.repeat)
        logits[of.rows, seen] = scores - of.frequency * written - of.presence * (written > 0)
