"""What a model on disk is, found without loading it: headers and configurations are read within limits."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.gguf_header import GGUFHeader, find_gguf, read_gguf_header
from inference.engine.formats.model_folder import read_model_folder, weight_files
from inference.engine.formats.safetensors_header import read_safetensors_header

SAFETENSORS, GGUF = "safetensors", "gguf"
TEXT_GENERATION, EMBEDDINGS = "text-generation", "embeddings"

# What the families of transformers call the same thing.
_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_GENERATING = ("ForCausalLM", "LMHeadModel")

_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_READ = frozenset({".json", ".safetensors", ".gguf", ".jinja", ".model", ".txt"})
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 32: "BF16",
}  # fmt: skip


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """size_bytes: of the weights on disk. context_size: the model's own limit, tokens. dtype, quantization: of the
    files. cache_values: numbers that one token of a text takes in the cache."""

    format: str
    size_bytes: int
    context_size: int
    capabilities: tuple[str, ...]
    parameters: int
    dtype: str
    quantization: str
    cache_values: int


def fingerprint(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of each file that a load reads: another one means other content."""
    files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    stats = [(file.name, file.stat()) for file in files if file.suffix in _READ and file.exists()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def inspect_model(path: Path) -> ModelMetadata:
    """Raises ModelLoadFailed with the reason when the model cannot be loaded, as far as that can be seen."""
    try:
        if file := find_gguf(path):
            return _of_gguf(file, read_gguf_header(file))
        return _of_folder(path, read_model_folder(path))
    except OSError as error:
        raise ModelLoadFailed(f"Its files cannot be read: {error.strerror}.") from error


def _of_gguf(file: Path, header: GGUFHeader) -> ModelMetadata:
    def value(name: str) -> int:
        return _whole(header.values.get(f"{header.architecture}.{name}"))

    heads = value("attention.head_count")
    head_dim = value("attention.key_length") or value("embedding_length") // max(1, heads)
    kind = _FILE_TYPES.get(_whole(header.values.get("general.file_type")), "mixed")
    return ModelMetadata(
        format=GGUF,
        size_bytes=file.stat().st_size,
        context_size=header.context_size,
        capabilities=(TEXT_GENERATION,),
        parameters=header.parameters,
        dtype="float32",
        quantization=kind,
        cache_values=2 * value("block_count") * (value("attention.head_count_kv") or heads) * head_dim,
    )


def _of_folder(path: Path, config: dict[str, Any]) -> ModelMetadata:
    text = config.get("text_config")
    config = config | text if isinstance(text, dict) else config
    context_size, capabilities = _context_size(config), _capabilities(config)
    headers = [read_safetensors_header(file) for file in weight_files(path)]
    counts: dict[str, int] = {}
    for header in headers:
        for dtype, count in header.dtypes.items():
            counts[dtype] = counts.get(dtype, 0) + count
    commonest = max(counts, key=counts.__getitem__, default="F32")
    heads = _first(config, _HEADS)
    head_dim = _whole(config.get("head_dim")) or _first(config, _HIDDEN) // max(1, heads)
    cached = _first(config, _LAYERS) * (_whole(config.get("num_key_value_heads")) or heads) * head_dim
    return ModelMetadata(
        format=SAFETENSORS,
        size_bytes=sum(file.stat().st_size for file in weight_files(path)),
        context_size=context_size,
        capabilities=capabilities,
        parameters=sum(counts.values()),
        dtype=_DTYPES.get(commonest, commonest.lower()),
        quantization="none",
        cache_values=2 * cached if TEXT_GENERATION in capabilities else 0,
    )


def _context_size(config: dict[str, Any]) -> int:
    if limit := _first(config, _LIMITS):
        return limit
    raise ModelLoadFailed(f"config.json does not say how long a text may be ({', '.join(_LIMITS)}).")


def _capabilities(config: dict[str, Any]) -> tuple[str, ...]:
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise ModelLoadFailed("config.json does not name the model's architectures.")
    if config.get("is_encoder_decoder") is True:
        raise ModelLoadFailed("Encoder-decoder models are not supported.")
    return (TEXT_GENERATION,) if any(name.endswith(_GENERATING) for name in architectures) else (EMBEDDINGS,)


def _first(config: dict[str, Any], names: Iterable[str]) -> int:
    """The first of these that is a number above 0; 0 where none is."""
    return next((number for name in names if (number := _whole(config.get(name)))), 0)


def _whole(value: object) -> int:
    """A number as files have them; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31 else 0
