"""The tokenizer: text to token ids and back. User text never becomes a control token."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
from tokenizers import Encoding
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import encode_marked_chat, mark_control_tokens

from inference.engine.errors import InvalidRequest
from inference.engine.outputs import TokenizationResult
from inference.engine.requests import Message, TokenizationRequest, Tool
from inference.engine.text import reasoning
from inference.engine.text.chat_templates import check_limits, render, template_errors, template_options
from inference.engine.text.tool_calls import (
    TAGS,
    ToolSyntax,
    detect_tool_syntax,
    merge_system,
    template_message,
    tool_schemas,
    tools_as_text,
)
from inference.engine.text.vocabulary import Vocabulary

MAX_TAG_TOKENS = 16  # of a tag of reasoning with white space, if it is no token of its own
CHAT_TEMPLATE = "chat_template.jinja"
# Settings that the constructor takes as they are saved.
SAVED_SETTINGS = frozenset({
    "backend", "bos_token", "clean_up_tokenization_spaces", "eos_token", "is_local", "local_files_only",
    "model_max_length", "pad_token", "tokenizer_class", "unk_token",
})  # fmt: skip
ROLES = ("system", "user", "assistant", "tool")
QUESTION_MARKER = "\U000f0002"  # for private use, like the markers of transformers
LONG_TEXT = 4000  # characters, which take some milliseconds to encode
MANY_CHARACTERS = 64  # per token; only white space and unknown words have more


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text, or a pair of texts, as token ids. type_ids: which text of a pair each token belongs to, for models."""

    ids: list[int]
    type_ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """A model's tokenizer and chat template. Thread-safe."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        # Set once: the backend fails if they change while another thread encodes.
        self._backend.no_truncation()
        self._backend.no_padding()
        self._vocabulary = Vocabulary(self._backend)
        bare, framed = (tokenizer.encode("a", add_special_tokens=special) for special in (False, True))
        start = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)
        self._prefix, self._suffix = framed[:start], framed[start + len(bare) :]
        self._template_tool_syntax = detect_tool_syntax(str(tokenizer.chat_template or ""))
        added = tokenizer.added_tokens_decoder.values()
        self._has_reasoning_token = any(token.content == reasoning.START for token in added)
        # Such a template would escape the markers, but not the control token between them.
        self._escapes = bool(re.search(r"ensure_ascii\s*=\s*true", str(tokenizer.chat_template), re.IGNORECASE))
        # Longest first, so that a token wins over its own prefix.
        longest = sorted(self._control_tokens(), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest)) or "(?!)")

    def _control_tokens(self) -> list[str]:
        """Return special tokens, and added ones in the chat template, except white space."""
        template = str(self._tokenizer.chat_template or "")
        return [
            token.content
            for token in self._tokenizer.added_tokens_decoder.values()
            if token.special or (token.content in template and not token.content.isspace())
        ]

    @property
    def eos_id(self) -> int | None:
        eos: int | None = self._tokenizer.eos_token_id
        return eos

    @property
    def pad_id(self) -> int:
        """Return the id of padding. Padding is masked, so any id serves."""
        return int(self._tokenizer.pad_token_id or 0)

    @property
    def max_length(self) -> int:
        """Return the maximum input length of the tokenizer's configuration; huge if it has none."""
        return int(self._tokenizer.model_max_length)

    @property
    def has_type_ids(self) -> bool:
        """Return whether the model reads which text of a pair each token belongs to."""
        return "token_type_ids" in self._tokenizer.model_input_names

    @property
    def vocabulary(self) -> int:
        """Return the number of ids: one more than the highest."""
        return self._vocabulary.size

    @property
    def longest_token(self) -> int:
        """Return the number of bytes of the longest token."""
        return self._vocabulary.longest_token

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text, or the spelling of a control token."""
        return self._vocabulary.token_bytes(token)

    def to_json(self) -> str:
        """Return the content of tokenizer.json."""
        text: str = self._backend.to_str()
        return text

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the ids of raw text, with the beginning and end tokens that the tokenizer adds.

        Raise InvalidRequest if the text is not valid Unicode, or holds a control token that cannot be spelled as text.
        """
        with template_errors():
            if not self._control.search(text):
                ids: list[int] = self._encoding(text, add_special_tokens=add_special_tokens).ids
                return ids
            # Between markers, a control token is encoded by its letters.
            marked = mark_control_tokens(text, self._control)
            ids = encode_marked_chat(self._tokenizer, marked)
            return [*self._prefix, *ids, *self._suffix] if add_special_tokens else ids

    def _encoding(self, text: str, *, add_special_tokens: bool) -> Encoding:
        if len(text) < LONG_TEXT:
            return self._backend.encode(text, add_special_tokens=add_special_tokens)
        # `encode` holds Python's lock to its end, and no model would go on meanwhile.
        return self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0]

    def tokenize(self, request: TokenizationRequest, context_size: int) -> TokenizationResult:
        """Return the tokens of a text or of a conversation. Raise InvalidRequest as `encode` and `encode_chat` do."""
        if request.messages:
            ids = self.encode_chat(request.messages, request.tools, thinking=request.thinking)
        else:
            ids = self.encode(request.text or "", add_special_tokens=request.add_special_tokens)
        texts = (self._vocabulary.token_bytes(token).decode(errors="replace") for token in ids)
        return TokenizationResult(tuple(ids), tuple(texts), context_size)

    def encode_within(self, text: str, context_size: int, max_tokens: int | None = None) -> EncodedText:
        """Return the ids of a text as `encode` does. If it exceeds the context by far, only those of its beginning.

        max_tokens: the text is cut to so many tokens and to the context, not counting its first and last tokens.
        """
        characters = MANY_CHARACTERS * context_size
        ids = self.encode(text[:characters])
        if len(text) > characters and len(ids) <= 2 * context_size:
            ids = self.encode(text)
        if max_tokens is None:
            return EncodedText(ids)
        limit = min(max_tokens + len(self._prefix) + len(self._suffix), context_size)
        if len(ids) <= limit:
            return EncodedText(ids)
        return EncodedText([*ids[: max(limit - len(self._suffix), 0)], *self._suffix])

    def encode_part(self, text: str, context_size: int) -> Encoding:
        """Return the encoding of a text of a pair, without special tokens."""
        with template_errors():
            return self._encoding(self._disarm(text[: MANY_CHARACTERS * context_size]), add_special_tokens=False)

    def encode_pair(
        self, first: Encoding, second: str, context_size: int, max_tokens: int | None = None
    ) -> EncodedText:
        """Return the ids of two texts in the tokenizer's form for pairs, with the type of each token.

        first: from `encode_part`, since one query has many texts.
        max_tokens: the second text is cut to so many tokens, and to what the first one leaves of the context.
        """
        end = self.encode_part(second, context_size)
        with template_errors():
            if max_tokens is not None:
                available = context_size - len(first) - self._backend.num_special_tokens_to_add(True)
                end.truncate(max(min(max_tokens, available), 0))
            pair = self._backend.post_process(first, end)
        return EncodedText(pair.ids, tuple(pair.type_ids))

    def _disarm(self, text: str) -> str:
        """Return the text with a space in each control token, so that it is encoded by its letters."""
        return self._control.sub(lambda match: f"{match[0][:1]} {match[0][1:]}", text)

    def encode_chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        options: Mapping[str, Any] = MappingProxyType({}),
        thinking: bool | None = None,
    ) -> list[int]:
        """Return the ids of a conversation in the model's chat template, up to the assistant's turn.

        tools: described as text if the template does not support them.
        options, thinking: see `template_options`.
        Raise InvalidRequest if the model has no template, a message is malformed, or the template fails.
        """
        if not self._tokenizer.chat_template:
            raise InvalidRequest("This model has no chat template. Send `prompt` instead of `messages`.")
        if not messages:
            raise InvalidRequest("`messages` is empty. Send at least one message.")
        for message in messages:
            if message.role not in ROLES:
                raise InvalidRequest(f"Unknown role {message.role!r}. Use one of {', '.join(ROLES)}.")
        template = str(self._tokenizer.get_chat_template(tools=tool_schemas(tools) if tools else None))
        variables = template_options(template, options, thinking)
        with template_errors():
            return encode_marked_chat(self._tokenizer, self._rendered(messages, tools, variables))

    def encode_questions(
        self, context: str, questions: Sequence[tuple[str, Sequence[str]]]
    ) -> tuple[list[int], list[tuple[list[int], list[list[int]]]]]:
        """Return the ids of a context, and for each question its ids and those of its answers.

        Context and question are the user's message in the model's chat template, and the answer is the assistant's. A
        model without a template continues the text. Raise InvalidRequest if the template fails or drops the message.
        """
        before, after = context, "\n"
        with template_errors():
            if self._tokenizer.chat_template:
                message = Message(role="user", content=context.replace(QUESTION_MARKER, "") + QUESTION_MARKER)
                before, marker, after = self._rendered([message], (), {}).partition(QUESTION_MARKER)
                if not marker:
                    raise InvalidRequest("This model's chat template drops the text of messages. Use another model.")
                ids = encode_marked_chat(self._tokenizer, before)
            else:
                ids = [*self._prefix, *self._encode_part(before)]
            encoded = [
                (self._encode_part(text, after), [self._encode_part(answer) for answer in answers])
                for text, answers in questions
            ]
        return ids, encoded

    def _encode_part(self, text: str, template: str = "") -> list[int]:
        """Return the ids of a text without first and last tokens. template: a part of the chat template after it."""
        if self._control.search(text):
            marked = mark_control_tokens(text, self._control)
            return encode_marked_chat(self._tokenizer, marked + template)
        ids: list[int] = self._backend.encode(text + template, add_special_tokens=False).ids
        return ids

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Tool], variables: dict[str, Any]) -> str:
        """Return the conversation as text, with markers around control tokens in the messages."""
        if self._template_tool_syntax:
            plain = [template_message(message) for message in messages]
            schemas = self._marked(tool_schemas(tools)) if tools else None
            try:
                return self._render(self._marked(plain), schemas, variables)
            except (jinja2.TemplateError, TypeError, ValueError):
                wrapped = [template_message(message, wraps_text=True) for message in messages]
                if wrapped == plain:
                    raise
                return self._render(self._marked(wrapped), schemas, variables)
        plain = self._marked(tools_as_text(messages, tools))
        try:
            return self._render(plain, None, variables)
        except jinja2.TemplateError:
            if not tools or messages[0].role == "system":
                raise
            return self._render(merge_system(plain), None, variables)

    def _render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        variables: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        template = self._tokenizer.get_chat_template(tools=tools)
        return render(template, messages, tools, {**variables, **self._tokenizer.special_tokens_map})

    def _marked(self, plain: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for text in _strings(plain, values=self._escapes):
            if self._control.search(text):
                raise InvalidRequest("Names of tools and of their parameters must not contain control tokens.")
        marked: list[dict[str, Any]] = mark_control_tokens(plain, self._control)
        return marked

    def save(self, folder: Path) -> None:
        """Write the tokenizer and its chat template to a folder."""
        self._tokenizer.save_pretrained(str(folder))

    def check_template(self) -> None:
        """Raise ModelLoadFailed if the chat template exceeds its limits of time and memory."""
        if self._tokenizer.chat_template:
            check_limits(self._render)

    @property
    def tool_syntax(self) -> ToolSyntax:
        """Return the syntax of tool calls: the template's own, or the default that is described to the model."""
        return self._template_tool_syntax or TAGS

    @property
    def reasons(self) -> bool:
        """Return whether the model writes reasoning between tags: its template or its vocabulary has them."""
        return reasoning.START in str(self._tokenizer.chat_template or "") or self._has_reasoning_token

    @property
    def reasoning_ids(self) -> frozenset[int]:
        """Return the ids of the tags of reasoning that are control tokens, which texts would not show."""
        ids = (self.control_id(tag) for tag in (reasoning.START, reasoning.END))
        return frozenset(token for token in ids if token is not None)

    def opens_reasoning(self, prompt_ids: Sequence[int]) -> bool:
        """Return whether a prompt ends with the tag that begins the reasoning."""
        tail = b"".join(self._vocabulary.token_bytes(token) for token in prompt_ids[-MAX_TAG_TOKENS:])
        return tail.rstrip().endswith(reasoning.START.encode())

    def control_id(self, token: str) -> int | None:
        """Return the id of a control token by its spelling, or None."""
        ids = {
            added.content: token_id for token_id, added in self._tokenizer.added_tokens_decoder.items() if added.special
        }
        return ids.get(token)

    def decode(self, ids: list[int], *, shown: frozenset[int] = frozenset()) -> str:
        """Return the text of `ids` without special tokens except `shown`. Partial characters become U+FFFD."""
        if shown and not shown.isdisjoint(ids):
            index = next(index for index, token in enumerate(ids) if token in shown)
            beginning, rest = self.decode(ids[:index]), self.decode(ids[index + 1 :], shown=shown)
            return beginning + self._control_text(ids[index]) + rest
        text: str = self._backend.decode(ids, skip_special_tokens=True)
        return text

    def decode_checked(self, ids: list[int]) -> str:
        """Return the text of ids that a client sent. Raise InvalidRequest for an unknown id."""
        for token in ids:
            if not 0 <= token < self.vocabulary:
                raise InvalidRequest(
                    f"`tokens` must be token ids from 0 to {self.vocabulary - 1}, not {token}.", parameter="tokens"
                )
        return self.decode(ids)

    def _control_text(self, token: int) -> str:
        return self._vocabulary.token_bytes(token).decode()


def _strings(plain: Any, *, values: bool) -> Iterator[str]:
    """Yield all keys of nested plain data, and with `values` all strings."""
    if isinstance(plain, dict):
        yield from plain
    if isinstance(plain, dict | list):
        for inner in plain.values() if isinstance(plain, dict) else plain:
            yield from _strings(inner, values=values)
    elif values and isinstance(plain, str):
        yield plain


def _read_saved(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer that `Tokenizer.save` wrote.

    `from_pretrained` parses tokenizer.json three times more, for settings that most tokenizers do not have.
    """
    config = json.loads((folder / "tokenizer_config.json").read_text())
    templates = [file.name for file in folder.iterdir() if "template" in file.name]
    if not config.keys() <= SAVED_SETTINGS or templates not in ([], [CHAT_TEMPLATE]):
        loaded: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
        return loaded
    if templates:
        config["chat_template"] = (folder / CHAT_TEMPLATE).read_text()
    config.pop("tokenizer_class", None)
    tokenizer_class: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = tokenizer_class(tokenizer_file=str(folder / "tokenizer.json"), **config)
    return tokenizer


def load_tokenizer(
    path: Path, gguf: Path | None = None, *, is_generic: bool = False, cached: Path | None = None
) -> Tokenizer:
    """Load the tokenizer of a model folder, or the one in a GGUF file, and check its chat template.

    is_generic: the model has no tokenizer class of its own. To find one out, AutoTokenizer reads a GGUF file for
        seconds.
    cached: folder of an earlier load's `Tokenizer.save`, whose template passed the check.
    Raise whatever transformers raises, ModelLoadFailed for the template, and ValueError for a slow tokenizer.
    """
    if cached:
        return Tokenizer(_read_saved(cached))
    file = {"gguf_file": gguf.name} if gguf else {}
    folder = gguf.parent if gguf else path
    auto: Any = PreTrainedTokenizerFast if is_generic else AutoTokenizer
    tokenizer = auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **file)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(f"{type(tokenizer).__name__} has no fast version: the folder needs a tokenizer.json")
    loaded = Tokenizer(tokenizer)
    loaded.check_template()
    return loaded
