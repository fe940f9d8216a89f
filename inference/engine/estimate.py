"""What a load will take, before it is tried. Once a model was loaded its true cost is known and this is not asked."""

from pathlib import Path

from inference.engine.errors import ModelLoadFailed
from inference.engine.inspection import ModelFacts, inspect_model
from inference.engine.request import LoadOptions

DEFAULT_CONTEXT = 2048
CACHE_VALUE_BYTES = 4
INT8_BYTES = 1.1  # with its scales


def estimate_memory(path: Path, options: LoadOptions) -> int:
    """Bytes of weights and cache; 0 for what cannot be read, which its load will say."""
    try:
        facts = inspect_model(path)
    except ModelLoadFailed:
        return 0
    context_size = options.context_size or min(facts.context_size, DEFAULT_CONTEXT)
    cache = facts.cache_values * context_size * options.max_sequences * CACHE_VALUE_BYTES
    return round(facts.parameters * _weight_bytes(facts, options)) + cache


def _weight_bytes(facts: ModelFacts, options: LoadOptions) -> float:
    """Of one weight in memory: bfloat16 files stay as they are, all else becomes float32 unless it is asked for."""
    if options.quantization == "int8":
        return INT8_BYTES
    return 2 if "bfloat16" in (options.dtype, facts.dtype) else 4
