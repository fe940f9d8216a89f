"""What people wrote as a cell of a CSV file, which a spreadsheet shows and does not run."""

FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")


def text_cell(text: str) -> str:
    """No cell is a formula. Nor is what follows a semicolon, at which spreadsheets of many countries part cells,
    whatever quotes are around it."""
    text = text.replace(";", ";'")
    return f"'{text}" if text.startswith(FORMULA_MARKS) else text
