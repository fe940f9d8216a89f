"""Chooses the next token of every running request at once. Parameters and random numbers are each request's own."""

from random import Random

import torch
from torch import Tensor

from inference.engine.errors import InvalidRequest
from inference.engine.request import SamplingParams

CANDIDATES = 64  # so many best tokens are looked at first; more only where they do not cover top_p
LEAST_PENALTY = 1e-6  # smaller ones would leave the range of float32
SEED_MASK = 2**64 - 1


class NotNumbers(Exception):
    """The logits hold a NaN or an infinity: the weights are broken."""


def check_sampling(params: SamplingParams) -> None:
    """Raises InvalidRequest naming the first parameter that is out of range."""
    bounds = (
        ("max_tokens", params.max_tokens is None or params.max_tokens >= 1, "1 or more"),
        ("temperature", 0 <= params.temperature <= 2, "from 0 to 2"),
        ("top_p", 0 <= params.top_p <= 1, "from 0 to 1"),
        ("top_k", params.top_k >= 0, "0 (off) or more"),
        ("repeat_penalty", 0 < params.repeat_penalty <= 2, "above 0, to 2"),
        ("stop", all(params.stop), "a list of strings that are not empty"),
    )
    for name, good, expected in bounds:
        if not good:
            raise InvalidRequest(f"`{name}` must be {expected}.", parameter=name)


class Sampler:
    """Holds the parameters of each slot, the tokens that it has seen, and its generator.

    The order is that of transformers: repetition penalty, temperature, top_k, top_p. One uniform number a token,
    drawn by the request's own generator, picks from what is left; so neighbours in the batch change nothing.
    """

    def __init__(self, *, slots: int, context_size: int) -> None:
        self._temperature = torch.ones(slots)
        self._top_k = torch.zeros(slots, dtype=torch.long)
        self._top_p = torch.ones(slots, dtype=torch.float64)
        self._penalty = torch.ones(slots)
        self._seen = torch.zeros(slots, context_size, dtype=torch.long)
        self._seen_count = [0] * slots
        self._random = [Random(0)] * slots  # noqa: S311 (sampling, no secret)

    def admit(self, slot: int, params: SamplingParams, prompt_ids: list[int]) -> None:
        """Begins a request in a slot; forgets who was there before."""
        self._temperature[slot] = params.temperature
        self._top_k[slot] = min(params.top_k, 2**31)
        self._top_p[slot] = params.top_p
        self._penalty[slot] = max(params.repeat_penalty, LEAST_PENALTY)
        # Unused places repeat a token that was seen, so that a row can be used whole.
        self._seen[slot] = prompt_ids[0]
        self._seen[slot, : len(prompt_ids)] = torch.tensor(prompt_ids)
        self._seen_count[slot] = len(prompt_ids)
        seed = None if params.seed is None else params.seed & SEED_MASK
        self._random[slot] = Random(seed)  # noqa: S311

    def sample(self, logits: Tensor, slots: list[int]) -> list[int]:
        """One token for each of `slots` from its row of `logits`, [len(slots), vocabulary]. Raises NotNumbers."""
        if not torch.isfinite(logits.amax(-1)).all():
            raise NotNumbers
        at = torch.tensor(slots)
        scores = self._penalise(logits.float(), at, max(self._seen_count[slot] for slot in slots))
        tokens = scores.argmax(-1)
        drawn = (self._temperature[at] > 0).nonzero()[:, 0]
        if len(drawn):
            uniform = torch.tensor([self._random[slots[row]].random() for row in drawn.tolist()], dtype=torch.float64)
            tokens[drawn] = self._draw(scores[drawn], at[drawn], uniform)
        chosen: list[int] = tokens.tolist()
        for slot, token in zip(slots, chosen, strict=True):
            self._note(slot, token)
        return chosen

    def _note(self, slot: int, token: int) -> None:
        # The last token that the context has room for is never looked back at.
        if self._seen_count[slot] < self._seen.shape[1]:
            self._seen[slot, self._seen_count[slot]] = token
            self._seen_count[slot] += 1

    def _penalise(self, logits: Tensor, at: Tensor, longest: int) -> Tensor:
        """Seen tokens: positive logits divided, negative ones multiplied by the penalty (arXiv 1909.05858)."""
        penalty = self._penalty[at, None]
        if bool((penalty == 1).all()):
            return logits
        seen = self._seen[at, :longest]
        scores = logits.gather(1, seen)
        return logits.scatter(1, seen, torch.where(scores < 0, scores * penalty, scores / penalty))

    def _draw(self, scores: Tensor, at: Tensor, uniform: Tensor) -> Tensor:
        """Scales `scores`, [rows, vocabulary], cuts them by top_k and top_p, and picks one of what is left a row."""
        # The best stays at 0, so that no temperature, however low, makes an infinity of it.
        scores = (scores - scores.amax(-1, keepdim=True)) / self._temperature[at, None]
        top_k, top_p = self._top_k[at, None], self._top_p[at, None]
        tokens = torch.empty(len(at), dtype=torch.long)
        cut = ((top_k > 0) | (top_p < 1))[:, 0]
        if not cut.all():
            tokens[~cut] = _pick(torch.softmax(scores[~cut].double(), -1), uniform[~cut])
        if cut.any():
            probs, candidates = _nucleus(scores[cut], top_k[cut], top_p[cut])
            tokens[cut] = candidates.gather(1, _pick(probs, uniform[cut])[:, None])[:, 0]
        return tokens


def _nucleus(scores: Tensor, top_k: Tensor, top_p: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities, zero where cut away, and ids of the best tokens, best first; both [rows, candidates].

    top_k and top_p are [rows, 1]; top_k 0 is off. The best token always stays.
    """
    vocabulary = scores.shape[-1]
    limit = torch.where(top_k > 0, top_k, vocabulary)
    # Rows are alike whatever the width: it only has to be enough for all.
    width = min(vocabulary, max(CANDIDATES, int(top_k.max())))
    total = scores.double().logsumexp(-1, keepdim=True)
    while True:
        best, ids = scores.topk(width)
        allowed = torch.arange(width) < limit
        inside = best.double().masked_fill(~allowed, -torch.inf)
        probs = (inside - torch.where(top_k > 0, inside.logsumexp(-1, keepdim=True), total)).exp()
        keep = allowed & (probs.cumsum(-1) - probs < top_p)
        keep[:, 0] = True
        if width == vocabulary or not (keep[:, -1:] & (limit > width)).any():
            return probs * keep, ids
        width = min(vocabulary, width * 8)


def _pick(probs: Tensor, uniform: Tensor) -> Tensor:
    """The place where the running sum of each row of `probs` passes its share of `uniform` (0 to 1). [rows]"""
    sums = probs.cumsum(-1)
    places = torch.searchsorted(sums, uniform[:, None] * sums[:, -1:], right=True)
    # Rounding may point past the last token that has any probability.
    last = probs.shape[-1] - 1 - (probs.flip(-1) > 0).int().argmax(-1, keepdim=True)
    return torch.minimum(places, last)[:, 0]
