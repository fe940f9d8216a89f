"""The inference engine: text generation, embeddings and scores. It imports no Django.

Each loaded model runs in a process of its own under a model host. `run_host` runs that host, `HostClient` loads and
unloads models, and `EngineClient` sends requests to loaded ones. Other packages import from here only, never from the
engine's modules. Importing this package does not import torch.
"""

from importlib import import_module
from typing import Any

from inference.engine.errors import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EngineDied,
    EngineError,
    EngineOverloaded,
    HostUnavailable,
    InferenceFailed,
    InvalidRequest,
    ModelLoadFailed,
    ModelNotLoaded,
)
from inference.engine.external import (
    ENGINE_NAMES,
    STOA,
    EngineInstallation,
    InstallationFailed,
    check_engine_options,
    install_engine,
    list_engines,
)
from inference.engine.formats import ModelMetadata, fingerprint, inspect_model, is_adapter, read_adapter
from inference.engine.host import HostOptions, run_host
from inference.engine.ipc import EngineClient, GenerationStream, HostClient, StepOutput
from inference.engine.model_status import (
    QUEUE_TIME_BUCKETS_SECONDS,
    EngineStats,
    LoadOptions,
    LoadReport,
    ModelState,
    ModelStatus,
    ReplicaStatus,
)
from inference.engine.outputs import (
    EmbeddingResult,
    FinishReason,
    GenerationOutput,
    RequestTimings,
    ScoringResult,
    TokenizationResult,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from inference.engine.requests import (
    REQUEST_PARAMETERS,
    EmbeddingRequest,
    GenerationRequest,
    Message,
    ScoringQuestion,
    ScoringRequest,
    TokenizationRequest,
    Tool,
    ToolCall,
)
from inference.engine.sampling import (
    SAMPLING_PARAMETERS,
    ConstraintKind,
    OutputConstraint,
    Parameter,
    SamplingParams,
)

# What imports torch is imported at its first use.
_SLOW = {"Tokenizer": "text", "load_tokenizer": "text", "read_gguf": "formats.gguf_weights"}


def __getattr__(name: str) -> Any:
    if name not in _SLOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_SLOW[name]}"), name)


__all__ = [
    "ENGINE_NAMES",
    "QUEUE_TIME_BUCKETS_SECONDS",
    "REQUEST_PARAMETERS",
    "SAMPLING_PARAMETERS",
    "STOA",
    "ConstraintKind",
    "ContextLengthExceeded",
    "DeadlineExceeded",
    "EmbeddingRequest",
    "EmbeddingResult",
    "EngineClient",
    "EngineDied",
    "EngineError",
    "EngineInstallation",
    "EngineOverloaded",
    "EngineStats",
    "FinishReason",
    "GenerationOutput",
    "GenerationRequest",
    "GenerationStream",
    "HostClient",
    "HostOptions",
    "HostUnavailable",
    "InferenceFailed",
    "InstallationFailed",
    "InvalidRequest",
    "LoadOptions",
    "LoadReport",
    "Message",
    "ModelLoadFailed",
    "ModelMetadata",
    "ModelNotLoaded",
    "ModelState",
    "ModelStatus",
    "OutputConstraint",
    "Parameter",
    "ReplicaStatus",
    "RequestTimings",
    "SamplingParams",
    "ScoringQuestion",
    "ScoringRequest",
    "ScoringResult",
    "StepOutput",
    "TokenLogprob",
    "TokenizationRequest",
    "TokenizationResult",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "check_engine_options",
    "fingerprint",
    "inspect_model",
    "install_engine",
    "is_adapter",
    "list_engines",
    "read_adapter",
    "run_host",
]
