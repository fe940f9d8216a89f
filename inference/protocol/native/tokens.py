"""Wire structs of POST /tokenize and POST /detokenize, in the forms of vLLM's and llama.cpp's routes."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import InvalidRequest, TokenizationRequest, TokenizationResult
from inference.protocol.fields import ModelId, TokenId
from inference.protocol.messages import ChatMessage
from inference.protocol.native.body import RequestBody
from inference.protocol.tools import ChatTool

# Characters or tokens: all requests to a model share its tokenizer.
MAX_TOKENIZER_INPUT_LENGTH = 2**18


class TokenizeRequest(RequestBody):
    """A text to turn into tokens, in vLLM's form (`prompt`, `messages`) or llama.cpp's (`content`)."""

    model: ModelId
    prompt: (
        Annotated[
            str,
            Meta(
                max_length=MAX_TOKENIZER_INPUT_LENGTH,
                description="Text to tokenize. Exclusive with `messages` and `content`.",
                examples=["A lamp for every room"],
            ),
        ]
        | UnsetType
    ) = UNSET
    messages: (
        Annotated[
            list[ChatMessage],
            Meta(min_length=1, description="Conversation to tokenize through the model's chat template."),
        ]
        | UnsetType
    ) = UNSET
    content: (
        Annotated[
            str,
            Meta(
                max_length=MAX_TOKENIZER_INPUT_LENGTH,
                description="Text to tokenize, as llama.cpp names it.",
                examples=["A lamp for every room"],
            ),
        ]
        | UnsetType
    ) = UNSET
    tools: Annotated[
        Annotated[list[ChatTool], Meta(max_length=128)] | None, Meta(description="Tools of the conversation.")
    ] = None
    add_special_tokens: (
        Annotated[
            bool,
            Meta(
                description="Whether to add the first and last tokens that the tokenizer adds to a `prompt`. By "
                "default true.",
                examples=[False],
            ),
        ]
        | None
    ) = None
    return_token_strs: Annotated[
        bool, Meta(description="Whether to return `token_strs`, the text of each token.", examples=[True])
    ] = False
    add_special: Annotated[
        bool, Meta(description="llama.cpp's name of `add_special_tokens`, for `content`.", examples=[True])
    ] = False
    with_pieces: Annotated[
        bool, Meta(description="Whether each token is an object with its `id` and `piece`.", examples=[True])
    ] = False

    def tokenization_request(self) -> TokenizationRequest:
        """Return the engine's request. Raise InvalidRequest unless it has exactly one text."""
        given = [name for name in ("prompt", "messages", "content") if getattr(self, name) is not UNSET]
        if len(given) != 1:
            message = "Send exactly one of `prompt`, `messages` and `content`."
            raise InvalidRequest(message, field=given[1] if given else "prompt")
        if self.messages is UNSET:
            if self.tools:
                raise InvalidRequest("`tools` needs `messages`: a text has no tools.", field="tools")
            is_prompt = self.content is UNSET
            text = self.prompt if is_prompt else self.content
            special = self.add_special_tokens is not False if is_prompt else self.add_special
            return TokenizationRequest(text=str(text), add_special_tokens=special)
        if self.add_special_tokens:
            message = "`add_special_tokens` must be false or absent with `messages`: the chat template has them."
            raise InvalidRequest(message, field="add_special_tokens")
        messages = tuple(message.to_engine() for message in self.messages)
        length = sum(len(message.content) for message in messages)
        if length > MAX_TOKENIZER_INPUT_LENGTH:
            message = f"`messages` must have at most {MAX_TOKENIZER_INPUT_LENGTH} characters, not {length}."
            raise InvalidRequest(message, field="messages")
        return TokenizationRequest(messages=messages, tools=tuple(tool.to_engine() for tool in self.tools or ()))


class TokenPiece(Struct):
    """A token with its text, in llama.cpp's form."""

    id: Annotated[int, Meta(description="Token id.", examples=[37])]
    piece: Annotated[str, Meta(description="Text of the token.", examples=["A"])]


class TokenizeResponse(Struct):
    """The tokens of a text."""

    tokens: Annotated[
        list[int | TokenPiece],
        Meta(
            description="Token ids of the text; with `with_pieces` objects of id and text.",
            examples=[[37, 1159, 298, 466, 752]],
        ),
    ]
    count: Annotated[int, Meta(description="Number of tokens.", examples=[5])]
    max_model_len: Annotated[int, Meta(description="Context size of the model in tokens.", examples=[1024])]
    token_strs: (
        Annotated[
            list[str],
            Meta(
                description="Texts of the tokens, if requested. A part of a character is U+FFFD.",
                examples=[["A", " lamp", " for", " every", " room"]],
            ),
        ]
        | UnsetType
    ) = UNSET

    @classmethod
    def from_engine(cls, result: TokenizationResult, request: TokenizeRequest) -> "TokenizeResponse":
        tokens: list[int | TokenPiece] = list(result.ids)
        if request.with_pieces:
            tokens = [TokenPiece(token, text) for token, text in zip(result.ids, result.texts, strict=True)]
        return cls(
            tokens,
            len(result.ids),
            result.context_size,
            list(result.texts) if request.return_token_strs else UNSET,
        )


class DetokenizeRequest(RequestBody):
    """Tokens to turn into a text."""

    model: ModelId
    tokens: Annotated[
        list[TokenId],
        Meta(
            max_length=MAX_TOKENIZER_INPUT_LENGTH,
            description="Token ids of the model's vocabulary.",
            examples=[[37, 1159, 298, 466, 752]],
        ),
    ]


class DetokenizeResponse(Struct):
    """The text of tokens."""

    prompt: Annotated[str, Meta(description="Text of the tokens.", examples=["A lamp for every room"])]
    content: Annotated[
        str, Meta(description="The same text, as llama.cpp names it.", examples=["A lamp for every room"])
    ]
