"""Which decoder runs a causal model: our own where its architecture is known, transformers' code otherwise."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.formats.gguf_weights import GGUFModel
from inference.engine.model_status import LoadOptions
from inference.engine.models.checkpoint import Checkpoint, FolderTensors, HeldTensors, read_architecture
from inference.engine.models.llama_family import DTYPES, EXACT, OwnDecoder, open_own_decoder
from inference.engine.models.reference import verify
from inference.engine.models.transformers_decoder import HFDecoder

QUANTIZATIONS = ("none", "int8")


def check_options(options: LoadOptions) -> None:
    if options.dtype not in DTYPES:
        raise InvalidRequest(f"`dtype` must be one of {', '.join(DTYPES)}.", parameter="dtype")
    if options.quantization not in QUANTIZATIONS:
        raise InvalidRequest(f"`quantization` must be one of {', '.join(QUANTIZATIONS)}.", parameter="quantization")


def open_decoder(source: Path | GGUFModel, options: LoadOptions, context_size: int) -> OwnDecoder | HFDecoder:
    """A decoder of a folder or a GGUF file, seen to give what transformers gives.

    Raises ModelLoadFailed or InvalidRequest.
    """
    config = read_config(source)
    architecture = read_architecture(config)
    tensors = HeldTensors(source.tensors) if isinstance(source, GGUFModel) else FolderTensors(source)
    checkpoint = Checkpoint(tensors, architecture) if architecture else None
    try:
        if checkpoint is None or (checkpoint.architecture.tied and checkpoint.has_own_head()):
            return _by_transformers(source, config, options, context_size)
        return open_own_decoder(config, checkpoint, options, context_size)
    finally:
        _give_memory_back()


def _give_memory_back() -> None:
    """What reading and packing took for a moment, which glibc keeps otherwise: a sixth of a model of 125M."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def read_config(source: Path | GGUFModel) -> PreTrainedConfig:
    if isinstance(source, GGUFModel):
        return source.config
    config: PreTrainedConfig = AutoConfig.from_pretrained(str(source), local_files_only=True, trust_remote_code=False)
    return config


def _by_transformers(
    source: Path | GGUFModel, config: PreTrainedConfig, options: LoadOptions, context_size: int
) -> HFDecoder:
    architecture = (config.architectures or [config.model_type])[0]
    for name, value, only in (
        ("quantization", options.quantization, "none"),
        ("dtype", options.dtype.replace("auto", "float32"), "float32"),
    ):
        if value != only:
            raise InvalidRequest(f"`{name}` must be {only} for {architecture}.", parameter=name)
    model = _dequantised(source) if isinstance(source, GGUFModel) else read_model(AutoModelForCausalLM, source)
    decoder = HFDecoder(model, slots=options.max_sequences, context_size=context_size)
    try:
        verify(decoder, model, slots=options.max_sequences, tolerance=EXACT)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise ModelLoadFailed(f"{architecture} does not run on this engine ({error}). Use another model.") from error
    return decoder


def _dequantised(source: GGUFModel) -> PreTrainedModel:
    auto: Any = AutoModelForCausalLM
    model: Any = auto.from_config(source.config, dtype=torch.float32)
    missing = model.load_state_dict(source.tensors, strict=False, assign=True).missing_keys
    model.tie_weights()
    if missing and not (missing == ["lm_head.weight"] and source.config.tie_word_embeddings):
        raise ModelLoadFailed(f"The file lacks {len(missing)} tensors, among them {missing[0]}.")
    loaded: PreTrainedModel = model.eval()
    return loaded


def read_model(auto: Any, path: Path) -> PreTrainedModel:
    """The model with all its weights from the folder; raises ModelLoadFailed when some are missing.

    auto: one of transformers' Auto classes.
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
    # A pooler is no part of what is used; without this check the rest would silently be random.
    missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
    if missing:
        raise ModelLoadFailed(f"The weights lack {len(missing)} tensors, among them {missing[0]}.")
    if model.config.is_encoder_decoder:
        raise ModelLoadFailed("Encoder-decoder models are not supported.")
    return model
