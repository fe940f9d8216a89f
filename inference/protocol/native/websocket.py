"""The frames of /ws: JSON objects with a `type`, in text messages."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from inference.engine import FinishReason, GenerationRequest, InvalidRequest
from inference.protocol.choices import GeneratedChoice
from inference.protocol.logprobs import ChoiceLogprobs, choice_logprobs
from inference.protocol.messages import ChatMessage
from inference.protocol.native.inference import InferenceRequest
from inference.protocol.parsing import parse_struct
from inference.protocol.token_usage import TokenUsage

InferenceId = Annotated[str, Meta(min_length=1, max_length=128, description="The client's own name for an inference.")]
CLIENT_MESSAGE_TYPES = ("auth", "inference", "cancel", "ping")


class AuthMessage(Struct, forbid_unknown_fields=True):
    """Who speaks. `token`: an API key, or an access token."""

    type: Literal["auth"]
    token: str


class CancelMessage(Struct, forbid_unknown_fields=True):
    """Stop an inference that runs."""

    type: Literal["cancel"]
    id: InferenceId


@dataclass(frozen=True)
class PingMessage:
    """Anything, which comes back as it was sent."""

    fields: dict[str, Any]

    def pong(self) -> str:
        return json.dumps(self.fields | {"type": "pong"}, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class InferenceMessage:
    """A generation from raw text or, with `messages`, through the model's chat template."""

    id: str
    body: InferenceRequest
    messages: tuple[ChatMessage, ...] | None

    @property
    def streams(self) -> bool:
        return self.body.stream is not False

    def generation_request(self, request_id: str) -> GenerationRequest:
        """What the engine is asked for."""
        request = self.body.generation_request(request_id)
        if self.messages is None:
            return request
        return replace(request, prompt=None, messages=tuple(message.to_engine() for message in self.messages))


ClientMessage = AuthMessage | InferenceMessage | CancelMessage | PingMessage


class _Named(Struct):
    id: InferenceId


class _Conversation(Struct):
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]


def parse_client_message(value: dict[str, Any]) -> ClientMessage:
    """InvalidRequest names the field that is wrong."""
    kind = value.get("type")
    if kind == "auth":
        return parse_struct(value, AuthMessage)
    if kind == "inference":
        return _inference(value)
    if kind == "cancel":
        return parse_struct(value, CancelMessage)
    if kind == "ping":
        return PingMessage(value)
    raise InvalidRequest(f"`type` must be one of {', '.join(CLIENT_MESSAGE_TYPES)}.", field="type")


def read_inference_id(value: dict[str, Any]) -> str | None:
    """Which inference a frame that could not be read concerns, if it says so in a usable way."""
    try:
        return parse_struct(value, _Named).id if value.get("type") in ("inference", "cancel") else None
    except InvalidRequest:
        return None


def _inference(value: dict[str, Any]) -> InferenceMessage:
    inference_id = parse_struct(value, _Named).id
    fields = {name: given for name, given in value.items() if name not in ("type", "id", "messages")}
    messages = None
    if "messages" in value:
        if "prompt" in value:
            raise InvalidRequest("`prompt` and `messages` exclude each other: send one of them.", field="messages")
        messages = tuple(parse_struct({"messages": value["messages"]}, _Conversation).messages)
        fields["prompt"] = ""
    elif "prompt" not in value:
        raise InvalidRequest("`prompt` or `messages` is required.", field="prompt")
    return InferenceMessage(inference_id, parse_struct(fields, InferenceRequest), messages)


class WebSocketUser(Struct):
    """Who has signed in."""

    id: int
    username: str
    role: str


class WebSocketLimits(Struct):
    """What one socket may do, and what its key, or its user, may do over all doors together."""

    inferences: int
    message_bytes: int
    requests_per_minute: int
    tokens_per_minute: int
    concurrent_requests: int


class AuthenticatedMessage(Struct, kw_only=True, tag_field="type", tag="auth"):
    """The credential is good."""

    status: Literal["ok"] = "ok"
    user: WebSocketUser
    limits: WebSocketLimits
    server_version: str


class TokenMessage(Struct, tag_field="type", tag="token"):
    """A token; its text is "" while it is held back. `choice` is there with `n` above 1."""

    id: str
    token: str
    index: int
    choice: int | UnsetType = UNSET
    logprobs: ChoiceLogprobs | UnsetType = UNSET


class CompletedChoice(Struct):
    """The end of one of several choices; with its text when it was not streamed."""

    index: int
    finish_reason: FinishReason
    text: str | UnsetType = UNSET
    logprobs: ChoiceLogprobs | UnsetType = UNSET


class CompleteMessage(Struct, tag_field="type", tag="complete"):
    """The end of an inference. `text` when it was not streamed; `choices` with `n` above 1, of which the first stands
    for all beside them."""

    id: str
    model: str
    finish_reason: FinishReason
    usage: TokenUsage
    processing_time_ms: int
    text: str | UnsetType = UNSET
    logprobs: ChoiceLogprobs | UnsetType = UNSET
    choices: list[CompletedChoice] | UnsetType = UNSET


class ErrorMessage(Struct, tag_field="type", tag="error", omit_defaults=True):
    """What went wrong; with `id`, that inference is over, unless the `field` in its details is `id`: then it is the
    message alone that was refused. `request_id` finds it in the server's log."""

    code: str
    message: str
    request_id: str
    id: str | None = None
    details: dict[str, Any] | None = None


ServerMessage = AuthenticatedMessage | TokenMessage | CompleteMessage | ErrorMessage


def build_completed_choice(choice: GeneratedChoice, frame: InferenceMessage) -> CompletedChoice:
    """A finished choice as it is told to who asked for it with `frame`."""
    if frame.streams:
        return CompletedChoice(choice.index, choice.finish_reason)
    told = choice_logprobs(choice.logprobs) if frame.body.logprobs else UNSET
    return CompletedChoice(choice.index, choice.finish_reason, choice.text, told)
