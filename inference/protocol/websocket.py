"""The frames of /ws: JSON objects with a `type`, in text messages."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from inference.engine import FinishReason, GenerationRequest, InvalidRequest
from inference.protocol.choices import Choice
from inference.protocol.logprobs import Logprobs, logprobs
from inference.protocol.native import InferenceBody, Usage
from inference.protocol.openai import ChatMessage
from inference.protocol.parameters import parse

InferenceId = Annotated[str, Meta(min_length=1, max_length=128, description="The client's own name for an inference.")]
CLIENT_TYPES = ("auth", "inference", "cancel", "ping")


class AuthFrame(Struct, forbid_unknown_fields=True):
    """Who speaks. `token`: an API key, or an access token."""

    type: Literal["auth"]
    token: str


class CancelFrame(Struct, forbid_unknown_fields=True):
    """Stop an inference that runs."""

    type: Literal["cancel"]
    id: InferenceId


@dataclass(frozen=True)
class PingFrame:
    """Anything, which comes back as it was sent."""

    fields: dict[str, Any]

    def pong(self) -> str:
        return json.dumps(self.fields | {"type": "pong"}, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class InferenceFrame:
    """A generation from raw text or, with `messages`, through the model's chat template."""

    id: str
    body: InferenceBody
    messages: tuple[ChatMessage, ...] | None

    @property
    def streams(self) -> bool:
        return self.body.stream is not False

    def generation_request(self, request_id: str) -> GenerationRequest:
        """What the engine is asked for."""
        request = self.body.generation_request(request_id)
        if self.messages is None:
            return request
        return replace(request, prompt=None, messages=tuple(message.message() for message in self.messages))


ClientFrame = AuthFrame | InferenceFrame | CancelFrame | PingFrame


class _Named(Struct):
    id: InferenceId


class _Conversation(Struct):
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]


def parse_frame(value: dict[str, Any]) -> ClientFrame:
    """InvalidRequest names the field that is wrong."""
    kind = value.get("type")
    if kind == "auth":
        return parse(value, AuthFrame)
    if kind == "inference":
        return _inference(value)
    if kind == "cancel":
        return parse(value, CancelFrame)
    if kind == "ping":
        return PingFrame(value)
    raise InvalidRequest(f"type is wrong: send one of {', '.join(CLIENT_TYPES)}.", field="type")


def id_of(value: dict[str, Any]) -> str | None:
    """Which inference a frame that could not be read concerns, if it says so in a usable way."""
    try:
        return parse(value, _Named).id if value.get("type") in ("inference", "cancel") else None
    except InvalidRequest:
        return None


def _inference(value: dict[str, Any]) -> InferenceFrame:
    inference_id = parse(value, _Named).id
    fields = {name: given for name, given in value.items() if name not in ("type", "id", "messages")}
    messages = None
    if "messages" in value:
        if "prompt" in value:
            raise InvalidRequest("prompt and messages exclude each other: send one of them.", field="messages")
        messages = tuple(parse({"messages": value["messages"]}, _Conversation).messages)
        fields["prompt"] = ""
    elif "prompt" not in value:
        raise InvalidRequest("prompt is required, or messages in its place.", field="prompt")
    return InferenceFrame(inference_id, parse(fields, InferenceBody), messages)


class SocketUser(Struct):
    """Who has signed in."""

    id: int
    username: str
    role: str


class SocketLimits(Struct):
    """What one socket may do, and what its key, or its user, may do over all doors together."""

    inferences: int
    message_bytes: int
    requests_per_minute: int
    tokens_per_minute: int
    concurrent_requests: int


class AuthOk(Struct, kw_only=True, tag_field="type", tag="auth"):
    """The credential is good."""

    status: Literal["ok"] = "ok"
    user: SocketUser
    limits: SocketLimits
    server_version: str


class TokenFrame(Struct, tag_field="type", tag="token"):
    """A token; its text is "" while it is held back. `choice` is there with `n` above 1."""

    id: str
    token: str
    index: int
    choice: int | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET


class CompleteChoice(Struct):
    """The end of one of several choices; with its text when it was not streamed."""

    index: int
    finish_reason: FinishReason
    text: str | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET


class CompleteFrame(Struct, tag_field="type", tag="complete"):
    """The end of an inference. `text` when it was not streamed; `choices` with `n` above 1, of which the first stands
    for all beside them."""

    id: str
    model: str
    finish_reason: FinishReason
    usage: Usage
    processing_time_ms: int
    text: str | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET
    choices: list[CompleteChoice] | UnsetType = UNSET


class ErrorFrame(Struct, tag_field="type", tag="error", omit_defaults=True):
    """What went wrong; with `id`, that inference is over, unless the `field` in its details is `id`: then it is the
    message alone that was refused. `request_id` finds it in the server's log."""

    code: str
    message: str
    request_id: str
    id: str | None = None
    details: dict[str, Any] | None = None


ServerFrame = AuthOk | TokenFrame | CompleteFrame | ErrorFrame


def complete_choice(choice: Choice, frame: InferenceFrame) -> CompleteChoice:
    """A finished choice as it is told to who asked for it with `frame`."""
    if frame.streams:
        return CompleteChoice(choice.index, choice.finish_reason)
    told = logprobs(choice.logprobs) if frame.body.logprobs else UNSET
    return CompleteChoice(choice.index, choice.finish_reason, choice.text, told)
