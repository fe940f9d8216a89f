"""Attributes as a CSV file with one line for each value."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import QuerySet

from commerce.attributes.models import Attribute
from shared.api.errors import ValidationFailed
from shared.querysets import pages_by_pk

COLUMNS = ["name", "slug", "language", "value", "meta"]
MAX_LENGTHS = {"name": 255, "slug": 255, "language": 16, "value": 255, "meta": 1000}
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_FILE_LINES = 20_000
MAX_REPORTED_ERRORS = 100
ATTRIBUTES_PER_QUERY = 10  # with up to 4,000 values each
MIN_CHUNK_LENGTH = 64 * 1024  # characters of a chunk of an export, but for the last
# Spreadsheets run cells that begin like a formula. The export puts an apostrophe before them and the import removes it.
# A cell that begins with an apostrophe gets a second one, so that every text survives the round trip.
_ESCAPED_PREFIXES = tuple("=+-@\t\r\n'")
_LANGUAGE_PATTERN = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})?\Z")


@dataclass
class CsvAttribute:
    """An attribute in a CSV file. `values` has its lines with a value, in their order."""

    line: int
    name: str
    slug: str
    language: str
    values: list[dict[str, str]] = field(default_factory=list)


def write_csv(attributes: "QuerySet[Attribute]") -> Iterator[bytes]:
    """Yield a file of the attributes with all their values, read a few attributes at a time.

    An attribute without values is one line with an empty value.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for page in pages_by_pk(attributes.prefetch_related("values"), page_size=ATTRIBUTES_PER_QUERY):
        writer.writerows(line for attribute in page for line in _attribute_lines(attribute))
        if file.tell() >= MIN_CHUNK_LENGTH:
            yield file.getvalue().encode()
            file.seek(file.truncate(0))
    yield file.getvalue().encode()


def _attribute_lines(attribute: Attribute) -> Iterator[Iterator[str]]:
    head = [attribute.name, attribute.slug, attribute.language]
    for value, meta in [(row.value, row.meta) for row in attribute.values.all()] or [("", "")]:
        yield (f"'{cell}" if cell.startswith(_ESCAPED_PREFIXES) else cell for cell in [*head, value, meta])


def read_csv(content: bytes) -> list[CsvAttribute]:
    """Return the attributes of a file, with the lines of one attribute together.

    Raises ValidationFailed whose keys name the line, as in `csv.3`.
    """
    attributes: dict[tuple[str, str, str], CsvAttribute] = {}
    errors: dict[str, list[str]] = {}
    for line, cells in _lines(content):
        if line_errors := list(_line_errors(cells)):
            errors[f"csv.{line}"] = line_errors
            if len(errors) == MAX_REPORTED_ERRORS:
                break
            continue
        parsed = CsvAttribute(line, cells["name"], cells["slug"], cells["language"])
        attribute = attributes.setdefault((parsed.slug, parsed.name, parsed.language), parsed)
        if cells["value"]:
            attribute.values.append({name: cells[name] for name in ("value", "meta") if name in cells})
    if errors:
        raise ValidationFailed(errors)
    if not attributes:
        raise ValidationFailed({"csv": ["The file has no line below the header."]})
    return list(attributes.values())


def _lines(content: bytes) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the cells of each line that is not empty."""
    if len(content) > MAX_FILE_BYTES:
        raise ValidationFailed({"csv": [f"The file has {len(content)} bytes; at most {MAX_FILE_BYTES} are allowed."]})
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = [name.strip().lower() for name in next(reader, [])]
        if not {"name", "value"} <= set(header) or len(set(header)) != len(header):
            raise ValidationFailed({"csv.1": [f"The header must name each column once: {', '.join(COLUMNS)}."]})
        for row in reader:
            if reader.line_num > MAX_FILE_LINES:
                raise ValidationFailed({"csv": [f"The file has more than {MAX_FILE_LINES} lines."]})
            if any(cell.strip() for cell in row):
                cells = {name: _unescape(cell) for name, cell in zip(header, row, strict=False) if name in COLUMNS}
                yield reader.line_num, {"slug": "", "value": ""} | cells | {"language": cells.get("language") or "en"}
    except UnicodeDecodeError:
        raise ValidationFailed({"csv": ["The file is not in UTF-8."]}) from None
    except csv.Error as error:
        raise ValidationFailed({"csv": [f"The file is not valid CSV: {error}."]}) from None


def _unescape(cell: str) -> str:
    cell = cell.strip(" ")
    return (cell[1:] if cell[:1] == "'" and cell[1:].startswith(_ESCAPED_PREFIXES) else cell).strip()


def _line_errors(cells: dict[str, str]) -> Iterator[str]:
    if not cells.get("name"):
        yield "The name is missing."
    for name, max_length in MAX_LENGTHS.items():
        text = cells.get(name, "")
        if len(text) > max_length:
            yield f"The {name} has {len(text)} characters; at most {max_length} are allowed."
        if "\x00" in text:
            yield f"The {name} contains a NUL character."
    if not _LANGUAGE_PATTERN.match(cells["language"]):
        yield "The language must be a code such as en or pt-BR."
