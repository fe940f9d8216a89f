"""Tests of PATCH /api/attachments/{id}: alternative texts and focal points of images."""

from typing import Any

import pytest
from django.test import Client

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.attachments.conftest import Upload
from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

POINT = {"x": 0.25, "y": 1}


def patch(client: Client, attachment: Attachment, body: Any) -> Any:
    return client.patch(f"/api/attachments/{attachment.pk}", body, content_type="application/json")


def test_a_description_is_in_every_record_of_the_image(upload: Upload, client_of: ApiClient, customer: User):
    upload(("lamp.png", image_file("PNG", 400, 300)))
    attachment = Attachment.objects.get()

    answer = patch(client_of(customer), attachment, {"alt": "A blue lamp", "focal_point": POINT})

    assert (answer.status_code, answer.json()["alt"], answer.json()["focal_point"]) == (200, "A blue lamp", POINT)
    assert Client().get(f"/api/attachments/{attachment.pk}").json() == answer.json()
    later = patch(client_of(customer), attachment, {"focal_point": None}).json()
    assert (later["alt"], later["focal_point"]) == ("A blue lamp", None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"alt": "x" * 501}, "alt"),
        ({"alt": None}, "alt"),
        ({"alt": {"en": "A lamp"}}, "alt"),
        ({"focal_point": 1}, "focal_point.non_field_errors"),
        ({"focal_point": {"x": 0.5}}, "focal_point.y"),
        ({"focal_point": {"x": 1.01, "y": 0}}, "focal_point.x"),
        ({"focal_point": {"x": 0, "y": -0.1}}, "focal_point.y"),
        ({"focal_point": {"x": "nan", "y": 0}}, "focal_point.x"),
        ({"focal_point": {"x": True, "y": 0}}, "focal_point.x"),
        ({"focal_point": {"x": 10**400, "y": 0}}, "focal_point.x"),
    ],
)
def test_an_invalid_description_is_refused_by_field(
    upload: Upload, client_of: ApiClient, customer: User, body: Any, field: str
):
    upload(("lamp.png", image_file()))
    attachment = Attachment.objects.get()

    answer = patch(client_of(customer), attachment, body)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    attachment.refresh_from_db()
    assert (attachment.alt, attachment.focal_x, attachment.focal_y) == ("", None, None)


def test_only_images_are_described(upload: Upload, client_of: ApiClient, customer: User):
    upload(("prices.pdf", pdf_file()))

    answer = patch(client_of(customer), Attachment.objects.get(), {"alt": "Prices"})

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["alt"])


def test_images_of_a_product_are_called_after_it_unless_they_are_described(upload: Upload, shop: Shop):
    upload(("lamp.png", image_file()))
    upload(("shade.png", image_file()))
    shade, lamp = Attachment.objects.all()
    Attachment.objects.filter(pk=shade.pk).update(alt="Its shade")
    product = make_product(shop, image=lamp, status=Product.Status.PUBLISH)
    product.gallery.add(shade, lamp)

    record = Client().get(f"/api/products/{product.slug}").json()

    assert record["image"]["alt"] == "Velmo lamp"
    assert {picture["id"]: picture["alt"] for picture in record["gallery"]} == {
        shade.pk: "Its shade",
        lamp.pk: "Velmo lamp",
    }
    assert Product.objects.get().image.alt == ""  # type: ignore[union-attr]
