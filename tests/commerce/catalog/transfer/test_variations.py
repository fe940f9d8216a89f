"""Export and import of variations as CSV."""

import csv
import io
import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.attributes.models import Attribute
from commerce.attributes.services import create_attribute
from commerce.catalog.models import Product, Variation
from commerce.catalog.transfer import variation_import
from commerce.catalog.variations import set_attribute_values
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_picture, make_product, make_variable_product
from tests.commerce.catalog.transfer.test_products import upload as upload_file
from tests.commerce.conftest import ApiClient

HEADER = "id,product_id,product,language,title,options,currency,price,sale_price,quantity,sku,image"
NEITHER = {"created": 0, "changed": 0}


@pytest.fixture
def mine(client_of: ApiClient, owner: User) -> Client:
    return client_of(owner)


@pytest.fixture
def shirt(shop: Shop) -> Product:
    """A published shirt in S (2 pieces of 20.00) and L (3 of 21.00)."""
    shirt = make_variable_product(shop, S=2, L=3)
    Product.objects.update(status=Product.Status.PUBLISH)
    return shirt


def upload(client: Client, shop: Shop, content: str | bytes) -> Any:
    return upload_file(client, shop, content, "/api/import-variation-options")


def export(client: Client, shop: Shop) -> str:
    answer: Any = client.get(f"/api/export-variation-options/{shop.pk}")
    assert answer.status_code == 200
    return answer.getvalue().decode()


def stored(shop: Shop) -> list[Any]:
    live = Variation.objects.live().filter(product__shop=shop).order_by("product", "pk")
    return list(live.values_list("title", "options", "price", "sale_price", "quantity", "sku", "image"))


def sized(shop: Shop, shirt: Product) -> Attribute:
    """Create the attribute Size, whose values S and L the shirt's variations combine."""
    values = [{"value": "S"}, {"value": "L"}]
    size = create_attribute(actor=shop.owner, shop_id=shop.pk, name="Size", values=values, now=timezone.now())
    set_attribute_values(product=shirt, value_ids=list(size.values.values_list("pk", flat=True)))
    return size


def test_an_export_has_a_line_for_each_variation(mine: Client, shop: Shop, shirt: Product):
    small, large = shirt.variations.order_by("pk")
    image = make_picture(shop.owner)
    options = [{"name": "Größe", "value": "S"}]
    Variation.objects.filter(pk=small.pk).update(options=options, sale_price=1850, sku="=S", image=image)
    gone = make_variable_product(shop, "gone", S=1)
    Product.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())

    answer = mine.get(f"/api/export-variation-options/{shop.pk}")

    assert answer.headers["Content-Disposition"] == f'attachment; filename="variation-options-{shop.pk}.csv"'
    lines = list(csv.reader(io.StringIO(answer.getvalue().decode(), newline="")))
    same = [str(shirt.pk), "fjell-shirt", "en"]
    text = json.dumps(options, ensure_ascii=False)
    assert lines == [
        HEADER.split(","),
        [str(small.pk), *same, "S", text, "EUR", "20.00", "18.50", "2", "'=S", str(image.pk)],
        [str(large.pk), *same, "L", "[]", "EUR", "21.00", "", "3", "", ""],
    ]


def test_importing_an_own_export_changes_nothing(mine: Client, shop: Shop, shirt: Product):
    sized(shop, shirt)
    sheet = "product,title,options\n" + "".join(
        f'fjell-shirt,{size},"[{{""name"":""Size"",""value"":""{size}""}}]"\n' for size in "SL"
    )
    assert upload(mine, shop, sheet).json() == {"created": 0, "changed": 2}
    make_variable_product(shop, "coat", M=1)
    before, times = stored(shop), list(Product.objects.order_by("pk").values_list("updated_at", flat=True))

    assert upload(mine, shop, export(mine, shop)).json() == NEITHER
    assert stored(shop) == before
    assert list(Product.objects.order_by("pk").values_list("updated_at", flat=True)) == times


def test_an_import_adds_and_changes_and_deletes_nothing(mine: Client, shop: Shop, shirt: Product):
    small = shirt.variations.get(title="S")
    sheet = (
        "product_id,product,id,title,price,quantity,sku\n"
        f"{shirt.pk},,{small.pk},,19.5,,FS\n"
        f",fjell-shirt,,L,,9,\n"
        f",fjell-shirt,,XL,25,1,FX\n"
    )

    assert upload(mine, shop, sheet).json() == {"created": 1, "changed": 2}
    assert stored(shop) == [
        ("S", [], 1950, None, 2, "FS", None),
        ("L", [], 2100, None, 9, "", None),
        ("XL", [], 2500, None, 1, "FX", None),
    ]
    shirt.refresh_from_db()
    assert (shirt.quantity, shirt.min_price, shirt.max_price) == (12, 1950, 2500)
    assert upload(mine, shop, sheet).json() == NEITHER
    assert upload(mine, shop, "product,sku,title\nfjell-shirt,FX,Extra large\n").json() == {"created": 0, "changed": 1}
    assert [row[0] for row in stored(shop)] == ["S", "L", "Extra large"]


def test_options_name_the_values_that_the_product_lists(mine: Client, shop: Shop, shirt: Product):
    sized(shop, shirt)
    unknown = '"[{""name"": ""Size"", ""value"": ""XXL""}]"'

    answer = upload(mine, shop, f"product,title,options\nfjell-shirt,S,[]\nfjell-shirt,L,{unknown}\n")

    assert answer.json()["errors"] == {
        "csv.3": ["options: Size: XXL is no value of this product. It has Size: S; Size: L."]
    }


GOOD = "fjell-shirt,S,1"


@pytest.mark.parametrize(
    ("sheet", "errors"),
    [
        ("title,price\nS,1", {"csv.1": ["The header must have one of the columns product_id and product."]}),
        ("product,title\n", {"csv": ["The file has no line below the header."]}),
        (f"product,title,price\n{GOOD}\nnone,S,1\n", {
            "csv.3": ["product: Name a product of this shop, by product_id, or by its slug and language."]}),
        (f"product,title,price\n{GOOD}\nlamp,S,1\n", {"csv.3": ["product: Only a variable product has variations."]}),
        (f"product,title,price\n{GOOD}\nfjell-shirt,XL,\n", {"csv.3": ["price: A new variation needs it."]}),
        (f"product,title,price\n{GOOD}\nfjell-shirt,,5\n", {"csv.3": ["title: A new variation needs it."]}),
        (f"product,title,price\n{GOOD}\nfjell-shirt,S,2\n", {"csv.3": ["Line 2 names the same variation."]}),
        ("product,title,price,sku\nfjell-shirt,T,1,A\nfjell-shirt,T,1,\n", {
            "csv.3": ["Line 2 names the same variation."]}),
        ("product,title,price,sku\nfjell-shirt,T,1,\nfjell-shirt,T,1,A\n", {
            "csv.3": ["Line 2 names the same variation."]}),
        (f"product,title,price,id\n{GOOD}\nfjell-shirt,S,2,999999\n", {
            "csv.3": ["id: This product has no variation with this id."]}),
        (f"product,title,price,sale_price\n{GOOD}\nfjell-shirt,L,2,3\n", {
            "csv.3": ["The sale price must not be above the price."]}),
        (f"product,title,price,currency\n{GOOD}\nfjell-shirt,L,2,USD\n", {
            "csv.3": ["currency: The product has prices in EUR."]}),
        (f"product,title,price,options\n{GOOD}\nfjell-shirt,L,2,Size: L\n", {
            "csv.3": ['options: Expected a list of items but got type "str".']}),
        (f"product,title,price,options\n{GOOD}\nfjell-shirt,L,2,{'[' * 20_000}\n", {
            "csv.3": ['options: Expected a list of items but got type "str".']}),
        (f"product,title,price,image\n{GOOD}\nfjell-shirt,L,2,999999\n", {
            "csv.3": ["image: Send the id of an image that you uploaded."]}),
        (f"product,title,price,quantity\n{GOOD}\nfjell-shirt,L,2,-1\n", {
            "csv.3": ["quantity: Ensure this value is greater than or equal to 0."]}),
        (f'product,title,price,options\n{GOOD}\nfjell-shirt,L,2,"[{{""name"": ""Size""}}]"\n', {
            "csv.3": ["options.0.value: This field is required."]}),
        (f"product,title,price,options\n{GOOD}\nfjell-shirt,L,2,[{{}}]\n", {
            "csv.3": ["options.0.name: This field is required.", "options.0.value: This field is required."]}),
        (f"product,title,price,quantity\n{GOOD}\nfjell-shirt,L,2,{2**31 - 1}\n", {
            "csv.3": ["quantity: All variations of a product together have at most 2147483647 pieces."]}),
        ("product,title,price\n" + "".join(f"fjell-shirt,N{number},1\n" for number in range(99)), {
            "csv.2": ["A product has at most 100 variations; with these it would have 101."]}),
    ],
)  # fmt: skip
def test_one_invalid_line_prevents_the_whole_import(
    mine: Client, shop: Shop, shirt: Product, sheet: str, errors: dict[str, list[str]]
):
    make_product(shop, "lamp")
    before = stored(shop)

    answer = upload(mine, shop, sheet)

    assert (answer.status_code, answer.json()["errors"]) == (422, errors)
    assert stored(shop) == before


def test_everybody_exports_the_variations_of_published_products(
    client_of: ApiClient, shop: Shop, shirt: Product, staff: User, customer: User
):
    make_variable_product(shop, "draft", M=1)

    def titles(user: User | None) -> list[str]:
        return [row["title"] for row in csv.DictReader(io.StringIO(export(client_of(user), shop), newline=""))]

    assert (titles(None), titles(customer), titles(staff)) == (["S", "L"], ["S", "L"], ["S", "L", "M"])
    sheet = "product,title,quantity\nfjell-shirt,S,4\n"
    assert upload(client_of(customer), shop, sheet).status_code == 403
    assert upload(client_of(staff), shop, sheet).json() == {"created": 0, "changed": 1}


def test_the_queries_of_an_export_do_not_grow_with_its_variations(mine: Client, shop: Shop):
    for number in range(12):
        make_variable_product(shop, f"shirt-{number}", S=1, M=1, L=1)

    with CaptureQueriesContext(connection) as queries:
        assert export(mine, shop).count("\r\n") == 37
    assert len(queries) <= 8


def test_an_import_has_a_maximum_number_of_variations_and_of_their_products(
    mine: Client, shop: Shop, shirt: Product, monkeypatch: pytest.MonkeyPatch
):
    make_variable_product(shop, "coat", M=1)
    sheet = "product,title,quantity\nfjell-shirt,S,5\ncoat,M,5\n"
    limits = {"MAX_VARIATIONS": "more than 1 variations", "MAX_PRODUCTS": "variations of more than 1 products"}
    for name, error in limits.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"commerce.catalog.transfer.variation_files.{name}", 1)
            assert upload(mine, shop, sheet).json()["errors"] == {"csv": [f"The file has {error}."]}
    assert [row[4] for row in stored(shop)] == [2, 3, 1]
    assert upload(mine, shop, sheet).json() == {"created": 0, "changed": 2}


def test_a_product_may_be_deleted_while_its_variations_are_imported(
    mine: Client, shop: Shop, shirt: Product, monkeypatch: pytest.MonkeyPatch
):
    def delete_and_sort(items: Any) -> Any:
        Product.objects.update(deleted_at=timezone.now())
        return sorted(items)

    monkeypatch.setattr(variation_import, "sorted", delete_and_sort, raising=False)

    answer = upload(mine, shop, "product,title,quantity\nfjell-shirt,S,5\n")

    assert answer.json()["errors"] == {
        "csv.2": ["product: Name a product of this shop, by product_id, or by its slug and language."]
    }


def test_an_export_of_variations_reads_no_descriptions(mine: Client, shop: Shop, shirt: Product):
    with CaptureQueriesContext(connection) as queries:
        assert export(mine, shop).count("\r\n") == 3
    assert not [query for query in queries if '"commerce_catalog_product"."description"' in query["sql"]]
