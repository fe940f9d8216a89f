"""The tokenizer of both models: byte-level BPE, every digit by itself, one special token a role."""

import re
from collections.abc import Iterator, Sequence

from tokenizers import Encoding, Tokenizer, decoders, models, pre_tokenizers, trainers

from inference.builtin.corpus.examples import Example

PAD, END = "<|pad|>", "<|end|>"
ROLES = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}
COPY_WEIGHT = 2.5  # of a token of a name or keyword in the loss: what a small model leaves out first
SPECIALS = (PAD, END, *ROLES.values())

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set role = {'developer': 'system', 'tool': 'user'}.get(message['role'], message['role']) -%}"
    "{{- '<|' + role + '|>' + message['content'] | trim + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


def train_tokenizer(texts: Iterator[str], vocabulary: int) -> Tokenizer:
    """Return a byte-level BPE tokenizer of the given vocabulary size; the special tokens come first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _weights(encoding: Encoding, text: str, copied: Sequence[str]) -> list[float]:
    """Return one a token: `COPY_WEIGHT` for those of a copied name or keyword, 1 for any other."""
    spans = [found.span() for words in copied for found in re.finditer(re.escape(words), text)]
    return [
        COPY_WEIGHT if any(start < after and end > before for before, after in spans) else 1.0
        for start, end in encoding.offsets
    ]


def encode_chats(tokenizer: Tokenizer, examples: list[Example]) -> list[tuple[list[int], list[float]]]:
    """Return each conversation as token ids, as the chat template forms it, and what each weighs: 0 is not to be
    learned.
    """
    vocabulary = tokenizer.get_vocab()
    role_ids, end = {role: vocabulary[token] for role, token in ROLES.items()}, vocabulary[END]
    contents = iter(tokenizer.encode_batch([content for example in examples for _, content in example.turns]))
    encoded = []
    for example in examples:
        ids: list[int] = []
        weights: list[float] = []
        for role, content in example.turns:
            found = next(contents)
            ids += [role_ids[role], *found.ids, end]
            learned = (
                [*_weights(found, content, example.copied), 1.0] if role == "assistant" else [0.0] * (len(found) + 1)
            )
            weights += [0.0, *learned]
        encoded.append((ids, weights))
    return encoded
