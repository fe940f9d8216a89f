"""Low-rank adapters (Hu et al. 2021) of a frozen Llama, and the folder that PEFT and the engine load."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from inference.engine import read_gguf

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ALPHA_PER_RANK = 2


@dataclass(frozen=True)
class LoraSize:
    """Sizes of an adapter: `rank` of its matrices."""

    rank: int = 8

    @property
    def alpha(self) -> int:
        return self.rank * ALPHA_PER_RANK


class AdaptedLinear(nn.Module):
    """A frozen linear layer and a product of two trained matrices in float32; the product is 0 before training."""

    def __init__(self, base: nn.Linear, adapter: LoraSize) -> None:
        super().__init__()
        self.base, self.scale = base, adapter.alpha / adapter.rank
        self.a = nn.Parameter(torch.empty(adapter.rank, base.in_features, dtype=torch.float32))
        self.b = nn.Parameter(torch.zeros(base.out_features, adapter.rank, dtype=torch.float32))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, inputs: Tensor) -> Tensor:
        low = F.linear(inputs, self.a.to(inputs.dtype))
        return self.base(inputs) + F.linear(low, (self.b * self.scale).to(inputs.dtype))  # type: ignore[no-any-return]


def read_base(file: Path) -> LlamaForCausalLM:
    """Return the frozen model of a GGUF file in float32, which every processor computes fast."""
    content = read_gguf(file)
    config: Any = content.config
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    weights = {name: tensor.to(torch.float32) for name, tensor in content.tensors.items()}
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    rotary: Any = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config)
    model.requires_grad_(False)
    model.train(False)
    return model


def add_adapter(model: LlamaForCausalLM, adapter: LoraSize) -> None:
    """Put an untrained adapter on every target of the model."""
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, linear in list(part.named_children()):
                if name in TARGETS:
                    setattr(part, name, AdaptedLinear(linear, adapter))


def adapter_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the trained parameters with their names."""
    for name, module in model.named_modules():
        if isinstance(module, AdaptedLinear):
            yield f"{name}.lora_A.weight", module.a
            yield f"{name}.lora_B.weight", module.b


def answer_loss(model: LlamaForCausalLM, ids: Tensor, places: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy of the tokens that follow the given places. ids: [rows, length], filled right."""
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state.flatten(0, 1)[places]
    return F.cross_entropy(model.lm_head(hidden).float(), targets)


def save_adapter(folder: Path, model: nn.Module, adapter: LoraSize, base: str) -> None:
    """Write the adapter in float16 with PEFT's names and configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"base_model.model.{name}": value.detach().half() for name, value in adapter_parameters(model)}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_model.safetensors").chmod(0o644)  # safetensors writes for the owner alone
    config = {
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_alpha": adapter.alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": adapter.rank,
        "target_modules": list(TARGETS),
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
