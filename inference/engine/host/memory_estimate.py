"""Estimates of a model's memory before its first load. Later loads use the measured value."""

import os
from pathlib import Path

import msgspec

from inference.engine.errors import ModelLoadFailed
from inference.engine.external import (
    ENGINE_KINDS,
    ENGINES_VARIABLE,
    EngineKind,
    cache_bytes,
    gpu_share,
    layer_share,
)
from inference.engine.formats import GGUF, TEXT_GENERATION, ModelMetadata, inspect_model, read_adapter
from inference.engine.model_status import LoadOptions
from inference.engine.models import kernels_built
from inference.engine.processors import gpu_devices

DEFAULT_CONTEXT = 2048
CACHE_VALUE_BYTES = 4
ROUNDED_CACHE_VALUE_BYTES = 2  # beside quantized weights, in compiled kernels
ADAPTER_VALUE_BYTES = 12  # as it is read, and stacked beside it for the kernels
# Names of quantizations whose blocks the kernels compute with.
KEPT_QUANTIZATIONS = frozenset({
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",
})  # fmt: skip
INT8_BYTES = 1.1  # with its scales
INT4_BYTES = 0.75  # with its scales; embeddings and output matrix have eight bits
EMBEDDING_VALUE_BYTES = 4  # in encoders, with any form of the other weights
MAX_BYTES = 2**63 - 1  # the range of msgpack; a configuration may claim more


class MemoryEstimate(msgspec.Struct, frozen=True):
    """Memory of a model, in bytes, without the GPU's.

    total_bytes: weights and the whole cache.
    load_bytes: what its load takes at once, which the system cannot get back. Caches grow with the requests, and
        llama.cpp maps its file.
    """

    total_bytes: int
    load_bytes: int


def estimate_memory(path: Path, options: LoadOptions, base: Path | None = None) -> MemoryEstimate:
    """Return the memory of a model. It is 0 for unreadable files: their load fails with the reason.

    base: path of the base model, if the model is an adapter.
    """
    try:
        metadata = inspect_model(base or path)
        added = ADAPTER_VALUE_BYTES * read_adapter(path).parameters if base else 0
    except ModelLoadFailed:
        return MemoryEstimate(0, 0)
    context_size = options.context_size or DEFAULT_CONTEXT
    if metadata.context_size:  # a load uses no more
        context_size = min(metadata.context_size, context_size)
    cache_values = metadata.cache_values * context_size * options.max_sequences
    if kind := ENGINE_KINDS.get(options.engine):
        return _external_estimate(kind, options, metadata, cache_values)
    cache = cache_values * _cache_value_bytes(metadata, options)
    weights = round(
        (metadata.parameters - metadata.embedding_values)
        * _weight_bytes(metadata, options, is_adapted=base is not None)
        + metadata.embedding_values * EMBEDDING_VALUE_BYTES
    )
    share = _cpu_share(metadata, options)
    return _estimate((weights + cache) * share + added, weights * share + added)


def _external_estimate(
    kind: EngineKind, options: LoadOptions, metadata: ModelMetadata, cache_values: int
) -> MemoryEstimate:
    """Return the memory of another engine's server."""
    engines = Path(os.environ.get(ENGINES_VARIABLE, "var/engines"))
    share = 1 - gpu_share(engines, kind, options.gpu_layers, metadata.layers)
    weights = metadata.size_bytes * share
    cache = cache_bytes(kind, dict(options.engine_options), cache_values) * share
    at_once = cache if metadata.format == GGUF else weights
    return _estimate(weights + cache + kind.overhead_bytes, at_once + kind.overhead_bytes)


def _estimate(total: float, load: float) -> MemoryEstimate:
    return MemoryEstimate(min(MAX_BYTES, round(total)), min(MAX_BYTES, round(load)))


def _cpu_share(metadata: ModelMetadata, options: LoadOptions) -> float:
    """Return the part of a model of Stoa's engine that is not on a GPU. Encoders are computed on the CPU."""
    if TEXT_GENERATION not in metadata.capabilities or not metadata.layers or not gpu_devices():
        return 1.0
    return 1 - layer_share(options.gpu_layers, metadata.layers)


def _weight_bytes(metadata: ModelMetadata, options: LoadOptions, *, is_adapted: bool) -> float:
    """Return the bytes of one weight in memory.

    Compiled kernels keep a file's bfloat16 and quantized blocks. Without them, with an adapter, and in encoders,
    float32 is the default.
    """
    if options.quantization == "int4" and _has_kernels(metadata, options):
        return _file_bytes(metadata) if _is_kept(metadata) else INT4_BYTES
    if options.quantization != "none":
        return INT8_BYTES
    if TEXT_GENERATION not in metadata.capabilities:
        return 4
    if _keeps_blocks(metadata, options):
        return _file_bytes(metadata)
    is_kept = metadata.dtype == "bfloat16" and not is_adapted and _has_kernels(metadata, options)
    return 2 if is_kept or options.dtype == "bfloat16" else 4


def _cache_value_bytes(metadata: ModelMetadata, options: LoadOptions) -> int:
    is_rounded = options.quantization != "none" and _has_kernels(metadata, options)
    is_rounded = options.cache_dtype == "auto" and (is_rounded or _keeps_blocks(metadata, options))
    return ROUNDED_CACHE_VALUE_BYTES if is_rounded else CACHE_VALUE_BYTES


def _keeps_blocks(metadata: ModelMetadata, options: LoadOptions) -> bool:
    """Return whether compiled kernels compute with the quantized blocks of the file."""
    is_default = options.dtype == "auto" and options.quantization == "none"
    return _is_kept(metadata) and is_default and _has_kernels(metadata, options)


def _is_kept(metadata: ModelMetadata) -> bool:
    """Return whether compiled kernels can compute with the quantized blocks of the file."""
    return metadata.format == GGUF and metadata.quantization in KEPT_QUANTIZATIONS


def _file_bytes(metadata: ModelMetadata) -> float:
    """Return the bytes of one weight in the file."""
    return metadata.size_bytes / max(1, metadata.parameters)


def _has_kernels(metadata: ModelMetadata, options: LoadOptions) -> bool:
    """Return whether a load now would use compiled kernels."""
    return bool(metadata.architecture) and not options.gpu_layers and kernels_built()
