"""Models of a few kilobytes with random weights, and tokenizers made on the spot."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    BertConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

PAD, BOS, END, USER, ASSISTANT = range(5)
SPECIAL = ["<|pad|>", "<|bos|>", "<|end|>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ raise_exception('no system messages here') }}{% endif %}"
    "<|{{ message.role }}|>{{ message.content | trim }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CORPUS = ["the quick brown fox jumps over the lazy dog", "a warm lamp of brass and oak", "the end of the story"]
CONTEXT = 128
CAUSAL = ("llama", "qwen2", "gpt2")


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: any text goes in, and one character may be several tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS * 4, trainer)
    return _fast(backend)


def letter_tokenizer(*, adds_bos: bool = False) -> PreTrainedTokenizerFast:
    """One token a printable ASCII character: comparing texts and counts compares every token."""
    letters = [chr(code) for code in range(33, 127)] + ["\u0120"]  # as byte-level BPE writes the space
    backend = Tokenizer(models.BPE({token: place for place, token in enumerate(SPECIAL + letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(SPECIAL)
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", BOS)])
    return _fast(backend)


def _fast(backend: Tokenizer) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|pad|>")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def causal_config(family: str, vocabulary: int) -> PreTrainedConfig:
    """Weights so large that the best token is clearly the best, and texts vary."""
    tokens: dict[str, Any] = {"vocab_size": vocabulary, "eos_token_id": END, "bos_token_id": BOS, "pad_token_id": PAD}
    if family == "gpt2":
        return GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, initializer_range=0.4, **tokens)
    config = {"llama": LlamaConfig, "qwen2": Qwen2Config}[family]
    return config(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.4,
        **tokens,
    )


def save_causal(folder: Path, family: str, tokenizer: PreTrainedTokenizerFast) -> Path:
    return save_config(folder, causal_config(family, len(tokenizer)), tokenizer)


def save_config(folder: Path, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerFast) -> Path:
    """A causal model of any configuration."""
    torch.manual_seed(7)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_encoder(folder: Path) -> Path:
    tokenizer = byte_tokenizer()
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=PAD,
        initializer_range=0.4,
    )
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
