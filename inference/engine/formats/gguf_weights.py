"""GGUF files through transformers: their configuration, and their tensors as float32 under transformers' names.

Whatever a file's own quantisation is, it is undone as the file is read: speed and memory are those of float32, or of
the `quantization` that the load asks for.
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
    """A file's content. `tensors` are float32, by transformers' names."""

    config: PreTrainedConfig
    tensors: dict[str, Tensor]


def read_gguf(file: Path) -> GGUFModel:
    """Raises ModelLoadFailed for an architecture that transformers does not read, besides what it raises itself."""
    architecture = read_gguf_header(file).architecture
    if architecture not in GGUF_SUPPORTED_ARCHITECTURES:
        raise ModelLoadFailed(f"GGUF files of {architecture} are not read. Use its safetensors folder.")
    read: Any = load_gguf_checkpoint  # it has no types, nor have the Auto classes
    auto: Any = AutoModelForCausalLM
    config = AutoConfig.for_model(**read(str(file))["config"])
    with torch.device("meta"):
        names = auto.from_config(config)
    tensors = read(str(file), return_tensors=True, model_to_load=names, torch_dtype=torch.float32)
    config.architectures = [type(names).__name__]
    return GGUFModel(config, {name: tensor.float() for name, tensor in tensors["tensors"].items()})
