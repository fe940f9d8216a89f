"""Writes a trained model as a folder that transformers (and, for the encoder, sentence-transformers) loads as it is."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from inference.builtin.network import Llama
from inference.builtin.tokenizer import CHAT_TEMPLATE, END, PAD, SPECIALS

MAX_NEW_TOKENS = 200


def _save_weights(path: Path, weights: dict[str, Tensor]) -> None:
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod(0o644)  # safetensors writes for the owner alone


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _config(model: Llama, architecture: str, tokenizer: Tokenizer) -> dict[str, Any]:
    sizes = asdict(model.shape)
    theta = sizes.pop("rope_theta")
    return {
        "architectures": [architecture],
        "model_type": "llama",
        **sizes,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "bos_token_id": None,
        "eos_token_id": tokenizer.token_to_id(END),
        "pad_token_id": tokenizer.token_to_id(PAD),
        "use_cache": True,
    }


def _save_tokenizer(folder: Path, tokenizer: Tokenizer, *, longest: int, chat_template: str | None) -> None:
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[token for token in SPECIALS if token not in (END, PAD)],
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
        chat_template=chat_template,
    ).save_pretrained(folder)


def save_describer(folder: Path, model: Llama, tokenizer: Tokenizer) -> None:
    """The model as a LlamaForCausalLM with tied embeddings, its tokenizer with the chat template, and its defaults."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": weight for name, weight in model.exported().items()}
    _save_weights(folder / "model.safetensors", weights)
    config = _config(model, "LlamaForCausalLM", tokenizer)
    _write_json(folder / "config.json", config)
    ids = {name: config[name] for name in ("eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", {**ids, "max_new_tokens": MAX_NEW_TOKENS})
    _save_tokenizer(folder, tokenizer, longest=model.shape.max_position_embeddings, chat_template=CHAT_TEMPLATE)


def save_encoder(folder: Path, model: Llama, tokenizer: Tokenizer) -> None:
    """The model as a LlamaModel whose normalised mean of final states is the sentence's vector."""
    folder.mkdir(parents=True, exist_ok=True)
    longest = model.shape.max_position_embeddings
    _save_weights(folder / "model.safetensors", model.exported())
    _write_json(folder / "config.json", _config(model, "LlamaModel", tokenizer))
    _save_tokenizer(folder, tokenizer, longest=longest, chat_template=None)
    stages = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(stages)
    ]
    _write_json(folder / "modules.json", modules)
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": model.shape.hidden_size, "pooling_mode_mean_tokens": True}
    _write_json(folder / "1_Pooling" / "config.json", pooling)
