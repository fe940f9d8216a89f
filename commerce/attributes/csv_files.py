"""Attributes as a CSV file with one line for each value."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import QuerySet

from commerce.attributes.models import Attribute
from shared.api import csv_files
from shared.api.csv_files import LineErrors
from shared.querysets import pages_by_pk

COLUMNS = ["name", "slug", "language", "value", "meta"]
MAX_LENGTHS = {"name": 255, "slug": 255, "language": 16, "value": 255, "meta": 1000}
ATTRIBUTES_PER_QUERY = 10  # with up to 4,000 values each
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
    pages = pages_by_pk(attributes.prefetch_related("values"), page_size=ATTRIBUTES_PER_QUERY)
    lines = (line for page in pages for attribute in page for line in _attribute_lines(attribute))
    return csv_files.write_csv(COLUMNS, lines)


def _attribute_lines(attribute: Attribute) -> Iterator[list[str]]:
    head = [attribute.name, attribute.slug, attribute.language]
    for value, meta in [(row.value, row.meta) for row in attribute.values.all()] or [("", "")]:
        yield [*head, value, meta]


def read_csv(content: bytes) -> list[CsvAttribute]:
    """Return the attributes of a file, with the lines of one attribute together.

    Raises ValidationFailed whose keys name the line, as in `csv.3`.
    """
    attributes: dict[tuple[str, str, str], CsvAttribute] = {}
    errors = LineErrors()
    for line, sent in csv_files.read_csv(content, columns=COLUMNS, required=("name", "value")):
        cells = {"slug": "", "value": ""} | sent | {"language": sent.get("language") or "en"}
        if errors.add(line, _line_errors(cells)):
            continue
        parsed = CsvAttribute(line, cells["name"], cells["slug"], cells["language"])
        attribute = attributes.setdefault((parsed.slug, parsed.name, parsed.language), parsed)
        if cells["value"]:
            attribute.values.append({name: cells[name] for name in ("value", "meta") if name in cells})
    errors.raise_any()
    return list(attributes.values())


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
