"""Which tokens each slot holds, and who gets which slot. A request computes only what no slot of its user holds."""

from dataclasses import dataclass, field
from itertools import count

from inference.engine.scheduling.sequence import Sequence

# A copy of fewer places costs about as much as computing them.
MIN_COPIED = 8


@dataclass(frozen=True, slots=True)
class Copy:
    """The first `length` places of slot `source` go to slot `target`, before anything else is done in this step."""

    source: int
    target: int
    length: int


@dataclass(eq=False, slots=True)
class _Slot:
    """`ids` are those of the sequence in it, or what the last one left. doubtful: the last one left in the midst of a
    prompt, and until a token is sampled nobody sees whether what was computed is numbers. forgotten: what the sequence
    in it computed is for itself alone."""

    number: int
    user: str = ""
    ids: list[int] = field(default_factory=list)
    sequence: Sequence | None = None
    left_at: int = 0
    doubtful: bool = False
    forgotten: bool = False

    @property
    def held(self) -> int:
        return len(self.ids) if self.sequence is None or self.forgotten else self.sequence.computed


@dataclass(frozen=True, slots=True)
class Seat:
    """What is done to a slot before who takes it runs: it gets the copy, and `clears` it of all behind what is shared,
    which is looked at though it counts for nothing."""

    clears: bool
    copy: Copy | None = None


class PrefixCache:
    """Hands out slots. What one user computed is never found by another: it would tell what others ask."""

    def __init__(self, slots: int) -> None:
        self._slots = [_Slot(number) for number in range(slots)]
        self._clock = count(1)
        self.free = slots

    def take(self, sequence: Sequence) -> Seat:
        """Gives a sequence a free slot and what it need not compute: all but its last token at most.

        The slot with the longest common prefix is taken as it is, unless most of what it holds would be lost or
        somebody is in it: then the prefix is copied to the slot that was left longest ago.
        """
        # The first log probability of a prompt needs its first token's logits.
        most = 0 if sequence.generation.needs_scores else len(sequence.ids) - 1
        shared, source = self._longest_prefix(sequence, most)
        empty = [slot for slot in self._slots if slot.sequence is None]
        oldest = min(empty, key=lambda slot: (slot is source, slot.left_at))
        if source is None or oldest is source or (source.sequence is None and 2 * shared >= source.held):
            return Seat(self._give(source or oldest, sequence, shared))
        if shared < MIN_COPIED:
            return Seat(self._give(oldest, sequence, 0))
        return Seat(self._give(oldest, sequence, shared), Copy(source.number, oldest.number, shared))

    def leave(self, sequence: Sequence) -> None:
        """The slot is free; what was computed in it stays until somebody writes over it."""
        slot = self._slots[sequence.slot]
        assert slot.sequence is sequence
        slot.ids = [] if slot.forgotten else sequence.ids[: sequence.computed]
        slot.sequence, slot.forgotten = None, False
        slot.doubtful = 0 < sequence.computed < len(sequence.generation.prompt_ids)
        slot.left_at = next(self._clock)
        self.free += 1

    def forget(self) -> None:
        """Nothing that slots hold is found any more, nor what is in them now when it is left."""
        for slot in self._slots:
            slot.ids, slot.doubtful, slot.forgotten = [], False, slot.sequence is not None

    def _longest_prefix(self, sequence: Sequence, most: int) -> tuple[int, _Slot | None]:
        """Among equals one that nobody is in."""
        best, found = 0, None
        for slot in self._slots:
            if slot.user == sequence.generation.user:
                shared = common_prefix(sequence.ids, slot.ids, min(most, slot.held))
                if shared > best or (shared == best > 0 and found and found.sequence and slot.sequence is None):
                    best, found = shared, slot
        return best, found

    def _give(self, slot: _Slot, sequence: Sequence, computed: int) -> bool:
        """Whether it has to be cleared."""
        assert slot.sequence is None
        slot.user, slot.ids, slot.sequence = sequence.generation.user, sequence.ids, sequence
        sequence.slot, sequence.computed = slot.number, computed
        self.free -= 1
        clears, slot.doubtful = slot.doubtful, False
        return clears


def common_prefix(some: list[int], others: list[int], most: int) -> int:
    """How many of the first `most` ids are the same."""
    low, high = 0, most
    if most and some[0] != others[0]:
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if some[low:middle] == others[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
