"""Inspection of a model on disk without loading it: metadata from headers and configurations."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.families import FAMILIES, TEXT_PARTS
from inference.engine.formats.gguf_header import GGUFHeader, find_gguf, read_gguf_header
from inference.engine.formats.model_folder import read_model_folder, weight_files
from inference.engine.formats.safetensors_header import read_safetensors_header

SAFETENSORS, GGUF = "safetensors", "gguf"
TEXT_GENERATION, EMBEDDINGS, RERANK, CLASSIFICATION = "text-generation", "embeddings", "rerank", "classification"

# Names of the same setting in transformers' model families.
_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_CAUSAL_SUFFIXES = ("ForCausalLM", "LMHeadModel")
CLASSIFIER_SUFFIX = "ForSequenceClassification"
# By GGUF's names.
GGUF_FAMILIES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "granite": "GraniteForCausalLM",
}
_DEFAULT_LABELS = 2  # of transformers

_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_LOADED_SUFFIXES = frozenset({".json", ".safetensors", ".gguf", ".jinja", ".model", ".txt"})
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 32: "BF16",
}  # fmt: skip


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a model on disk.

    architecture: one of FAMILIES, or empty.
    size_bytes: of the weights on disk.
    context_size: the model's own limit, in tokens.
    dtype, quantization: of the files.
    cache_values: numbers in the KV cache per token.
    embedding_values: numbers in the table of an encoder's token embeddings.
    layers: 0 if the files do not say.
    """

    format: str
    architecture: str
    size_bytes: int
    context_size: int
    capabilities: tuple[str, ...]
    parameters: int
    dtype: str
    quantization: str
    cache_values: int
    embedding_values: int = 0
    layers: int = 0


def fingerprint(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and modification time of each file that a load reads. They differ if the content does."""
    files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    stats = [(file.name, file.stat()) for file in files if file.suffix in _LOADED_SUFFIXES and file.exists()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def inspect_model(path: Path) -> ModelMetadata:
    """Return the metadata of a model. Raise ModelLoadFailed with the reason if it evidently cannot be loaded."""
    try:
        if file := find_gguf(path):
            return _inspect_gguf(file, read_gguf_header(file))
        return _inspect_folder(path, read_model_folder(path))
    except OSError as error:
        raise ModelLoadFailed(f"The model's files cannot be read: {error.strerror}.") from error


def _inspect_gguf(file: Path, header: GGUFHeader) -> ModelMetadata:
    def value(name: str) -> int:
        return _positive_int(header.values.get(f"{header.architecture}.{name}"))

    heads = value("attention.head_count")
    head_dim = value("attention.key_length") or value("embedding_length") // max(1, heads)
    quantization = _FILE_TYPES.get(_positive_int(header.values.get("general.file_type")), "mixed")
    return ModelMetadata(
        format=GGUF,
        architecture=GGUF_FAMILIES.get(header.architecture, ""),
        size_bytes=file.stat().st_size,
        context_size=header.context_size,
        capabilities=(TEXT_GENERATION,),
        parameters=header.parameters,
        dtype="float32",
        quantization=quantization,
        cache_values=2 * value("block_count") * (value("attention.head_count_kv") or heads) * head_dim,
        layers=value("block_count"),
    )


def _inspect_folder(path: Path, config: dict[str, Any]) -> ModelMetadata:
    text_config = config.get("text_config")
    part = TEXT_PARTS.get(_first_architecture(config))
    if part:
        config = part.defaults | config
    if isinstance(text_config, dict):
        config = config | text_config
    if part:
        config["architectures"] = [part.architecture]
    context_size, capabilities = _context_size(config), _capabilities(config)
    architecture = _first_architecture(config)
    headers = [read_safetensors_header(file) for file in weight_files(path)]
    counts: dict[str, int] = {}
    for header in headers:
        for dtype, count in header.dtypes.items():
            counts[dtype] = counts.get(dtype, 0) + count
    main_dtype = max(counts, key=counts.__getitem__, default="F32")
    heads = _first_positive(config, _HEADS)
    head_dim = _positive_int(config.get("head_dim")) or _first_positive(config, _HIDDEN) // max(1, heads)
    keys_per_token = (
        _first_positive(config, _LAYERS) * (_positive_int(config.get("num_key_value_heads")) or heads) * head_dim
    )
    parameters, is_causal = sum(counts.values()), TEXT_GENERATION in capabilities
    width = _positive_int(config.get("embedding_size")) or _first_positive(config, _HIDDEN)
    embedding_values = min(_positive_int(config.get("vocab_size")) * width, parameters)
    return ModelMetadata(
        format=SAFETENSORS,
        architecture=architecture if architecture in FAMILIES else "",
        size_bytes=sum(file.stat().st_size for file in weight_files(path)),
        context_size=context_size,
        capabilities=capabilities,
        parameters=parameters,
        dtype=_DTYPES.get(main_dtype, main_dtype.lower()),
        quantization="none",
        cache_values=2 * keys_per_token if is_causal else 0,
        embedding_values=0 if is_causal else embedding_values,
        layers=_first_positive(config, _LAYERS),
    )


def _first_architecture(config: dict[str, Any]) -> str:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def _context_size(config: dict[str, Any]) -> int:
    if limit := _first_positive(config, _LIMITS):
        return limit
    raise ModelLoadFailed(f"config.json has no maximum context length ({', '.join(_LIMITS)}).")


def _capabilities(config: dict[str, Any]) -> tuple[str, ...]:
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise ModelLoadFailed("config.json does not name the model's architectures.")
    if config.get("is_encoder_decoder") is True:
        raise ModelLoadFailed("Encoder-decoder models are not supported.")
    if any(name.endswith(_CAUSAL_SUFFIXES) for name in architectures):
        return (TEXT_GENERATION,)
    if any(name.endswith(CLASSIFIER_SUFFIX) for name in architectures):
        return (RERANK,) if _label_count(config) == 1 else (CLASSIFICATION,)
    return (EMBEDDINGS,)


def _label_count(config: dict[str, Any]) -> int:
    labels = config.get("id2label")
    return (
        len(labels)
        if isinstance(labels, dict) and labels
        else _positive_int(config.get("num_labels")) or _DEFAULT_LABELS
    )


def _first_positive(config: dict[str, Any], names: Iterable[str]) -> int:
    """Return the first setting that is a positive integer, or 0."""
    return next((number for name in names if (number := _positive_int(config.get(name)))), 0)


def _positive_int(value: object) -> int:
    """Return the value if it is a positive 32-bit integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31 else 0
