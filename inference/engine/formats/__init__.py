"""Formats: model files on disk, checked and inspected within limits before any library reads them.

Importing this package does not import torch. Modules that return tensors are imported by name: `gguf_weights`.
"""

from inference.engine.formats.adapter import (
    ADAPTER_WEIGHTS,
    Adapter,
    factor_name,
    is_adapter,
    read_adapter,
)
from inference.engine.formats.families import (
    AFTER,
    AROUND,
    BEFORE,
    FAMILIES,
    FULL_TYPES,
    TEXT_PARTS,
    WINDOWED_TYPES,
    Family,
)
from inference.engine.formats.gguf_header import GGUFHeader, find_gguf, read_gguf_header
from inference.engine.formats.inspection import (
    CLASSIFIER_SUFFIX,
    GGUF,
    GGUF_FAMILIES,
    TEXT_GENERATION,
    ModelMetadata,
    fingerprint,
    inspect_model,
)
from inference.engine.formats.load_cache import LoadCache
from inference.engine.formats.model_folder import check_digests, read_json, read_model_folder, read_objects
from inference.engine.formats.safetensors_header import read_safetensors_header

__all__ = [
    "ADAPTER_WEIGHTS",
    "AFTER",
    "AROUND",
    "BEFORE",
    "CLASSIFIER_SUFFIX",
    "FAMILIES",
    "FULL_TYPES",
    "GGUF",
    "GGUF_FAMILIES",
    "TEXT_GENERATION",
    "TEXT_PARTS",
    "WINDOWED_TYPES",
    "Adapter",
    "Family",
    "GGUFHeader",
    "LoadCache",
    "ModelMetadata",
    "check_digests",
    "factor_name",
    "find_gguf",
    "fingerprint",
    "inspect_model",
    "is_adapter",
    "read_adapter",
    "read_gguf_header",
    "read_json",
    "read_model_folder",
    "read_objects",
    "read_safetensors_header",
]
