"""Penalties on repeated tokens, and the token history of each slot that they need."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.engine.sampling import SamplingParams

MIN_REPEAT_PENALTY = 1e-6  # smaller ones would leave the range of float32


@dataclass(frozen=True)
class TokenHistory:
    """The history of a preempted sequence: column of each token, distinct tokens, and output counts."""

    columns: dict[int, int]
    tokens: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    counts: "np.ndarray[tuple[int], np.dtype[np.float32]]"


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
        """Return the penalties of rows with these slots and parameters, or None without rows."""
        if not rows:
            return None
        params = [one for _, one in rows.values()]
        return PenaltyRows(
            torch.tensor(list(rows))[:, None],
            torch.tensor([slot for slot, _ in rows.values()]),
            torch.tensor([[max(one.repeat_penalty, MIN_REPEAT_PENALTY)] for one in params]),
            torch.tensor([[one.presence_penalty] for one in params]),
            torch.tensor([[one.frequency_penalty] for one in params]),
        )


class TokenHistories:
    """The distinct tokens of each slot, prompt first, and how often the output contains each.

    Columns beyond a slot's own repeat its first token, so rows of any length can be used side by side.
    """

    def __init__(self, *, slots: int, context_size: int) -> None:
        self._tokens = np.zeros((slots, context_size), dtype=np.int64)
        self._counts = np.zeros((slots, context_size), dtype=np.float32)
        self._columns: list[dict[int, int]] = [{} for _ in range(slots)]

    @staticmethod
    def needed(params: SamplingParams) -> bool:
        """Return whether any penalty is on."""
        return params.repeat_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0

    def admit(self, slot: int, prompt_ids: list[int]) -> None:
        """Start a history with a prompt."""
        distinct = list(dict.fromkeys(prompt_ids))
        self._columns[slot] = {token: column for column, token in enumerate(distinct)}
        self._tokens[slot] = distinct[0]
        self._tokens[slot, : len(distinct)] = distinct
        self._counts[slot] = 0

    def add(self, slot: int, token: int) -> None:
        """Count an output token."""
        columns = self._columns[slot]
        column = columns.setdefault(token, len(columns))
        if column == self._tokens.shape[1]:
            del columns[token]  # the context is full, and no later token needs this one
            return
        if self._tokens[slot, column] != token:
            self._tokens[slot, column] = token
            self._counts[slot, column] = 0
        self._counts[slot, column] += 1
        if column == 0:
            self._counts[slot, len(columns) :] = self._counts[slot, 0]

    def preempt(self, slot: int) -> TokenHistory:
        """Return a slot's history, with which the sequence resumes in any slot."""
        size = len(self._columns[slot])
        return TokenHistory(self._columns[slot], self._tokens[slot, :size].copy(), self._counts[slot, :size].copy())

    def resume(self, slot: int, history: TokenHistory) -> None:
        """Restore a preempted history in a slot."""
        size = len(history.columns)
        self._columns[slot] = history.columns
        self._tokens[slot], self._counts[slot] = history.tokens[0], history.counts[0]
        self._tokens[slot, :size], self._counts[slot, :size] = history.tokens, history.counts

    def penalise(self, logits: Tensor, penalties: PenaltyRows) -> None:
        """Apply penalties in place: repetition first (arXiv 1909.05858), then OpenAI's two."""
        width = max(len(self._columns[slot]) for slot in penalties.slots.tolist())
        seen = torch.from_numpy(self._tokens[:, :width])[penalties.slots]
        counts = torch.from_numpy(self._counts[:, :width])[penalties.slots]
        scores = logits[penalties.rows, seen]
        scores = torch.where(scores < 0, scores * penalties.repeat, scores / penalties.repeat)
        logits[penalties.rows, seen] = scores - penalties.frequency * counts - penalties.presence * (counts > 0)
