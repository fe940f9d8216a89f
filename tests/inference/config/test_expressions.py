"""Row I6: no regular expression of the model server takes longer for a hostile text than its length.

The recipe of the built-in models is left out: it reads its own words. What it shares is tried with the shop's.
"""

import pytest

import inference
from tests.shared.expressions import MAX_MATCH_SECONDS, expressions_of, max_match_seconds

FOUND = {name: found for name, found in expressions_of(inference).items() if not name.startswith("inference.builtin.")}


def test_i6_the_regular_expressions_are_found():
    assert len(FOUND) > 28
    assert {"inference.downloads.hub._COMMIT", "inference.protocol.native.batches.BatchItemId"} <= FOUND.keys()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", sorted(FOUND))
def test_i6_a_hostile_text_is_matched_in_time(name: str):
    assert max_match_seconds(FOUND[name]) < MAX_MATCH_SECONDS
