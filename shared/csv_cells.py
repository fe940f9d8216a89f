"""What people wrote as a cell of a CSV file, which a spreadsheet shows and does not run."""

import re
from unicodedata import normalize

FORMULA_MARKS = ("=", "+", "-", "@")
LINE_BREAKERS = ("\t", "\r", "\n")
NEXT_CELL = re.compile(r"\r\n|[;\t\r\n]")


def escape_csv_cell(text: str) -> str:
    """No cell is a formula, also behind white space or with a mark of another width, of which some programs make the
    plain one. Nor is what follows a semicolon, a tab or the end of a line: where spreadsheets part cells at one of
    these, they part lines and cells there whatever quotes are around them."""
    first = normalize("NFKC", text.lstrip()[:1])  # alone: what is combined with it would hide it
    is_marked = first.startswith(FORMULA_MARKS) or text.startswith(LINE_BREAKERS)
    return "'" * is_marked + NEXT_CELL.sub(r"\g<0>'", text)
