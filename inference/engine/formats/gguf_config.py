"""transformers' configuration from the header of a GGUF file."""

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, LlamaConfig, PreTrainedConfig
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.families import FAMILIES
from inference.engine.formats.gguf_header import GGUFHeader
from inference.engine.formats.inspection import GGUF_FAMILIES

ROPE_FREQUENCIES = "rope_freqs.weight"
MAX_SIZE = 2**24  # of a dimension; the largest known vocabulary is a sixtieth of it

_SIZES = ("block_count", "embedding_length", "feed_forward_length", "attention.head_count")
# Keys that change what a model computes, with the values that turn them off. Who does not read one refuses others.
_FEATURES: dict[str, tuple[int | float | bool, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.scale": (0,),
    "attention.shared_kv_layers": (0,),
    "attention.sliding_window": (0,),
    "attention.temperature_scale": (0,),
    "attn_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "expert_count": (0,),
    "final_logit_softcapping": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
    "rope.scale_linear": (0, 1),
    "rope.scaling.alpha": (0,),
    "rope.scaling.attn_factor": (0, 1),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_beta_fast": (32,),
    "rope.scaling.yarn_beta_slow": (1,),
    "rope.scaling.yarn_ext_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (0,),
}
_READ_FEATURES = {
    "gemma2": {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"},
    "gemma3": {"attention.sliding_window", "final_logit_softcapping"},
    "phi3": {"attention.sliding_window"},
    "granite": {"attention.scale", "embedding_scale", "logit_scale", "residual_scale"},
}
# A file does not say which layers have windows, nor the scale of attention. These are llama.cpp's: one of so many
# layers attends to all positions, and the largest model, known by its layers, has another scale.
_WINDOW_PATTERNS = {"gemma2": 2, "gemma3": 6}
_LAYERS_OF_LARGEST = {"gemma2": 46, "gemma3": 62}


def read_gguf_config(header: GGUFHeader) -> PreTrainedConfig:
    """Return transformers' configuration of a header."""
    architecture, values = header.architecture, header.values
    refuse_features(header, _READ_FEATURES.get(architecture, ()))
    sizes = {key: _size(header, key) for key in _SIZES}
    if sizes["block_count"] > len(header.tensors):
        raise ModelLoadFailed("The header claims more layers than the file has tensors. Convert it again.")
    heads = sizes["attention.head_count"]
    head_dim = _size(header, "attention.key_length", max(1, sizes["embedding_length"] // heads))
    for key in ("rope.dimension_count", "attention.value_length"):
        if _size(header, key, head_dim) != head_dim:
            raise ModelLoadFailed(f"The header's {key} differs from its head size {head_dim}, which is not supported.")
    renamed: Any = GGUF_CONFIG_MAPPING["tokenizer"]
    tokens = {name: values[f"tokenizer.{key}"] for key, name in renamed.items() if f"tokenizer.{key}" in values}
    embedding = header.tensors.get("token_embd.weight")
    biased = "blk.0.attn_q.bias" in header.tensors and architecture != "qwen2"
    config: PreTrainedConfig = AutoConfig.for_model(
        FAMILIES[GGUF_FAMILIES[architecture]].model_type,
        architectures=[GGUF_FAMILIES[architecture]],
        max_position_embeddings=header.context_size,
        num_hidden_layers=sizes["block_count"],
        hidden_size=sizes["embedding_length"],
        intermediate_size=sizes["feed_forward_length"],
        num_attention_heads=heads,
        num_key_value_heads=_size(header, "attention.head_count_kv", heads),
        head_dim=head_dim,
        rms_norm_eps=_positive_number(header, "attention.layer_norm_rms_epsilon"),
        vocab_size=embedding.shape[0] if embedding and embedding.shape else 0,
        tie_word_embeddings="output.weight" not in header.tensors,
        **_family_settings(header, head_dim),
        **({"attention_bias": True} if biased else {}),
        **({"mlp_bias": True} if "blk.0.ffn_gate.bias" in header.tensors else {}),
        **tokens,
    )
    return config


def refuse_features(header: GGUFHeader, read: Collection[str]) -> None:
    """Raise ModelLoadFailed if a header turns on a feature that is not among those `read`."""
    for key, off in _FEATURES.items():
        name = f"{header.architecture}.{key}"
        if key not in read and (name in header.array_lengths or header.values.get(name, off[0]) not in off):
            raise ModelLoadFailed(
                f"GGUF files of {header.architecture} with {key} are not supported. Use another model."
            )


def _family_settings(header: GGUFHeader, head_dim: int) -> dict[str, Any]:
    """Return the settings that not all families have, and the rotary positions."""
    architecture = header.architecture
    if architecture == "phi3":
        key = "phi3.attention.sliding_window"
        has_window = header.values.get(key) or key in header.array_lengths
        window = _size(header, "attention.sliding_window") if has_window else None
        return {"rope_parameters": _rope(header), "sliding_window": window}
    if architecture == "granite":
        return {"rope_parameters": _rope(header)} | _granite_scales(header, head_dim)
    if architecture not in _WINDOW_PATTERNS:
        return {"rope_parameters": _rope(header)}
    layers, pattern = _size(header, "block_count"), _WINDOW_PATTERNS[architecture]
    if _size(header, "attention.sliding_window_pattern", pattern) != pattern:
        raise ModelLoadFailed(f"GGUF files of {architecture} with another pattern of windows are not supported.")
    is_largest = layers == _LAYERS_OF_LARGEST[architecture]
    scalar = _size(header, "embedding_length") // _size(header, "attention.head_count") if is_largest else head_dim
    settings: dict[str, Any] = {
        "layer_types": ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(layers)],
        "query_pre_attn_scalar": scalar,
    }
    if architecture == "gemma2":
        return settings | {
            "rope_parameters": _rope(header),
            "sliding_window": _size(header, "attention.sliding_window", 4096),
            "attn_logit_softcapping": _positive_number(header, "attn_logit_softcapping", 50.0),
            "final_logit_softcapping": _positive_number(header, "final_logit_softcapping", 30.0),
        }
    cap = header.values.get(f"{architecture}.final_logit_softcapping")
    near = {"rope_type": "default", "rope_theta": _positive_number(header, "rope.freq_base_swa", 10_000.0)}
    return settings | {
        "rope_parameters": {"full_attention": _rope(header, 1_000_000.0), "sliding_attention": near},
        "sliding_window": _size(header, "attention.sliding_window"),
        "final_logit_softcapping": cap and _positive_number(header, "final_logit_softcapping"),
    }


def _granite_scales(header: GGUFHeader, head_dim: int) -> dict[str, float]:
    """Return the factors of a Granite model. One that a file leaves out, or gives as 0, has no effect."""
    if header.values.get("granite.rope.scaling.finetuned", True) is not True:
        raise ModelLoadFailed("GGUF files of granite without rotary positions are not supported. Use another model.")

    def scale(key: str, default: float = 1.0) -> float:
        name = f"granite.{key}"
        has_effect = name in header.array_lengths or header.values.get(name, 0) != 0
        return _positive_number(header, key) if has_effect else default

    return {
        "attention_multiplier": scale("attention.scale", head_dim**-0.5),
        "embedding_multiplier": scale("embedding_scale"),
        "residual_multiplier": scale("residual_scale"),
        "logits_scaling": scale("logit_scale"),
    }


def _rope(header: GGUFHeader, default_base: float = 10_000.0) -> dict[str, Any]:
    """Return transformers' parameters of rotary positions. Raise ModelLoadFailed for a scaling without formula here."""
    rope = {"rope_type": "default", "rope_theta": _positive_number(header, "rope.freq_base", default_base)}
    # A file may leave out the type of a factor: llama.cpp takes it as linear.
    has_factor = header.values.get(f"{header.architecture}.rope.scaling.factor", 1) != 1
    kind = header.values.get(f"{header.architecture}.rope.scaling.type", "linear" if has_factor else "none")
    if kind == "none":
        return rope
    if kind not in ("linear", "yarn"):
        raise ModelLoadFailed(f"GGUF files with rope scaling {str(kind)[:40]} are not supported. Use another model.")
    rope |= {"rope_type": kind, "factor": _positive_number(header, "rope.scaling.factor")}
    if kind == "yarn":
        rope["original_max_position_embeddings"] = _size(header, "rope.scaling.original_context_length")
    return rope


def llama3_rope(config: PreTrainedConfig, factors: Tensor) -> dict[str, Any]:
    """Return the parameters that a Llama 3 file's divisors of frequencies were made with.

    Raise ModelLoadFailed for other divisors.
    """
    if "rope_theta" not in config.rope_parameters:
        raise ModelLoadFailed(
            f"The file has {ROPE_FREQUENCIES}, which {config.model_type} does not have. Use another model."
        )
    rope: dict[str, Any] = config.rope_parameters | {
        "rope_type": "llama3",
        "factor": float(factors.max()),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float) / config.head_dim
    stated = 1.0 / (rope["rope_theta"] ** exponents * factors) if len(factors) == len(exponents) else None
    llama3 = LlamaConfig(head_dim=config.head_dim, rope_parameters=rope)
    frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](llama3, torch.device("cpu"))
    if stated is None or not torch.allclose(frequencies, stated, rtol=1e-4):
        raise ModelLoadFailed(f"The divisors in {ROPE_FREQUENCIES} are not Llama 3's. Use another model.")
    return rope


def _size(header: GGUFHeader, key: str, default: int | None = None) -> int:
    """Return a size from 1 to MAX_SIZE."""
    name = f"{header.architecture}.{key}"
    value = header.values.get(name, None if name in header.array_lengths else default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_SIZE:
        raise ModelLoadFailed(f"The header's {name} must be one number from 1 to {MAX_SIZE}. Convert the file again.")
    return value


def _positive_number(header: GGUFHeader, key: str, default: float | None = None) -> float:
    name = f"{header.architecture}.{key}"
    value = header.values.get(name, None if name in header.array_lengths else default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelLoadFailed(f"The header's {name} must be a positive number. Convert the file again.")
    return float(value)
