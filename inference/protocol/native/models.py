"""Models: listing, loading and unloading them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import LoadOptions
from inference.protocol.native.body import RequestBody


class ModelInfo(Struct, kw_only=True):
    """A model. `size_bytes`: its weights on disk; `context_size`: tokens. Of a loaded one, what is in effect; else what
    its files say, and null for what only a loaded one has.

    `progress`: of a load, 0 to 1. `memory_usage_bytes`: weights and cache; `resident_bytes`: of its process.
    """

    id: str
    name: str
    type: str
    size_bytes: int
    loaded: bool
    context_size: int
    capabilities: list[str]
    state: str
    error: str | None
    parameters: int | None = None
    quantization: str | None = None
    dtype: str | None = None
    device: str | None = None
    progress: float | None = None
    memory_usage_bytes: int | None = None
    resident_bytes: int | None = None
    load_time_ms: int | None = None
    gpu_layers: int | None = None
    batch_size: int | None = None
    max_sequences: int | None = None
    warning: str | None = None


class ModelList(Struct):
    """All models."""

    models: list[ModelInfo]


class LoadModelRequest(RequestBody):
    """How to load a model; an absent `context_size` is the lesser of 2048 and the model's own limit."""

    gpu_layers: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    context_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET
    batch_size: Annotated[int, Meta(ge=1, le=32768, description="Prompt tokens a step.")] = 512
    max_sequences: Annotated[int, Meta(ge=1, le=256, description="Requests that run at once.")] = 16
    quantization: Annotated[
        Literal["none", "int8"], Meta(description="int8: a quarter of the memory, faster, nearly the same text.")
    ] = "none"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Meta(description="What weights are held in; auto is exact on the CPU, bfloat16 on a GPU."),
    ] = "auto"

    def options(self) -> LoadOptions:
        """What the model host is asked for."""
        return LoadOptions(
            gpu_layers=self.gpu_layers,
            context_size=None if self.context_size is UNSET else self.context_size,
            batch_size=self.batch_size,
            max_sequences=self.max_sequences,
            quantization=self.quantization,
            dtype=self.dtype,
        )


class LoadModelResponse(Struct, kw_only=True, omit_defaults=True):
    """A loaded model, what it cost, and the options in effect."""

    status: str
    model_id: str
    memory_usage_bytes: int
    load_time_ms: int
    gpu_layers: int
    context_size: int
    batch_size: int
    max_sequences: int
    quantization: str
    dtype: str
    device: str
    warning: str | None = None


class UnloadModelRequest(RequestBody):
    """How to unload: with `force`, running requests are cancelled instead of finished."""

    force: bool = False


class UnloadModelResponse(Struct):
    """An unloaded model."""

    status: str
    model_id: str
