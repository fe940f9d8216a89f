"""The embedder: last hidden states of an encoder, pooled over each text's tokens and normalized to length 1."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.formats import read_json, read_objects
from inference.engine.models.encoder import Encoder
from inference.engine.outputs import EmbeddingResult, ScoringResult
from inference.engine.requests import EmbeddingRequest, ScoringRequest
from inference.engine.text import EncodedText, Tokenizer

Pooling = Literal["mean", "cls"]
SUPPORTED_MODULES = frozenset({"Transformer", "Pooling", "Normalize"})  # of sentence-transformers


class Embedder(Encoder):
    """An encoder that embeds texts, and scores texts by the similarity of their embeddings to a query's."""

    kind = "makes embeddings"

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        pooling: Pooling,
        context_size: int,
        length_multiple: int = 1,
    ) -> None:
        super().__init__(model=model, tokenizer=tokenizer, context_size=context_size, length_multiple=length_multiple)
        self._pooling = pooling

    def embed(self, request: EmbeddingRequest, cancelled: threading.Event) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts.

        cancelled: when it is set, the remaining texts are dropped.
        Raise InvalidRequest for no texts, an empty text or a token that the model does not have; ContextLengthExceeded
        for a text that is too long; InferenceFailed for a vector that is not finite; CancelledError if cancelled.
        """
        if not request.texts:
            raise InvalidRequest("There is no text to embed. Send at least one.")
        texts = [
            self.check(
                self._tokenizer.encode_within(text, self._context_size)
                if isinstance(text, str)
                else EncodedText(list(text)),
                f"text {index}",
                "input",
            )
            for index, text in enumerate(request.texts)
        ]
        vectors = self.run(texts, cancelled, user=request.user, one_core=request.one_core)
        return EmbeddingResult(
            request_id=request.request_id,
            dimensions=len(vectors[0]) // 4,
            vectors=tuple(vectors),
            prompt_tokens=sum(map(len, texts)),
        )

    def score(self, request: ScoringRequest, cancelled: threading.Event) -> ScoringResult:
        """Return the cosine similarity of each text to its query. Raise as `embed` does."""
        if not request.queries:
            raise InvalidRequest(f"The model {self.kind}: it does not classify texts.", capability="classification")
        size = min(self._context_size, request.max_tokens or self._context_size)
        queries = [
            self.check(self._tokenizer.encode_within(query, size), f"query {index}", "query")
            for index, query in enumerate(request.queries)
        ]
        texts = [
            self.check(
                self._tokenizer.encode_within(text, size, request.max_text_tokens), f"document {index}", "documents"
            )
            for index, text in enumerate(request.texts)
        ]
        rows = np.stack(
            [np.frombuffer(row, "<f4") for row in self.run([*queries, *texts], cancelled, user=request.user)]
        )
        cosines = (rows[: len(queries)] * rows[len(queries) :]).sum(1).tolist()
        return ScoringResult(
            request_id=request.request_id,
            scores=tuple((cosine,) for cosine in cosines),
            prompt_tokens=sum(map(len, queries)) + sum(map(len, texts)),
        )

    @torch.inference_mode()
    def _run(self, batch: Sequence[EncodedText]) -> Tensor:
        """Return the vectors of a batch, [texts, dimensions]."""
        inputs = self.pad(batch)
        hidden = self._model(**inputs).last_hidden_state.float()
        if self._pooling == "cls":
            pooled = hidden[:, 0]
        else:
            mask = inputs["attention_mask"][:, :, None]
            pooled = (hidden * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(pooled, dim=-1)


def read_pooling(path: Path) -> Pooling:
    """Return the pooling of the folder's sentence-transformers files; `mean` by default.

    Raise ModelLoadFailed for other kinds of pooling, and for other modules.
    """
    file = path / _pooling_folder(path) / "config.json"
    if not file.exists():
        return "mean"
    config = read_json(file)
    # Older folders have a flag per mode, newer ones the mode's name.
    modes = {
        key.removeprefix("pooling_mode_").split("_")[0] for key in config if "_mode_" in key and config[key] is True
    }
    modes.add(str(config.get("pooling_mode", "mean" if not modes else "")))
    modes.discard("")
    if modes == {"cls"}:
        return "cls"
    if modes == {"mean"}:
        return "mean"
    raise ModelLoadFailed("1_Pooling/config.json has a pooling mode that is not supported: use mean or cls.")


def _pooling_folder(path: Path) -> str:
    """Return the name of the pooling folder. Raise ModelLoadFailed for modules that would change the vectors."""
    listing = path / "modules.json"
    modules = read_objects(listing) if listing.exists() else []
    folders = {str(module.get("type")).rpartition(".")[2]: str(module.get("path")) for module in modules}
    if unknown := folders.keys() - SUPPORTED_MODULES:
        raise ModelLoadFailed(f"modules.json has {', '.join(sorted(unknown))}, which is not supported.")
    folder = folders.get("Pooling", "1_Pooling")
    if Path(folder).name != folder:
        raise ModelLoadFailed("modules.json names a folder outside the model's folder.")
    return folder


def position_limit(model: PreTrainedModel) -> list[int]:
    """Return the maximum text length of models whose positions start after the padding's, as in RoBERTa."""
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    return [
        table.num_embeddings - table.padding_idx - 1
        for table in tables
        if isinstance(table, torch.nn.Embedding) and table.padding_idx is not None
    ]


def read_max_length(path: Path) -> list[int]:
    """Return the maximum text length of the folder's sentence-transformers file, or []."""
    file = path / "sentence_bert_config.json"
    limit = read_json(file).get("max_seq_length") if file.exists() else None
    return [limit] if isinstance(limit, int) else []
