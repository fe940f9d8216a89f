"""The decoder of a causal model: the Llama family's own, or transformers' code for other architectures."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.formats import LoadCache
from inference.engine.formats.gguf_weights import GGUFModel
from inference.engine.formats.int4 import Int4Tensors
from inference.engine.model_status import LoadOptions
from inference.engine.models.checkpoint import AdaptedTensors, Checkpoint, FolderTensors, Tensors, read_architecture
from inference.engine.models.llama_family import DTYPES, EXACT_TOLERANCE, FamilyDecoder, open_family_decoder
from inference.engine.models.reference import verify
from inference.engine.models.transformers_decoder import TransformersDecoder

QUANTIZATIONS = ("none", "int8", "int4")
CACHE_DTYPES = ("auto", "float32")
ADAPTED_FAMILIES = "only those of Llama, Mistral, Qwen2 and Qwen3"


def check_options(options: LoadOptions) -> None:
    """Raise InvalidRequest for an unknown type of weights or cache, or an unknown quantization."""
    if options.dtype not in DTYPES:
        raise InvalidRequest(f"`dtype` must be one of {', '.join(DTYPES)}.", parameter="dtype")
    if options.quantization not in QUANTIZATIONS:
        raise InvalidRequest(f"`quantization` must be one of {', '.join(QUANTIZATIONS)}.", parameter="quantization")
    if options.cache_dtype not in CACHE_DTYPES:
        raise InvalidRequest(f"`cache_dtype` must be one of {', '.join(CACHE_DTYPES)}.", parameter="cache_dtype")


def open_decoder(
    source: Path | GGUFModel,
    options: LoadOptions,
    context_size: int,
    cache: LoadCache,
    adapter: Path | None = None,
) -> FamilyDecoder | TransformersDecoder:
    """Return the decoder of a folder or a GGUF file, verified against transformers at its first load.

    adapter: folder of an adapter of the model.
    Raise ModelLoadFailed, or InvalidRequest for an option that the architecture does not support.
    """
    config = read_config(source)
    architecture = read_architecture(config)
    tensors: Tensors | dict[str, Tensor]
    tensors = source.tensors if isinstance(source, GGUFModel) else FolderTensors(source)
    if options.quantization == "int4" and not isinstance(tensors, dict):
        tensors = Int4Tensors(tensors)
    if adapter:
        if architecture is None or isinstance(tensors, dict):
            raise ModelLoadFailed(f"Adapters of {config.model_type} models are not supported: {ADAPTED_FAMILIES}.")
        tensors = AdaptedTensors(tensors, adapter)
    checkpoint = Checkpoint(tensors, architecture) if architecture and not isinstance(tensors, dict) else None
    try:
        if checkpoint is None or (checkpoint.architecture.tied and checkpoint.has_own_head()):
            if adapter:
                raise ModelLoadFailed("The base model ties its output matrix to the input and has one of its own too.")
            if architecture and any(0 < window < context_size for window in architecture.windows):
                raise ModelLoadFailed(
                    "This model has a sliding window and an output matrix beside tied embeddings, so it is computed up "
                    f"to the window only: load it with `context_size` {min(filter(None, architecture.windows))}."
                )
            return _open_transformers_decoder(source, config, options, context_size)
        return open_family_decoder(config, checkpoint, options, context_size, cache)
    finally:
        _release_freed_memory()


def _release_freed_memory() -> None:
    """Return memory that reading and packing freed to the system. glibc keeps it: a sixth of a 125M model."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def read_config(source: Path | GGUFModel) -> PreTrainedConfig:
    """Return transformers' configuration of a folder or a GGUF file."""
    if isinstance(source, GGUFModel):
        return source.config
    config: PreTrainedConfig = AutoConfig.from_pretrained(str(source), local_files_only=True, trust_remote_code=False)
    return config


def _open_transformers_decoder(
    source: Path | GGUFModel, config: PreTrainedConfig, options: LoadOptions, context_size: int
) -> TransformersDecoder:
    architecture = (config.architectures or [config.model_type])[0]
    for name, value, only in (
        ("quantization", options.quantization, "none"),
        ("dtype", options.dtype.replace("auto", "float32"), "float32"),
    ):
        if value != only:
            raise InvalidRequest(f"`{name}` must be {only} for {architecture}.", parameter=name)
    model = _dequantized(source) if isinstance(source, GGUFModel) else read_model(AutoModelForCausalLM, source)
    decoder = TransformersDecoder(model, slots=options.max_sequences, context_size=context_size)
    try:
        verify(decoder, model, slots=options.max_sequences, tolerance=EXACT_TOLERANCE)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise ModelLoadFailed(f"{architecture} does not run on this engine ({error}). Use another model.") from error
    return decoder


def _dequantized(source: GGUFModel) -> PreTrainedModel:
    auto: Any = AutoModelForCausalLM
    model: Any = auto.from_config(source.config, dtype=torch.float32)
    missing = model.load_state_dict(
        {name: tensor.float() for name, tensor in source.tensors.items()}, strict=False, assign=True
    ).missing_keys
    model.tie_weights()
    if missing and not (missing == ["lm_head.weight"] and source.config.tie_word_embeddings):
        raise ModelLoadFailed(f"The file lacks {len(missing)} tensors, among them {missing[0]}.")
    loaded: PreTrainedModel = model.eval()
    return loaded


def read_model(auto: Any, path: Path, *, uses_pooler: bool = False) -> PreTrainedModel:
    """Return the model of a folder. Raise ModelLoadFailed if weights are missing. auto: a transformers Auto class.

    uses_pooler: the pooler's weights are needed, too.
    """
    loaded: Any = auto.from_pretrained(
        str(path),
        dtype=torch.float32,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    model: PreTrainedModel
    model, info = loaded
    # transformers initializes missing weights at random.
    missing = sorted(key for key in info["missing_keys"] if uses_pooler or "pooler" not in key)
    if missing:
        raise ModelLoadFailed(f"The weights lack {len(missing)} tensors, among them {missing[0]}.")
    if model.config.is_encoder_decoder:
        raise ModelLoadFailed("Encoder-decoder models are not supported.")
    return model
