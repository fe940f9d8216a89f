"""Export and import of products as CSV."""

import csv
import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.catalog.transfer import product_import
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_picture, make_product, make_variable_product
from tests.commerce.conftest import ApiClient, make_user

HEADER = (
    "id,name,slug,language,description,type,product_type,status,currency,price,sale_price,sku,quantity,unit,height,"
    "width,length,is_taxable,categories,tags,image,gallery"
)
NEITHER = {"created": 0, "changed": 0}


@pytest.fixture
def mine(client_of: ApiClient, owner: User) -> Client:
    return client_of(owner)


@pytest.fixture
def home(db: None) -> ProductType:
    return ProductType.objects.create(name="Home", slug="home")


@pytest.fixture
def foreign_shop(db: None) -> Shop:
    return Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Away", slug="away")


def upload(client: Client, shop: Shop | int, content: str | bytes, path: str = "/api/import-products") -> Any:
    raw = content.encode() if isinstance(content, str) else content
    shop_id = shop if isinstance(shop, int) else shop.pk
    return client.post(path, {"shop_id": shop_id, "csv": SimpleUploadedFile("a.csv", raw)})


def export(client: Client, shop: Shop) -> str:
    answer: Any = client.get(f"/api/export-products/{shop.pk}")
    assert answer.status_code == 200
    return answer.getvalue().decode()


def rows(sheet: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(sheet, newline="")))


def stored(shop: Shop) -> list[Any]:
    """Return everything that an import writes, without ids."""
    products = Product.objects.live().filter(shop=shop).order_by("pk")
    names = [name for name in HEADER.split(",") if name not in ("id", "type", "categories", "tags", "image", "gallery")]
    return [
        (
            {name: getattr(product, name) for name in names},
            product.type_id,
            product.image_id,
            *(sorted(listed.values_list("pk", flat=True)) for listed in (product.categories, product.tags)),
            sorted(product.gallery.values_list("pk", flat=True)),
        )
        for product in products
    ]


def full_product(shop: Shop) -> Product:
    """Create a product with a value in every column."""
    product = make_product(
        shop, "velmo-lamp", description='Of "oak", and\nlinen; warm', status="publish", currency="USD", price=4900,
        sale_price=4250, sku="VL-1", quantity=3, unit="1 pc", height="42 cm", width="18 cm", length="9 cm",
        is_taxable=False, image=make_picture(shop.owner),
    )  # fmt: skip
    lamps = Category.objects.create(name="Lamps", slug="lamps", type=product.type)
    german = Category.objects.create(name="Lampen", slug="lampen", type=product.type, language="de")
    product.categories.set([lamps, german])
    product.tags.set([Tag.objects.create(name="New", slug="new")])
    product.gallery.set([make_picture(shop.owner), make_picture(shop.owner)])
    return product


def test_an_export_has_a_line_for_each_product(mine: Client, shop: Shop):
    product = full_product(shop)
    german, gallery = Category.objects.get(language="de").pk, list(product.gallery.values_list("pk", flat=True))

    answer = mine.get(f"/api/export-products/{shop.pk}", headers={"Accept": "text/csv"})

    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="products-{shop.pk}.csv"'
    assert answer.getvalue().decode() == (
        f"{HEADER}\r\n"
        f'{product.pk},Velmo lamp,velmo-lamp,en,"Of ""oak"", and\nlinen; warm",home,simple,publish,USD,49.00,42.50,'
        "VL-1,"
        f'3,1 pc,42 cm,18 cm,9 cm,false,"lamps,{german}",new,{product.image_id},"{gallery[0]},{gallery[1]}"\r\n'
    )


def test_importing_an_own_export_changes_nothing(mine: Client, shop: Shop):
    full_product(shop)
    make_product(shop, "draft", language="de", type=ProductType.objects.get())
    make_product(shop, "yen", currency="JPY", price=500)
    make_variable_product(shop, S=2, L=3)
    before, times = stored(shop), list(Product.objects.order_by("pk").values_list("updated_at", flat=True))

    assert upload(mine, shop, export(mine, shop)).json() == NEITHER
    assert stored(shop) == before
    assert list(Product.objects.order_by("pk").values_list("updated_at", flat=True)) == times


def test_every_column_survives_a_move_to_another_shop(mine: Client, shop: Shop, owner: User):
    full_product(shop)
    second = Shop.objects.create(owner=owner, name="Second", slug="second")
    sheet = export(mine, shop)
    sheet = f"{HEADER.removeprefix('id,')}\r\n" + sheet[sheet.index(",Velmo") + 1 :]

    assert upload(mine, second, sheet).json() == {"created": 1, "changed": 0}
    (moved,), (original,) = stored(second), stored(shop)
    assert moved[0].pop("slug") == "velmo-lamp-2"
    assert original[0].pop("slug") == "velmo-lamp"
    assert moved == original
    assert upload(mine, second, sheet).json() == NEITHER


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", "'plain"])
def test_no_cell_is_a_formula_and_every_text_comes_back(mine: Client, shop: Shop, cell: str):
    product = make_product(shop, name=cell, description=cell, sku=cell, unit=cell)

    sheet = export(mine, shop)

    cells = [text for row in csv.reader(io.StringIO(sheet, newline="")) for text in row]
    assert not [text for text in cells if text.startswith(("=", "+", "-", "@", "\t", "\r"))]
    Product.objects.update(name="x", description="x", sku="x", unit="x")
    assert upload(mine, shop, sheet).json() == {"created": 0, "changed": 1}
    product.refresh_from_db()
    assert {product.name, product.description, product.sku, product.unit} == {cell}


def test_an_import_changes_the_columns_that_it_has(mine: Client, shop: Shop):
    product = full_product(shop)
    before = stored(shop)[0]

    assert upload(mine, shop, f"id,quantity\n{product.pk},7\n").json() == {"created": 0, "changed": 1}
    assert stored(shop)[0] == (before[0] | {"quantity": 7}, *before[1:])
    sheet = "slug,currency,price,sale_price,tags,gallery,image,description\nvelmo-lamp,EUR,10.5,,,,,\n"
    assert upload(mine, shop, sheet).json() == {"created": 0, "changed": 1}
    emptied = {"quantity": 7, "currency": "EUR", "price": 1050, "sale_price": None, "description": ""}
    assert stored(shop)[0] == (before[0] | emptied, before[1], None, before[3], [], [])


def test_products_are_matched_by_slug_by_sku_and_by_name(mine: Client, shop: Shop, home: ProductType):
    for slug, sku in (("lamp", "A"), ("chair", "B"), ("table", "")):
        make_product(shop, slug, name=slug.title(), sku=sku)
    sheet = "slug,sku,name,quantity\nlamp,,,1\n,B,,2\n,,Table,3\n"

    assert upload(mine, shop, sheet).json() == {"created": 0, "changed": 3}
    assert list(Product.objects.order_by("pk").values_list("quantity", flat=True)) == [1, 2, 3]


def test_a_name_that_finds_nothing_leaves_the_product_to_the_next_one(mine: Client, shop: Shop, home: ProductType):
    make_product(shop, "lamp", name="Lamp", sku="A")
    make_product(shop, "table", name="Table")
    make_product(shop, "chair-2", name="Chair")
    sheet = "slug,sku,name,quantity\nlight,A,,1\n,T,Table,2\nChair,,Armchair,3\n"

    assert upload(mine, shop, sheet).json() == {"created": 0, "changed": 3}
    assert list(Product.objects.order_by("pk").values_list("slug", "sku", "name", "quantity")) == [
        ("lamp", "A", "Lamp", 1),
        ("table", "T", "Table", 2),
        ("chair-2", "", "Armchair", 3),
    ]
    assert upload(mine, shop, sheet).json() == NEITHER


def test_a_namesake_with_another_slug_or_sku_is_another_product(mine: Client, shop: Shop, home: ProductType):
    make_product(shop, "lamp", name="Lamp", sku="A")
    sheet = "slug,sku,name,type,price\noak-lamp,,Lamp,home,9\n,B,Lamp,home,9\n"

    assert upload(mine, shop, sheet).json() == {"created": 2, "changed": 0}
    assert upload(mine, shop, sheet).json() == NEITHER
    assert list(Product.objects.order_by("pk").values_list("slug", "sku")) == [
        ("lamp", "A"), ("oak-lamp", ""), ("lamp-2", "B"),
    ]  # fmt: skip


@pytest.mark.parametrize("slug", ["Velmo Lamp", "LAMP", "123", "search", "taken", "straße", "taken-3", "♥", "\u200b"])
def test_the_same_file_a_second_time_changes_nothing_whatever_the_slug(
    mine: Client, shop: Shop, foreign_shop: Shop, home: ProductType, slug: str
):
    for number in ("", "-2", "-3"):
        make_product(foreign_shop, f"taken{number}")
    sheet = f"slug,name,type,price\n{slug},Lamp,home,9\nother,Lamp,home,9\n"

    assert upload(mine, shop, sheet).json() == {"created": 2, "changed": 0}
    assert upload(mine, shop, sheet).json() == NEITHER


def test_a_slug_with_random_letters_is_found_by_the_name_too(
    mine: Client, shop: Shop, foreign_shop: Shop, home: ProductType
):
    for number in ("", *(f"-{number}" for number in range(2, 10))):
        make_product(foreign_shop, f"lamp{number}")
    sheet = "slug,name,type,price\nlamp,Lamp,home,9\n"

    assert upload(mine, shop, sheet).json() == {"created": 1, "changed": 0}
    assert upload(mine, shop, sheet).json() == NEITHER


@pytest.mark.parametrize("line", ["Lamp-X,,Other", "new,S1,Other", ",S1,Other", ",,Lamp"])
def test_two_lines_may_not_name_the_same_new_product(mine: Client, shop: Shop, home: ProductType, line: str):
    sheet = f"slug,sku,name,type,price\nlamp-x,S1,Lamp,home,9\n{line},home,9\n"

    assert upload(mine, shop, sheet).json()["errors"] == {"csv.3": ["Line 2 names the same product."]}


def test_a_line_that_finds_many_products_loads_none(mine: Client, shop: Shop, home: ProductType):
    for number in range(12):
        make_product(shop, f"twin-{number}", name="Twin")

    with CaptureQueriesContext(connection) as queries:
        assert upload(mine, shop, "name,price\nTwin,9\n").status_code == 422
    assert not [query for query in queries if '"commerce_catalog_product"."description"' in query["sql"]]


def test_an_export_reads_few_products_at_once(mine: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("commerce.catalog.transfer.product_files.PRODUCTS_PER_QUERY", 2)
    for number in range(5):
        make_product(shop, f"lamp-{number}")

    with CaptureQueriesContext(connection) as queries:
        assert len(rows(export(mine, shop))) == 5
    assert len([query for query in queries if '"commerce_catalog_product"."description"' in query["sql"]]) == 3


def test_new_products_get_free_slugs(mine: Client, shop: Shop, foreign_shop: Shop, home: ProductType):
    make_product(foreign_shop, "lamp")
    german = ProductType.objects.create(name="Haus", slug="home", language="de")
    lamps = "Lamp,1,,home,9\nLamp,2,,home,9\nLamp,3,de,home,9\nЯщик,,,home,9\n"
    sheet = f"name,sku,language,type,price\n{lamps}Search,,,home,9\n"

    assert upload(mine, shop, sheet).json() == {"created": 5, "changed": 0}
    made = Product.objects.filter(shop=shop).order_by("pk").values_list("slug", "language", "type", "status", "price")
    assert list(made) == [
        ("lamp-2", "en", home.pk, "draft", 900),
        ("lamp-3", "en", home.pk, "draft", 900),
        ("lamp", "de", german.pk, "draft", 900),
        ("ящик", "en", home.pk, "draft", 900),
        ("search-2", "en", home.pk, "draft", 900),
    ]
    assert upload(mine, shop, sheet).json() == NEITHER


def test_a_variable_product_keeps_what_follows_from_its_variations(mine: Client, shop: Shop, home: ProductType):
    shirt = make_variable_product(shop, S=2, L=3)
    sheet = "slug,name,type,product_type,price,quantity,unit\nfjell-shirt,,,,1,999,pc\n,Coat,home,variable,,,\n"

    assert upload(mine, shop, sheet).json() == {"created": 1, "changed": 1}
    shirt.refresh_from_db()
    assert (shirt.quantity, shirt.price, shirt.unit) == (5, 2000, "pc")
    coat = Product.objects.get(name="Coat")
    assert (coat.product_type, coat.quantity, coat.price) == ("variable", 0, 0)


GOOD = "Good,home,9"


@pytest.mark.parametrize(
    ("sheet", "errors"),
    [
        ("", {"csv": ["The submitted file is empty."]}),
        ("name\n", {"csv": ["The file has no line below the header."]}),
        ("price\n9", {"csv.1": ["The header must have one of the columns id, slug and name."]}),
        (f"name,name\n{GOOD}", {"csv.1": [f"The header must name each column once: {HEADER.replace(',', ', ')}."]}),
        (b"name\n\xff", {"csv": ["The file is not in UTF-8."]}),
        (f"name,type,price\n{GOOD}\nLamp,,\n", {
            "csv.3": ["type: A new product needs it.", "price: A new product needs it."]}),
        (f"name,type,price\n{GOOD}\nLamp,garden,9\n", {"csv.3": ["type: There is no 'garden' in this language."]}),
        (f"name,type,price,tags\n{GOOD}\nLamp,home,9,\"a,b\"\n", {
            "csv.3": ["tags: There is no 'a' in this language.", "tags: There is no 'b' in this language."]}),
        (f"name,type,price\n{GOOD}\nLamp,home,9.999\n", {"csv.3": ["price: EUR has at most 2 decimal places."]}),
        (f"name,type,price\n{GOOD}\nLamp,home,nan\n", {"csv.3": ["price: A valid number is required."]}),
        (f"name,type,price\n{GOOD}\nLamp,home,-1\n", {"csv.3": ["price: This may not be below 0.0."]}),
        (f"name,type,price,sale_price\n{GOOD}\nLamp,home,9,10\n", {
            "csv.3": ["sale_price: The sale price must not be above the price."]}),
        (f"name,type,price,quantity\n{GOOD}\nLamp,home,9,1.5\n", {"csv.3": ["quantity: A valid integer is required."]}),
        (f"name,type,price,status\n{GOOD}\nLamp,home,9,approved\n", {
            "csv.3": ["status: Shops cannot change the status from draft to approved."]}),
        (f"name,type,price,status\n{GOOD}\nLamp,home,9,lost\n", {"csv.3": ['status: "lost" is not a valid choice.']}),
        (f"name,type,price,id\n{GOOD}\nLamp,home,9,999999\n", {
            "csv.3": ["id: This shop has no product with this id."]}),
        (f"name,type,price,id\n{GOOD}\nLamp,home,9,{2**70}\n", {
            "csv.3": ["id: A valid integer is required."]}),
        (f"name,type,price,image\n{GOOD}\nLamp,home,9,999999\n", {
            "csv.3": ["image: Send the id of an image that you uploaded."]}),
        (f"name,type,price,gallery\n{GOOD}\nLamp,home,9,\"1,x\"\n", {
            "csv.3": ["gallery.1: A valid integer is required."]}),
        (f"name,type,price\n{GOOD}\nGood,home,9\n", {"csv.3": ["Line 2 names the same product."]}),
        (f"name,type,price\n{GOOD}\n,home,9\n", {"csv.3": ["The line has no id, slug, SKU or name."]}),
        (f"name,type,price\n{GOOD}\nTwin,home,9\n", {
            "csv.3": ["name: The shop has several such products. Name one by its id or slug."]}),
        (f"name,type,price,slug\n{GOOD}\n,,9,yen\n", {
            "csv.3": ["currency: The product has prices in JPY: add the column currency."]}),
        (f"name,type,price,slug,currency\n{GOOD}\n,,,yen,EUR\n", {
            "csv.3": ["currency: A new currency needs new prices: send `price` and `sale_price` with it."]}),
        (f"name,type,price,slug,product_type\n{GOOD}\n,,9,twin-1,variable\n", {
            "csv.3": ["product_type: An import does not change it."]}),
        (f"name,type,price\n{GOOD}\n{'x' * 256},home,9\n", {
            "csv.3": ["name: Ensure this field has no more than 255 characters."]}),
        (f"name,type,price\n{GOOD}\nA\x00B,home,9\n", {"csv.3": ["name: Null characters are not allowed."]}),
    ],
)  # fmt: skip
def test_one_invalid_line_prevents_the_whole_import(
    mine: Client, shop: Shop, home: ProductType, sheet: str | bytes, errors: dict[str, list[str]]
):
    for number in (1, 2):
        make_product(shop, f"twin-{number}", name="Twin")
    make_product(shop, "yen", name="Yen", currency="JPY", price=500)
    before = stored(shop)

    answer = upload(mine, shop, sheet)

    assert (answer.status_code, answer.json()["errors"]) == (422, errors)
    assert stored(shop) == before


def test_an_import_touches_no_product_of_another_shop(mine: Client, shop: Shop, foreign_shop: Shop):
    theirs = make_product(foreign_shop, "lamp", image=make_picture(foreign_shop.owner))
    before = stored(foreign_shop)

    answer = upload(mine, shop, f"id,quantity\n{theirs.pk},7\n")
    stolen = upload(mine, shop, f"name,type,price,image\nLamp,home,9,{theirs.image_id}\n")

    assert answer.json()["errors"] == {"csv.2": ["id: This shop has no product with this id."]}
    assert stolen.json()["errors"] == {"csv.2": ["image: Send the id of an image that you uploaded."]}
    assert (stored(foreign_shop), stored(shop)) == (before, [])


def test_the_people_of_a_shop_import_and_export_all_products_and_others_see_published_ones(
    client_of: ApiClient, shop: Shop, foreign_shop: Shop, owner: User, staff: User, customer: User, admin: User
):
    for status in ("publish", "draft"):
        make_product(shop, status, status=status)

    listed = {user and user.role: [row["slug"] for row in rows(export(client_of(user), shop))]
              for user in (None, customer, staff, owner, admin)}  # fmt: skip
    assert listed == {
        None: ["publish"], "CUSTOMER": ["publish"], "STAFF": ["publish", "draft"], "STORE_OWNER": ["publish", "draft"],
        "SUPER_ADMIN": ["publish", "draft"],
    }  # fmt: skip
    sheet = "slug,quantity\ndraft,4"
    for user, status in ((customer, 403), (foreign_shop.owner, 403), (staff, 200), (owner, 200), (admin, 200)):
        assert upload(client_of(user), shop, sheet).status_code == status
    assert upload(client_of(owner), foreign_shop, sheet).status_code == 403
    assert upload(client_of(owner), foreign_shop.pk + 999, sheet).status_code == 403
    Shop.objects.update(is_active=False)
    assert client_of(None).get(f"/api/export-products/{shop.pk}").status_code == 404
    assert len(rows(export(client_of(owner), shop))) == 2


def test_an_import_creates_nothing_that_another_request_created_meanwhile(
    mine: Client, shop: Shop, home: ProductType, monkeypatch: pytest.MonkeyPatch
):
    match = product_import._match

    def match_and_be_late(*args: Any) -> Any:
        rows = match(*args)
        make_product(shop, "velmo-lamp")
        return rows

    monkeypatch.setattr(product_import, "_match", match_and_be_late)
    sheet = "name,type,price\nFjell lamp,home,9\nVelmo lamp,home,9\n"

    assert upload(mine, shop, sheet).status_code == 409
    assert upload(mine, shop, sheet.replace("Velmo lamp,home,9\n", "")).json() == {"created": 1, "changed": 0}


def test_an_import_has_a_maximum_number_of_products(mine: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("commerce.catalog.transfer.product_files.MAX_PRODUCTS", 1)

    answer = upload(mine, shop, "name\nA\nB\n")

    assert answer.json()["errors"] == {"csv": ["The file has more than 1 products."]}


@pytest.mark.parametrize("path", ["/api/import-products", "/api/import-variation-options"])
@pytest.mark.parametrize("sent", [{}, {"shop_id": "x"}, {"csv": "text"}, {"shop_id": "1\x00"}])
def test_an_import_names_its_missing_fields(mine: Client, path: str, sent: dict[str, str]):
    answer = mine.post(path, sent)

    assert (answer.status_code, sorted(answer.json()["errors"])) == (422, ["csv", "shop_id"])
    assert mine.post(path, {}, content_type="application/json").status_code == 415


def test_many_products_are_imported_in_a_bounded_number_of_queries(mine: Client, shop: Shop, home: ProductType):
    tag = Tag.objects.create(name="New", slug="new")
    sheet = "name,type,price,tags\n" + "".join(f"Lamp {number},home,9.5,new\n" for number in range(400))

    with CaptureQueriesContext(connection) as queries:
        assert upload(mine, shop, sheet).json() == {"created": 400, "changed": 0}
    assert len(queries) <= 60
    assert tag.products.count() == 400
    with CaptureQueriesContext(connection) as queries:
        assert upload(mine, shop, sheet).json() == NEITHER
    assert len(queries) <= 30
    with CaptureQueriesContext(connection) as queries:
        assert len(rows(export(mine, shop))) == 400
    assert len(queries) <= 110  # five for each page of 20
