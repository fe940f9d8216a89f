"""Slugs made of names, tested with product types."""

import re
import unicodedata
from urllib.parse import quote

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from commerce.catalog.models import ProductType
from shared.accounts.models import User
from shared.api.slugs import find_free_slug, save_with_unique_slug
from tests.commerce.conftest import ApiClient

pytestmark = pytest.mark.django_db


def make_types(*slugs: str) -> None:
    ProductType.objects.bulk_create(ProductType(name=slug, slug=slug) for slug in slugs)


@pytest.mark.parametrize(
    ("text", "taken", "slug"),
    [
        ("Velmo Lamp", [], "velmo-lamp"),
        ("Velmo Lamp", ["velmo-lamp", "velmo-lamp-2"], "velmo-lamp-3"),
        ("2026", [], "2026-2"),
        ("Grüne Größe", [], "grune-grosse"),
        ("Łódź Ørsted Æther №2", [], "lodz-orsted-aether-no2"),
        ("灯", [], "灯"),
        ("灯", ["灯"], "灯-2"),
        ("Настольная Лампа", [], "настольная-лампа"),
        ("Lampe 灯", [], "lampe-灯"),
        ("مصباح طاولة", [], "مصباح-طاولة"),
        ("दीपक की माला", [], "दीपक-की-माला"),
        ("٣", [], "٣-2"),
        ("\N{ELECTRIC LIGHT BULB}", [], "electric-light-bulb"),
        ("--", ["hyphen-minus-hyphen-minus"], "hyphen-minus-hyphen-minus-2"),
        ("x" * 300, [], "x" * 240),
    ],
)
def test_a_slug_is_unused_not_numeric_and_never_empty(text: str, taken: list[str], slug: str):
    make_types(*taken)

    assert find_free_slug(text, ProductType.objects.all()) == slug


def test_a_slug_of_no_text_is_random():
    first, second = (find_free_slug(" ", ProductType.objects.all()) for _ in range(2))

    assert first != second
    assert re.fullmatch("[0-9a-f]{8}(-2)?", first)


@pytest.mark.parametrize(
    "name", ["灯", "Лампа", "दीपक की माला", "가방", "مصباح", "Größe", "๑๒ โคมไฟ", "தமிழ் விளக்கு", "♥"]
)
def test_a_name_in_any_script_is_found_by_its_slug(client_of: ApiClient, admin: User, name: str):
    first, second = (
        client_of(admin).post("/api/types", {"name": name}, content_type="application/json").json() for _ in range(2)
    )

    assert second["slug"] == f"{first['slug']}-2"
    for key in (first["slug"], unicodedata.normalize("NFD", first["slug"])):
        assert client_of(None).get(f"/api/types/{quote(key)}").json()["id"] == first["id"]
    found = client_of(None).get("/api/types", {"search": f"slug:{first['slug']}"}).json()
    assert [row["id"] for row in found] == [first["id"]]
    ProductType.objects.get(pk=first["id"]).full_clean()


def test_a_slug_in_a_body_is_any_text(client_of: ApiClient, admin: User):
    sent = {"name": "Lamp", "slug": "Настольная Лампа!"}

    record = client_of(admin).post("/api/types", sent, content_type="application/json").json()

    assert record["slug"] == "настольная-лампа"


@pytest.mark.parametrize("key", ["%00", "x" * 300, "a%2Fb", "%FF", "..", "no-such", "%20"])
def test_a_path_that_is_no_slug_is_404(client_of: ApiClient, key: str):
    assert client_of(None).get(f"/api/types/{key}").status_code == 404


def test_a_row_without_an_english_twin_is_found_without_a_language(client_of: ApiClient):
    german, english, twin = (
        ProductType.objects.create(name=name, slug=slug, language=language)
        for name, slug, language in (("Leuchten", "leuchten", "de"), ("Home", "home", "en"), ("Haus", "home", "de"))
    )
    found = {
        path: client_of(None).get(f"/api/types/{path}").json().get("id")
        for path in ("leuchten", "leuchten?language=de", "leuchten?language=en", "home", "home?language=de")
    }

    assert list(found.values()) == [german.pk, german.pk, None, english.pk, twin.pk]


def test_a_slug_typed_in_the_admin_has_letters_and_hyphens():
    for slug in ("desk lamp", "a/b", "lamp!", "12", "search", ""):
        with pytest.raises(ValidationError) as raised:
            ProductType(name="Lamp", slug=slug).full_clean()
        assert list(raised.value.message_dict) == ["slug"]


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
