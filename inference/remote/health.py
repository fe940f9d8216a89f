"""The health of remote models, as requests and checks have found it."""

import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.remote.configuration import RemoteModel
from inference.remote.dialects import dialect_of
from inference.remote.errors import unavailable_reason

CHECK_INTERVAL_SECONDS = 5.0
MAX_CLOCK_DIFFERENCE_SECONDS = 60.0
MAX_FAILED_REQUESTS = 3  # in a row: one that makes every server fail must not make its server rest
HANGS = "The remote server sends no first token in time."


@dataclass
class RemoteHealth:
    """A model's last known health. error: None while it works. context_size: 0 if the server does not report it.

    warning: what does not keep it from working. failed_requests: those that it has failed since it completed one.
    """

    error: str | None = None
    warning: str | None = None
    failed_requests: int = 0
    context_size: int = 0
    checked_at: float = field(default=float("-inf"))

    @property
    def is_stale(self) -> bool:
        return time.monotonic() > self.checked_at + CHECK_INTERVAL_SECONDS

    @property
    def is_unavailable(self) -> bool:
        """Whether it failed recently, so that another request would only make its client wait."""
        return self.error is not None and not self.is_stale

    @property
    def is_on_trial(self) -> bool:
        """Whether its requests failed until it rested. A server may list its models while its engine hangs."""
        return self.failed_requests >= MAX_FAILED_REQUESTS

    def record_completion(self) -> None:
        """Record that a request was completed."""
        self.failed_requests = 0

    def record_success(self) -> None:
        self.error, self.checked_at = None, time.monotonic()

    def record_failure(self, reason: str) -> None:
        self.error, self.checked_at = reason, time.monotonic()


def clock_warning(date: str | None, now: float) -> str | None:
    """Return what is wrong with the clock of a server, by the Date of a response, or None."""
    try:
        difference = parsedate_to_datetime(date or "").timestamp() - now
    except ValueError:
        return None
    if abs(difference) < MAX_CLOCK_DIFFERENCE_SECONDS:
        return None
    return f"Its clock is {abs(difference):.0f} seconds {'ahead' if difference > 0 else 'behind'}: set it by NTP."


class ModelListing(msgspec.Struct, frozen=True):
    """The entry of a model in its server's list: an error if it cannot be used, and its context in tokens, or 0.

    warning: what is odd about the server.
    """

    error: str | None = None
    context_size: int = 0
    warning: str | None = None


class _ListedModel(msgspec.Struct):
    id: str = ""
    max_model_len: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class _ModelListBody(msgspec.Struct):
    data: list[_ListedModel] = []


def parse_model_list(model: RemoteModel, status: int, body: bytes) -> ModelListing:
    """Parse the response to GET models. A missing list is no error: the server may still generate."""
    if status in (404, 405, 500, 501):
        return ModelListing()
    if status != 200:
        return ModelListing(unavailable_reason(status))
    try:
        models = {listed.id: listed for listed in msgspec.json.decode(body, type=_ModelListBody).data}
    except msgspec.ValidationError:  # JSON of another form
        return ModelListing()
    except msgspec.DecodeError:
        return ModelListing("The remote server does not answer in OpenAI's form: its address may be wrong.")
    if models and model.name not in models and dialect_of(model).lists_served_models:
        return ModelListing("The remote server does not list the model.")
    listed = models.get(model.name, _ListedModel())
    return ModelListing(None, listed.max_model_len or 0)
