"""Row I6: every regular expression of the shop and of shared code matches hostile texts in linear time."""

import pytest

import commerce
import shared
from tests.shared.expressions import MAX_MATCH_SECONDS, expressions_of, max_match_seconds

pytestmark = pytest.mark.no_database

FOUND = expressions_of(commerce, shared)


def test_i6_every_regular_expression_is_collected():
    assert len(FOUND) > 20
    assert {"shared.api.query_params._WHOLE_NUMBER", "commerce.descriptions.text.plain_text._TAG"} <= FOUND.keys()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", sorted(FOUND))
def test_i6_hostile_texts_are_matched_in_linear_time(name: str):
    assert max_match_seconds(FOUND[name]) < MAX_MATCH_SECONDS
