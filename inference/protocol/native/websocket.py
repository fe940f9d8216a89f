"""Messages of /ws: JSON objects with a `type`, in text messages."""

import json
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from inference.engine import GenerationRequest, InvalidRequest
from inference.protocol.choices import GeneratedChoice
from inference.protocol.fields import ChoiceIndex, GeneratedText, ModelId, ProcessingTime, Prompt
from inference.protocol.logprobs import choice_logprobs
from inference.protocol.messages import ChatMessage
from inference.protocol.native.auth import EmailAddress, UserId, UserRole
from inference.protocol.native.errors import ErrorText, RequestId
from inference.protocol.native.inference import EventChoice, FinishReasonField, InferenceRequest, Logprobs
from inference.protocol.parsing import parse_struct
from inference.protocol.token_usage import TokenUsage

InferenceId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="Id of an inference, which the client chooses. No two may run under one id on a connection.",
        examples=["description-1"],
    ),
]
WholeText = Annotated[GeneratedText, Meta(description="Whole text. Only if the inference does not stream.")]
CLIENT_MESSAGE_TYPES = ("auth", "inference", "cancel", "ping")


class AuthMessage(Struct, forbid_unknown_fields=True):
    """The credential of a connection: its first message, and later a renewed credential."""

    type: Literal["auth"]
    token: Annotated[
        str,
        Meta(
            description="An API key or an access token.",
            examples=["stoa_2f7d0c4e9b"],
            extra_json_schema={"maxLength": 4096},
        ),
    ]


class InferenceMessage(InferenceRequest, forbid_unknown_fields=True, kw_only=True):
    """A generation from raw text or, with `messages`, through the model's chat template."""

    type: Literal["inference"]
    id: InferenceId
    prompt: Annotated[Prompt, Meta(description="Text to continue. Exclusive with `messages`.")] = ""
    messages: (
        Annotated[
            list[ChatMessage],
            Meta(
                min_length=1,
                description="Messages of a chat, for the model's chat template. Exclusive with `prompt`.",
                examples=[[{"role": "user", "content": "Describe the Quellmar kettle."}]],
                extra_json_schema={"maxItems": 524288},
            ),
        ]
        | UnsetType
    ) = UNSET

    @property
    def streams(self) -> bool:
        return self.stream is not False

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request."""
        request = super().generation_request(request_id)
        if self.messages is UNSET:
            return request
        return replace(request, prompt=None, messages=tuple(message.to_engine() for message in self.messages))


class CancelMessage(Struct, forbid_unknown_fields=True):
    """A request to cancel a running inference."""

    type: Literal["cancel"]
    id: InferenceId


class PingMessage(Struct):
    """A test of the connection. Any further fields are allowed."""

    type: Literal["ping"]


class PongMessage(Struct):
    """The answer to a `ping`, with the same fields. A client's own is ignored."""

    type: Literal["pong"]


ClientMessage = AuthMessage | InferenceMessage | CancelMessage | PingMessage | PongMessage
CLIENT_MESSAGES = (AuthMessage, InferenceMessage, CancelMessage, PingMessage)


class _MessageId(Struct):
    id: InferenceId


def parse_client_message(value: dict[str, Any]) -> ClientMessage:
    """Return the message of a JSON object. Raise InvalidRequest that names the wrong field."""
    kind = value.get("type")
    if kind == "auth":
        return parse_struct(value, AuthMessage)
    if kind == "inference":
        return _parse_inference(value)
    if kind == "cancel":
        return parse_struct(value, CancelMessage)
    if kind == "ping":
        return parse_struct(value, PingMessage)
    if kind == "pong":
        return parse_struct(value, PongMessage)
    raise InvalidRequest(f"type is wrong: send one of {', '.join(CLIENT_MESSAGE_TYPES)}.", field="type")


def _parse_inference(value: dict[str, Any]) -> InferenceMessage:
    parse_struct(value, _MessageId)  # a wrong id is reported first: an error about anything else names it
    if "prompt" in value and "messages" in value:
        raise InvalidRequest("prompt and messages exclude each other: send one of them.", field="messages")
    if "prompt" not in value and "messages" not in value:
        raise InvalidRequest("prompt is required, or messages in its place.", field="prompt")
    return parse_struct(value, InferenceMessage)


def read_inference_id(value: dict[str, Any]) -> str | None:
    """Return the id of the inference that an invalid message names, None if it names none."""
    try:
        return parse_struct(value, _MessageId).id if value.get("type") in ("inference", "cancel") else None
    except InvalidRequest:
        return None


class WebSocketUser(Struct):
    """The user of a credential."""

    id: UserId
    username: EmailAddress
    role: UserRole


class WebSocketLimits(Struct):
    """Limits of one connection, and those that its key, or its user, has over all requests together."""

    inferences: Annotated[
        int, Meta(ge=1, description="Maximum number of inferences that run at once here.", examples=[16])
    ]
    message_bytes: Annotated[int, Meta(ge=1, description="Maximum size of a message in bytes.", examples=[1048576])]
    requests_per_minute: Annotated[int, Meta(ge=0, description="Maximum requests per minute.", examples=[600])]
    tokens_per_minute: Annotated[int, Meta(ge=0, description="Maximum tokens per minute.", examples=[100000])]
    concurrent_requests: Annotated[int, Meta(ge=0, description="Maximum concurrent requests.", examples=[32])]


class AuthenticatedMessage(Struct, kw_only=True, tag_field="type", tag="auth"):
    """The answer to a valid credential."""

    status: Annotated[Literal["ok"], Meta(description="The credential is valid.")] = "ok"
    user: Annotated[WebSocketUser, Meta(description="User of the credential.")]
    limits: Annotated[WebSocketLimits, Meta(description="Limits of this connection and of its credential.")]
    server_version: Annotated[str, Meta(description="Version of the server.", examples=["1.0.0"])]


class TokenMessage(Struct, tag_field="type", tag="token"):
    """A token of a streamed inference."""

    id: InferenceId
    token: Annotated[
        str,
        Meta(
            description="Text of the token. It is empty while the text may be part of a stop sequence or of an "
            "unfinished character, and follows later.",
            examples=[" brass"],
        ),
    ]
    index: Annotated[int, Meta(ge=0, description="Number of the token in its choice, from 0 on.", examples=[0])]
    choice: EventChoice | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET


class CompletedChoice(Struct):
    """A completed choice of several."""

    index: ChoiceIndex
    finish_reason: FinishReasonField
    text: WholeText | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET


class CompleteMessage(Struct, tag_field="type", tag="complete"):
    """The end of an inference. The fields of the first choice stand beside `choices` too."""

    id: InferenceId
    model: ModelId
    finish_reason: FinishReasonField
    usage: Annotated[TokenUsage, Meta(description="Token counts of the inference.")]
    processing_time_ms: ProcessingTime
    text: WholeText | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET
    choices: Annotated[list[CompletedChoice] | UnsetType, Meta(description="All choices, with `n` above 1.")] = UNSET


class ErrorMessage(Struct, tag_field="type", tag="error", omit_defaults=True):
    """An error. It ends the inference `id`, unless `details.field` is `id`: then only the message was refused."""

    code: Annotated[str, Meta(description="Code of the error, as in HTTP responses.", examples=["MODEL_NOT_FOUND"])]
    message: ErrorText
    request_id: RequestId
    id: Annotated[InferenceId | None, Meta(description="Id of the inference that the error is about, if any.")] = None
    details: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Details of the error, such as the `field` that is wrong, or `retry_after` in seconds.",
            examples=[{"field": "model"}],
        ),
    ] = None


ServerMessage = AuthenticatedMessage | TokenMessage | CompleteMessage | ErrorMessage


def encode_pong(ping: dict[str, Any]) -> str:
    """Return the answer to a ping: its own fields with another type."""
    return json.dumps(ping | {"type": "pong"}, ensure_ascii=False, separators=(",", ":"))


def build_completed_choice(choice: GeneratedChoice, message: InferenceMessage) -> CompletedChoice:
    """Return a finished choice of the inference `message`."""
    if message.streams:
        return CompletedChoice(choice.index, choice.finish_reason)
    logprobs = choice_logprobs(choice.logprobs) if message.logprobs else UNSET
    return CompletedChoice(choice.index, choice.finish_reason, choice.text, logprobs)
