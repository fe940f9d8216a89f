"""CSV files that clients upload and download: their size, their cells, and errors that name a line."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from shared.api.errors import ValidationFailed

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_FILE_LINES = 20_000
MAX_REPORTED_ERRORS = 100
MIN_CHUNK_LENGTH = 64 * 1024  # characters of a chunk of an export, but for the last
# Spreadsheets run cells that begin like a formula. An export puts an apostrophe before them and an import removes it.
# A cell that begins with an apostrophe gets a second one, so that every text survives the round trip.
_ESCAPED_PREFIXES = tuple("=+-@\t\r\n'")


class LineErrors:
    """Errors of a file's lines, with keys such as `csv.3`."""

    def __init__(self) -> None:
        self._errors: dict[str, list[str]] = {}

    def add(self, line: int, messages: Iterable[str]) -> bool:
        """Add the messages of a line, if it has any, and return whether it has. Raises at MAX_REPORTED_ERRORS lines."""
        found = list(messages)
        if found:
            self._errors.setdefault(f"csv.{line}", []).extend(found)
            if len(self._errors) == MAX_REPORTED_ERRORS:
                self.raise_any()
        return bool(found)

    def raise_any(self) -> None:
        """Raise ValidationFailed if a line has an error."""
        if self._errors:
            raise ValidationFailed(self._errors)


def write_csv(columns: Sequence[str], lines: Iterable[Iterable[str]]) -> Iterator[bytes]:
    """Yield a file with a header, in chunks; no cell is a formula."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(columns)
    for line in lines:
        writer.writerow([_escape(cell) for cell in line])
        if file.tell() >= MIN_CHUNK_LENGTH:
            yield file.getvalue().encode()
            file.seek(file.truncate(0))
    yield file.getvalue().encode()


def read_csv(
    content: bytes, *, columns: Sequence[str], required: Iterable[str] = (), one_of: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the cells of each line that is not empty; columns with other names are ignored.

    Raises ValidationFailed for a file that is too large, not valid, or lacks a `required` column or each of `one_of`.
    """
    if len(content) > MAX_FILE_BYTES:
        raise ValidationFailed({"csv": [f"The file has {len(content)} bytes; at most {MAX_FILE_BYTES} are allowed."]})
    is_empty = True
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = [name.strip().lower() for name in next(reader, [])]
        if not set(required) <= set(header) or len(set(header)) != len(header):
            raise ValidationFailed({"csv.1": [f"The header must name each column once: {', '.join(columns)}."]})
        if one_of and not set(one_of) & set(header):
            names = f"{', '.join(one_of[:-1])} and {one_of[-1]}"
            raise ValidationFailed({"csv.1": [f"The header must have one of the columns {names}."]})
        for row in reader:
            if reader.line_num > MAX_FILE_LINES:
                raise ValidationFailed({"csv": [f"The file has more than {MAX_FILE_LINES} lines."]})
            if any(cell.strip() for cell in row):
                is_empty = False
                cells = zip(header, row, strict=False)
                yield reader.line_num, {name: _unescape(cell) for name, cell in cells if name in columns}
    except UnicodeDecodeError:
        raise ValidationFailed({"csv": ["The file is not in UTF-8."]}) from None
    except csv.Error as error:
        raise ValidationFailed({"csv": [f"The file is not valid CSV: {error}."]}) from None
    if is_empty:
        raise ValidationFailed({"csv": ["The file has no line below the header."]})


def _escape(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_ESCAPED_PREFIXES) else cell


def _unescape(cell: str) -> str:
    cell = cell.strip(" ")
    return (cell[1:] if cell[:1] == "'" and cell[1:].startswith(_ESCAPED_PREFIXES) else cell).strip()
