"""The seam between the two halves of a model process: what its door needs of a loaded model."""

import threading
from typing import Protocol

from inference.engine.limits import PromptLimits
from inference.engine.request import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineStats,
    GenerationRequest,
    LoadReport,
    Usage,
)


class ServedTokenizer(Protocol):
    def tokenize(self, text: str) -> list[int]: ...
    def detokenize(self, ids: list[int]) -> str: ...


class ServedEngine(ServedTokenizer, Protocol):
    @property
    def limits(self) -> PromptLimits: ...
    def start(self) -> None: ...
    def submit(self, request: GenerationRequest, asked_at: float | None = None) -> Usage: ...
    def cancel(self, request_id: str) -> None: ...
    def stats(self) -> EngineStats: ...
    def stop(self) -> None: ...


class ServedEmbedder(ServedTokenizer, Protocol):
    def embed(self, request: EmbeddingRequest, left: threading.Event) -> EmbeddingResult: ...


class ServedModel(Protocol):
    """What a loader returns: an engine for a causal model, an embedder for an encoder."""

    @property
    def report(self) -> LoadReport: ...
    @property
    def engine(self) -> ServedEngine | None: ...
    @property
    def embedder(self) -> ServedEmbedder | None: ...
