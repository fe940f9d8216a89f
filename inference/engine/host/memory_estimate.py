"""Estimates of a model's memory before its first load. Later loads use the measured value."""

import os
from pathlib import Path

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats import TEXT_GENERATION, ModelMetadata, inspect_model, read_adapter
from inference.engine.model_status import LoadOptions
from inference.engine.models import FOLDER_VARIABLE

DEFAULT_CONTEXT = 2048
CACHE_VALUE_BYTES = 4
ADAPTER_VALUE_BYTES = 12  # as it is read, and stacked beside it for the kernels
INT8_BYTES = 1.1  # with its scales
MAX_BYTES = 2**63 - 1  # the range of msgpack; a configuration may claim more


def estimate_memory(path: Path, options: LoadOptions, base: Path | None = None) -> int:
    """Return the bytes of weights and cache, or 0 for unreadable files: their load fails with the reason.

    base: path of the base model, if the model is an adapter.
    """
    try:
        metadata = inspect_model(base or path)
        added = ADAPTER_VALUE_BYTES * read_adapter(path).parameters if base else 0
    except ModelLoadFailed:
        return 0
    context_size = options.context_size or DEFAULT_CONTEXT
    if metadata.context_size:  # a load uses no more
        context_size = min(metadata.context_size, context_size)
    cache = metadata.cache_values * context_size * options.max_sequences * CACHE_VALUE_BYTES
    weights = round(metadata.parameters * _weight_bytes(metadata, options, is_adapted=base is not None))
    return min(MAX_BYTES, weights + added + cache)


def _weight_bytes(metadata: ModelMetadata, options: LoadOptions, *, is_adapted: bool) -> float:
    """Return the bytes of one weight in memory.

    Compiled kernels keep a file's bfloat16. Without them, with an adapter, and in encoders, float32 is the default.
    """
    if TEXT_GENERATION not in metadata.capabilities:
        return 4
    if options.quantization == "int8":
        return INT8_BYTES
    is_kept = metadata.dtype == "bfloat16" and FOLDER_VARIABLE in os.environ and not is_adapted
    return 2 if is_kept or options.dtype == "bfloat16" else 4
