"""GGUF files written from folders of safetensors, as a converter writes them."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

KEPT_WHOLE = ("norm", "bias")  # never quantised, as in every converter
K_FORMS = ("Q4_K", "Q5_K", "Q6_K")
NORMAL, CONTROL = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL


def save_gguf(
    source: Path,
    target: Path,
    form: str = "F32",
    rope_factors: list[float] | None = None,
    value_form: str | None = None,
) -> Path:
    """The model in the folder `source` as the file `target`, its matrices in `form` (F32, Q8_0, ...).

    value_form: of the matrices of values, which converters often quantize less. Matrices of the K forms are random.
    """
    config = json.loads((source / "config.json").read_text())
    config["model_type"] = config["model_type"].removesuffix("_text")
    writer = gguf.GGUFWriter(target, config["model_type"])
    _write_sizes(writer, config)
    _write_tokenizer(writer, source, config)
    _write_tensors(writer, source, config, form, value_form or form)
    if rope_factors := rope_factors or _rope_factors(config):
        writer.add_tensor("rope_freqs.weight", np.array(rope_factors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _write_sizes(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"].get("full_attention", config["rope_parameters"])
    writer.add_rope_freq_base(rope["rope_theta"])
    if config["model_type"] in ("gemma2", "gemma3", "phi3"):
        writer.add_sliding_window(config["sliding_window"])
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config["model_type"] == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_key_length(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def _rope_factors(config: dict) -> list[float]:
    """The divisors of frequencies that a converter writes for Llama 3."""
    rope = config["rope_parameters"]
    if rope.get("rope_type") != "llama3":
        return []
    exponents = np.arange(0, config["head_dim"], 2) / config["head_dim"]
    waves = 2 * np.pi * rope["rope_theta"] ** exponents
    old, low, high = (rope[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    smooth = ((old / waves - low) / (high - low)).clip(0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).tolist()


def _write_tokenizer(writer: gguf.GGUFWriter, source: Path, config: dict) -> None:
    backend = json.loads((source / "tokenizer.json").read_text())
    special = {token["id"] for token in backend["added_tokens"]}
    vocabulary = backend["model"]["vocab"] | {token["content"]: token["id"] for token in backend["added_tokens"]}
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    rest = range(len(tokens), config["vocab_size"])  # rows of the embedding that no token has
    types = [CONTROL if place in special else NORMAL for place in range(len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *(f"[PAD{place}]" for place in rest)])
    writer.add_token_types([*types, *(gguf.TokenType.UNUSED for _ in rest)])
    writer.add_token_merges([" ".join(pair) for pair in backend["model"]["merges"]])
    for name in ("bos", "eos", "pad"):
        if config[f"{name}_token_id"] is not None:
            getattr(writer, f"add_{name}_token_id")(config[f"{name}_token_id"])
    template = source / "chat_template.jinja"
    if template.exists():
        writer.add_chat_template(template.read_text())


def _write_tensors(writer: gguf.GGUFWriter, source: Path, config: dict, form: str, value_form: str) -> None:
    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == config["model_type"])
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, tensor in load_file(source / "model.safetensors").items():
        stem, _, kind = name.rpartition(".")
        if config["model_type"] in ("llama", "smollm3", "granite") and stem.endswith(("q_proj", "k_proj")):
            heads = config["num_attention_heads" if stem.endswith("q_proj") else "num_key_value_heads"]
            tensor = _interleaved(tensor, heads)
        data = tensor.float().numpy()
        if config["model_type"].startswith("gemma") and stem.endswith("norm"):
            data = data + 1
        stored = f"{names.get_name(stem)}.{kind}"
        if data.ndim == 1 or any(part in name for part in KEPT_WHOLE):
            writer.add_tensor(stored, data)
        else:
            kind = gguf.GGMLQuantizationType[value_form if stem.endswith("v_proj") else form]
            writer.add_tensor(stored, quantized(data, kind), raw_dtype=kind)


def quantized(data: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """Return a matrix's blocks. For the K forms, which the library does not write, random ones of its magnitude."""
    if kind.name not in K_FORMS:
        return gguf.quants.quantize(data, kind)
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    draw = np.random.default_rng(len(data))
    blocks = draw.integers(0, 256, (len(data), data.shape[1] // numbers, size), dtype=np.uint8)
    scales = data.std() * draw.uniform(0.5, 1.5, blocks.shape[:2])
    halves = {"Q4_K": {0: 300, 2: 40}, "Q5_K": {0: 600, 2: 40}, "Q6_K": {208: 1400}}[kind.name]
    for place, divisor in halves.items():
        blocks[..., place : place + 2] = (scales / divisor).astype(np.float16)[..., None].view(np.uint8)
    return blocks.reshape(len(data), -1)


def _interleaved(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows in the order in which GGUF has the queries and keys of such a model: the two halves of a head in turn."""
    rows = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return rows.swapaxes(1, 2).reshape(tensor.shape).contiguous()


def dequantised(tensor: torch.Tensor, form: str) -> torch.Tensor:
    """Return a matrix after quantization to `form` and back."""
    kind = gguf.GGMLQuantizationType[form]
    stored = gguf.quants.quantize(tensor.float().numpy(), kind)
    return torch.from_numpy(np.ascontiguousarray(gguf.quants.dequantize(stored, kind)))
