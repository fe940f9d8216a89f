"""The prefix cache: the tokens that each slot holds, and which sequence gets which slot."""

from dataclasses import dataclass, field
from itertools import count

from inference.engine.scheduling.sequence import Sequence

# A copy of fewer positions costs about as much as computing them.
MIN_COPIED_TOKENS = 8


@dataclass(frozen=True, slots=True)
class SlotCopy:
    """A copy of the first `length` positions of slot `source` to slot `target`, made before the step runs."""

    source: int
    target: int
    length: int


@dataclass(eq=False, slots=True)
class _Slot:
    """A slot with the tokens of its sequence, or of the last one.

    unverified: the last sequence left in the middle of its prompt. Until a token is sampled, nobody knows whether the
        computed values are finite.
    invalidated: no other sequence may use the values of the current one.
    """

    number: int
    user: str = ""
    ids: list[int] = field(default_factory=list)
    sequence: Sequence | None = None
    released_at: int = 0
    unverified: bool = False
    invalidated: bool = False

    @property
    def computed(self) -> int:
        """Return the number of positions that others may reuse."""
        return len(self.ids) if self.sequence is None or self.invalidated else self.sequence.computed


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """The preparation of a slot before its new sequence runs: an optional copy, then clearing the positions after it.

    Masked positions still enter attention, multiplied by zero, so they must be finite.
    """

    needs_clearing: bool
    copy: SlotCopy | None = None


class PrefixCache:
    """Slots with reusable prefixes. Users never share prefixes: a hit would reveal prompts of others."""

    def __init__(self, slots: int, *, reuses_prefixes: bool = True) -> None:
        self._reuses_prefixes = reuses_prefixes
        self._slots = [_Slot(number) for number in range(slots)]
        self._clock = count(1)
        self.free = slots

    def assign(self, sequence: Sequence) -> SlotAssignment:
        """Assign a free slot to a sequence and set its `slot` and `computed`. At least its last token stays to compute.

        The slot with the longest common prefix is used in place, unless it is in use or most of it would be lost.
        Otherwise the prefix is copied to the least recently released slot.
        """
        # The first log probability of a prompt needs its first token's logits.
        is_whole = sequence.generation.needs_prompt_logprobs or not self._reuses_prefixes
        limit = 0 if is_whole else len(sequence.ids) - 1
        shared, source = self._longest_prefix(sequence, limit)
        empty = [slot for slot in self._slots if slot.sequence is None]
        oldest = min(empty, key=lambda slot: (slot is source, slot.released_at))
        if source is None or oldest is source or (source.sequence is None and 2 * shared >= source.computed):
            return SlotAssignment(self._occupy(source or oldest, sequence, shared))
        if shared < MIN_COPIED_TOKENS:
            return SlotAssignment(self._occupy(oldest, sequence, 0))
        return SlotAssignment(self._occupy(oldest, sequence, shared), SlotCopy(source.number, oldest.number, shared))

    def release(self, sequence: Sequence) -> None:
        """Free the slot of a sequence. Its computed prefix stays reusable until it is overwritten."""
        slot = self._slots[sequence.slot]
        assert slot.sequence is sequence
        slot.ids = [] if slot.invalidated else sequence.ids[: sequence.computed]
        slot.sequence, slot.invalidated = None, False
        slot.unverified = 0 < sequence.computed < len(sequence.generation.prompt_ids)
        slot.released_at = next(self._clock)
        self.free += 1

    def invalidate(self) -> None:
        """Forget all prefixes, also those that current sequences leave behind later."""
        for slot in self._slots:
            slot.ids, slot.unverified, slot.invalidated = [], False, slot.sequence is not None

    def _longest_prefix(self, sequence: Sequence, limit: int) -> tuple[int, _Slot | None]:
        """Return the longest common prefix and its slot. Among equals, a free slot is preferred."""
        longest, found = 0, None
        for slot in self._slots:
            if slot.user == sequence.generation.user:
                shared = common_prefix(sequence.ids, slot.ids, min(limit, slot.computed))
                is_freer = found is not None and found.sequence is not None and slot.sequence is None
                if shared > longest or (shared == longest > 0 and is_freer):
                    longest, found = shared, slot
        return longest, found

    def _occupy(self, slot: _Slot, sequence: Sequence, computed: int) -> bool:
        """Put a sequence into a slot. Return whether the slot needs clearing."""
        assert slot.sequence is None
        slot.user, slot.ids, slot.sequence = sequence.generation.user, sequence.ids, sequence
        sequence.slot, sequence.computed = slot.number, computed
        self.free -= 1
        needs_clearing, slot.unverified = slot.unverified, False
        return needs_clearing


def common_prefix(some: list[int], others: list[int], limit: int) -> int:
    """Return the length of the common prefix within the first `limit` ids, by binary search."""
    low, high = 0, limit
    if limit and some[0] != others[0]:
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if some[low:middle] == others[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
