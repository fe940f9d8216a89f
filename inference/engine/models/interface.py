"""The interface between the engine loop and a causal model: a step is a list of spans, run in one forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Tokens of one slot to run in a step: one token is a decode, several are a chunk of a prompt.

    start: position of the first of `ids`. Earlier positions of the slot are filled; later ones are overwritten.
    all_logits: logits for every token instead of the last, for a prompt's log probabilities.
    needs_logits: False for a chunk in the middle of a prompt, which has no row of logits.
    """

    slot: int
    start: int
    ids: list[int]
    all_logits: bool = False
    needs_logits: bool = True

    @property
    def end(self) -> int:
        """Return the position after the last of `ids`."""
        return self.start + len(self.ids)

    @property
    def rows(self) -> int:
        """Return the number of rows of logits."""
        if not self.needs_logits:
            return 0
        return len(self.ids) if self.all_logits else 1


class Decoder(Protocol):
    """A causal model with a KV cache in slots. Not thread-safe, but for `cache_bytes`."""

    @property
    def threads(self) -> int:
        """Return the number of threads for which a step is fastest, or 0 if a GPU computes it.

        Steps use as many as torch does on the calling thread.
        """
        ...

    @property
    def cache_bytes(self) -> int:
        """Return the memory that the cache takes now."""
        ...

    def run(self, spans: Sequence[TokenSpan]) -> "Tensor":
        """Return logits, float32 [rows, vocabulary] on the CPU, in the order of the spans. Slots are distinct.

        The next `run` may overwrite them.
        """
        ...

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of slot `source` to slot `target`."""
        ...

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        """Set a slot to zeros from position `start` on, or every slot: its values may be NaN or infinity."""
        ...
