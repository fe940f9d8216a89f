"""Escaping of untrusted text in CSV files, against formulas that a spreadsheet would run."""

import re
from unicodedata import normalize

FORMULA_PREFIXES = ("=", "+", "-", "@")
CELL_SEPARATORS = ("\t", "\r", "\n")
CELL_START = re.compile(r"\r\n|[;\t\r\n]")


def escape_csv_cell(text: str) -> str:
    """Return the text as a cell that no spreadsheet program runs as a formula.

    A formula may follow white space or begin with a full-width mark. Some programs start a new cell at a semicolon, a
    tab or a line break even inside quotes, so text after one of these is escaped as well.
    """
    first = normalize("NFKC", text.lstrip()[:1])  # alone, as it could combine with the next character
    is_marked = first.startswith(FORMULA_PREFIXES) or text.startswith(CELL_SEPARATORS)
    return "'" * is_marked + CELL_START.sub(r"\g<0>'", text)
