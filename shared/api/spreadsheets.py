"""What people wrote as a cell of a CSV file, which a spreadsheet shows and does not run."""

from unicodedata import normalize

FORMULA_MARKS = ("=", "+", "-", "@")
LINE_BREAKERS = ("\t", "\r", "\n")


def text_cell(text: str) -> str:
    """No cell is a formula, also behind white space or with a mark of another width, of which some programs make the
    plain one. Nor is what follows a semicolon, at which spreadsheets of many countries part cells, whatever quotes are
    around it."""
    text = text.replace(";", ";'")
    first = normalize("NFKC", text.lstrip()[:1])  # alone: what is combined with it would hide it
    return f"'{text}" if first.startswith(FORMULA_MARKS) or text.startswith(LINE_BREAKERS) else text
