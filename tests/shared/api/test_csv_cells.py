"""Escaping of CSV cells."""

import pytest

from shared.api.csv_cells import escape_csv_cell


@pytest.mark.parametrize("mark", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\u207a"])
@pytest.mark.parametrize("before", ["", " ", "\n", "\r\n", "\t", "\u00a0", "\u3000 \n"])
def test_text_that_a_spreadsheet_may_run_as_a_formula_gets_an_apostrophe(mark: str, before: str):
    for after in ("1+1", "", "\u0338 1"):
        told = escape_csv_cell(f"{before}{mark}{after}")
        assert told.startswith("'")
        assert told.replace("'", "") == f"{before}{mark}{after}"


@pytest.mark.parametrize("beginning", ["\t", "\r", "\n"])
def test_text_that_begins_a_cell_or_a_line_gets_an_apostrophe(beginning: str):
    assert escape_csv_cell(f"{beginning}Oak") == f"'{beginning}'Oak"


@pytest.mark.parametrize("text", ["", " ", "Oak", " Oak = wood", "\u00bd = 0.5", "a-b", "1-1", "\u4e00=", "'=1"])
def test_other_text_is_unchanged(text: str):
    assert escape_csv_cell(text) == text


@pytest.mark.parametrize("separator", [";", "\t", "\n", "\r", "\r\n"])
def test_text_after_a_separator_or_a_line_break_is_escaped_too(separator: str):
    assert escape_csv_cell(f"Oak{separator}=1+1") == f"Oak{separator}'=1+1"
    assert escape_csv_cell(f"Oak{separator} =2{separator}x") == f"Oak{separator}' =2{separator}'x"
