"""The architecture of a model of a family that the engine's own decoders compute, read from its configuration."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from inference.engine.formats import BEFORE, FAMILIES, Family

# Their frequencies do not depend on the length, or only beyond `rope_limit`.
ROPE_TYPES = ("default", "linear", "llama3", "yarn", "longrope")
ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu"}  # the second one by its approximation with tanh
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotary positions: frequencies, [rotated numbers of a head / 2], and a factor of cosine and sine."""

    frequencies: Tensor
    scale: float


@dataclass(frozen=True)
class Architecture:
    """Sizes and features of a model.

    ropes: of each layer, the rotary positions or None. All rotate the same number of a head's first numbers.
    windows: of each layer, the last positions that a token attends to, itself included; 0 is all.
    query_scalar: scores of attention are divided by its square root.
    attention_cap, logit_cap: scores and logits are less than these, by a hyperbolic tangent; 0 is none.
    logit_divisor: what logits are divided by, before `logit_cap`.
    """

    family: Family
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    activation: str
    ropes: tuple[Rope | None, ...]
    windows: tuple[int, ...]
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    tied: bool
    query_scalar: float
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    logit_divisor: float = 1.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0

    @property
    def qkv_heads(self) -> int:
        return self.heads + 2 * self.kv_heads

    @property
    def rotated(self) -> int:
        """Return how many of a head's numbers are rotated."""
        return next((2 * len(rope.frequencies) for rope in self.ropes if rope), 0)

    @property
    def is_plain(self) -> bool:
        """Return whether layers are Llama's, but for biases, windows, and norms of each query and key head."""
        scales = (self.attention_cap, self.logit_cap, self.logit_divisor, self.embedding_scale, self.residual_scale)
        return (
            self.family.norms == BEFORE
            and self.family.query_key_norms != "row"
            and self.activation == "silu"
            and len(set(self.ropes)) == 1
            and self.rotated == self.head_dim == self.query_scalar
            and scales == (0, 0, 1, 1, 1)
        )

    def truncated(self) -> "Architecture":
        """Return the architecture with one layer and few tokens, for verification."""
        vocabulary = min(self.vocabulary, 64)
        return replace(self, layers=1, vocabulary=vocabulary, windows=self.windows[:1], ropes=self.ropes[:1])


def read_architecture(config: PreTrainedConfig) -> Architecture | None:
    """Return the architecture of a configuration, or None if any of it is unknown to this code."""
    family = FAMILIES.get((config.architectures or [""])[0])
    if family is None or family.model_type != config.model_type:
        return None
    read = _Reader(config, family)
    activation, ropes = getattr(config, family.activation), read.ropes()
    is_known = (
        activation in ACTIVATIONS
        and ropes is not None
        and set(read.layer_types()) <= {FULL, SLIDING}
        and not getattr(config, "use_bidirectional_attention", None)
        and getattr(config, "is_causal", True)
        and config.num_attention_heads % config.num_key_value_heads == 0
        and getattr(config, "attention_multiplier", 1) > 0
    )
    if not is_known or ropes is None:
        return None
    bias = bool(read("attention_bias", False))
    return Architecture(
        family=family,
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=read.head_dim,
        norm_eps=config.rms_norm_eps,
        activation=ACTIVATIONS[activation],
        ropes=ropes,
        windows=tuple(read("sliding_window", 0) if kind == SLIDING else 0 for kind in read.layer_types()),
        qkv_bias=bias or family.has_qkv_bias,
        output_bias=bias,
        mlp_bias=bool(read("mlp_bias", False)),
        tied=bool(config.tie_word_embeddings),
        query_scalar=read.query_scalar(),
        attention_cap=read("attn_logit_softcapping", 0.0),
        logit_cap=read("final_logit_softcapping", 0.0),
        logit_divisor=read("logits_scaling", 1.0),
        embedding_scale=math.sqrt(config.hidden_size) if family.scales_embedding else read("embedding_multiplier", 1.0),
        residual_scale=read("residual_multiplier", 1.0),
    )


class _Reader:
    """Settings of a configuration as its family's code reads them."""

    def __init__(self, config: PreTrainedConfig, family: Family) -> None:
        self._config, self._family = config, family
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def __call__(self, name: str, default: Any) -> Any:
        """Return an optional setting, or the default if the code does not read it."""
        value = getattr(self._config, name, None) if name in self._family.reads else None
        return default if value is None else value

    def layer_types(self) -> list[str]:
        """Return the type of each layer. Without types, a window is that of all."""
        kinds: list[str] = self("layer_types", [SLIDING] * self._config.num_hidden_layers)
        return kinds

    def query_scalar(self) -> float:
        if "attention_multiplier" in self._family.reads:
            return float(self._config.attention_multiplier) ** -2
        return float(self("query_pre_attn_scalar", self.head_dim))

    def ropes(self) -> tuple[Rope | None, ...] | None:
        """Return the rotary positions of each layer, or None if any are unknown to this code."""
        kinds = self.layer_types() if self._family.has_rope_types else [""] * self._config.num_hidden_layers
        known = {kind: self._rope(kind) for kind in set(kinds)}
        if any(rope is None for rope in known.values()):
            return None
        rotates = self("no_rope_layers", [True] * len(kinds))
        return tuple(known[kind] if rotated else None for kind, rotated in zip(kinds, rotates, strict=False))

    def _rope(self, kind: str) -> Rope | None:
        parameters = self._config.rope_parameters
        parameters = parameters[kind] if kind else parameters
        part = parameters.get("partial_rotary_factor", 1.0)
        rotated = int(self.head_dim * part)
        is_read = part == 1.0 or "partial_rotary_factor" in self._family.reads
        if parameters.get("rope_type") not in ROPE_TYPES or not is_read or rotated % 2 or not rotated:
            return None
        if parameters["rope_type"] == "default":
            exponents = torch.arange(0, rotated, 2, dtype=torch.float) / rotated
            return Rope(1.0 / (parameters["rope_theta"] ** exponents), 1.0)
        compute, layer_type = ROPE_INIT_FUNCTIONS[parameters["rope_type"]], {"layer_type": kind} if kind else {}
        frequencies, scale = compute(self._config, torch.device("cpu"), **layer_type)
        return Rope(frequencies, float(scale)) if len(frequencies) * 2 == rotated else None


def rope_limit(config: PreTrainedConfig) -> int | None:
    """Return the length beyond which transformers rotates all positions otherwise, or None.

    Cached keys have the rotation of the length that they were computed with.
    """
    parameters: dict[str, Any] = getattr(config.get_text_config(), "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    limits = [kind["original_max_position_embeddings"] for kind in kinds if kind.get("rope_type") == "longrope"]
    return min(limits, default=None)
