"""Families of causal models that the engine's own decoders compute, each by what differs from Llama.

The source of each is transformers' modelling code. All other architectures run through that code.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class NormNames:
    """Names of a layer's norms in a checkpoint, of inputs and outputs of attention and MLP. Empty: there is none."""

    attention: str = ""
    attention_output: str = ""
    mlp: str = ""
    mlp_output: str = ""


BEFORE = NormNames(attention="input_layernorm", mlp="post_attention_layernorm")
AFTER = NormNames(attention_output="post_attention_layernorm", mlp_output="post_feedforward_layernorm")
AROUND = NormNames(
    "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of architectures.

    name: as its makers write it.
    model_type: transformers' name.
    reads: optional settings that its code reads. Others that stand in a configuration have no effect there, either.
    activation: name of the setting of the MLP's activation.
    norms: of a layer. norm_offset: what is added to the weights of all norms.
    query_key_norms: of each head, or of all query heads together and all key heads together.
    is_fused: one matrix of the checkpoint is queries, keys and values, and one is gate and up.
    has_qkv_bias: queries, keys and values have biases without a setting.
    scales_embedding: rows of the embedding are multiplied by the square root of their size.
    has_rope_types: each type of layers has its own rotary positions.
    """

    name: str
    model_type: str
    reads: frozenset[str] = frozenset()
    activation: str = "hidden_act"
    norms: NormNames = BEFORE
    norm_offset: float = 0.0
    query_key_norms: Literal["none", "head", "row"] = "none"
    is_fused: bool = False
    has_qkv_bias: bool = False
    scales_embedding: bool = False
    has_rope_types: bool = False


BIASES = frozenset({"attention_bias", "mlp_bias"})
WINDOWS = frozenset({"sliding_window", "layer_types"})
# By the architecture's name in a configuration.
FAMILIES = {
    "LlamaForCausalLM": Family(name="Llama", model_type="llama", reads=BIASES),
    "MistralForCausalLM": Family(name="Mistral", model_type="mistral", reads=frozenset({"sliding_window"})),
    "Qwen2ForCausalLM": Family(name="Qwen2", model_type="qwen2", reads=WINDOWS, has_qkv_bias=True),
    "Qwen3ForCausalLM": Family(
        name="Qwen3", model_type="qwen3", reads=WINDOWS | {"attention_bias"}, query_key_norms="head"
    ),
    "SmolLM3ForCausalLM": Family(name="SmolLM3", model_type="smollm3", reads=BIASES | WINDOWS | {"no_rope_layers"}),
    "Gemma2ForCausalLM": Family(
        name="Gemma 2",
        model_type="gemma2",
        reads=WINDOWS
        | {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"},
        activation="hidden_activation",
        norms=AROUND,
        norm_offset=1.0,
        scales_embedding=True,
    ),
    "Gemma3ForCausalLM": Family(
        name="Gemma 3",
        model_type="gemma3_text",
        reads=WINDOWS | {"attention_bias", "query_pre_attn_scalar", "final_logit_softcapping"},
        activation="hidden_activation",
        norms=AROUND,
        norm_offset=1.0,
        query_key_norms="head",
        scales_embedding=True,
        has_rope_types=True,
    ),
    "Phi3ForCausalLM": Family(
        name="Phi-3", model_type="phi3", reads=frozenset({"sliding_window", "partial_rotary_factor"}), is_fused=True
    ),
    "Olmo2ForCausalLM": Family(
        name="OLMo 2", model_type="olmo2", reads=frozenset({"attention_bias"}), norms=AFTER, query_key_norms="row"
    ),
    "Olmo3ForCausalLM": Family(
        name="OLMo 3",
        model_type="olmo3",
        reads=WINDOWS | {"attention_bias"},
        norms=AFTER,
        query_key_norms="row",
        has_rope_types=True,
    ),
    "GraniteForCausalLM": Family(
        name="Granite",
        model_type="granite",
        reads=BIASES | {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"},
    ),
}


@dataclass(frozen=True)
class TextPart:
    """The text part of an architecture with images, which are not read.

    architecture: of the part alone. defaults: transformers' values of settings that a configuration may lack.
    """

    architecture: str
    defaults: dict[str, int]


TEXT_PARTS = {
    "Gemma3ForConditionalGeneration": TextPart(
        "Gemma3ForCausalLM",
        {
            "max_position_embeddings": 131_072,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 262_208,
        },
    )
}

# By transformers' names: types of models whose code takes masks with the configuration's sliding window.
WINDOWED_TYPES = frozenset(family.model_type for family in FAMILIES.values() if "sliding_window" in family.reads) | {
    "cohere2", "exaone4", "gpt_oss", "ministral", "mixtral", "qwen2_moe", "qwen3_moe", "starcoder2",
}  # fmt: skip
# Types whose code attends to all positions, even if the configuration names a window.
FULL_TYPES = frozenset(family.model_type for family in FAMILIES.values()) - WINDOWED_TYPES
