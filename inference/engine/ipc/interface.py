"""The interface of a loaded model to the server of its process."""

import threading
from concurrent.futures import Future
from typing import Protocol

from inference.engine.model_status import EngineStats, LoadReport
from inference.engine.outputs import EmbeddingResult, ScoringResult, TokenizationResult, Usage
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest, ScoringRequest, TokenizationRequest


class TokenizerInterface(Protocol):
    """A model's tokenizer."""

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult: ...
    def detokenize(self, ids: list[int]) -> str: ...


class EngineInterface(TokenizerInterface, Protocol):
    """The engine of a causal model. Each method is as in `scheduling.Engine`."""

    @property
    def limits(self) -> PromptLimits: ...
    def start(self) -> None: ...
    def submit(self, request: GenerationRequest, arrived_at: float | None = None) -> Usage: ...
    def score(
        self, request: ScoringRequest, cancelled: threading.Event, arrived_at: float | None = None
    ) -> Future[ScoringResult]: ...
    def cancel(self, request_id: str) -> None: ...
    def stats(self) -> EngineStats: ...
    def stop(self) -> None: ...


class ScorerInterface(TokenizerInterface, Protocol):
    """An encoder that scores texts. cancelled: set when the client no longer waits. kind: what it is, for errors."""

    @property
    def kind(self) -> str: ...
    def score(self, request: ScoringRequest, cancelled: threading.Event) -> ScoringResult: ...


class EmbedderInterface(ScorerInterface, Protocol):
    """The embedder of an encoder, which scores by similarity."""

    def embed(self, request: EmbeddingRequest, cancelled: threading.Event) -> EmbeddingResult: ...


class ModelInterface(Protocol):
    """The result of a loader: an engine for a causal model, an embedder or a classifier for an encoder."""

    @property
    def report(self) -> LoadReport: ...
    @property
    def engine(self) -> EngineInterface | None: ...
    @property
    def embedder(self) -> EmbedderInterface | None: ...
    @property
    def classifier(self) -> ScorerInterface | None: ...
