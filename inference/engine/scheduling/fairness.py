"""Whose turn it is: users share the slots evenly, and among those with equally many the least served goes first."""

from collections import Counter

from inference.engine.scheduling.sequence import Sequence

Turn = tuple[bool, int, int, int, int, int]


class Turns:
    """Counts, for each user, choices in the engine, slots, and tokens served.

    The tokens are a virtual counter as in arXiv 2401.00588: who comes after a rest starts where the least served of
    the present stands, so that a rest saves up no claim.
    """

    def __init__(self) -> None:
        self._present: Counter[str] = Counter()
        self._slots: Counter[tuple[bool, str]] = Counter()
        self._served: dict[str, int] = {}

    def come(self, user: str, choices: int) -> None:
        if not self._present[user]:
            least = min((self._served[other] for other, there in self._present.items() if there), default=None)
            if least is None:
                self._served.clear()
            elif len(self._served) > 2 * len(self._present):
                # Of those who are away, only who is ahead of the least served is remembered.
                self._served = {
                    other: served for other, served in self._served.items() if self._present[other] or served > least
                }
            self._served[user] = max(self._served.get(user, 0), least or 0)
        self._present[user] += choices

    def leave(self, user: str) -> None:
        self._present[user] -= 1
        if not self._present[user]:
            del self._present[user]

    def take_slot(self, sequence: Sequence) -> None:
        self._slots[_place(sequence)] += 1

    def give_slot(self, sequence: Sequence) -> None:
        self._slots[_place(sequence)] -= 1
        if not self._slots[_place(sequence)]:
            del self._slots[_place(sequence)]

    def serve(self, sequence: Sequence, tokens: int) -> None:
        self._served[sequence.generation.user] += tokens

    def turn(self, sequence: Sequence) -> Turn:
        """Smallest first: interactive before batch, then priority, fewest slots, least served, first come."""
        one = sequence.generation
        return (
            one.batch,
            -one.priority,
            self._slots[_place(sequence)],
            self._served[one.user],
            one.order,
            sequence.choice,
        )

    def makes_room(self, running: list[Sequence], waiting: Sequence) -> Sequence | None:
        """Who of those that run has to leave a slot to one that waits: the one who loses least.

        Batch gives way to interactive work; then the user with the most slots to one with at least two less.
        """
        batch = [] if waiting.generation.batch else [one for one in running if one.generation.batch]
        if batch:
            return min(batch, key=lambda one: (one.generation.priority, len(one.ids)))
        own = self._slots[_place(waiting)] + 1
        rich = [
            one
            for one in running
            if one.generation.batch == waiting.generation.batch
            and one.generation.priority <= waiting.generation.priority
            and self._slots[_place(one)] > own
        ]
        return min(rich, key=lambda one: (-self._slots[_place(one)], len(one.ids)), default=None)


def _place(sequence: Sequence) -> tuple[bool, str]:
    return sequence.generation.batch, sequence.generation.user
