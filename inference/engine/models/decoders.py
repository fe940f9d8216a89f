"""The decoder of a causal model: one of the engine's own, or transformers' code for other architectures."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.formats import FAMILIES, TEXT_PARTS, LoadCache
from inference.engine.formats.gguf_weights import GGUFModel
from inference.engine.formats.int4 import Int4Tensors
from inference.engine.model_status import LoadOptions
from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import AdaptedTensors, Checkpoint, FolderTensors, Tensors
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.linear import packs
from inference.engine.models.llama_family import (
    DTYPES,
    EXACT_TOLERANCE,
    GPU,
    GPU_DTYPES,
    ROUNDED_TOLERANCE,
    FamilyDecoder,
    open_family_decoder,
)
from inference.engine.models.packing import pack_linears
from inference.engine.models.reference import verify
from inference.engine.models.transformers_decoder import TransformersDecoder

QUANTIZATIONS = ("none", "int8", "int4")
CACHE_DTYPES = ("auto", "float32")


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
            names = ", ".join(family.name for family in FAMILIES.values())
            raise ModelLoadFailed(f"Adapters of {config.model_type} models are not supported, only those of {names}.")
        tensors = AdaptedTensors(tensors, adapter)
    checkpoint = Checkpoint(tensors, architecture) if architecture and not isinstance(tensors, dict) else None
    if checkpoint and isinstance(source, GGUFModel):
        checkpoint.refuse_unused(source.tensors)
    try:
        if checkpoint is None or (checkpoint.architecture.tied and checkpoint.has_own_head()):
            if adapter:
                raise ModelLoadFailed("The base model ties its output matrix to the input and has one of its own too.")
            return _open_transformers_decoder(source, config, options, context_size)
        return open_family_decoder(config, checkpoint, options, context_size, cache)
    finally:
        _release_freed_memory()


def _release_freed_memory() -> None:
    """Return memory that reading and packing freed to the system. glibc keeps it: a sixth of a 125M model."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def read_config(source: Path | GGUFModel) -> PreTrainedConfig:
    """Return transformers' configuration of a folder or a GGUF file.

    Of a model with images it is that of its text part, if an own decoder computes it.
    """
    if isinstance(source, GGUFModel):
        return source.config
    config: PreTrainedConfig = AutoConfig.from_pretrained(str(source), local_files_only=True, trust_remote_code=False)
    part = TEXT_PARTS.get((config.architectures or [""])[0])
    if part is None:
        return config
    text: PreTrainedConfig = config.get_text_config()
    text.architectures, text.tie_word_embeddings = [part.architecture], config.tie_word_embeddings
    text.eos_token_id = getattr(config, "eos_token_id", None) or text.eos_token_id
    return text if read_architecture(text) else config


def _open_transformers_decoder(
    source: Path | GGUFModel, config: PreTrainedConfig, options: LoadOptions, context_size: int
) -> TransformersDecoder:
    architecture = (config.architectures or [config.model_type])[0]
    is_on_gpu = _runs_on_gpu(config, options, architecture)
    dtype = _weight_type(options, architecture, is_on_gpu=is_on_gpu)
    model: Any = _dequantized(source) if isinstance(source, GGUFModel) else read_model(AutoModelForCausalLM, source)
    if model.config.model_type != config.model_type:  # it has images, too, and its code does not take these windows
        raise ModelLoadFailed("The model ties its output matrix to the input and has one of its own too.")
    if is_on_gpu:
        model = model.to(GPU, dtype)
    decoder = TransformersDecoder(model, slots=options.max_sequences, context_size=context_size)
    tolerance = EXACT_TOLERANCE if model.dtype == torch.float32 else ROUNDED_TOLERANCE
    try:
        verify(decoder, model, slots=options.max_sequences, tolerance=tolerance)
    except torch.OutOfMemoryError:
        raise
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise ModelLoadFailed(f"{architecture} does not run on this engine ({error}). Use another model.") from error
    if is_on_gpu or _pack(model, decoder, dtype):
        return decoder
    if dtype != torch.float32:
        raise InvalidRequest(
            f"The matrices of {architecture} cannot be packed: leave out `dtype` and `quantization`.",
            parameter="quantization" if dtype == torch.int8 else "dtype",
        )
    model = _dequantized(source) if isinstance(source, GGUFModel) else read_model(AutoModelForCausalLM, source)
    return TransformersDecoder(model, slots=options.max_sequences, context_size=context_size)


def _pack(model: PreTrainedModel, decoder: TransformersDecoder, dtype: torch.dtype) -> bool:
    """Pack the weights. Return whether the model still runs, with nearly the same logits: its code may read weights."""
    probe = [TokenSpan(0, 0, [0, 1, 2], all_logits=True)]
    expected = decoder.run(probe)
    saved_bytes = pack_linears(model, dtype)
    if dtype != torch.float32 and not saved_bytes:
        return False
    try:
        difference = (decoder.run(probe) - expected).abs().max()
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False
    tolerance = EXACT_TOLERANCE if dtype == torch.float32 else ROUNDED_TOLERANCE
    return bool(difference <= tolerance * expected.abs().max())


def _runs_on_gpu(config: PreTrainedConfig, options: LoadOptions, architecture: str) -> bool:
    """Return whether transformers' code computes the model on the GPU. It does not split layers."""
    if not options.gpu_layers or not torch.cuda.is_available():
        return False
    layers = config.get_text_config().num_hidden_layers
    if options.gpu_layers < layers:
        raise InvalidRequest(
            f"{architecture} runs on one device: `gpu_layers` must be 0, or {layers} or more.", parameter="gpu_layers"
        )
    return True


def _weight_type(options: LoadOptions, architecture: str, *, is_on_gpu: bool) -> torch.dtype:
    """Return the type of weights in transformers' code. Raise InvalidRequest for one that it does not have."""
    quantizations = ("none",) if is_on_gpu else ("none", "int8")
    if options.quantization not in quantizations:
        allowed = " or ".join(quantizations)
        raise InvalidRequest(f"`quantization` must be {allowed} for {architecture}.", parameter="quantization")
    if is_on_gpu:
        return GPU_DTYPES[options.dtype]
    dtype = torch.int8 if options.quantization == "int8" else DTYPES[options.dtype]
    if dtype != torch.float32 and not packs(dtype):
        name, kind = ("quantization", "int8") if dtype == torch.int8 else ("dtype", "bfloat16")
        raise InvalidRequest(
            f"This processor has no {kind} kernels for {architecture}: leave out `{name}`.", parameter=name
        )
    return dtype


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
