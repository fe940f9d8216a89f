"""The engine: generates text and embeddings. It imports no Django, and others import only this page.

A loaded model is a process of its own under a model host. `run_host` is that host; `HostClient` tells it what to load;
`EngineClient` asks loaded models. Nothing here imports torch.
"""

from inference.engine.client import EngineClient, HostClient
from inference.engine.connection import GenerationStream
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
from inference.engine.frames import StepOutput
from inference.engine.hosting import run_host
from inference.engine.inspection import ModelFacts, fingerprint, inspect_model
from inference.engine.policy import Policy
from inference.engine.request import (
    QUEUE_SECONDS,
    EmbeddingRequest,
    EmbeddingResult,
    EngineStats,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    LoadOptions,
    LoadReport,
    Message,
    ModelState,
    ModelStatus,
    OutputConstraint,
    OutputForm,
    SamplingParams,
    Stages,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)

__all__ = [
    "QUEUE_SECONDS",
    "ContextLengthExceeded",
    "DeadlineExceeded",
    "EmbeddingRequest",
    "EmbeddingResult",
    "EngineClient",
    "EngineDied",
    "EngineError",
    "EngineOverloaded",
    "EngineStats",
    "FinishReason",
    "GenerationOutput",
    "GenerationRequest",
    "GenerationStream",
    "HostClient",
    "HostUnavailable",
    "InferenceFailed",
    "InvalidRequest",
    "LoadOptions",
    "LoadReport",
    "Message",
    "ModelFacts",
    "ModelLoadFailed",
    "ModelNotLoaded",
    "ModelState",
    "ModelStatus",
    "OutputConstraint",
    "OutputForm",
    "Policy",
    "SamplingParams",
    "Stages",
    "StepOutput",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "fingerprint",
    "inspect_model",
    "run_host",
]
