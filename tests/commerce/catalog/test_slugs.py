"""Slugs made of names, tested with product types."""

import pytest
from django.db import IntegrityError

from commerce.catalog.models import ProductType
from shared.accounts.models import User
from shared.api.slugs import find_free_slug, save_with_unique_slug

pytestmark = pytest.mark.django_db


def make_types(*slugs: str) -> None:
    ProductType.objects.bulk_create(ProductType(name=slug, slug=slug) for slug in slugs)


@pytest.mark.parametrize(
    ("text", "taken", "slug"),
    [
        ("Velmo Lamp", [], "velmo-lamp"),
        ("Velmo Lamp", ["velmo-lamp", "velmo-lamp-2"], "velmo-lamp-3"),
        ("2026", [], "2026-2"),
        ("\u706f", [], "item"),
        ("--", ["item"], "item-2"),
        ("x" * 300, [], "x" * 240),
    ],
)
def test_a_slug_is_unused_not_numeric_and_never_empty(text: str, taken: list[str], slug: str):
    make_types(*taken)

    assert find_free_slug(text, ProductType.objects.all()) == slug


def test_a_slug_gets_a_random_suffix_when_small_numbers_are_used():
    make_types("lamp", *(f"lamp-{number}" for number in range(2, 10)))

    first, second = (find_free_slug("lamp", ProductType.objects.all()) for _ in range(2))

    assert first.startswith("lamp-")
    assert first != second


def test_a_lost_race_for_a_slug_tries_the_next_one():
    make_types("lamp")
    tried = list[str]()

    class SeenTooEarly(type(ProductType.objects.all())):  # type: ignore[misc]
        """Slugs as this request read them, before another request took the slug."""

        def values_list(self, *fields: str, **options: bool) -> object:
            return super().values_list(*fields, **options) if tried else ProductType.objects.none().values_list("slug")

    def save(slug: str) -> None:
        tried.append(slug)
        ProductType.objects.create(name="Lamp", slug=slug)

    save_with_unique_slug(save, SeenTooEarly(ProductType), "lamp")

    assert tried == ["lamp", "lamp-2"]


def test_other_integrity_errors_are_raised_unchanged():
    def save(slug: str) -> None:
        User.objects.create(email="UPPER@example.com", name="x")

    with pytest.raises(IntegrityError):
        save_with_unique_slug(save, ProductType.objects.all(), "lamp")
