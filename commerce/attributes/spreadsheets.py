"""Attributes as CSV, a line a value, for people who keep them in a spreadsheet."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from commerce.attributes.models import Attribute
from shared.api.errors import ValidationFailed

COLUMNS = ["name", "slug", "language", "value", "meta"]
LONGEST = {"name": 255, "slug": 255, "language": 16, "value": 255, "meta": 1000}
LARGEST_BYTES = 4 * 1024 * 1024
MOST_LINES = 20_000
MOST_ERRORS = 100
# A spreadsheet runs a cell that begins like a formula: such a cell gets an apostrophe before it, and loses it again
# when it comes back. One that begins with an apostrophe gets a second one, so that every text survives the way.
_RISKY = tuple("=+-@\t\r\n'")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})?\Z")


@dataclass
class SheetAttribute:
    """An attribute as a sheet has it. `values`: what the lines say, those with a value, in their order."""

    line: int
    name: str
    slug: str
    language: str
    values: list[dict[str, str]] = field(default_factory=list)


def write_sheet(attributes: Iterable[Attribute]) -> str:
    """The attributes with all their values; an attribute that has none is one line without a value."""
    sheet = io.StringIO(newline="")
    writer = csv.writer(sheet)
    writer.writerow(COLUMNS)
    for attribute in attributes:
        head = [attribute.name, attribute.slug, attribute.language]
        for value, meta in [(row.value, row.meta) for row in attribute.values.all()] or [("", "")]:
            writer.writerow(f"'{cell}" if cell.startswith(_RISKY) else cell for cell in [*head, value, meta])
    return sheet.getvalue()


def read_sheet(content: bytes) -> list[SheetAttribute]:
    """The attributes of a sheet, lines of one attribute taken together. Raises ValidationFailed with what is wrong, by
    line: `errors` has keys such as `csv.3`."""
    attributes: dict[tuple[str, str, str], SheetAttribute] = {}
    errors: dict[str, list[str]] = {}
    for line, cells in _lines(content):
        if wrong := list(_wrong_with(cells)):
            errors[f"csv.{line}"] = wrong
            if len(errors) == MOST_ERRORS:
                break
            continue
        found = SheetAttribute(line, cells["name"], cells["slug"], cells["language"])
        attribute = attributes.setdefault((found.slug, found.name, found.language), found)
        if cells["value"]:
            attribute.values.append({name: cells[name] for name in ("value", "meta") if name in cells})
    if errors:
        raise ValidationFailed(errors)
    if not attributes:
        raise ValidationFailed({"csv": ["There is no line below the first."]})
    return list(attributes.values())


def _lines(content: bytes) -> Iterator[tuple[int, dict[str, str]]]:
    """The number and the cells of each line that is not empty."""
    if len(content) > LARGEST_BYTES:
        raise ValidationFailed({"csv": [f"Send at most {LARGEST_BYTES} bytes."]})
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        head = [name.strip().lower() for name in next(reader, [])]
        if not {"name", "value"} <= set(head) or len(set(head)) != len(head):
            raise ValidationFailed({"csv.1": [f"Name each column once: {', '.join(COLUMNS)}."]})
        for row in reader:
            if reader.line_num > MOST_LINES:
                raise ValidationFailed({"csv": [f"Send at most {MOST_LINES} lines."]})
            if any(cell.strip() for cell in row):
                cells = {name: _read(cell) for name, cell in zip(head, row, strict=False) if name in COLUMNS}
                yield reader.line_num, {"slug": "", "value": ""} | cells | {"language": cells.get("language") or "en"}
    except UnicodeDecodeError:
        raise ValidationFailed({"csv": ["The file is not in UTF-8."]}) from None
    except csv.Error as error:
        raise ValidationFailed({"csv": [f"This is no CSV: {error}."]}) from None


def _read(cell: str) -> str:
    cell = cell.strip(" ")
    return (cell[1:] if cell[:1] == "'" and cell[1:].startswith(_RISKY) else cell).strip()


def _wrong_with(cells: dict[str, str]) -> Iterator[str]:
    if not cells.get("name"):
        yield "The name is missing."
    for name, longest in LONGEST.items():
        text = cells.get(name, "")
        if len(text) > longest:
            yield f"The {name} is longer than {longest} characters."
        if "\x00" in text:
            yield f"The {name} holds a NUL character."
    if not _LANGUAGE.match(cells["language"]):
        yield "The language is none: write en, or pt-BR."
