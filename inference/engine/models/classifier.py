"""The classifier: an encoder with a sequence-classification head. With one label it is a cross-encoder."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.errors import InvalidRequest
from inference.engine.models.encoder import Encoder
from inference.engine.outputs import ScoringResult
from inference.engine.requests import ScoringRequest
from inference.engine.text import EncodedText, Tokenizer

MULTI_LABEL = "multi_label_classification"  # the problem type whose labels are independent


class Classifier(Encoder):
    """A model that scores pairs of texts if it has one label, and otherwise the labels of a text."""

    def __init__(
        self, *, model: PreTrainedModel, tokenizer: Tokenizer, context_size: int, length_multiple: int = 1
    ) -> None:
        super().__init__(model=model, tokenizer=tokenizer, context_size=context_size, length_multiple=length_multiple)
        config: Any = model.config
        self._labels = tuple(str(config.id2label[index]) for index in range(config.num_labels))
        self._is_independent = len(self._labels) == 1 or config.problem_type == MULTI_LABEL
        self._has_types = tokenizer.has_type_ids
        # Causal models read the last token that is no padding.
        config.pad_token_id = tokenizer.pad_id

    @property
    def kind(self) -> str:
        """Return what the model does, for errors."""
        if self._is_cross_encoder:
            return "is a cross-encoder, which scores texts for a query"
        return f"is a classifier with {len(self._labels)} labels"

    @property
    def _is_cross_encoder(self) -> bool:
        return len(self._labels) == 1

    def score(self, request: ScoringRequest, cancelled: threading.Event) -> ScoringResult:
        """Return the probability that each text is relevant to its query, or without queries those of the labels.

        cancelled: when it is set, the remaining texts are dropped.
        Raise InvalidRequest for another kind of request than the model's, for an empty text or an unknown token;
        ContextLengthExceeded for texts that are too long; InferenceFailed; CancelledError if cancelled.
        """
        if bool(request.queries) != self._is_cross_encoder:
            need = "send pairs of texts" if self._is_cross_encoder else "send single texts"
            capability = "rerank" if request.queries else "classification"
            raise InvalidRequest(f"The model {self.kind}: {need}.", capability=capability)
        size = min(self._context_size, request.max_tokens or self._context_size)
        queries = [self._tokenizer.encode_part(query, size) for query in request.queries]
        texts = [self._encode(request, queries, size, index) for index in range(len(request.texts))]
        rows = self.run(texts, cancelled, user=request.user)
        return ScoringResult(
            request_id=request.request_id,
            scores=tuple(tuple(np.frombuffer(row, "<f4").tolist()) for row in rows),
            labels=() if self._is_cross_encoder else self._labels,
            prompt_tokens=sum(map(len, texts)),
        )

    def _encode(self, request: ScoringRequest, queries: Sequence[Encoding], size: int, index: int) -> EncodedText:
        text, limit = request.texts[index], request.max_text_tokens
        if not queries:
            return self.check(self._tokenizer.encode_within(text, size, limit), f"text {index}", "input")
        query = queries[index if len(queries) > 1 else 0]
        encoded = self._tokenizer.encode_pair(query, text, size, limit)
        return self.check(encoded, f"the query with document {index}", "documents")

    @torch.inference_mode()
    def _run(self, batch: Sequence[EncodedText]) -> Tensor:
        """Return the probabilities of a batch, [texts, labels]."""
        inputs = self.pad(batch)
        if self._has_types:
            types = torch.zeros_like(inputs["input_ids"])
            for row, text in enumerate(batch):
                types[row, : len(text.type_ids)] = torch.tensor(text.type_ids)
            inputs["token_type_ids"] = types
        logits: Tensor = self._model(**inputs).logits.float()
        return logits.sigmoid() if self._is_independent else logits.softmax(-1)
