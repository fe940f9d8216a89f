"""The JSON of responses, which is that of DRF."""

import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import TextChoices
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.serializer_helpers import ReturnDict, ReturnList

from shared.api.renderers import FastJSONRenderer


class Color(TextChoices):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -1, 2**62, 12.5, 0.1, 10.0, "", 'quote " \\ / \x00 \n \x7f', "Füße 猫 🐈", "\u2028 \u2029",
        [], {}, {"a": [1, None, {"b": "c"}]}, {1: "one"}, (1, 2), uuid.UUID(int=7), Color.RED,
        mark_safe("<b>"), gettext_lazy("Name"), date(2026, 11, 25), datetime(2026, 11, 25, 1, 2, 3, 456000, UTC),
        ReturnDict({"a": 1}, serializer=None), ReturnList([1], serializer=None),
    ],
)  # fmt: skip
def test_values_are_rendered_as_drf_renders_them(value: Any):
    assert FastJSONRenderer().render(value) == JSONRenderer().render(value)


@pytest.mark.parametrize("number", [Decimal("1.50"), 1e-7, 1e22])
def test_numbers_may_be_written_differently(number: Any):
    assert json.loads(FastJSONRenderer().render([number])) == json.loads(JSONRenderer().render([number]))


def test_an_indent_that_the_client_asks_for_is_kept():
    body = FastJSONRenderer().render({"a": 1}, "application/json; indent=2")
    assert body == b'{\n  "a": 1\n}'
