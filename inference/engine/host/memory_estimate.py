"""What a load will take, before it is tried. Once a model was loaded its true cost is known and this is not asked."""

import os
from pathlib import Path

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats import TEXT_GENERATION, ModelMetadata, inspect_model
from inference.engine.model_status import LoadOptions
from inference.engine.models import FOLDER_VARIABLE

DEFAULT_CONTEXT = 2048
CACHE_VALUE_BYTES = 4
INT8_BYTES = 1.1  # with its scales
MOST_BYTES = 2**63 - 1  # what frames carry; a config may claim more


def estimate_memory(path: Path, options: LoadOptions) -> int:
    """Bytes of weights and cache; 0 for what cannot be read, which its load will say."""
    try:
        facts = inspect_model(path)
    except ModelLoadFailed:
        return 0
    context_size = options.context_size or min(facts.context_size, DEFAULT_CONTEXT)
    cache = facts.cache_values * context_size * options.max_sequences * CACHE_VALUE_BYTES
    return min(MOST_BYTES, round(facts.parameters * _weight_bytes(facts, options)) + cache)


def _weight_bytes(facts: ModelMetadata, options: LoadOptions) -> float:
    """Of one weight in memory. Kernels compiled for this machine keep the bfloat16 of a file; without them, and in
    encoders, all is float32 unless other things are asked for."""
    if TEXT_GENERATION not in facts.capabilities:
        return 4
    if options.quantization == "int8":
        return INT8_BYTES
    is_kept = facts.dtype == "bfloat16" and FOLDER_VARIABLE in os.environ
    return 2 if is_kept or options.dtype == "bfloat16" else 4
