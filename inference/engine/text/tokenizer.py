"""Text to ids and back. What a user wrote is text: it never becomes a control token."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import encode_marked_chat, mark_control_tokens

from inference.engine.errors import InvalidRequest
from inference.engine.requests import Message, Tool
from inference.engine.text.chat_templates import check_limits, refusals, render
from inference.engine.text.tool_calls import (
    TAGS,
    ToolForm,
    as_template_message,
    form_of,
    tool_schemas,
    without_system,
    without_tools,
)
from inference.engine.text.vocabulary import Vocabulary

ROLES = ("system", "user", "assistant", "tool")


class Tokenizer:
    """A model's tokenizer and chat template. Safe to use from many threads at once."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        # Set once here: changing them while another thread encodes is an error in the backend.
        self._backend.no_truncation()
        self._backend.no_padding()
        self._vocabulary = Vocabulary(self._backend)
        bare, whole = (tokenizer.encode("a", add_special_tokens=special) for special in (False, True))
        start = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
        self._prefix, self._suffix = whole[:start], whole[start + len(bare) :]
        self._template_form = form_of(str(tokenizer.chat_template or ""))
        # Such a template would write the markers as escapes, and the control token between them as it is.
        self._escapes = bool(re.search(r"ensure_ascii\s*=\s*true", str(tokenizer.chat_template), re.IGNORECASE))
        # Longest first, so that a token wins over one that it begins with.
        longest = sorted(self._control_tokens(), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest)) or "(?!)")

    def _control_tokens(self) -> list[str]:
        """Special tokens, and added ones that the chat template writes by name (white space apart)."""
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
        """An id to fill up rows with; which one does not matter, they are masked."""
        return int(self._tokenizer.pad_token_id or 0)

    @property
    def max_length(self) -> int:
        """The longest input that the tokenizer's own configuration allows; huge when it names none."""
        return int(self._tokenizer.model_max_length)

    @property
    def vocabulary(self) -> int:
        """One more than the highest id."""
        return self._vocabulary.size

    @property
    def longest_token(self) -> int:
        """How many bytes the longest token stands for."""
        return self._vocabulary.longest

    def token_bytes(self, token: int) -> bytes:
        """What a token adds to a text, or how it is written if it is a control token."""
        return self._vocabulary.token_bytes(token)

    def to_json(self) -> str:
        """The whole tokenizer as tokenizer.json has it."""
        text: str = self._backend.to_str()
        return text

    def encode(self, text: str) -> list[int]:
        """Ids of raw text, with the beginning and end tokens that the tokenizer adds by itself.

        Raises InvalidRequest when the text is not Unicode, or holds a control token that cannot be written as text.
        """
        with refusals():
            if not self._control.search(text):
                ids: list[int] = self._backend.encode(text).ids
                return ids
            # Between markers, a control token is encoded as the letters that it is written with.
            marked = mark_control_tokens(text, self._control)
            return [*self._prefix, *encode_marked_chat(self._tokenizer, marked), *self._suffix]

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Ids of a conversation through the model's chat template, up to where the assistant speaks.

        tools: what the assistant may call; a template that knows no tools gets them in words. Raises InvalidRequest
        when the model has no template, a message is malformed, or the template refuses.
        """
        if not self._tokenizer.chat_template:
            raise InvalidRequest("This model has no chat template. Send `prompt` instead of `messages`.")
        if not messages:
            raise InvalidRequest("`messages` is empty. Send at least one message.")
        for message in messages:
            if message.role not in ROLES:
                raise InvalidRequest(f"Unknown role {message.role!r}. Use one of {', '.join(ROLES)}.")
        with refusals():
            return encode_marked_chat(self._tokenizer, self._rendered(messages, tools))

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """The conversation as text; control tokens that others wrote are between markers."""
        if self._template_form:
            plain = [as_template_message(message) for message in messages]
            return self._render(self._marked(plain), self._marked(tool_schemas(tools)) if tools else None)
        plain = self._marked(without_tools(messages, tools))
        try:
            return self._render(plain, None)
        except jinja2.TemplateError:
            if not tools or messages[0].role == "system":
                raise
            return self._render(without_system(plain), None)

    def _render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str:
        template = self._tokenizer.get_chat_template(tools=tools)
        return render(template, messages, tools, dict(self._tokenizer.special_tokens_map))

    def _marked(self, plain: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for word in _words(plain, values=self._escapes):
            if self._control.search(word):
                raise InvalidRequest("What tools and their parameters are called must not hold control tokens.")
        marked: list[dict[str, Any]] = mark_control_tokens(plain, self._control)
        return marked

    def check_template(self) -> None:
        """Raises ModelLoadFailed when the chat template takes too much of the machine."""
        if self._tokenizer.chat_template:
            check_limits(self._render)

    @property
    def tool_form(self) -> ToolForm:
        """How the model writes calls: as its template teaches, or as we tell it."""
        return self._template_form or TAGS

    def control_id(self, token: str) -> int | None:
        """The id of a control token; None when there is none that is written so."""
        known = {added.content: place for place, added in self._tokenizer.added_tokens_decoder.items() if added.special}
        return known.get(token)

    def decode(self, ids: list[int], *, shown: int | None = None) -> str:
        """The text of `ids` without special tokens, but for one that is `shown`; half characters come out as U+FFFD."""
        if shown is not None and shown in ids:
            place = ids.index(shown)
            return self.decode(ids[:place]) + self._control_text(shown) + self.decode(ids[place + 1 :], shown=shown)
        text: str = self._backend.decode(ids, skip_special_tokens=True)
        return text

    def text_of(self, ids: list[int]) -> str:
        """`decode` for ids that a client sent. InvalidRequest for one that is no token's."""
        if not all(0 <= token < self.vocabulary for token in ids):
            raise InvalidRequest(f"Token ids are from 0 to {self.vocabulary - 1}.", parameter="tokens")
        return self.decode(ids)

    def _control_text(self, token: int) -> str:
        return self._vocabulary.token_bytes(token).decode()


def _words(plain: Any, *, values: bool) -> Iterator[str]:
    """All names in plain data, however deep; with `values` all strings."""
    if isinstance(plain, dict):
        yield from plain
    if isinstance(plain, dict | list):
        for inner in plain.values() if isinstance(plain, dict) else plain:
            yield from _words(inner, values=values)
    elif values and isinstance(plain, str):
        yield plain


def load_tokenizer(path: Path, gguf: Path | None = None) -> Tokenizer:
    """Reads the tokenizer of a model folder, or the one inside a GGUF file.

    Raises what transformers raises; ValueError when it is no fast one.
    """
    place = {"gguf_file": gguf.name} if gguf else {}
    folder = gguf.parent if gguf else path
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **place)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(f"{type(tokenizer).__name__} has no fast form: the folder needs a tokenizer.json")
    loaded = Tokenizer(tokenizer)
    loaded.check_template()
    return loaded
