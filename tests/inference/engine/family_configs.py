"""Configurations of every family of models that is tested, at any size, with all that the family has."""

from typing import Any

from transformers import (
    Cohere2Config,
    CohereConfig,
    Exaone4Config,
    Gemma2Config,
    Gemma3TextConfig,
    Glm4Config,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    MinistralConfig,
    MistralConfig,
    MixtralConfig,
    NemotronConfig,
    Olmo2Config,
    Olmo3Config,
    OlmoConfig,
    OPTConfig,
    Phi3Config,
    PhiConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
    StableLmConfig,
    Starcoder2Config,
)

MIXED = ["sliding_attention", "full_attention"]


def own_families(sizes: dict[str, Any], *, window: int) -> dict[str, PreTrainedConfig]:
    """Return a configuration of each family that the engine's own decoders compute, by its name.

    sizes: as Llama's, with an even number of layers. Heads have `hidden_size` numbers together in all families.
    """
    sizes = sizes | {"pad_token_id": None, "head_dim": sizes["hidden_size"] // sizes["num_attention_heads"]}
    layers = {"layer_types": MIXED * (sizes["num_hidden_layers"] // 2), "sliding_window": window}
    slides = {"use_sliding_window": True, **layers}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    return {
        "Llama": LlamaConfig(**sizes),
        "Mistral": MistralConfig(**sizes, sliding_window=window),
        "Qwen2": Qwen2Config(**sizes, **slides),
        "Qwen3": Qwen3Config(**sizes, **slides),
        "SmolLM3": SmolLM3Config(**sizes, **slides, no_rope_layers=[1, 0] * (sizes["num_hidden_layers"] // 2)),
        "Gemma 2": Gemma2Config(
            **sizes, **layers, query_pre_attn_scalar=5, attn_logit_softcapping=3.0, final_logit_softcapping=20.0
        ),
        "Gemma 3": Gemma3TextConfig(
            **sizes, **layers, query_pre_attn_scalar=5, rope_scaling={"rope_type": "linear", "factor": 8.0}
        ),
        "Phi-3": Phi3Config(**sizes, sliding_window=window, partial_rotary_factor=0.5),
        "OLMo 2": Olmo2Config(**sizes),
        "OLMo 3": Olmo3Config(**sizes, **layers, rope_scaling=yarn),
        "Granite": GraniteConfig(
            **sizes, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.2, logits_scaling=4.0
        ),
    }


def other_families(sizes: dict[str, Any], *, window: int) -> dict[str, PreTrainedConfig]:
    """Return a configuration of each tested family that transformers' code computes. sizes: as for `own_families`."""
    sizes = sizes | {"pad_token_id": None, "head_dim": sizes["hidden_size"] // sizes["num_attention_heads"]}
    layers = {"layer_types": MIXED * (sizes["num_hidden_layers"] // 2), "sliding_window": window}
    experts = {"num_experts_per_tok": 2, "moe_intermediate_size": sizes["intermediate_size"]}
    gpt2 = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"}
    gpt2 |= {"n_positions": "max_position_embeddings", "vocab_size": "vocab_size", "n_inner": "intermediate_size"}
    return {
        "Cohere": CohereConfig(**sizes),
        "Cohere 2": Cohere2Config(**sizes, **layers),
        "EXAONE 4": Exaone4Config(**sizes, **layers),
        "GLM-4": Glm4Config(**sizes),
        "GPT-2": GPT2Config(**{name: sizes[ours] for name, ours in gpt2.items()}, initializer_range=0.2),
        "GPT-NeoX": GPTNeoXConfig(**sizes),
        "gpt-oss": GptOssConfig(**sizes, **layers, num_local_experts=4, num_experts_per_tok=2),
        "Ministral": MinistralConfig(**sizes, **layers),
        "Mixtral": MixtralConfig(**sizes, sliding_window=window, num_local_experts=4),
        "Nemotron": NemotronConfig(**sizes),
        "OLMo": OlmoConfig(**sizes),
        "OPT": OPTConfig(**sizes, ffn_dim=sizes["intermediate_size"], word_embed_proj_dim=sizes["hidden_size"]),
        "Phi": PhiConfig(**sizes),
        "Qwen2 MoE": Qwen2MoeConfig(**sizes, **layers, **experts, use_sliding_window=True, num_experts=4),
        "Qwen3 MoE": Qwen3MoeConfig(**sizes, **experts, sliding_window=window, use_sliding_window=True, num_experts=4),
        "StableLM": StableLmConfig(**sizes),
        "StarCoder 2": Starcoder2Config(**sizes, sliding_window=window),
    }
