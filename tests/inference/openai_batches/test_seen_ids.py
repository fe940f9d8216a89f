"""The ids that were seen in a file."""

from inference.openai_batches.seen_ids import SeenIds


def test_an_id_has_the_line_on_which_it_was_first_seen_however_many_follow():
    seen = SeenIds()
    ids = [f"request-{number}" for number in range(5000)] + ["", "ä", "\ud800"]

    assert [seen.first_line(one, number) for number, one in enumerate(ids, 1)] == list(range(1, 5004))
    assert [seen.first_line(one, 9999) for one in reversed(ids)] == list(range(5003, 0, -1))
