"""The interface of a loaded model to the server of its process."""

import threading
from typing import Protocol

from inference.engine.model_status import EngineStats, LoadReport
from inference.engine.outputs import EmbeddingResult, Usage
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest


class TokenizerInterface(Protocol):
    """A model's tokenizer."""

    def tokenize(self, text: str) -> list[int]: ...
    def detokenize(self, ids: list[int]) -> str: ...


class EngineInterface(TokenizerInterface, Protocol):
    """The engine of a causal model. Each method is as in `scheduling.Engine`."""

    @property
    def limits(self) -> PromptLimits: ...
    def start(self) -> None: ...
    def submit(self, request: GenerationRequest, arrived_at: float | None = None) -> Usage: ...
    def cancel(self, request_id: str) -> None: ...
    def stats(self) -> EngineStats: ...
    def stop(self) -> None: ...


class EmbedderInterface(TokenizerInterface, Protocol):
    """The embedder of an encoder. cancelled: set when the client no longer waits."""

    def embed(self, request: EmbeddingRequest, cancelled: threading.Event) -> EmbeddingResult: ...


class ModelInterface(Protocol):
    """The result of a loader: an engine for a causal model, an embedder for an encoder."""

    @property
    def report(self) -> LoadReport: ...
    @property
    def engine(self) -> EngineInterface | None: ...
    @property
    def embedder(self) -> EmbedderInterface | None: ...
