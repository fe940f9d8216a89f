"""Fair sharing of slots: users get equal numbers of slots, and among equals the least served user comes first."""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator

from inference.engine.scheduling.sequence import Sequence

PriorityKey = tuple[bool, int, int, int, int, int]


class WaitingSequences:
    """Sequences without a slot, in order of priority and arrival within each user's interactive or batch work."""

    def __init__(self) -> None:
        self._by_share: dict[tuple[bool, str], list[Sequence]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            insort(self._by_share.setdefault(_share(sequence), []), sequence, key=_order_of_share)
            self._count += 1

    def remove(self, sequence: Sequence) -> None:
        of_share = self._by_share[_share(sequence)]
        of_share.remove(sequence)
        self._count -= 1
        if not of_share:
            del self._by_share[_share(sequence)]

    def firsts(self) -> Iterator[Sequence]:
        """Yield the first of each user's interactive and batch work that waits for no other choice's prompt."""
        for of_share in self._by_share.values():
            for sequence in of_share:
                if not sequence.generation.prefilling:
                    yield sequence
                    break


class FairShare:
    """Counts of each user's unfinished choices, slots and served tokens.

    Served tokens are a virtual counter as in arXiv 2401.00588. A user who returns starts at the count of the least
    served present user, so absence earns no credit.
    """

    def __init__(self) -> None:
        self._choices: Counter[str] = Counter()
        self._slots: Counter[tuple[bool, str]] = Counter()
        self._served: dict[str, int] = {}

    def add_choices(self, user: str, count: int) -> None:
        if not self._choices[user]:
            least = min((self._served[other] for other, present in self._choices.items() if present), default=None)
            if least is None:
                self._served.clear()
            elif len(self._served) > 2 * len(self._choices):
                # Absent users at or below the least served count would start there anyway.
                self._served = {
                    other: served for other, served in self._served.items() if self._choices[other] or served > least
                }
            self._served[user] = max(self._served.get(user, 0), least or 0)
        self._choices[user] += count

    def remove_choice(self, user: str) -> None:
        self._choices[user] -= 1
        if not self._choices[user]:
            del self._choices[user]

    def add_slot(self, sequence: Sequence) -> None:
        self._slots[_share(sequence)] += 1

    def remove_slot(self, sequence: Sequence) -> None:
        self._slots[_share(sequence)] -= 1
        if not self._slots[_share(sequence)]:
            del self._slots[_share(sequence)]

    def add_served(self, sequence: Sequence, tokens: int) -> None:
        self._served[sequence.generation.user] += tokens

    def priority_key(self, sequence: Sequence) -> PriorityKey:
        """Return a sort key, smallest first.

        It orders by interactive before batch, priority, fewest slots, least served, and arrival.
        """
        generation = sequence.generation
        return (
            generation.batch,
            -generation.priority,
            self._slots[_share(sequence)],
            self._served[generation.user],
            generation.arrival_order,
            sequence.choice,
        )

    def choose_preempted(self, running: list[Sequence], waiting: Sequence) -> Sequence | None:
        """Return the running sequence that gives its slot to a waiting one: the one that loses least, or None.

        Batch work gives way to interactive work; the user with most slots to one with at least two fewer.
        """
        batch = [] if waiting.generation.batch else [one for one in running if one.generation.batch]
        if batch:
            return min(batch, key=lambda one: (one.generation.priority, len(one.ids)))
        fair_count = self._slots[_share(waiting)] + 1
        candidates = [
            one
            for one in running
            if one.generation.batch == waiting.generation.batch
            and one.generation.priority <= waiting.generation.priority
            and self._slots[_share(one)] > fair_count
        ]
        return min(candidates, key=lambda one: (-self._slots[_share(one)], len(one.ids)), default=None)


def _order_of_share(sequence: Sequence) -> tuple[int, int, int]:
    return -sequence.generation.priority, sequence.generation.arrival_order, sequence.choice


def _share(sequence: Sequence) -> tuple[bool, str]:
    return sequence.generation.batch, sequence.generation.user
