"""The tokenizer of both models: byte-level BPE, every digit by itself, one special token a role."""

from collections.abc import Iterator

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from inference.builtin.corpus import Example

PAD, END = "<|pad|>", "<|end|>"
ROLES = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}
SPECIALS = (PAD, END, *ROLES.values())

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set role = {'developer': 'system', 'tool': 'user'}.get(message['role'], message['role']) -%}"
    "{{- '<|' + role + '|>' + message['content'] | trim + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


def train_tokenizer(texts: Iterator[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer of the given vocabulary size; the special tokens come first."""
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


def encode_chats(tokenizer: Tokenizer, examples: list[Example]) -> list[tuple[list[int], list[bool]]]:
    """Each conversation as token ids, as the chat template forms it, and which of them the model has to learn."""
    vocabulary = tokenizer.get_vocab()
    role_ids, end = {role: vocabulary[token] for role, token in ROLES.items()}, vocabulary[END]
    contents = iter(tokenizer.encode_batch_fast([content for example in examples for _, content in example.turns]))
    encoded = []
    for example in examples:
        ids: list[int] = []
        learned: list[bool] = []
        for role, _ in example.turns:
            tokens = next(contents).ids
            ids += [role_ids[role], *tokens, end]
            learned += [False, *[role == "assistant"] * (len(tokens) + 1)]
        encoded.append((ids, learned))
    return encoded
