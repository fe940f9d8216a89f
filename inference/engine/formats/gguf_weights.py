"""GGUF weights, read through transformers as float32 tensors with transformers' names.

A file's own quantization is undone. Speed and memory are those of float32, or of the `quantization` of the load.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES, load_gguf_checkpoint

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.gguf_header import read_gguf_header


@dataclass(frozen=True)
class GGUFModel:
    """The content of a GGUF file. tensors: float32, by transformers' names."""

    config: PreTrainedConfig
    tensors: dict[str, Tensor]


def read_gguf(file: Path) -> GGUFModel:
    """Return the content of a file.

    Raise ModelLoadFailed for an architecture that transformers does not support, and whatever transformers raises.
    """
    architecture = read_gguf_header(file).architecture
    if architecture not in GGUF_SUPPORTED_ARCHITECTURES:
        raise ModelLoadFailed(f"GGUF files of {architecture} are not supported. Use its safetensors folder.")
    read: Any = load_gguf_checkpoint  # untyped, as are the Auto classes
    auto: Any = AutoModelForCausalLM
    config = AutoConfig.for_model(**read(str(file))["config"])
    with torch.device("meta"):
        model = auto.from_config(config)  # without weights, for the names of its tensors
    tensors = read(str(file), return_tensors=True, model_to_load=model, torch_dtype=torch.float32)
    config.architectures = [type(model).__name__]
    return GGUFModel(config, {name: tensor.float() for name, tensor in tensors["tensors"].items()})
