"""The path converter for ids."""

import pytest
from django.urls import URLPattern, path
from django.views import View

pytestmark = pytest.mark.no_database

IDS = path("things/<id:pk>", View.as_view())


def id_in(text: str, pattern: URLPattern = IDS) -> object:
    match = pattern.resolve(f"things/{text}")
    return match.kwargs["pk"] if match else None


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("42", 42), (str(2**31), 2**31), (str(2**63 - 1), 2**63 - 1)])
def test_an_id_is_converted_to_an_integer(text: str, number: int):
    assert id_in(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "+1",
        "01",
        "1.0",
        "1e3",
        " 1",
        "1\n",
        "٣",
        "\uff13",
        "1_0",
        str(2**63),
        str(10**30),
        "x",
        "9" * 5000,
    ],
)
def test_i7_an_invalid_id_matches_no_path(text: str):
    assert id_in(text) is None


def test_a_path_is_reversed_from_an_id():
    assert IDS.pattern.converters["pk"].to_url(7) == "7"
