"""The ids that were seen in a file."""

import time
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count, islice

from inference.openai_batches.seen_ids import SeenIds


def test_an_id_has_the_line_on_which_it_was_first_seen_however_many_follow():
    seen = SeenIds()
    ids = [f"request-{number}" for number in range(5000)] + ["", "ä", "\ud800"]

    assert [seen.first_line(one, number) for number, one in enumerate(ids, 1)] == list(range(1, 5004))
    assert [seen.first_line(one, 9999) for one in reversed(ids)] == list(range(5003, 0, -1))


def seconds_to_see(ids: Sequence[str]) -> float:
    seen, started = SeenIds(), time.process_time()
    for number, one in enumerate(ids, 1):
        seen.first_line(one, number)
    return time.process_time() - started


def test_ids_that_were_chosen_for_one_slot_take_no_longer():
    ids = (f"{number}" for number in count())
    chosen = list(islice((one for one in ids if slot(one) == 0), 500))

    assert min(seconds_to_see(chosen) for _ in range(5)) < 4 * min(seconds_to_see(ids_of(500)) for _ in range(5))


def slot(one: str) -> int:
    """Return the slot of 1024 that an id has without a key."""
    return int.from_bytes(blake2b(one.encode(), digest_size=8).digest()) % 1024


def ids_of(number: int) -> list[str]:
    return [f"{one}" for one in range(number)]
