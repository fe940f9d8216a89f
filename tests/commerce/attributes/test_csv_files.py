"""Export and import of attributes as CSV."""

import csv
import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from commerce.attributes import csv_files
from commerce.attributes.models import Attribute, AttributeValue
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.attributes.conftest import BLUE, RED, make_attribute, told
from tests.commerce.conftest import ApiClient

BAD_HEADER = "The header must name each column once: name, slug, language, value, meta."
HEAD = "name,slug,language,value,meta\r\n"


def upload(client: Client, shop: Shop | int, content: str | bytes) -> Any:
    raw = content.encode() if isinstance(content, str) else content
    shop_id = shop if isinstance(shop, int) else shop.pk
    return client.post("/api/import-attributes", {"shop_id": shop_id, "csv": SimpleUploadedFile("a.csv", raw)})


def export(shop: Shop) -> str:
    answer = Client().get(f"/api/export-attributes/{shop.pk}")
    assert answer.status_code == 200
    return answer.getvalue().decode()


def test_the_longest_cells_are_those_of_the_columns():
    columns = {name: Attribute._meta.get_field(name) for name in ("name", "slug", "language")}
    columns |= {name: AttributeValue._meta.get_field(name) for name in ("value", "meta")}
    assert {name: column.max_length for name, column in columns.items()} == csv_files.MAX_LENGTHS
    assert list(columns) == csv_files.COLUMNS


def kept(shop: Shop) -> list[Any]:
    rows = Attribute.objects.filter(shop=shop)
    return [(row.name, row.slug, row.language, told(row)) for row in rows]


def test_an_export_has_a_row_per_value(shop: Shop):
    make_attribute(shop, values=[RED, BLUE])
    make_attribute(shop, "Größe", slug="size", language="de")

    answer = Client(headers={"Accept": "text/csv"}).get(f"/api/export-attributes/{shop.pk}")

    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="attributes-{shop.pk}.csv"'
    assert answer.getvalue().decode() == (
        HEAD + "Color,color,en,Red,#f00\r\nColor,color,en,Dark blue,#00a\r\nGröße,size,de,,\r\n"
    )


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", "'", "''", "'plain"])
def test_no_cell_is_a_formula_and_every_text_comes_back(mine: Client, shop: Shop, foreign_shop: Shop, cell: str):
    make_attribute(shop, cell, values=[{"value": cell, "meta": cell}])

    sheet = export(shop)
    cells = [cell for row in csv.reader(io.StringIO(sheet, newline="")) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]

    before = kept(shop)
    Attribute.objects.all().delete()
    assert upload(mine, shop, sheet).status_code == 200
    assert [(name, values) for name, _, _, values in kept(shop)] == [(name, values) for name, _, _, values in before]


@pytest.mark.parametrize("text", ['a,"b"', "two\nlines", "été 中文 🎈", ";", "a'b", "1-2"])
def test_every_text_survives_export_and_import(mine: Client, shop: Shop, text: str):
    make_attribute(shop, text, values=[{"value": text, "meta": text}])
    before, sheet = kept(shop), export(shop)
    Attribute.objects.all().delete()

    assert upload(mine, shop, sheet).json() == {"attributes": 1, "values": 1}
    assert kept(shop) == before


def test_importing_an_own_export_changes_nothing(mine: Client, shop: Shop):
    make_attribute(shop, values=[RED, BLUE, RED])
    make_attribute(shop, "Farbe", slug="color", language="de", values=[{"value": "Rot"}])
    make_attribute(shop, "Empty")
    before = kept(shop)

    assert upload(mine, shop, export(shop)).json() == {"attributes": 0, "values": 0}
    assert kept(shop) == before


def test_an_import_adds_and_changes_and_deletes_nothing(mine: Client, shop: Shop):
    make_attribute(shop, values=[RED, BLUE])
    sheet = "Value,NAME,meta,price\nRed,Color,#e00,9\nGreen,Color,,\n\n,Size,,\n,,,\n"

    assert upload(mine, shop, sheet).json() == {"attributes": 1, "values": 2}
    assert kept(shop) == [
        ("Color", "color", "en", [("Red", "#e00"), ("Dark blue", "#00a"), ("Green", "")]),
        ("Size", "size", "en", []),
    ]


def test_an_import_without_meta_leaves_it_as_it_was(mine: Client, shop: Shop):
    make_attribute(shop, values=[RED])

    assert upload(mine, shop, "name,value\nColor,Red").json() == {"attributes": 0, "values": 0}
    assert kept(shop) == [("Color", "color", "en", [("Red", "#f00")])]


def test_importing_another_shops_export_creates_own_attributes(mine: Client, shop: Shop, foreign_shop: Shop):
    make_attribute(foreign_shop, values=[RED])
    make_attribute(foreign_shop, "Farbe", slug="color", language="de", values=[{"value": "Rot"}])
    sheet, theirs = export(foreign_shop), kept(foreign_shop)

    for made in ({"attributes": 2, "values": 2}, {"attributes": 0, "values": 0}):
        assert upload(mine, shop, sheet).json() == made
        assert kept(shop) == [
            ("Color", "color-2", "en", [("Red", "#f00")]),
            ("Farbe", "color-2", "de", [("Rot", "")]),
        ]
    assert kept(foreign_shop) == theirs


@pytest.mark.parametrize(
    ("sheet", "errors"),
    [
        ("", {"csv": ["The submitted file is empty."]}),
        (HEAD, {"csv": ["The file has no line below the header."]}),
        ("name\nColor", {"csv.1": [BAD_HEADER]}),
        ("name,value,name\nA,B,C", {"csv.1": [BAD_HEADER]}),
        ("name,value\nA,B\n,C\n", {"csv.3": ["The name is missing."]}),
        ("name,value\nA\n,B", {"csv.3": ["The name is missing."]}),
        (f"name,value\nA,{'x' * 256}", {"csv.2": ["The value has 256 characters; at most 255 are allowed."]}),
        (f"name,value\n{'x' * 256},{'x' * 256}\n,B", {
            "csv.2": [
                "The name has 256 characters; at most 255 are allowed.",
                "The value has 256 characters; at most 255 are allowed.",
            ],
            "csv.3": ["The name is missing."],
        }),
        ("name,value,language\nA,B,english!", {"csv.2": ["The language must be a code such as en or pt-BR."]}),
        ("name,value\nA,B\x00C", {"csv.2": ["The value contains a NUL character."]}),
        (b"name,value\nA,\xff", {"csv": ["The file is not in UTF-8."]}),
        ("name,value\nA,\"B", {"csv": ["The file is not valid CSV: unexpected end of data."]}),
        ("name,value\nA,\"B\"C", {"csv": ["The file is not valid CSV: ',' expected after '\"'."]}),
        (f"name,value\nA,{'x' * 200_000}", {
            "csv": ["The file is not valid CSV: field larger than field limit (131072)."]
        }),
    ],
)  # fmt: skip
def test_one_invalid_row_prevents_the_whole_import(
    mine: Client, shop: Shop, sheet: str | bytes, errors: dict[str, list[str]]
):
    good = "name,value\nGood,Good\n"
    assert upload(mine, shop, good).status_code == 200

    answer = upload(mine, shop, sheet)

    assert (answer.status_code, answer.json()["errors"]) == (422, errors)
    assert [name for name, *_ in kept(shop)] == ["Good"]


def test_an_import_has_a_maximum_size(mine: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shared.api.csv_files.MAX_FILE_LINES", 3)
    assert upload(mine, shop, "name,value\nA,1\nA,2").status_code == 200
    assert upload(mine, shop, "name,value\nA,1\nA,2\nA,3").json()["errors"] == {
        "csv": ["The file has more than 3 lines."]
    }
    monkeypatch.setattr("shared.api.csv_files.MAX_FILE_BYTES", 20)
    assert upload(mine, shop, "name,value\nA,1234567890").json()["errors"] == {
        "csv": ["The file has 23 bytes; at most 20 are allowed."]
    }


def test_no_more_than_a_hundred_errors_are_listed(mine: Client, shop: Shop):
    assert len(upload(mine, shop, "name,value\n" + ",x\n" * 500).json()["errors"]) == 100


def test_too_many_values_prevent_the_whole_import(mine: Client, shop: Shop):
    sheet = "name,value\n" + "".join(f"A,{number}\n" for number in range(4001))

    assert list(upload(mine, shop, sheet).json()["errors"]) == ["values"]
    assert kept(shop) == []


def test_c3_only_the_owner_imports(mine: Client, shop: Shop, foreign_shop: Shop, client_of: ApiClient, admin: User):
    sheet = "name,value\nA,B"
    for shop_id in (foreign_shop.pk, foreign_shop.pk + 1000):
        assert upload(mine, shop_id, sheet).status_code == 403
    assert not Attribute.objects.exists()
    assert upload(client_of(admin), foreign_shop, sheet).status_code == 200


@pytest.mark.parametrize("sent", [{}, {"shop_id": "x"}, {"shop_id": "٣"}, {"csv": "text"}, {"shop_id": "1\x00"}])
def test_an_import_names_its_missing_fields(mine: Client, sent: dict[str, str]):
    answer = mine.post("/api/import-attributes", sent)

    assert answer.status_code == 422
    assert sorted(answer.json()["errors"]) == ["csv", "shop_id"]


def test_an_import_of_another_type_is_refused(mine: Client):
    assert mine.post("/api/import-attributes", {}, content_type="application/json").status_code == 415
    assert mine.post("/api/import-attributes", b"x", content_type="multipart/form-data").status_code == 400


def test_a_thousand_attributes_are_imported_in_a_bounded_number_of_queries(mine: Client, shop: Shop):
    sheet = "name,value\n" + "".join(f"Name {number % 1000},Value {number}\n" for number in range(8000))

    with CaptureQueriesContext(connection) as queries:
        assert upload(mine, shop, sheet).json() == {"attributes": 1000, "values": 8000}
    assert len(queries) <= 80
