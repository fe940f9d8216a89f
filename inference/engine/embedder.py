"""Embeddings: last hidden states, pooled over each text's real tokens and scaled to length 1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.errors import ContextLengthExceeded, InvalidRequest, ModelLoadFailed
from inference.engine.model_folder import read_json
from inference.engine.request import EmbeddingRequest, EmbeddingResult
from inference.engine.tokenizer import Tokenizer

Pooling = Literal["mean", "cls"]
BATCH_TEXTS = 32
BATCH_TOKENS = 8192  # padding included


class Embedder:
    """Embeds texts in batches of like length. Blocking; used from one thread at a time."""

    def __init__(self, *, model: PreTrainedModel, tokenizer: Tokenizer, pooling: Pooling, context_size: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._context_size = context_size

    def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        """One vector a text, in the order of the texts.

        Raises InvalidRequest for no texts or a text without a token, ContextLengthExceeded for one that is too long.
        """
        if not request.texts:
            raise InvalidRequest("There is no text to embed. Send at least one.")
        texts = [self._encode(place, text) for place, text in enumerate(request.texts)]
        vectors = [b""] * len(texts)
        dimensions = 0
        for batch in _batches([len(ids) for ids in texts]):
            rows = self._run([texts[place] for place in batch])
            dimensions = rows.shape[1]
            for place, row in zip(batch, rows.numpy().astype("<f4"), strict=True):
                vectors[place] = row.tobytes()
        return EmbeddingResult(
            request_id=request.request_id,
            dimensions=dimensions,
            vectors=tuple(vectors),
            prompt_tokens=sum(map(len, texts)),
        )

    def _encode(self, place: int, text: str) -> list[int]:
        ids = self._tokenizer.encode(text)
        if not ids:
            raise InvalidRequest(f"Text {place} is empty. Send at least one character.")
        if len(ids) > self._context_size:
            raise ContextLengthExceeded(
                f"Text {place} has {len(ids)} tokens, but the model takes {self._context_size}. Shorten or split it.",
                context_size=self._context_size,
                prompt_tokens=len(ids),
                max_tokens=0,
            )
        return ids

    @torch.inference_mode()
    def _run(self, batch: list[list[int]]) -> Tensor:
        """Vectors of a batch, [texts, dimensions]."""
        longest = max(map(len, batch))
        pad = self._tokenizer.pad_id
        ids = torch.tensor([text + [pad] * (longest - len(text)) for text in batch])
        mask = torch.arange(longest)[None, :] < torch.tensor([[len(text)] for text in batch])
        hidden = self._model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        if self._pooling == "cls":
            pooled = hidden[:, 0]
        else:
            pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return torch.nn.functional.normalize(pooled, dim=-1)


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Places of texts, shortest first, in groups that fit the limits of a batch; at least one each."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if len(batch) == BATCH_TEXTS or lengths[place] * (len(batch) + 1) > BATCH_TOKENS:
            if batch:
                yield batch
            batch = []
        batch.append(place)
    yield batch


def read_pooling(path: Path) -> Pooling:
    """How the folder's sentence-transformers files say to pool: `cls` when they do, else `mean`.

    Raises ModelLoadFailed for a way of pooling that is neither.
    """
    file = path / "1_Pooling" / "config.json"
    if not file.exists():
        return "mean"
    config = read_json(file)
    # Older folders have a flag a mode, newer ones the mode's name.
    modes = {
        key.removeprefix("pooling_mode_").split("_")[0] for key in config if "_mode_" in key and config[key] is True
    }
    modes.add(str(config.get("pooling_mode", "mean" if not modes else "")))
    modes.discard("")
    if modes == {"cls"}:
        return "cls"
    if modes == {"mean"}:
        return "mean"
    raise ModelLoadFailed("1_Pooling/config.json asks for a way of pooling other than mean or cls.")


def read_max_length(path: Path) -> list[int]:
    """The limit of the folder's sentence-transformers file, if it has one."""
    file = path / "sentence_bert_config.json"
    limit = read_json(file).get("max_seq_length") if file.exists() else None
    return [limit] if isinstance(limit, int) else []
