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
    InvalidRequest,
    ModelLoadFailed,
    ModelNotLoaded,
)
from inference.engine.frames import StepOutput
from inference.engine.gguf_header import find_gguf, read_gguf_header
from inference.engine.model_host import run_host
from inference.engine.request import (
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
    TokenLogprob,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)

__all__ = [
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
    "InvalidRequest",
    "LoadOptions",
    "LoadReport",
    "Message",
    "ModelLoadFailed",
    "ModelNotLoaded",
    "ModelState",
    "ModelStatus",
    "OutputConstraint",
    "OutputForm",
    "SamplingParams",
    "StepOutput",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "find_gguf",
    "read_gguf_header",
    "run_host",
]
