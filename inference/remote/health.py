"""Which remote models can be reached, as requests and checks have found."""

import time
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.remote.configuration import RemoteModel
from inference.remote.dialects import dialect_of
from inference.remote.errors import reason_of_refusal

CHECKED_EVERY_S = 5.0


@dataclass
class Health:
    """Of one remote model. error: None while it answers, as far as is known. context_size: 0 is not told."""

    error: str | None = None
    context_size: int = 0
    checked_at: float = field(default=float("-inf"))

    @property
    def is_stale(self) -> bool:
        return time.monotonic() > self.checked_at + CHECKED_EVERY_S

    @property
    def refuses(self) -> bool:
        """It failed a moment ago: asking it again would only make its clients wait."""
        return self.error is not None and not self.is_stale

    def note_success(self) -> None:
        self.error, self.checked_at = None, time.monotonic()

    def note_failure(self, reason: str) -> None:
        self.error, self.checked_at = reason, time.monotonic()


class Listing(msgspec.Struct, frozen=True):
    """What a server's list of models says of one: why it cannot be used, or its context in tokens, 0 if not told."""

    reason: str | None = None
    context_size: int = 0


class _Entry(msgspec.Struct):
    id: str = ""
    max_model_len: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class _Page(msgspec.Struct):
    data: list[_Entry] = []


def read_listing(model: RemoteModel, status: int, body: bytes) -> Listing:
    """Of the answer to GET models; not every server has a list, and one that breaks making it may still write."""
    if status in (404, 405, 500, 501):
        return Listing()
    if status != 200:
        return Listing(reason_of_refusal(status))
    try:
        entries = {entry.id: entry for entry in msgspec.json.decode(body, type=_Page).data}
    except msgspec.DecodeError:
        return Listing()
    if entries and model.name not in entries and dialect_of(model).lists_served:
        return Listing("The remote server does not list the model.")
    entry = entries.get(model.name, _Entry())
    return Listing(None, entry.max_model_len or 0)
