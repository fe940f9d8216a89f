"""Adapters with random weights, in the folders that PEFT writes."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

TARGETS = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}
FUSED_TARGETS = {"self_attn": ("qkv_proj",), "mlp": ("gate_up_proj",)}
CONFIG: dict[str, Any] = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "lora_alpha": 6, "r": 3}


def save_adapter(
    folder: Path,
    base: str,
    weights: dict[str, Tensor],
    targets: tuple[str, ...] = sum(TARGETS.values(), ()),
    layers: int = 2,
    **config: Any,
) -> Path:
    """Write an adapter of these matrices of a model. weights: of the base model, for their shapes."""
    settings = CONFIG | {"base_model_name_or_path": base, "target_modules": list(targets)} | config
    generator = torch.Generator().manual_seed(5)
    tensors = {}
    for layer in range(layers):
        for part, names in TARGETS.items():
            for name in set(names + FUSED_TARGETS[part]) & set(targets):
                module = f"model.layers.{layer}.{part}.{name}"
                outputs, inputs = weights[f"{module}.weight"].shape
                for factor, shape in (("A", (settings["r"], inputs)), ("B", (outputs, settings["r"]))):
                    tensors[f"base_model.model.{module}.lora_{factor}.weight"] = torch.randn(
                        shape, generator=generator
                    ).mul(0.1)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def adapted(weights: dict[str, Tensor], adapter: dict[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return W + scale * B @ A of every matrix that an adapter's tensors name."""
    result = {name: tensor.float() for name, tensor in weights.items()}
    for name in [name for name in adapter if ".lora_A." in name]:
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        result[f"{module}.weight"] = (
            result[f"{module}.weight"]
            + scale * adapter[name.replace("lora_A", "lora_B")].float() @ adapter[name].float()
        )
    return result
