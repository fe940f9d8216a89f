"""The seam between the loop and the model: a step is a list of spans, run in one forward."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Span:
    """Some tokens of one slot, run in one step; one token is a decode, more are a piece of a prompt.

    start: the place of the first of `ids`. What is before it in the slot is there, maybe from an earlier request;
        what is behind it is written over.
    every: logits for every token instead of the last (for a prompt's log probabilities).
    wanted: False for a piece in the middle of a prompt, which has no row of logits at all, whatever `every` says.
    """

    slot: int
    start: int
    ids: list[int]
    every: bool = False
    wanted: bool = True

    @property
    def end(self) -> int:
        """The place behind the last of `ids`."""
        return self.start + len(self.ids)

    @property
    def rows(self) -> int:
        """How many rows of logits it gets."""
        if not self.wanted:
            return 0
        return len(self.ids) if self.every else 1


class Decoder(Protocol):
    """A model over slots of keys and values. Used from one thread."""

    def run(self, spans: Sequence[Span]) -> "Tensor":
        """Float32 logits [rows, vocabulary] on the CPU, rows in the order of the spans. No slot is in two spans.

        The rows are the caller's until the next `run`, which may write over them.
        """
        ...

    def copy(self, source: int, target: int, length: int) -> None:
        """Gives `target` the first `length` places of `source`: a prefix that two requests share."""
        ...

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        """Forgets a slot whose numbers may be none, from place `start` on; or every slot, after a step that failed."""
        ...
