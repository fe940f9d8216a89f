"""The ids that were seen in a file of up to millions of lines, in little memory."""

import secrets
from array import array
from hashlib import blake2b

MIN_SLOT_COUNT = 1024


class SeenIds:
    """The line on which each id was first seen, by a hash of 64 bits: 24 to 48 bytes an id, where a dict takes 200.

    An open-addressing hash table, at most half full. Its hashes have a random key: a client that chose ids of one slot
    would make each search long. Two ids of a million share a hash in one of 30 million files.
    """

    def __init__(self) -> None:
        self._count = 0
        self._key = secrets.token_bytes(16)
        self._resize(MIN_SLOT_COUNT)

    def first_line(self, seen_id: str, number: int) -> int:
        """Return the number of the first line with this id: `number` if there was none before."""
        if 2 * self._count >= len(self._hashes):
            self._grow()
        digest = blake2b(seen_id.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest()
        hashed = int.from_bytes(digest) or 1  # 0 is an empty slot
        slot = self._slot_of(hashed)
        if not self._hashes[slot]:
            self._hashes[slot], self._lines[slot] = hashed, number
            self._count += 1
        return self._lines[slot]

    def _slot_of(self, hashed: int) -> int:
        """Return the slot that has the hash, or the empty one where it belongs."""
        last = len(self._hashes) - 1
        slot = hashed & last
        while self._hashes[slot] not in (0, hashed):
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        hashes, lines = self._hashes, self._lines
        self._resize(2 * len(hashes))
        for hashed, line in zip(hashes, lines, strict=True):
            if hashed:
                slot = self._slot_of(hashed)
                self._hashes[slot], self._lines[slot] = hashed, line

    def _resize(self, slot_count: int) -> None:
        """Make an empty table. slot_count: a power of two."""
        self._hashes = array("Q", bytes(8 * slot_count))
        self._lines = array("I", bytes(4 * slot_count))
