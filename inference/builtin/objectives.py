"""Training objectives of the models: the batches drawn from the corpus, and the loss of a batch."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from inference.builtin.corpus.examples import draw_example, draw_pair
from inference.builtin.network import Llama
from inference.builtin.tokenizer import encode_chats

CHUNK = 2400  # conversations drawn at a time, to be sorted by length
PAIRS = 128  # descriptions told apart in one step of the encoder
MAX_TOKENS = (64, 96)  # of a query and of a text, while the encoder learns
TEMPERATURE = 0.05

Batch = tuple[Tensor, ...]


class Recipe(Protocol):
    """The training objective of one model: its batches, a chunk of the corpus at a time, and the loss of a batch."""

    def batches(self, chunk: int, done: float) -> list[Batch]:
        """Return the batches of a chunk, given the share of the run that is done."""

    @staticmethod
    def loss(model: Llama, *batch: Tensor) -> Tensor:
        """Return the loss of a batch, to be made small."""


def padded(rows: Sequence[Sequence[float]], fill: float, multiple: int = 8) -> Tensor:
    """Return the rows as one tensor, filled up on the right to a common length that is a multiple of eight."""
    length = -(-max(map(len, rows)) // multiple) * multiple
    return torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows])


class DescriberRecipe:
    """The next token of the assistant's turns, in batches of conversations of about one length."""

    def __init__(self, tokenizer: Tokenizer, seed: int, size: int) -> None:
        self.tokenizer, self.seed, self.size = tokenizer, seed, size

    def batches(self, chunk: int, done: float) -> list[Batch]:
        """Ids, the flattened places that predict a learned token, those tokens, their weights; `size` ids a batch."""
        random = Random(f"{self.seed}:{chunk}")
        copying = 0.6 if done < 0.1 else 0.25
        encoded = encode_chats(self.tokenizer, [draw_example(random, copying) for _ in range(CHUNK)])
        encoded.sort(key=lambda pair: len(pair[0]))
        found: list[Batch] = []
        while encoded:
            count = max(1, self.size // (-(-len(encoded[-1][0]) // 8) * 8))
            rows, encoded = encoded[-count:], encoded[:-count]
            ids = padded([tokens for tokens, _ in rows], 0)
            weights = padded([weights[1:] for _, weights in rows], 0.0, ids.shape[1]).flatten()
            places = weights.nonzero().squeeze(1)
            found.append((ids, places, ids.flatten()[places + 1], weights[places]))
        random.shuffle(found)
        return found

    @staticmethod
    def loss(model: Llama, *batch: Tensor) -> Tensor:
        """Return the weighted mean cross entropy of the tokens that follow the given places."""
        ids, places, targets, weights = batch
        hidden = model(ids).flatten(0, 1)[places]
        logits = F.linear(hidden, model.embedding.to(hidden.dtype)).float()
        return (F.cross_entropy(logits, targets, reduction="none") * weights).sum() / weights.sum()


class EncoderRecipe:
    """Queries and texts of the same products: of all the batch's texts, each query's own is the nearest."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self.tokenizer, self.seed = tokenizer, seed

    def batches(self, chunk: int, done: float) -> list[Batch]:
        """Return one batch: ids and counted places of the queries, then of the descriptions."""
        random = Random(f"{self.seed}:pairs:{chunk}")
        sides = zip(*(draw_pair(random) for _ in range(PAIRS)), strict=True)
        batch: list[Tensor] = []
        for side, most in zip(sides, MAX_TOKENS, strict=True):
            rows = [row.ids[:most] for row in self.tokenizer.encode_batch_fast(list(side))]
            batch += (padded(rows, 0), padded([[1] * len(row) for row in rows], 0))
        return [tuple(batch)]

    @staticmethod
    def loss(model: Llama, *batch: Tensor) -> Tensor:
        """InfoNCE both ways, with every other pair of the batch as a negative."""
        queries, counted, texts, counted_texts = batch
        left, right = mean_vectors(model, queries, counted), mean_vectors(model, texts, counted_texts)
        likeness = left @ right.T / TEMPERATURE
        own = torch.arange(len(left))
        return (F.cross_entropy(likeness, own) + F.cross_entropy(likeness.T, own)) / 2


def mean_vectors(model: Llama, ids: Tensor, counted: Tensor) -> Tensor:
    """Return the normalised mean of the final states of the counted places: [batch, hidden] in 32 bits."""
    weights = counted.unsqueeze(-1).float()
    return F.normalize((model(ids).float() * weights).sum(dim=1) / weights.sum(dim=1), dim=-1)
