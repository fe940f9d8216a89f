"""Adapters: folders of PEFT with a LoRA, which adds the product of two small matrices to some of a base model's.

The method: Hu et al. 2021, https://arxiv.org/abs/2106.09685. The folder: https://huggingface.co/docs/peft/developer_guides/checkpoint
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.model_folder import MAX_CONFIG_BYTES, check_content, read_json
from inference.engine.formats.safetensors_header import read_safetensors_header

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TARGETS = (
    "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "gate_up_proj", "down_proj",
)  # fmt: skip
FLOATS = frozenset({"F32", "F16", "BF16"})
MAX_RANK = 65_536
MAX_ALPHA = 1e6
# Initial values that leave the base model as it is. Others, such as pissa, change it.
PLAIN_INITIALIZATIONS = (None, True, False, "gaussian", "orthogonal", "eva")
# Settings of training, which say nothing about the weights. Any other setting has to be off.
TRAINING_SETTINGS = frozenset({
    "auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "eva_config", "exclude_modules", "inference_mode",
    "init_lora_weights", "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout", "megatron_core",
    "peft_type", "peft_version", "qalora_group_size", "r", "revision", "runtime_config", "target_modules", "task_type",
    "use_rslora",
})  # fmt: skip
_NAME = re.compile(r"base_model\.model\.(?P<module>[\w.]+)\.lora_(?P<factor>[AB])\.weight")


@dataclass(frozen=True)
class Adapter:
    """A LoRA on disk. base: name of its base model. scale: factor of its products. modules: names of adapted matrices.

    size_bytes, parameters: of its weights.
    """

    base: str
    scale: float
    modules: tuple[str, ...]
    size_bytes: int
    parameters: int


def is_adapter(path: Path) -> bool:
    return (path / ADAPTER_CONFIG).is_file()


def factor_name(module: str, factor: str) -> str:
    """Return the name of a module's factor in the file: A is [rank, inputs], B [outputs, rank]."""
    return f"base_model.model.{module}.lora_{factor}.weight"


def read_adapter(path: Path) -> Adapter:
    """Check a folder and return its adapter. Raise ModelLoadFailed with the reason, for example of another method."""
    check_content(path)
    config = read_json(path / ADAPTER_CONFIG, MAX_CONFIG_BYTES)
    _check_settings(config)
    rank, scale = _rank_and_scale(config)
    file = path / ADAPTER_WEIGHTS
    if not file.is_file():
        raise ModelLoadFailed(f"The folder has no {ADAPTER_WEIGHTS}. Other formats of weights are not supported.")
    header = read_safetensors_header(file)
    if header.dtypes.keys() - FLOATS:
        raise ModelLoadFailed(f"{file.name} must hold float32, bfloat16 or float16, not {min(header.dtypes)}.")
    return Adapter(
        base=_base_name(config),
        scale=scale,
        modules=_modules(header.shapes, rank),
        size_bytes=file.stat().st_size,
        parameters=header.parameters,
    )


def _check_settings(config: dict[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise ModelLoadFailed(f"The adapter's `peft_type` must be LORA, not {str(config.get('peft_type'))[:40]}.")
    if config.get("task_type") not in (None, "CAUSAL_LM"):
        raise ModelLoadFailed(f"The adapter's `task_type` must be CAUSAL_LM, not {str(config['task_type'])[:40]}.")
    if config.get("init_lora_weights") not in PLAIN_INITIALIZATIONS:
        kind = str(config["init_lora_weights"])[:40]
        raise ModelLoadFailed(
            f"The adapter's `init_lora_weights` is {kind}, which changes the base model. Convert it to a plain LoRA "
            "with PEFT's `path_initial_model_for_weight_conversion`."
        )
    for name, value in config.items():
        if value and name not in TRAINING_SETTINGS and (name, value) != ("bias", "none"):
            raise ModelLoadFailed(
                f"{ADAPTER_CONFIG} has `{name[:60]}`, which is not supported: only a plain LoRA is loaded."
            )


def _rank_and_scale(config: dict[str, Any]) -> tuple[int, float]:
    rank: Any = config.get("r")
    alpha: Any = config.get("lora_alpha")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MAX_RANK:
        raise ModelLoadFailed(f"The adapter's `r` must be an integer from 1 to {MAX_RANK}, not {str(rank)[:40]}.")
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not -MAX_ALPHA <= alpha <= MAX_ALPHA:
        raise ModelLoadFailed(f"The adapter's `lora_alpha` must be a number, not {str(alpha)[:40]}.")
    return rank, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _base_name(config: dict[str, Any]) -> str:
    """Return the last part of the base model's path: the model's id here, whoever's hub or disk it came from."""
    path = config.get("base_model_name_or_path")
    name = path.rstrip("/").rpartition("/")[2] if isinstance(path, str) else ""
    if not name.strip() or not name.isprintable() or len(name) > 255:
        raise ModelLoadFailed(f"{ADAPTER_CONFIG} does not name its base model in `base_model_name_or_path`.")
    return name


def _modules(shapes: dict[str, list[int]], rank: int) -> tuple[str, ...]:
    """Return the adapted modules of a file's tensors. Raise ModelLoadFailed for tensors that are not their factors."""
    factors: dict[str, set[str]] = {}
    for name, shape in shapes.items():
        match = _NAME.fullmatch(name)
        if match is None or match["module"].rpartition(".")[2] not in TARGETS:
            raise ModelLoadFailed(
                f"{ADAPTER_WEIGHTS} has the tensor {name[:120]}, which is not supported. An adapter can change "
                f"these matrices of its base: {', '.join(TARGETS)}."
            )
        if len(shape) != 2 or shape[0 if match["factor"] == "A" else 1] != rank:
            raise ModelLoadFailed(f"{name[:120]} has the shape {shape}, which does not have the adapter's rank {rank}.")
        factors.setdefault(match["module"], set()).add(match["factor"])
    if single := [module for module, found in factors.items() if len(found) < 2]:
        raise ModelLoadFailed(f"{ADAPTER_WEIGHTS} has one of the two matrices of {min(single)[:120]} only.")
    if not factors:
        raise ModelLoadFailed(f"{ADAPTER_WEIGHTS} has no tensors.")
    return tuple(factors)
